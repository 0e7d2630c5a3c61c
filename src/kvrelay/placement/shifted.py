"""The shifted controls: the question alone, or everything, moved on by a constant."""

from __future__ import annotations

from dataclasses import dataclass

from kvrelay.core.errors import ConfigError
from kvrelay.core.positions import PositionPlan
from kvrelay.core.selection import Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryOnly:
    """Coordinate p_i, question at N + ``shift``: a gap before the question and nothing else.

    ``name`` labels it in records and tables. Raises `ConfigError` where ``shift`` is not positive.
    """

    shift: int = 2048
    name: str = "query_only"

    def __post_init__(self) -> None:
        _require_positive(self.shift, self.name)

    @property
    def reach(self) -> int:
        return self.shift

    def place(self, selection: Selection, n_prefilled: int, example_id: str) -> PositionPlan:
        return selection.plan(lambda layer: layer.source_HK, n_prefilled + self.shift)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonShift:
    """Coordinate p_i + ``shift``, question at N + ``shift``: no distance changes, only rounding.

    ``name`` labels it in records and tables. Raises `ConfigError` where ``shift`` is not positive.
    """

    shift: int = 2048
    name: str = "common_shift"

    def __post_init__(self) -> None:
        _require_positive(self.shift, self.name)

    @property
    def reach(self) -> int:
        return self.shift

    def place(self, selection: Selection, n_prefilled: int, example_id: str) -> PositionPlan:
        return selection.plan(lambda layer: layer.source_HK + self.shift, n_prefilled + self.shift)


def _require_positive(shift: int, name: str) -> None:
    if shift < 1:
        raise ConfigError(f"{name} shifts by {shift} positions; wanted at least 1 (key: position.{name}.shift)")
