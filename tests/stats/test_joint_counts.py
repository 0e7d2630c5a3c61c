"""The interval of "k of n improved": cells of one data set drawn together, data sets apart."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kvrelay.stats.bootstrap import resample_weights
from kvrelay.stats.compare import Comparison, compare
from kvrelay.stats.frame import tidy
from kvrelay.stats.joint import joint
from tests.stats.golden_study import study_files

QUESTIONS = tuple(f"r{i}" for i in range(24))
CLUSTERS = {"talks": QUESTIONS, "longmemeval_s": QUESTIONS}
BEFORE = "0" * 24
SOME = "1" * 7 + "0" * 17


def compared(
    arms: dict[tuple[str, str], tuple[str, str]], clusters: dict[str, tuple[str, ...]] = CLUSTERS
) -> list[Comparison]:
    outcomes = {}
    for (dataset, selector), (before, after) in arms.items():
        outcomes |= {(dataset, selector, "original"): before, (dataset, selector, "roperelay"): after}
    files = study_files(outcomes, clusters=clusters)
    found = compare(tidy(files.plans, files.records, files.verdicts).table, resamples=400)
    return [c for c in found if c.metric.name == "accuracy"]


def test_counts_and_means_of_the_slow_way() -> None:
    """Every resample by hand: the mean of each cell, how many are above zero, their mean; then sorted."""
    letters = ["1100" * 6, "10" * 12, "01" * 12, "1000" * 6]
    arms = {("talks", f"s{i}"): (letters[0], other) for i, other in enumerate(letters[1:])}
    found = joint(compared(arms), seed=3, resamples=500)
    before = np.array([int(letter) for letter in letters[0]])
    # Clusters are drawn in the order of their names, in which r10 stands before r2.
    order = np.argsort(QUESTIONS)
    counts, means = [], []
    for weights in resample_weights(3, 24, 500):
        rows = np.repeat(order, weights)
        cells = [100 * float(np.mean([int(o[r]) - before[r] for r in rows])) for o in letters[1:]]
        counts.append(sum(cell > 0 for cell in cells))
        means.append(math.fsum(cells) / 3)
    assert found is not None
    assert (found.n, found.positive) == (3, 0)
    assert found.mean == pytest.approx(100 * (0 + 0 - 6 / 24) / 3)
    # The smallest count that at least 2.5 % of the resamples do not exceed, and 97.5 %.
    ordered = sorted(counts)
    assert (found.positive_low, found.positive_high) == (ordered[math.ceil(0.025 * 500) - 1], ordered[487])
    assert found.mean_low == pytest.approx(float(np.percentile(means, 2.5)), abs=1e-9)
    assert found.mean_high == pytest.approx(float(np.percentile(means, 97.5)), abs=1e-9)


def test_copies_of_one_cell_are_one_cell() -> None:
    """Six selectors that answer alike: all above zero, or none."""
    found = joint(compared({("talks", f"s{i}"): (BEFORE, "1000" * 6) for i in range(6)}), resamples=400)
    alone = compared({("talks", "s0"): (BEFORE, "1000" * 6)})[0].estimate
    assert found is not None and alone is not None
    assert (found.n, found.positive, found.positive_high) == (6, 6, 6)
    assert (found.mean, found.mean_low, found.mean_high) == pytest.approx(
        (alone.point, alone.low, alone.high), abs=1e-9
    )


def test_data_sets_are_drawn_apart_though_they_share_a_matrix() -> None:
    """Two sets with equal numbers of clusters and equal outcomes: their mean varies half as much as that of two copies
    within one set. Widths of percentile intervals err by some 5 % at 4,000 resamples; the ratio is near 1 / sqrt 2."""
    apart = joint(compared({(d, "s0"): (BEFORE, SOME) for d in ("talks", "longmemeval_s")}), resamples=4000)
    within = joint(compared({("talks", f"s{i}"): (BEFORE, SOME) for i in (0, 1)}), resamples=4000)
    assert apart is not None and within is not None
    ratio = (apart.mean_high - apart.mean_low) / (within.mean_high - within.mean_low)
    assert 0.6 < ratio < 0.82


def test_cells_without_an_interval_are_left_out() -> None:
    one = {"talks": ("c1",) * 24, "longmemeval_s": QUESTIONS}
    found = compared({("talks", "s0"): (BEFORE, SOME), ("longmemeval_s", "s0"): (BEFORE, SOME)}, one)
    assert joint(found, resamples=400) is None
    assert joint([], resamples=400) is None
    three = compared({("talks", "s0"): (BEFORE, SOME), **{("longmemeval_s", s): (BEFORE, SOME) for s in "ab"}}, one)
    left = joint(three, resamples=400)
    assert left is not None and left.n == 2


def test_resamples_without_a_pair_of_some_cell_are_left_out() -> None:
    """A cell with pairs in two clusters of 24: (1 - 2 / 24)^24 = 12 % of the resamples have none of it."""
    sparse = "m" * 22 + "11"
    found = joint(compared({("talks", "s0"): (BEFORE, SOME), ("talks", "s1"): ("0" * 24, sparse)}), resamples=400)
    assert found is not None
    assert (found.n, found.positive, found.positive_low) == (2, 2, 2)
    assert found.mean == pytest.approx((100 * 7 / 24 + 100) / 2)
