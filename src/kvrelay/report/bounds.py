"""Accuracy where verdicts are lacking: between all of those answers being wrong and all of them being right."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kvrelay.report.text import decimals_of, number
from kvrelay.stats.frame import Results

Row = Mapping[str, Any]
FIELDS = (
    *("baseline_if_wrong", "baseline_if_right", "position_if_wrong", "position_if_right"),
    *("difference_if_worst", "difference_if_best"),
)
"""Columns of the CSV; the values' are empty unless the report is bounded."""
NOTE = (
    "In brackets: the accuracy if every answer without a verdict were wrong, and if every one were right; of a "
    "difference, if they all went against the position, and if all went for it, two answers that are one item the same "
    "way. Brackets are over all pairs of the row, the number before them over the n pairs with two verdicts; where "
    "those are unlike the others it can lie outside."
)
_ENDS = {
    "baseline_value": ("baseline_if_wrong", "baseline_if_right"),
    "position_value": ("position_if_wrong", "position_if_right"),
    "difference": ("difference_if_worst", "difference_if_best"),
}


def with_bounds(rows: Sequence[Row], results: Results) -> list[Row]:
    """The rows; those of accuracy keep the bounds of both values where the report is bounded, elsewhere None."""
    blank: dict[str, Any] = dict.fromkeys(FIELDS[:4])
    return [row if results.bounded and row["metric"] == "accuracy" else {**row, **blank} for row in rows]


def bounded(name: str, *, signed: bool = False) -> Callable[[Row], str]:
    """A number, and its bounds behind it where the row has them: ``62.5 (60.0 to 65.0)``."""

    def text(row: Row) -> str:
        shown = number(row[name], decimals=decimals_of(row), signed=signed)
        low, high = (row.get(end) for end in _ENDS.get(name, ("", "")))
        known = any(row.get(end) is not None for end in FIELDS[:4])
        if low is None or high is None or not known:
            return shown
        return f"{shown} ({number(low, signed=signed)} to {number(high, signed=signed)})"

    return text
