"""10,000 resamples of 36 comparisons x 500 questions: one draw for all, against scipy's bootstrap of each.

Ours starts from the paired differences and the names of their clusters and makes the weight matrix anew each time;
scipy starts from the same differences. Both print percentile intervals of the mean.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from kvrelay.core.errors import InvariantError
from kvrelay.stats.bootstrap import Counts, Estimate, cluster_sums, estimates, resample_weights

QUESTIONS, COMPARISONS, RESAMPLES = 500, 36, 10_000
REPAIRED, REGRESSED = 0.10, 0.06
"""Shares of questions whose verdict changes: gains of some points, as in the paper's Table 8."""


class Drawn(np.random.Generator):
    """A generator whose one answer is a given matrix of indices: how scipy is made to use our draws."""

    indices: NDArray[np.int64]

    @classmethod
    def of(cls, indices: NDArray[np.int64]) -> Drawn:
        """One that gives these indices."""
        drawn = cls(np.random.PCG64(0))
        drawn.indices = indices
        return drawn

    def integers(  # type: ignore[override]
        self, low: Any, high: Any = None, size: Any = None, **_: Any
    ) -> NDArray[np.int64]:
        """The given indices; raises `InvariantError` if others are asked for."""
        if (low, high, tuple(size)) != (0, self.indices.shape[1], self.indices.shape):
            raise InvariantError(f"scipy asks for indices {low} to {high} of {size}, not for {self.indices.shape}")
        return self.indices


def indices_of(weights: Counts) -> NDArray[np.int64]:
    """The clusters that each resample holds, as often as it holds them."""
    return np.array([np.repeat(np.arange(len(row)), row.astype(int)) for row in weights])


def differences() -> NDArray[np.float64]:
    """Paired differences of right and wrong, (comparisons, questions)."""
    drawn = np.random.default_rng(0).random((COMPARISONS, QUESTIONS))
    return np.where(drawn < REPAIRED, 1.0, np.where(drawn < REPAIRED + REGRESSED, -1.0, 0.0))


def ours(values: NDArray[np.float64], names: list[str]) -> list[Estimate]:
    """All intervals from one draw."""
    resample_weights.cache_clear()
    parts = [cluster_sums(row, names, names) for row in values]
    return estimates(parts, resamples=RESAMPLES, scales=[1.0] * len(parts))


def scipys(values: NDArray[np.float64], rng: np.random.Generator | None = None) -> list[tuple[float, float]]:
    """All intervals, a call each."""
    options = {"n_resamples": RESAMPLES, "method": "percentile", "vectorized": True, "axis": -1}
    found = [stats.bootstrap((row,), np.mean, rng=rng, **options).confidence_interval for row in values]
    return [(float(ends.low), float(ends.high)) for ends in found]


def measure(config: Any) -> dict[str, Any]:
    """Interleaved pairs. Raises `InvariantError` where an interval is not scipy's on the same draws."""
    values = differences()
    names = [f"q{i:03d}" for i in range(QUESTIONS)]
    found = ours(values, names)
    apart = _apart(values, found)
    if apart > 1e-12:
        raise InvariantError(f"an interval is {apart} from scipy's on the same draws; wanted at most 1e-12")
    ways: dict[str, Callable[[], object]] = {"ours": lambda: ours(values, names), "scipy": lambda: scipys(values)}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(config["repetitions"]):
        for name, way in ways.items():
            started = time.perf_counter()
            way()
            times[name].append(time.perf_counter() - started)
    ratio = statistics.median(slow / fast for slow, fast in zip(times["scipy"], times["ours"], strict=True))
    medians = {name: statistics.median(spent) for name, spent in times.items()}
    return {
        "times_s": times,
        "ratio": ratio,
        "largest_difference": apart,
        "lines": [
            f"{RESAMPLES} resamples of {COMPARISONS} comparisons x {QUESTIONS} questions, medians of "
            f"{len(times['ours'])} interleaved pairs",
            f"one draw for all: {medians['ours']:.3f} s, weights included (fastest {min(times['ours']):.3f})",
            f"scipy.stats.bootstrap, {COMPARISONS} calls: {medians['scipy']:.3f} s (fastest {min(times['scipy']):.3f})",
            f"ratio: {ratio:.1f} (of the fastest: {min(times['scipy']) / min(times['ours']):.1f})",
            f"intervals of the first comparison on the same draws: {apart:.1e} apart",
        ],
    }


def _apart(values: NDArray[np.float64], found: list[Estimate]) -> float:
    """The first comparison's ends against scipy's, which is given our draws."""
    (low, high) = scipys(values[:1], Drawn.of(indices_of(resample_weights(0, QUESTIONS, RESAMPLES))))[0]
    first = found[0]
    if first.low is None or first.high is None:
        raise InvariantError("the first comparison has no interval")
    return max(abs(first.low - low), abs(first.high - high))
