"""Which number of a table is meant: names of its cell, its measure and its column, found in what was measured."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from kvrelay.core.errors import ConfigError
from kvrelay.report.views import View
from kvrelay.stats.arms import CELL, POSITION, group_of, partner, split
from kvrelay.stats.compare import METRICS, REPAIR_METRICS, Metric

COLUMNS = ("difference", "value")
"""A difference from the baseline over the pairs, or the cell's own mean over all its answers that have the measure."""
_KEYS = (*CELL, "metric", "column")
Names = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One number: the rows of its cell, and those of the baseline's where it is a difference."""

    names: Mapping[str, str]
    """The cell's, by `CELL`."""
    metric: Metric
    arms: tuple[str, ...]
    """The names in which the two sides may differ."""
    baseline: str
    rows: pd.DataFrame
    base: pd.DataFrame | None
    judge: str = ""
    """Whose verdicts alone count (an id); empty for those that count in the tables."""

    @property
    def column(self) -> str:
        return "value" if self.base is None else "difference"


def parse(text: str) -> Names:
    """``"dataset=talks selector=bm25"`` as names. Raises `ConfigError` for what is no name of a cell."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"explain: {text!r} cannot be read ({error}); wanted NAME=VALUE, parted by spaces") from None
    found: Names = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or name not in _KEYS:
            raise ConfigError(f"explain: {word!r} names no cell; wanted NAME=VALUE with a name of {', '.join(_KEYS)}")
        found[name] = value
    return found


def find(table: pd.DataFrame, asked: Mapping[str, str], view: View, baseline: str, judge: str = "") -> Asked:
    """The one number that these names mean. Raises `ConfigError` that lists the known names for none or several.

    Of names that are not given the only one there is counts; without a ``column`` the difference where there is one,
    without a ``metric`` the view's first that anything has.
    """
    repairs = table["allocator"] != ""
    moved = view.ARMS == POSITION
    scope = table[~repairs if moved else repairs]
    metrics = METRICS if moved else REPAIR_METRICS
    metric = _metric(scope, metrics, asked.get("metric"))
    column = asked.get("column")
    if column not in (None, *COLUMNS):
        raise ConfigError(f"explain: column={column}: wanted {' or '.join(COLUMNS)}")
    cells = split(scope, CELL)
    arm = _one(list(cells), {name: value for name, value in asked.items() if name in CELL}, view, baseline, column)
    names = dict(zip(CELL, arm, strict=True))
    base = None if column == "value" else _base(list(cells), names, view, baseline)
    if base is None and column == "difference":
        raise ConfigError(f"explain: {_told(names)} is compared with nothing; its column=value can be explained")
    return Asked(
        names=names,
        metric=metric,
        arms=view.ARMS,
        baseline=baseline,
        rows=cells[arm],
        base=None if base is None else cells[base],
        judge=judge,
    )


def _metric(scope: pd.DataFrame, metrics: Sequence[Metric], name: str | None) -> Metric:
    there = [metric for metric in metrics if scope[metric.column].notna().any()] or list(metrics)
    if name is None:
        return there[0]
    for metric in metrics:
        if metric.name == name:
            return metric
    raise ConfigError(f"explain: metric={name}: wanted one of {', '.join(metric.name for metric in there)}")


def _one(
    cells: Sequence[tuple[str, ...]], names: Mapping[str, str], view: View, baseline: str, column: str | None
) -> tuple[str, ...]:
    left = list(cells)
    for name, value in names.items():
        known = sorted({cell[CELL.index(name)] for cell in left})
        left = [cell for cell in left if cell[CELL.index(name)] == value]
        if not left:
            raise ConfigError(f"explain: no cell of this view has {name}={value}; known: {_listed(name, known)}")
    place = CELL.index(view.ARMS[0])
    compared = [cell for cell in left if cell[place] != baseline]
    if len(left) > 1 and compared and column != "value":
        left = compared
    if len(left) > 1:
        open_names = [name for i, name in enumerate(CELL) if len({cell[i] for cell in left}) > 1]
        told = "; ".join(_listed(name, sorted({cell[CELL.index(name)] for cell in left})) for name in open_names)
        raise ConfigError(f"explain: {len(left)} cells have these names; tell them apart by {told}")
    if not left:
        raise ConfigError(f"explain: the view {view.MAIN} has no cells in this experiment; choose another (--view)")
    return left[0]


def _base(
    cells: Sequence[tuple[str, ...]], names: Mapping[str, str], view: View, baseline: str
) -> tuple[str, ...] | None:
    """The cell that a cell is compared with, as `kvrelay.stats.compare` chooses it."""
    shared = {name: names[name] for name in group_of(view.ARMS)}
    arms = {
        tuple(cell[CELL.index(name)] for name in view.ARMS): cell
        for cell in cells
        if all(cell[CELL.index(name)] == value for name, value in shared.items())
    }
    arm = tuple(names[name] for name in view.ARMS)
    other = partner(arm, arms, baseline)
    return None if other is None or arm[0] == baseline else arms[other]


def _listed(name: str, values: Sequence[str]) -> str:
    return f"{name}={' | '.join(values)}"


def _told(names: Mapping[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in names.items() if value)
