"""Every number that a report prints: means of cells, and paired differences of a position from the baseline."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from kvrelay.stats.bootstrap import Estimate, cluster_sums, estimate
from kvrelay.stats.frame import CELL, GROUP
from kvrelay.stats.paired import Transitions, holm, mcnemar, sign_flip, transitions


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A column of the tidy table and how it is printed. ``scale`` turns shares into per cent."""

    name: str
    column: str
    scale: float
    unit: str
    binary: bool
    judged: bool
    """Whether it comes with a verdict: without one it is missing, not just unscored."""


METRICS = (
    Metric(name="accuracy", column="correct", scale=100.0, unit="pp", binary=True, judged=True),
    Metric(name="choice_accuracy", column="choice_correct", scale=100.0, unit="pp", binary=True, judged=False),
    Metric(name="sound", column="sound", scale=100.0, unit="pp", binary=True, judged=True),
    Metric(name="official", column="official", scale=100.0, unit="pp", binary=True, judged=True),
    Metric(name="f1", column="f1", scale=100.0, unit="pp", binary=False, judged=True),
    Metric(name="em", column="em", scale=100.0, unit="pp", binary=True, judged=True),
    Metric(name="loglik", column="loglik", scale=1.0, unit="nats/token", binary=False, judged=False),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CellSummary:
    """One cell's counts and means; means are over the examples that have the measure, never over the others."""

    model: str
    dataset: str
    selector: str
    retention: str
    position: str
    n: int
    n_clusters: int
    counts: dict[str, int]
    """Examples by status: scored, unscored, unjudged, failed, missing."""
    unscored_reasons: dict[str, int]
    stop_length: int
    answer_tokens: float | None
    means: dict[str, float | None]
    counted: dict[str, int]
    """How many examples each mean is over."""

    def accuracy_bound(self, *, unknown_right: bool) -> float:
        """Accuracy in per cent if every example without a verdict were right, or wrong."""
        right = (self.means["accuracy"] or 0.0) * self.counted["accuracy"] / 100.0
        unknown = self.n - self.counted["accuracy"] if unknown_right else 0
        return 100.0 * (right + unknown) / self.n


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A position against the baseline, over the examples that have the measure in both arms."""

    model: str
    dataset: str
    selector: str
    retention: str
    baseline: str
    position: str
    metric: Metric
    n_expected: int
    n_unscored: int
    """Pairs without the measure in one arm at least, though both arms have an answer."""
    n_missing: int
    """Pairs that lack an answer, or its verdict, in one arm at least."""
    baseline_value: float | None = None
    position_value: float | None = None
    estimate: Estimate | None = None
    moves: Transitions | None = None
    mcnemar_p: float | None = None
    signflip_p: float | None = None
    holm_p: float | None = None
    worst: float | None = None
    best: float | None = None
    """The difference if every outcome that is not known had gone against the position, or for it."""


def summarise_cells(table: pd.DataFrame) -> tuple[CellSummary, ...]:
    """Counts and means of every cell, in the order of the cells' names."""
    return tuple(_cell(dict(zip(CELL, names, strict=True)), rows) for names, rows in _groups(table, CELL))


def compare(
    table: pd.DataFrame, *, baseline: str = "original", seed: int = 0, resamples: int = 10_000
) -> tuple[Comparison, ...]:
    """All positions against the baseline within equal model, data set, selector and retention, for each metric.

    Accuracy is compared even where no pair is scored, so that the gap shows; other measures only where they exist.
    Holm's adjustment runs over each metric's sign-flip tests.
    """
    found: list[Comparison] = []
    for names, group in _groups(table, GROUP):
        arms = {position: rows.set_index("example_id") for position, rows in group.groupby("position", sort=True)}
        for position in arms if baseline in arms else ():
            if position != baseline:
                pair = {**dict(zip(GROUP, names, strict=True)), "baseline": baseline, "position": position}
                sides = [arms[baseline].add_suffix("_a"), arms[position].add_suffix("_b")]
                joined = pd.concat(sides, axis=1).sort_index()
                found += [_compare(pair, joined, metric, seed, resamples) for metric in METRICS]
    kept = [c for c in found if c.metric.name == "accuracy" or c.estimate is not None]
    return tuple(_adjusted(kept))


def _groups(table: pd.DataFrame, columns: list[str]) -> Iterable[tuple[tuple[Any, ...], pd.DataFrame]]:
    return table.groupby(columns, sort=True)


def _cell(names: dict[str, Any], rows: pd.DataFrame) -> CellSummary:
    unscored = rows.loc[rows["status"] == "unscored", "reason"].value_counts().sort_index()
    tokens = rows["answer_tokens"].dropna()
    values = {metric.name: (rows[metric.column].dropna().astype("float64"), metric.scale) for metric in METRICS}
    return CellSummary(
        **names,
        n=len(rows),
        n_clusters=rows.loc[rows["cluster"] != "", "cluster"].nunique(),
        counts={s: int((rows["status"] == s).sum()) for s in ("scored", "unscored", "unjudged", "failed", "missing")},
        unscored_reasons={str(reason): int(n) for reason, n in unscored.items()},
        stop_length=int((rows["stop"] == "length").sum()),
        answer_tokens=float(tokens.mean()) if len(tokens) else None,
        means={name: float(v.sum()) / len(v) * scale if len(v) else None for name, (v, scale) in values.items()},
        counted={name: len(v) for name, (v, _) in values.items()},
    )


def _compare(pair: dict[str, Any], joined: pd.DataFrame, metric: Metric, seed: int, resamples: int) -> Comparison:
    before, after = (joined[f"{metric.column}_{arm}"].astype("Float64") for arm in "ab")
    both = (before.notna() & after.notna()).to_numpy()
    there = ["scored", "unscored", *([] if metric.judged else ["unjudged"])]
    answered = (joined["status_a"].isin(there) & joined["status_b"].isin(there)).to_numpy()
    gaps = Comparison(
        **pair,
        metric=metric,
        n_expected=len(joined),
        n_unscored=int((~both & answered).sum()),
        n_missing=int((~both & ~answered).sum()),
    )
    if not both.any():
        return gaps
    old, new = before[both].to_numpy(dtype=float), after[both].to_numpy(dtype=float)
    clusters = joined.loc[both, "cluster_a"].tolist()
    done = replace(
        gaps,
        baseline_value=float(old.sum()) / len(old) * metric.scale,
        position_value=float(new.sum()) / len(new) * metric.scale,
        estimate=estimate(new - old, clusters, seed=seed, resamples=resamples, scale=metric.scale),
        signflip_p=sign_flip(cluster_sums(new - old, clusters)[0], seed=seed, flips=resamples),
    )
    return _with_counts(done, before, after, both) if metric.binary else done


def _with_counts(done: Comparison, before: pd.Series, after: pd.Series, both: NDArray[np.bool_]) -> Comparison:
    moves = transitions(before[both].astype(bool).tolist(), after[both].astype(bool).tolist())
    size = len(before)
    return replace(
        done,
        moves=moves,
        mcnemar_p=mcnemar(moves.gains, moves.losses),
        worst=float(after.fillna(0.0).sum() - before.fillna(1.0).sum()) / size * done.metric.scale,
        best=float(after.fillna(1.0).sum() - before.fillna(0.0).sum()) / size * done.metric.scale,
    )


def _adjusted(found: Sequence[Comparison]) -> list[Comparison]:
    done = list(found)
    for metric in METRICS:
        family = [i for i, c in enumerate(done) if c.metric is metric]
        for i, p in zip(family, holm([done[i].signflip_p for i in family]), strict=True):
            done[i] = replace(done[i], holm_p=p)
    return done
