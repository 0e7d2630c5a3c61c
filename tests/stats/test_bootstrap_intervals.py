"""The paired cluster bootstrap against hand calculations, an exact distribution and scipy."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
from exact_bootstrap import exact_bootstrap
from scipy import stats

from kvrelay.core.errors import ConfigError, DataError
from kvrelay.stats.bootstrap import cluster_sums, estimate, resample_weights


def test_weights_are_draws_with_replacement() -> None:
    weights = resample_weights(3, 40, 2000)
    assert weights.shape == (2000, 40)
    assert (weights.sum(axis=1) == 40).all()
    # A count's variance is 1 - 1/G, so the mean of all counts of one cluster has an error of sqrt(1 / B).
    assert np.abs(weights.mean(axis=0) - 1).max() < 5 / math.sqrt(2000)
    assert abs(weights.var() - (1 - 1 / 40)) < 0.02


def test_weights_follow_the_raw_stream_across_blocks() -> None:
    """1,030 resamples cross the block size; the literal version draws one number at a time."""
    weights = resample_weights(0, 3, 1030)
    stream = np.random.PCG64(np.random.SeedSequence([0, 3, 1030]))
    literal = np.zeros((1030, 3))
    for row in literal:
        for _ in range(3):
            row[(int(stream.random_raw()) >> 32) * 3 >> 32] += 1
    assert (weights == literal).all()


def test_weights_are_pinned_and_cannot_be_changed() -> None:
    weights = resample_weights(0, 5, 200)
    found = hashlib.sha256(weights.astype("<u2").tobytes()).hexdigest()
    assert found[:16] == PINNED
    with pytest.raises(ValueError, match="read-only"):
        weights[0, 0] = 7
    assert (weights != resample_weights(1, 5, 200)).any()


def test_ratio_and_both_intervals_by_hand() -> None:
    """Clusters a (1, 1, 0) and b (-1): draws aa, ab, bb with chances 1/4, 1/2, 1/4 give 4/6, 1/4 and -1."""
    found = estimate([1, 1, 0, -1], ["a", "a", "a", "b"], resamples=4000)
    assert found.point == 0.25
    assert (found.low, found.high) == (-1.0, pytest.approx(4 / 6, abs=1e-15))
    # Residuals 2 - 3/4 and -1 - 1/4; variance 2/1 * (1.25^2 + 1.25^2) / 4^2 = 0.390625; t(1) = 12.7062047.
    assert found.standard_error == pytest.approx(0.625, abs=1e-15)
    assert found.high_t == pytest.approx(0.25 + 0.625 * 12.706204736, rel=1e-9)
    assert found.low_t == pytest.approx(0.25 - 0.625 * 12.706204736, rel=1e-9)
    assert (found.n, found.n_clusters) == (4, 2)


def test_percentiles_are_those_of_rows_drawn_by_cluster() -> None:
    """The slow way: copy the rows of each drawn cluster, average, sort, interpolate."""
    rng = np.random.default_rng(5)
    names = [f"c{i}" for i in rng.integers(0, 9, 50)]
    values = rng.normal(size=50)
    found = estimate(values, names, seed=2, resamples=300)
    order = sorted(set(names))
    means = []
    for counts in resample_weights(2, len(order), 300):
        rows = [v for name, k in zip(order, counts, strict=True) for v in _rows(values, names, name) * int(k)]
        means.append(math.fsum(rows) / len(rows))
    means.sort()
    assert found.low == pytest.approx(_linear(means, 0.025), abs=1e-12)
    assert found.high == pytest.approx(_linear(means, 0.975), abs=1e-12)


def test_percentiles_against_the_exact_distribution() -> None:
    """Single-question clusters: the sum of G draws is a convolution, done by FFT.

    With B resamples the empirical distribution strays from it by less than sqrt(log(2 / 1e-9) / 2B) but for one seed
    in 1e9 (Dvoretzky, Kiefer, Wolfowitz, Massart).
    """
    gains, losses, size = 15, 5, 60
    outcomes = np.array([1] * gains + [-1] * losses + [0] * (size - gains - losses))
    found = estimate(outcomes, [f"q{i}" for i in range(size)])
    _, chances = exact_bootstrap(outcomes.tolist())
    exact = np.cumsum(chances)
    stray = math.sqrt(math.log(2 / 1e-9) / 20_000)
    assert found.low is not None and found.high is not None
    for end, level in ((found.low, 0.025), (found.high, 0.975)):
        step = round(end * size) + size
        assert end * size + size == pytest.approx(step, abs=1e-9)
        assert exact[step] >= level - stray
        assert exact[step - 1] <= level + stray
    # The bound is loose at the ends; the interval itself must lie within a step of the exact one.
    grid = (np.arange(2 * size + 1) - size) / size
    assert abs(found.low - grid[np.searchsorted(exact, 0.025)]) <= 1 / size + 1e-12
    assert abs(found.high - grid[np.searchsorted(exact, 0.975)]) <= 1 / size + 1e-12


def test_percentiles_against_scipy() -> None:
    """Two independent Monte Carlo runs: each end errs by sqrt(p (1 - p) / B) / density, 2.7 % of the spread."""
    values = np.random.default_rng(8).normal(0.3, 1.0, 120)
    found = estimate(values, [f"q{i}" for i in range(120)])
    drawn = stats.bootstrap(
        (values,), np.mean, n_resamples=10_000, method="percentile", rng=np.random.default_rng(1)
    ).confidence_interval
    error = math.sqrt(0.025 * 0.975 / 10_000) / (stats.norm.pdf(1.96) / (values.std() / math.sqrt(120)))
    assert found.low == pytest.approx(drawn.low, abs=5 * math.sqrt(2) * error)
    assert found.high == pytest.approx(drawn.high, abs=5 * math.sqrt(2) * error)


def test_cluster_t_is_the_t_test_for_single_questions() -> None:
    values = np.random.default_rng(4).normal(0.1, 1.0, 31)
    found = estimate(values, [f"q{i}" for i in range(31)], resamples=200)
    expected = stats.ttest_1samp(values, 0.0).confidence_interval()
    assert (found.low_t, found.high_t) == (
        pytest.approx(expected.low, rel=1e-12),
        pytest.approx(expected.high, rel=1e-12),
    )


def test_order_scale_and_global_state_do_not_matter() -> None:
    names = ["b", "a", "c", "a", "b", "c", "c"]
    values = [1, 0, -1, 1, 1, 0, 1]
    np.random.seed(1)
    one = estimate(values, names, seed=4, resamples=500, scale=100.0)
    np.random.seed(2)
    other = estimate(values[::-1], names[::-1], seed=4, resamples=500, scale=100.0)
    assert one == other
    plain = estimate(values, names, seed=4, resamples=500)
    assert one.point == pytest.approx(100 * plain.point)
    assert one.low_t == pytest.approx(100 * float(plain.low_t or 0.0))


def test_weak_intervals_say_so() -> None:
    alone = estimate([1, 0, 1], ["a", "a", "a"])
    assert (alone.low, alone.high, alone.low_t, alone.high_t) == (None, None, None, None)
    assert alone.note == "not estimable: one cluster" and not alone.dagger
    nine, ten = (estimate(np.arange(k) % 2, [f"q{i}" for i in range(k)], resamples=100) for k in (9, 10))
    assert nine.dagger and not ten.dagger and "10 clusters" in ten.note
    assert estimate(np.arange(30) % 2, [f"q{i}" for i in range(30)], resamples=100).note == ""
    flat = estimate([1, 1, 1, 1], ["a", "b", "b", "c"], resamples=100)
    assert flat.degenerate and (flat.low, flat.high, flat.low_t, flat.high_t) == (1.0, 1.0, 1.0, 1.0)
    assert not nine.degenerate
    # Equal differences that have no exact binary form must be seen as equal, too.
    assert estimate([0.1] * 6, list("aabbbc"), resamples=100).degenerate


def test_cluster_sums_by_hand() -> None:
    found = cluster_sums([1.0, -1.0, 0.5], ["z", "a", "z"])
    assert found.sums.tolist() == [-1.0, 1.5] and found.counts.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("values", "names", "message"),
    [
        ([], [], "no pairs"),
        ([1.0, math.nan], ["a", "b"], "value 1 is nan"),
        ([1.0, math.inf], ["a", "b"], "value 1 is inf"),
        ([1.0], ["a", "b"], "one name a value"),
        ([[1.0]], ["a"], "one name a value"),
        ([1.0, 2.0], ["a", ""], "empty cluster name"),
    ],
)
def test_bad_values_are_told(values: list[float], names: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        estimate(values, names)


def test_bad_settings_are_told() -> None:
    with pytest.raises(ConfigError, match=r"report\.resamples=99"):
        estimate([1, 0], ["a", "b"], resamples=99)
    with pytest.raises(ConfigError, match=r"report\.seed=-1"):
        estimate([1, 0], ["a", "b"], seed=-1)


PINNED = "1dd11d27a1cde0c0"


def _rows(values: np.ndarray, names: list[str], wanted: str) -> list[float]:
    return [float(v) for v, name in zip(values, names, strict=True) if name == wanted]


def _linear(ordered: list[float], level: float) -> float:
    place = level * (len(ordered) - 1)
    below = math.floor(place)
    return ordered[below] + (place - below) * (ordered[min(below + 1, len(ordered) - 1)] - ordered[below])
