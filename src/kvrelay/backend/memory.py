"""How much memory has been used at most."""

from __future__ import annotations

import resource
import sys

import torch


def peak_memory_bytes(device: torch.device) -> int:
    """Largest allocation on all CUDA devices, or the process's largest resident set on a CPU."""
    if device.type == "cuda":
        return max(torch.cuda.max_memory_allocated(index) for index in range(torch.cuda.device_count()))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
