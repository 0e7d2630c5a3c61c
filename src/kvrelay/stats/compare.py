"""Every number that a report prints: means of cells, and paired differences of an arm from the baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from kvrelay.stats.arms import CELL, POSITION, group_of, partner, split
from kvrelay.stats.bootstrap import Estimate, cluster_sums, estimate
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
    lower_is_better: bool = False


METRICS = (
    Metric(name="accuracy", column="correct", scale=100.0, unit="pp", binary=True, judged=True),
    Metric(name="choice_accuracy", column="choice_correct", scale=100.0, unit="pp", binary=True, judged=False),
    Metric(name="sound", column="sound", scale=100.0, unit="pp", binary=True, judged=True),
    Metric(name="official", column="official", scale=100.0, unit="pp", binary=True, judged=True),
    Metric(name="f1", column="f1", scale=100.0, unit="pp", binary=False, judged=True),
    Metric(name="em", column="em", scale=100.0, unit="pp", binary=True, judged=True),
    Metric(name="loglik", column="loglik", scale=1.0, unit="nats/token", binary=False, judged=False),
)
"""What answers at other positions are compared by."""
_NATS: dict[str, Any] = {"scale": 1.0, "unit": "nats/token", "binary": False, "judged": False, "lower_is_better": True}
REPAIR_METRICS = (
    *(metric for name in ("em", "f1", "accuracy") for metric in METRICS if metric.name == name),
    Metric(name="nll", column="nll", **_NATS),
    Metric(name="kl", column="kl", **_NATS),
    # Not a matter of right and wrong, so that gains and losses are not counted.
    Metric(name="leak", column="leaked", scale=100.0, unit="pp", binary=False, judged=False, lower_is_better=True),
)
"""What answers after a deletion are compared by."""


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
    allocator: str = ""
    budget: str = ""
    executor: str = ""

    def accuracy_bound(self, *, unknown_right: bool) -> float:
        """Accuracy in per cent if every example without a verdict were right, or wrong."""
        right = (self.means["accuracy"] or 0.0) * self.counted["accuracy"] / 100.0
        unknown = self.n - self.counted["accuracy"] if unknown_right else 0
        return 100.0 * (right + unknown) / self.n


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """An arm against the baseline, over the examples that have the measure in both."""

    model: str
    dataset: str
    selector: str
    retention: str
    position: str
    baseline: str
    """The first of the names in which the arms may differ: a position, or an allocator."""
    metric: Metric
    n_expected: int
    n_unscored: int
    """Pairs without the measure in one arm at least, though both arms have an answer."""
    n_missing: int
    """Pairs that lack an answer, or its verdict, in one arm at least."""
    baseline_value: float | None = None
    value: float | None = None
    estimate: Estimate | None = None
    moves: Transitions | None = None
    mcnemar_p: float | None = None
    signflip_p: float | None = None
    holm_p: float | None = None
    worst: float | None = None
    best: float | None = None
    """The difference if every outcome that is not known had gone against the arm, or for it."""
    allocator: str = ""
    budget: str = ""
    executor: str = ""


def summarise_cells(table: pd.DataFrame, metrics: Sequence[Metric] = METRICS) -> tuple[CellSummary, ...]:
    """Counts and means of every cell, in the order of the cells' names."""
    return tuple(
        _cell(dict(zip(CELL, names, strict=True)), rows, metrics) for names, rows in split(table, CELL).items()
    )


def compare(
    table: pd.DataFrame,
    *,
    arms: Sequence[str] = POSITION,
    baseline: str = "original",
    metrics: Sequence[Metric] = METRICS,
    tests: bool = True,
    seed: int = 0,
    resamples: int = 10_000,
) -> tuple[Comparison, ...]:
    """All arms against the baseline, wherever the cells' other names are equal, for each measure.

    ``arms`` are the names in which arms may differ; ``baseline`` is a value of the first: a position, or with
    `arms.REPAIR` an allocator. The first measure is compared even where no pair has it, so that the gap shows; other
    measures only where they exist. With ``tests``, Holm's adjustment runs over each measure's sign-flip tests.
    """
    found: list[Comparison] = []
    for names, group in split(table, group_of(arms)).items():
        cells = {arm: rows.set_index("example_id") for arm, rows in split(group, arms).items()}
        for arm, rows in cells.items():
            base = partner(arm, cells, baseline)
            if base is not None and arm[0] != baseline:
                shared = zip((*group_of(arms), *arms), (*names, *arm), strict=True)
                sides = [cells[base].add_suffix("_a"), rows.add_suffix("_b")]
                joined = pd.concat(sides, axis=1).sort_index()
                pair = {**dict(shared), "baseline": baseline}
                found += [_compare(pair, joined, metric, seed, resamples, tests) for metric in metrics]
    kept = [c for c in found if c.metric is metrics[0] or c.estimate is not None]
    return tuple(_adjusted(kept, metrics) if tests else kept)


def _cell(names: dict[str, Any], rows: pd.DataFrame, metrics: Sequence[Metric]) -> CellSummary:
    unscored = rows.loc[rows["status"] == "unscored", "reason"].value_counts().sort_index()
    tokens = rows["answer_tokens"].dropna()
    values = {metric.name: (rows[metric.column].dropna().astype("float64"), metric.scale) for metric in metrics}
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


def _compare(
    pair: dict[str, Any], joined: pd.DataFrame, metric: Metric, seed: int, resamples: int, tests: bool
) -> Comparison:
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
        value=float(new.sum()) / len(new) * metric.scale,
        estimate=estimate(new - old, clusters, seed=seed, resamples=resamples, scale=metric.scale),
        signflip_p=sign_flip(cluster_sums(new - old, clusters)[0], seed=seed, flips=resamples) if tests else None,
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


def _adjusted(found: Sequence[Comparison], metrics: Sequence[Metric]) -> list[Comparison]:
    done = list(found)
    for metric in metrics:
        family = [i for i, c in enumerate(done) if c.metric is metric]
        for i, p in zip(family, holm([done[i].signflip_p for i in family]), strict=True):
            done[i] = replace(done[i], holm_p=p)
    return done
