"""Many comparisons from one draw: each as if it were alone, whatever is missing in the others."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections import Counter

import numpy as np
import pytest
from benches.bootstrap import Drawn, indices_of
from exact_bootstrap import exact_bootstrap
from scipy import stats

from kvrelay.core.errors import DataError
from kvrelay.stats.bootstrap import cluster_sums, estimate, estimates, resample_weights, resampled, resampled_sums
from kvrelay.stats.compare import compare
from kvrelay.stats.frame import tidy
from tests.stats.golden_study import study_files

NAMES = [f"c{i:02d}" for i in range(12)]


def test_the_matrix_of_a_whole_data_set_is_pinned() -> None:
    """500 questions at the default seed: the bits behind every printed interval of such a set."""
    weights = resample_weights(0, 500, 10_000)
    assert hashlib.sha256(weights.astype("<u2").tobytes()).hexdigest()[:16] == "1cf392826b3305ed"
    assert weights.dtype == np.uint16 and (weights.sum(axis=1) == 500).all()


def test_counts_have_room_for_one_cluster_drawn_every_time() -> None:
    """255 is the largest count of one byte: a data set of 256 clusters could draw one of them 256 times."""
    assert resample_weights(0, 255, 100).dtype == np.uint8
    assert resample_weights(0, 256, 100).dtype == np.uint16


def test_many_are_each_as_if_alone() -> None:
    rng = np.random.default_rng(3)
    clusters = [NAMES[i] for i in rng.integers(0, 12, 80)]
    outcomes = [rng.integers(-1, 2, 80).astype(float) for _ in range(5)]
    parts = [cluster_sums(row, clusters, NAMES) for row in outcomes]
    together = estimates(parts, seed=4, resamples=700, scales=[100.0] * 5)
    alone = [estimate(row, clusters, seed=4, resamples=700, scale=100.0) for row in outcomes]
    assert set(clusters) == set(NAMES)
    assert together == alone


def test_whole_numbers_add_up_exactly_in_either_format() -> None:
    """Sums that float32 could round are added up in float64: 2^22 x 12 clusters is past its 24 bits."""
    small = np.random.default_rng(0).integers(-9, 10, (12, 4)).astype(float)
    for columns in (small, small * 2.0**22 + 1.0, small + 0.1):
        exact = columns.T @ resample_weights(1, 12, 600).T.astype(float)
        found = resampled_sums(columns, seed=1, resamples=600)
        if (columns == np.rint(columns)).all():
            assert (found == exact).all()
        else:
            # Twelve products and sums, each rounded once.
            assert np.abs(found - exact).max() <= 24 * 2**-53 * np.abs(columns).sum(axis=0).max() * 12


def _literal(values: dict[str, list[float]], names: list[str], seed: int, resamples: int) -> list[float]:
    """Each resample copies the rows of the clusters that it draws; one without a row has no mean."""
    means = []
    for counts in resample_weights(seed, len(names), resamples):
        rows = [v for name, k in zip(names, counts, strict=True) for v in values.get(name, []) * int(k)]
        if rows:
            means.append(math.fsum(rows) / len(rows))
    return means


def test_clusters_without_a_pair_are_drawn_too() -> None:
    """Three of twelve clusters have pairs, and (1 - 3 / 12)^12 = 3 % of the resamples none of them."""
    values = {"c01": [1.0, 0.0], "c05": [-1.0], "c11": [1.0, 1.0, -1.0]}
    clusters = [name for name, of in values.items() for _ in of]
    part = cluster_sums([v for of in values.values() for v in of], clusters, NAMES)
    full = cluster_sums([1.0] * 12, NAMES, NAMES)
    ratios = resampled([part, full], seed=7, resamples=2000)
    means = _literal(values, NAMES, 7, 2000)
    assert 0 < np.isnan(ratios[0]).sum() == 2000 - len(means) and not np.isnan(ratios[1]).any()
    found, _ = estimates([part, full], seed=7, resamples=2000, scales=[1.0, 1.0])
    assert (found.low, found.high) == pytest.approx(tuple(np.percentile(means, [2.5, 97.5])), abs=1e-12)
    # Counts, point and cluster-t are those of the clusters that have a pair.
    own = estimate([v for of in values.values() for v in of], clusters, seed=7, resamples=2000)
    assert (found.n, found.n_clusters, found.point) == (6, 3, own.point)
    assert (found.low_t, found.high_t, found.standard_error) == (own.low_t, own.high_t, own.standard_error)


def test_a_data_sets_draw_does_not_depend_on_what_is_missing() -> None:
    """SnapKV lacks the only question of cluster c2 in one arm; BM25's interval is the same with that gap or not."""
    whole = {
        ("talks", "bm25", "original"): "010100",
        ("talks", "bm25", "roperelay"): "111001",
        ("talks", "snapkv", "original"): "001000",
        ("talks", "snapkv", "roperelay"): "111100",
    }
    gaps = {**whole, ("talks", "snapkv", "original"): "001m00"}
    found = []
    for outcomes in (whole, gaps):
        files = study_files(outcomes)
        table = tidy(files.plans, files.records, files.verdicts).table
        found.append({(c.selector, c.metric.name): c.estimate for c in compare(table, resamples=300)})
    assert found[0]["bm25", "accuracy"] == found[1]["bm25", "accuracy"] is not None
    whole_snapkv, with_gap = found[0]["snapkv", "accuracy"], found[1]["snapkv", "accuracy"]
    assert whole_snapkv is not None and with_gap is not None
    assert (whole_snapkv.n_clusters, with_gap.n_clusters) == (3, 2)


def test_a_cluster_that_the_data_set_lacks_is_told() -> None:
    with pytest.raises(DataError, match="'elsewhere' is none of the data set's 12"):
        cluster_sums([1.0, 0.0], ["c01", "elsewhere"], NAMES)


# --- oracles --------------------------------------------------------------------------------------------------------


def test_scipy_finds_the_same_interval_in_the_same_draws() -> None:
    outcomes = np.random.default_rng(1).integers(-1, 2, (4, 90)).astype(float)
    names = [f"q{i:02d}" for i in range(90)]
    found = estimates([cluster_sums(row, names, names) for row in outcomes], seed=5, resamples=1200, scales=[1.0] * 4)
    for row, ours in zip(outcomes, found, strict=True):
        rng = Drawn.of(indices_of(resample_weights(5, 90, 1200)))
        theirs = stats.bootstrap((row,), np.mean, n_resamples=1200, method="percentile", rng=rng).confidence_interval
        # A mean of 90 terms, rounded in another order.
        assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=90 * 2**-53)


@pytest.mark.parametrize("differences", [[1, 0, -1], [2, 0, 0, -1], [1, 1, 1]])
def test_the_exact_distribution_is_that_of_all_draws(differences: list[int]) -> None:
    size = len(differences)
    draws = Counter(sum(draw) for draw in itertools.product(differences, repeat=size))
    means, chances = exact_bootstrap(differences)
    for mean, chance in zip(means, chances, strict=True):
        assert chance == pytest.approx(draws[round(mean * size)] / size**size, abs=1e-14)
    assert chances.sum() == pytest.approx(1.0, abs=1e-13)


@pytest.mark.parametrize("seed", range(4))
def test_intervals_lie_at_the_exact_ends(seed: int) -> None:
    """36 comparisons of 200 questions. Between an end and the exact quantile lies at most one step of 1/200 where the
    exact distribution passes 2.5 % by more than five standard errors of a share of 10,000 draws."""
    rng = np.random.default_rng(seed)
    names = [f"q{i:03d}" for i in range(200)]
    outcomes = rng.choice([-1, 0, 1], size=(36, 200), p=[0.06, 0.84, 0.1])
    found = estimates([cluster_sums(row, names, names) for row in outcomes], seed=seed, scales=[1.0] * 36)
    stray = 5 * math.sqrt(0.025 * 0.975 / 10_000)
    for row, ours in zip(outcomes, found, strict=True):
        means, chances = exact_bootstrap(row.tolist())
        below = np.cumsum(chances)
        assert ours.low is not None and ours.high is not None
        for end, level in ((ours.low, 0.025), (ours.high, 0.975)):
            at = below[np.searchsorted(means, end - 1e-9)]
            before = below[np.searchsorted(means, end - 1e-9) - 1]
            assert before - stray <= level <= at + stray
