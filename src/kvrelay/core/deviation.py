"""How far states are from others: squared distances over heads and width, as they are and relative to a size.

Shape letters: H KV head, S suffix token, D width.
"""

from __future__ import annotations

import torch
from torch import Tensor


def squared(states_HSD: Tensor, other_HSD: Tensor) -> Tensor:
    """(S,): sum over heads and dimensions of the squared differences."""
    return (states_HSD - other_HSD).square().sum((0, 2))


def relative(states_HSD: Tensor, other_HSD: Tensor) -> Tensor:
    """(S,): the same over the squared norm of the first; 0 for states that are all zeros."""
    norm = states_HSD.square().sum((0, 2))
    return torch.where(norm > 0, squared(states_HSD, other_HSD) / norm, 0.0)
