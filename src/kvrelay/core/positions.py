"""Coordinates: where retained states and the question stand (DESIGN section 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from torch import Tensor

if TYPE_CHECKING:
    from kvrelay.core.selection import Selection


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PositionPlan:
    """``coordinate_LHK``: per layer an int64 (H, K), padding 0; the first question token stands at ``next_position``.

    Layers that share one selection share one tensor object, so that one rotation table serves them all.
    """

    coordinate_LHK: tuple[Tensor, ...]
    next_position: int


class Position(Protocol):
    """The rule from source positions to coordinates and to the first coordinate of the question."""

    @property
    def name(self) -> str:
        """What records and tables call it."""
        ...

    @property
    def reach(self) -> int:
        """How far beyond N, the end of the history, the rule may place a state or the question (2048 for shifts)."""
        ...

    def place(self, selection: Selection, n_prefilled: int, example_id: str) -> PositionPlan:
        """``n_prefilled`` is N = P + T. ``example_id`` seeds random rules. Raises `PositionError`."""
        ...
