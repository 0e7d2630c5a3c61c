"""Agreement of judges as rows of plain values: answers, 2x2 counts, signs of gains, and moves of questions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from kvrelay.report.given import Given
from kvrelay.report.judges import Scored
from kvrelay.report.names import rank
from kvrelay.report.rows import ORDER, Row
from kvrelay.report.text import precise
from kvrelay.stats.agreement import Coefficient, agreement, krippendorff
from kvrelay.stats.bootstrap import Estimate
from kvrelay.stats.signs import MOVES, SignPair, ratings, sign_counts, sign_pairs, summed

ALL = ""
"""Data set of a row that is over all of them."""
COEFFICIENTS = {"kappa": "κ", "ac1": "AC1"}
FIELDS = (
    *("dataset", "first", "second", "n", "n_clusters", "both", "first_only", "second_only", "neither"),
    *("observed", "positive", "negative"),
    *(f"{name}{part}" for name in (*COEFFICIENTS, "alpha") for part in ("", "_low", "_high", "_undefined", "_note")),
    *("mcnemar_p", "unanswered", "only_first_missing", "only_second_missing", "both_missing"),
)
SIGN_FIELDS = (
    *("dataset", "model", "selector", "retention", "baseline", "position", "first", "second", "n", "n_expected"),
    *("first_difference", "first_low", "first_high", "second_difference", "second_low", "second_high"),
    *("apart_difference", "apart_low", "apart_high", "first_sign", "second_sign", "same_sign"),
    *(f"{one}_{other}" for one in MOVES for other in MOVES),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What every pair of judges has in common, computed once. Rows name judges as they are printed."""

    answers: tuple[Row, ...]
    """A row a pair of judges and data set, over all first; rows of alpha have no ``second``."""
    signs: tuple[Row, ...]
    counts: tuple[Row, ...]
    """A row a pair of judges: how many comparisons have which signs, and the moves of their questions."""


def compared(judges: Sequence[Scored], given: Given) -> Compared:
    """Agreement of every pair of judges, and of all where there are more than two."""
    table = ratings({judge.id: judge.results.table for judge in judges})
    drawn = {"seed": given.seed, "resamples": given.resamples}
    answers: list[Row] = []
    signs: list[Row] = []
    counts: list[Row] = []
    for first, second in combinations(judges, 2):
        pair = {"first": first.label, "second": second.label}
        answers += [
            {**pair, "dataset": scope, **_answers(part, first.id, second.id, drawn)} for scope, part in _scopes(table)
        ]
        found = sign_pairs(table, first.id, second.id, baseline=given.baseline, **drawn)
        signs += sorted(({**_sign(one), **pair} for one in found), key=_place)
        counts.append({**pair, **_counts(found)})
    if len(judges) > 2:
        answers += [{"dataset": scope, **_alpha(part, judges, drawn)} for scope, part in _scopes(table)]
    return Compared(answers=tuple(answers), signs=tuple(signs), counts=tuple(counts))


def _scopes(table: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """All answers, then each data set's where there are several; clusters of two sets are never one."""
    everywhere = table.assign(cluster=table["dataset"] + "/" + table["cluster"])
    sets = sorted(set(table["dataset"]), key=lambda name: rank("dataset", name))
    yield (ALL, everywhere) if len(sets) > 1 else (sets[0], table)
    if len(sets) > 1:
        for name in sets:
            yield name, table[table["dataset"] == name]


def _answers(table: pd.DataFrame, first: str, second: str, drawn: dict[str, int]) -> dict[str, Any]:
    there = table[table["answered"]]
    found = agreement(there[first].to_numpy(), there[second].to_numpy(), there["cluster"].tolist(), **drawn)
    plain = {name: getattr(found, name) for name in _COUNTS}
    shares = {name: _percent(getattr(found, name)) for name in ("observed", "positive", "negative")}
    told = {**_coefficient("kappa", found.kappa), **_coefficient("ac1", found.ac1)}
    return plain | shares | told | {"unanswered": len(table) - len(there), "mcnemar_p": precise(found.mcnemar_p)}


_COUNTS = (
    *("n", "n_clusters", "both", "first_only", "second_only", "neither"),
    *("only_first_missing", "only_second_missing", "both_missing"),
)


def _alpha(table: pd.DataFrame, judges: Sequence[Scored], drawn: dict[str, int]) -> dict[str, Any]:
    there = table[table["answered"]]
    values = there[[judge.id for judge in judges]].to_numpy(dtype=np.float64)
    found, n = krippendorff(values, there["cluster"].tolist(), **drawn)
    rated = (~np.isnan(values)).sum(axis=1) >= 2
    clusters = there["cluster"][rated].nunique()
    who = {"first": f"all {len(judges)}", "second": None, "n": n, "n_clusters": clusters}
    return {**who, **_coefficient("alpha", found), "unanswered": len(table) - len(there)}


def _coefficient(name: str, found: Coefficient) -> dict[str, Any]:
    values = {"": found.value, "_low": found.low, "_high": found.high}
    told = {f"{name}{part}": precise(value) for part, value in values.items()}
    return told | {f"{name}_undefined": found.undefined, f"{name}_note": found.note}


def _sign(pair: SignPair) -> dict[str, Any]:
    signs = pair.signs or (None, None)
    row: dict[str, Any] = {name: getattr(pair, name) for name in (*ORDER, "baseline", "n", "n_expected")}
    for name in ("first", "second", "apart"):
        row |= {f"{name}_{part}": value for part, value in _estimated(getattr(pair, name)).items()}
    moves = {
        f"{a}_{b}": count
        for a, line in zip(MOVES, pair.moves, strict=True)
        for b, count in zip(MOVES, line, strict=True)
    }
    same = None if pair.signs is None else signs[0] == signs[1]
    return row | {"first_sign": signs[0], "second_sign": signs[1], "same_sign": same} | moves


def _estimated(found: Estimate | None) -> dict[str, Any]:
    if found is None:
        return {"difference": None, "low": None, "high": None, "dagger": False, "degenerate": False}
    ends = {"difference": precise(found.point), "low": precise(found.low), "high": precise(found.high)}
    return {**ends, "dagger": found.dagger, "degenerate": found.degenerate}


def _counts(pairs: tuple[SignPair, ...]) -> dict[str, Any]:
    signs = sign_counts(pairs)
    told = {
        name: getattr(signs, name)
        for name in ("n", "same", "both_up", "both_down", "both_zero", "one_zero", "opposite")
    }
    moves = summed(pairs)
    return told | {f"{a}_{b}": moves[i][j] for i, a in enumerate(MOVES) for j, b in enumerate(MOVES)}


def _percent(share: float | None) -> float | None:
    return None if share is None else precise(100.0 * share)


def _place(row: Row) -> tuple[Any, ...]:
    return tuple(rank(kind, row[kind]) for kind in ORDER)
