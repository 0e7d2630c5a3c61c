"""Random numbers that belong to a history: seeded by a hash inside the call, equal in every arm, run and process."""

from __future__ import annotations

import hashlib
import json

import torch
from torch import Tensor


def uniform(shape: tuple[int, ...], *seed_parts: str | int) -> Tensor:
    """Float32 draws from [0, 1) on the CPU, so that every device gets the same; the seed is sha256 of ``seed_parts``.

    The global generator is neither read nor moved.
    """
    text = json.dumps(seed_parts, ensure_ascii=False).encode("utf-8", "surrogatepass")
    seed = int.from_bytes(hashlib.sha256(text).digest()[:8], "big") >> 1
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))
