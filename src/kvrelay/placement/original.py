"""Original: every state and the question stay where the history put them."""

from __future__ import annotations

from dataclasses import dataclass

from kvrelay.core.positions import PositionPlan
from kvrelay.core.selection import Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class Original:
    """Coordinate p_i, question at N: the baseline of every pair. ``name`` labels it in records and tables."""

    name: str = "original"

    @property
    def reach(self) -> int:
        return 0

    def place(self, selection: Selection, n_prefilled: int, example_id: str) -> PositionPlan:
        return selection.plan(lambda layer: layer.source_HK, n_prefilled)
