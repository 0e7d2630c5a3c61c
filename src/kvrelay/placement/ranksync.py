"""RankSync: consecutive coordinates from 0 in every head, ends not aligned."""

from __future__ import annotations

from dataclasses import dataclass

from kvrelay.core.positions import PositionPlan
from kvrelay.core.selection import Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSync:
    """Coordinate i, question at M: what alignment adds is the difference to RoPERelay.

    Where all heads keep equally many states the two are the same. ``name`` labels it in records and tables.
    """

    name: str = "ranksync"

    @property
    def reach(self) -> int:
        return 0

    def place(self, selection: Selection, n_prefilled: int, example_id: str) -> PositionPlan:
        return selection.plan(lambda layer: layer.rank_HK, selection.anchor)
