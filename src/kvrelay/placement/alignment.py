"""Ends aligned at the anchor: the geometry that RoPERelay and Key-only share."""

from __future__ import annotations

from torch import Tensor

from kvrelay.core.selection import LayerSelection


def aligned(layer: LayerSelection, anchor: int) -> Tensor:
    """M - m + i, int64 (H, K); what stands in padding has no meaning."""
    return layer.rank_HK + (anchor - layer.counts_H)[:, None]
