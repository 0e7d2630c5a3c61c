"""Every number that a report prints: means of cells, and paired differences of an arm from the baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from kvrelay.stats.arms import CELL, POSITION, group_of, partner, split
from kvrelay.stats.bootstrap import ClusterSums, Estimate, cluster_sums, estimates
from kvrelay.stats.maxt import max_t
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
    """For this comparison alone, as ``mcnemar_p``; the next two are adjusted for all tests of the measure."""
    holm_p: float | None = None
    maxt_p: float | None = None
    worst: float | None = None
    best: float | None = None
    """The difference over all pairs if every outcome that is not known had gone against the arm, or for it. Two answers
    that are one item to a judge can only have gone the same way."""
    baseline_ends: tuple[float, float] | None = None
    ends: tuple[float, float] | None = None
    """Of either value, over all pairs too: if every outcome that is not known had been wrong, and right."""
    allocator: str = ""
    budget: str = ""
    executor: str = ""
    sums: ClusterSums | None = field(default=None, repr=False, compare=False)
    """The differences by cluster of the data set, in the column's own unit: what joint statistics are made from."""


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
    measures only where they exist. With ``tests``, Holm's and max-T's adjustments run over each measure's tests.
    All comparisons on one data set share the draws of its clusters, those without a pair included.
    """
    within = clusters_of(table)
    found: list[Comparison] = []
    for names, group in split(table, group_of(arms)).items():
        cells = {arm: rows.set_index("example_id") for arm, rows in split(group, arms).items()}
        for arm, rows in cells.items():
            base = partner(arm, cells, baseline)
            if base is not None and arm[0] != baseline:
                shared = zip((*group_of(arms), *arms), (*names, *arm), strict=True)
                sides = [cells[base].add_suffix("_a"), rows.add_suffix("_b")]
                joined = pd.concat(sides, axis=1).sort_index()
                pair: dict[str, Any] = {**dict(shared), "baseline": baseline}
                found += [_paired(pair, joined, metric, within[pair["dataset"]]) for metric in metrics]
    kept = [c for c in found if c.metric is metrics[0] or c.sums is not None]
    done = _estimated(kept, seed, resamples)
    return tuple(_tested(done, metrics, seed, resamples) if tests else done)


def clusters_of(table: pd.DataFrame) -> dict[str, list[str]]:
    """The known clusters of each data set, sorted: what its bootstrap draws from."""
    known = table[table["cluster"] != ""]
    found = {name: sorted(set(rows["cluster"].tolist())) for (name,), rows in split(known, ["dataset"]).items()}
    return {str(name): found.get(name, []) for name in table["dataset"].unique()}


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


def _paired(pair: Mapping[str, Any], joined: pd.DataFrame, metric: Metric, within: Sequence[str]) -> Comparison:
    """Counts, means and differences by cluster, without what is drawn."""
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
    if metric.binary:
        gaps = _with_bounds(gaps, joined, before, after)
    if not both.any():
        return gaps
    old, new = before[both].to_numpy(dtype=float), after[both].to_numpy(dtype=float)
    done = replace(
        gaps,
        baseline_value=float(old.sum()) / len(old) * metric.scale,
        value=float(new.sum()) / len(new) * metric.scale,
        sums=cluster_sums(new - old, joined.loc[both, "cluster_a"].tolist(), within),
    )
    return _with_counts(done, before, after, both) if metric.binary else done


def _with_counts(done: Comparison, before: pd.Series, after: pd.Series, both: NDArray[np.bool_]) -> Comparison:
    moves = transitions(before[both].astype(bool).tolist(), after[both].astype(bool).tolist())
    return replace(done, moves=moves, mcnemar_p=mcnemar(moves.gains, moves.losses))


def _with_bounds(gaps: Comparison, joined: pd.DataFrame, before: pd.Series, after: pd.Series) -> Comparison:
    """What all pairs together can come to, whatever the outcomes are that nobody knows."""
    each = gaps.metric.scale / len(joined)
    one = gaps.metric.judged & (joined["item_a"] == joined["item_b"]) & (joined["item_a"] != "")
    alike = one & before.isna() & after.isna()
    lowest, highest = (after.fillna(end) - before.fillna(1.0 - end) for end in (0.0, 1.0))
    return replace(
        gaps,
        worst=float(lowest[~alike].sum()) * each,
        best=float(highest[~alike].sum()) * each,
        baseline_ends=(float(before.fillna(0.0).sum()) * each, float(before.fillna(1.0).sum()) * each),
        ends=(float(after.fillna(0.0).sum()) * each, float(after.fillna(1.0).sum()) * each),
    )


def _estimated(found: Sequence[Comparison], seed: int, resamples: int) -> list[Comparison]:
    """One draw a data set."""
    done = list(found)
    for name in {c.dataset for c in done}:
        mine = [(i, c.sums) for i, c in enumerate(done) if c.dataset == name and c.sums is not None]
        if mine:
            scales = [done[i].metric.scale for i, _ in mine]
            drawn = estimates([sums for _, sums in mine], seed=seed, resamples=resamples, scales=scales)
            for (i, _), estimate in zip(mine, drawn, strict=True):
                done[i] = replace(done[i], estimate=estimate)
    return done


def _tested(found: Sequence[Comparison], metrics: Sequence[Metric], seed: int, resamples: int) -> list[Comparison]:
    """Sign-flip p of each comparison, and both adjustments over the family: all tests of a measure."""
    done = [
        replace(c, signflip_p=sign_flip(c.sums.paired, seed=seed, flips=resamples)) if c.sums is not None else c
        for c in found
    ]
    for metric in metrics:
        family = [i for i, c in enumerate(done) if c.metric is metric]
        pointwise = [done[i].signflip_p for i in family]
        largest = max_t([done[i].sums for i in family], [done[i].dataset for i in family], seed=seed, flips=resamples)
        for i, p, step, most in zip(family, pointwise, holm(pointwise), largest, strict=True):
            # Random flips may fall short of the exact pointwise p, which no adjustment can.
            floored = None if p is None or most is None else max(p, most)
            done[i] = replace(done[i], holm_p=step, maxt_p=floored)
    return done
