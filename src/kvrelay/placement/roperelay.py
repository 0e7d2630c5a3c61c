"""RoPERelay: consecutive coordinates in source order, ends aligned at the anchor, the question right behind."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kvrelay.core.positions import PositionPlan
from kvrelay.core.selection import LayerSelection, Selection
from kvrelay.placement.alignment import aligned


@dataclass(frozen=True, slots=True, kw_only=True)
class RoPERelay:
    """Coordinate M - m + i, question at M (the paper's section 3.2).

    M is the largest count over layers and heads, so every head ends at M - 1 and a short head starts late, its
    protected states included. ``anchor_prefix=True`` leaves the protected ones at 0 .. P - 1 and aligns the history
    alone. ``name`` labels the condition in records and tables.
    """

    anchor_prefix: bool = False
    name: str = "roperelay"

    @property
    def reach(self) -> int:
        return 0

    def place(self, selection: Selection, n_prefilled: int, example_id: str) -> PositionPlan:
        anchor = selection.anchor
        if not self.anchor_prefix:
            return selection.plan(lambda layer: aligned(layer, anchor), anchor)
        return selection.plan(lambda layer: _aligned_history(layer, anchor, selection.protected), anchor)


def _aligned_history(layer: LayerSelection, anchor: int, protected: int) -> Tensor:
    rank = layer.rank_HK
    return torch.where(rank < protected, rank, aligned(layer, anchor))
