"""Answers that a checklist was held to: means of every cell, paired differences, by category and by entry."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from kvrelay.run.record import RETRIED_REASONS
from kvrelay.stats.arms import CELL, POSITION, group_of, split
from kvrelay.stats.compare import CellSummary, Comparison, Metric, compare, summarise_cells
from kvrelay.stats.measures import ITEMS

_SHARE: dict[str, Any] = {"scale": 1.0, "binary": False, "unit": "share", "judged": True}
_POINTS: dict[str, Any] = {**_SHARE, "unit": "points"}
QUALITY = Metric(name="quality", column="quality", **_SHARE)
"""The plain mean of a checklist's grades, 0 … 1: RoPERelay's Tables 10 and 11."""
METRICS = (
    QUALITY,
    Metric(name="factuality", column="factuality", **_SHARE),
    Metric(name="coverage", column="coverage", **_SHARE),
    Metric(name="helloeval", column="helloeval", **_POINTS),
    Metric(name="helloeval_rescaled", column="helloeval_rescaled", **_POINTS),
)
PARSED_ABOVE = 0.95
"""A mean over fewer of the judged answers than this share is warned of, as OpenCompass does."""

NO_REPLY = RETRIED_REASONS | {"too_long", "no_checklist"}
"""Why an answer has no grades though the judge said nothing: there was no reply that could have been parsed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One cell: means of its grades, and what its answers are like whether graded or not."""

    cell: CellSummary
    parsed: float | None
    """Share of the judge's replies that gave grades; answers that it never replied to are in neither number."""
    words: float | None
    eos: float | None
    """Share of the answers that ended by themselves."""

    @property
    def unsure(self) -> bool:
        """Whether too many replies gave no grades."""
        return self.parsed is not None and self.parsed <= PARSED_ABOVE


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of a category's checklist: mean grades of two arms over the answers that both have one for."""

    names: dict[str, str]
    """The cell's names, ``position`` that of the arm that is compared."""
    category: str
    number: int
    n: int
    baseline_value: float
    value: float

    @property
    def difference(self) -> float:
        return self.value - self.baseline_value


def arms(table: pd.DataFrame) -> tuple[Arm, ...]:
    """Every cell, in the order of the cells' names."""
    parts = split(table, CELL)
    return tuple(
        _arm(cell, parts[tuple(getattr(cell, name) for name in CELL)]) for cell in summarise_cells(table, METRICS)
    )


def differences(table: pd.DataFrame, *, baseline: str, seed: int, resamples: int) -> tuple[Comparison, ...]:
    """All positions against the baseline in every measure that pairs have."""
    return compare(table, baseline=baseline, metrics=METRICS, seed=seed, resamples=resamples)


def by_category(table: pd.DataFrame, *, baseline: str, seed: int, resamples: int) -> tuple[tuple[str, Comparison], ...]:
    """Differences in quality within each category, as Table 11 has them."""
    found: list[tuple[str, Comparison]] = []
    for category in categories(table):
        part = table[table["question_type"] == category]
        gaps = compare(part, baseline=baseline, metrics=(QUALITY,), tests=False, seed=seed, resamples=resamples)
        found += [(category, gap) for gap in gaps]
    return tuple(found)


def categories(table: pd.DataFrame) -> list[str]:
    """The kinds of text that there are."""
    return sorted(set(table["question_type"]) - {""})


def by_entry(table: pd.DataFrame, *, baseline: str) -> tuple[Entry, ...]:
    """Mean grades of every entry by category: entries of different categories ask different things."""
    found: list[Entry] = []
    for names, group in split(table, [*group_of(POSITION), "question_type"]).items():
        positions = {place: rows.set_index("example_id")[ITEMS] for (place,), rows in split(group, POSITION).items()}
        base = positions.pop(baseline, None)
        for place, grades in positions.items():
            told = dict(zip(group_of(POSITION), names[:-1], strict=True)) | {"position": place}
            found += [] if base is None else _entries(told, names[-1], base, grades)
    return tuple(found)


def _entries(names: dict[str, str], category: str, base: pd.Series, grades: pd.Series) -> list[Entry]:
    shared = sorted(set(base.index) & set(grades.index))
    pairs = [(base[one], grades[one]) for one in shared if base[one] and grades[one]]
    length = min((min(len(old), len(new)) for old, new in pairs), default=0)
    return [
        Entry(
            names=names,
            category=category,
            number=i + 1,
            n=len(pairs),
            baseline_value=_mean([old[i] for old, _ in pairs]),
            value=_mean([new[i] for _, new in pairs]),
        )
        for i in range(length)
    ]


def _arm(cell: CellSummary, rows: pd.DataFrame) -> Arm:
    silent = sum(cell.unscored_reasons.get(reason, 0) for reason in NO_REPLY)
    replies = cell.counts["scored"] + cell.counts["unscored"] - silent
    answered = rows[~rows["status"].isin(["missing", "failed"])]
    words = answered["answer_words"].dropna().tolist()
    return Arm(
        cell=cell,
        parsed=cell.counts["scored"] / replies if replies else None,
        words=_mean(words) if words else None,
        eos=float((answered["stop"] == "eos").mean()) if len(answered) else None,
    )


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
