"""Key-only: compact keys, but the question stays at the end of the full history."""

from __future__ import annotations

from dataclasses import dataclass

from kvrelay.core.positions import PositionPlan
from kvrelay.core.selection import Selection
from kvrelay.placement.alignment import aligned


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyOnly:
    """Coordinate M - m + i, question at N: RoPERelay's keys without its query synchronisation (the paper's figure 4).

    ``name`` labels it in records and tables.
    """

    name: str = "key_only"

    @property
    def reach(self) -> int:
        return 0

    def place(self, selection: Selection, n_prefilled: int, example_id: str) -> PositionPlan:
        anchor = selection.anchor
        return selection.plan(lambda layer: aligned(layer, anchor), n_prefilled)
