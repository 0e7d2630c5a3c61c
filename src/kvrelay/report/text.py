"""Numbers as text: one decimal for per cent and points, three for nats, and the marks of a weak interval."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NOTHING = "–"
DAGGER, DOUBLE = "†", "‡"
Row = Mapping[str, Any]


def precise(value: Any) -> Any:
    """A float at 12 significant digits: more than any measurement holds, and the same on every machine."""
    return float(f"{value:.12g}") if isinstance(value, float) else value


def number(value: float | None, *, decimals: int = 1, signed: bool = False) -> str:
    """Fixed decimals, never a minus before nothing but zeros."""
    if value is None:
        return NOTHING
    text = f"{value:.{decimals}f}"
    if float(text) == 0.0:
        return text.lstrip("-")
    return f"+{text}" if signed and value > 0 else text


def decimals_of(row: Row) -> int:
    """Decimals of a row's measure: KL from Re-prefill is often below a hundredth of a nat, a grade is a quarter of one
    entry of one answer."""
    grades = dict.fromkeys(("quality", "factuality", "coverage"), 4)
    return {"loglik": 3, "nll": 3, "kl": 4, **grades, "helloeval": 2, "helloeval_rescaled": 2}.get(row["metric"], 1)


def interval(row: Row, low: str, high: str, *, marks: bool = True) -> str:
    """``[low, high]`` with † below 10 clusters and ‡ where all resamples were equal."""
    if row["difference"] is None:
        return NOTHING
    if row[low] is None:
        return "not estimable"
    ends = ", ".join(number(row[end], decimals=decimals_of(row), signed=True) for end in (low, high))
    mark = (DAGGER if row["dagger"] else "") + (DOUBLE if row["degenerate"] else "")
    return f"[{ends}]{mark if marks else ''}"


def p_value(value: float | None) -> str:
    """Three decimals, or ``<0.001``."""
    if value is None:
        return NOTHING
    return "<0.001" if value < 0.0005 else f"{value:.3f}"


def count(value: int | None) -> str:
    return NOTHING if value is None else str(value)
