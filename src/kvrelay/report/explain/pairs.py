"""The examples that a number is made from: both answers, who judged them how, where they lie on disk, and the sum."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from kvrelay.core.errors import InvariantError
from kvrelay.report.explain.cell import Asked
from kvrelay.report.given import Stored
from kvrelay.run.places import record_places, verdict_places
from kvrelay.run.record import RunRecord, Verdict, item_key
from kvrelay.stats.compare import compare, summarise_cells

CHANGED = ("repaired", "regressed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One answer to one example; ``record`` is None where there is none."""

    row: Mapping[Any, Any]
    value: float | None
    """Of the measure, as stored: 1 is right, 0 wrong."""
    record: RunRecord | None
    place: str
    verdicts: Sequence[tuple[Verdict, str]]
    """Those of every judge in use, each with its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """An example: its answer in the cell, and the baseline's before it where the number is a difference."""

    example_id: str
    cluster: str
    sides: Sequence[Side]

    @property
    def counted(self) -> bool:
        """Whether every side has the measure."""
        return all(side.value is not None for side in self.sides)

    @property
    def term(self) -> float:
        """What it adds to the sum; nothing if it is not counted."""
        values = [side.value for side in self.sides if side.value is not None]
        return values[-1] - (values[0] if len(values) > 1 else 0.0) if self.counted else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """A number and what it is made from."""

    asked: Asked
    pairs: Sequence[Pair]

    @property
    def counted(self) -> Sequence[Pair]:
        return [pair for pair in self.pairs if pair.counted]

    @property
    def total(self) -> float:
        """Sum of the counted pairs' terms, without an error of rounding but the last."""
        return math.fsum(pair.term for pair in self.counted)

    @property
    def number(self) -> float | None:
        """The sum over the number of counted pairs, in the unit that is printed."""
        return self.total / len(self.counted) * self.asked.metric.scale if self.counted else None

    def change(self, pair: Pair) -> str:
        """``repaired`` where the answer is better than the baseline's, ``regressed`` where it is worse, else empty."""
        gain = -pair.term if self.asked.metric.lower_is_better else pair.term
        if not pair.counted or gain == 0 or len(pair.sides) < 2:
            return ""
        return CHANGED[0] if gain > 0 else CHANGED[1]


def explain(asked: Asked, folder: Path, stored: Stored, judges: Sequence[str]) -> Explained:
    """Collect the records behind a number. Raises `InvariantError` if they do not add up to what the tables print."""
    parts = [part.set_index("example_id") for part in (asked.base, asked.rows) if part is not None]
    keys = {str(key) for part in parts for key in part["key"]}
    records = {key: stored.records[key] for key in sorted(keys & stored.records.keys())}
    verdicts = {key: _verdicts(record, judges, stored.verdicts) for key, record in records.items()}
    places = record_places(folder, records)
    places |= verdict_places(folder, {one.item_key: one for found in verdicts.values() for one in found})
    pairs = []
    for example in sorted({name for part in parts for name in part.index}):
        sides = [_side(part, example, asked, records, verdicts, places) for part in parts if example in part.index]
        if len(sides) == len(parts):
            cluster = next((str(side.row["cluster"]) for side in sides if side.row["cluster"]), "")
            pairs.append(Pair(example_id=str(example), cluster=cluster, sides=sides))
    found = Explained(asked=asked, pairs=pairs)
    _check(found)
    return found


def _verdicts(record: RunRecord, judges: Sequence[str], verdicts: Mapping[str, Verdict]) -> list[Verdict]:
    keys = [item_key(judge, record.item_fields()) for judge in judges] if record.status == "ok" else []
    return [verdicts[key] for key in keys if key in verdicts]


def _side(
    part: pd.DataFrame,
    example: str,
    asked: Asked,
    records: Mapping[str, RunRecord],
    verdicts: Mapping[str, Sequence[Verdict]],
    places: Mapping[str, str],
) -> Side:
    row = part.loc[example].to_dict()
    value = row[asked.metric.column]
    key = str(row["key"])
    return Side(
        row=row,
        value=None if pd.isna(value) else float(value),
        record=records.get(key),
        place=places.get(key, ""),
        verdicts=[(verdict, places.get(verdict.item_key, "")) for verdict in verdicts.get(key, ())],
    )


def table_number(asked: Asked) -> float | None:
    """The same number as the tables compute it; None where nothing has the measure."""
    if asked.base is None:
        return summarise_cells(asked.rows, [asked.metric])[0].means[asked.metric.name]
    both = pd.concat([asked.base, asked.rows])
    options: dict[str, Any] = {"arms": asked.arms, "baseline": asked.baseline, "metrics": [asked.metric]}
    found = compare(both, **options, tests=False, resamples=100)[0].estimate
    return None if found is None else found.point


def _check(found: Explained) -> None:
    here, there = found.number, table_number(found.asked)
    if here is None and there is None:
        return
    # A sum of n terms of the size of the scale, rounded n times in the tables and once here.
    within = len(found.pairs) * found.asked.metric.scale * 2**-50
    if here is None or there is None or abs(here - there) > within * max(1.0, abs(here) / found.asked.metric.scale):
        raise InvariantError(f"explain: the records add up to {here}, the table prints {there}; report this fault")
