"""Paired cluster bootstrap: a mean difference, its percentile interval, and a cluster-t interval beside it.

RoPERelay, appendix D: question-weighted mean difference, 95 % interval from 10,000 cluster-bootstrap resamples, all
questions of a drawn cluster kept together. With S_g the sum and n_g the count of the differences in cluster g, and w
the counts of one draw of G clusters with replacement, each resample is the ratio  sum w_g S_g / sum w_g n_g.

The percentile interval covers too little when clusters are few (some 88 % at 11 clusters, 84 % at 5). The cluster-t
interval, r ± t(G - 1) * sqrt(G / (G - 1) * sum (S_g - r n_g)^2) / N, holds its level there; both are reported.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import t as student

from kvrelay.core.errors import ConfigError, DataError

DAGGER_BELOW = 10
"""With fewer clusters than this an interval is printed with a dagger."""
WARN_BELOW = 30
"""With fewer clusters than this a table warns that the percentile interval is too narrow."""
_CHUNK = 1024

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean paired difference with its intervals, in the unit that ``scale`` gave it. ``None`` is not estimable."""

    point: float
    low: float | None
    high: float | None
    low_t: float | None
    high_t: float | None
    standard_error: float | None
    n: int
    n_clusters: int
    resamples: int
    seed: int
    degenerate: bool = False
    """All resamples are equal: an interval of no width says nothing about precision."""

    @property
    def note(self) -> str:
        """What a reader must know before trusting the interval; empty if nothing."""
        if self.n_clusters == 1:
            return "not estimable: one cluster"
        few = f"{self.n_clusters} clusters, percentile interval too narrow" if self.n_clusters < WARN_BELOW else ""
        flat = "degenerate: all resamples equal" if self.degenerate else ""
        return "; ".join(part for part in (few, flat) if part)

    @property
    def dagger(self) -> bool:
        """Whether the printed interval must carry a dagger."""
        return 1 < self.n_clusters < DAGGER_BELOW


@lru_cache(maxsize=2)
def resample_weights(seed: int, n_clusters: int, resamples: int) -> Floats:
    """How often each resample draws each cluster: a read-only (resamples, clusters) matrix whose rows sum to G.

    A pure function of its arguments, so that all comparisons of a data set share their draws. Built on the raw
    output of PCG64, which numpy keeps stable between releases; its distribution methods it does not.
    """
    stream = np.random.PCG64(np.random.SeedSequence([seed, n_clusters, resamples]))
    weights = np.empty((resamples, n_clusters))
    for start in range(0, resamples, _CHUNK):
        rows = min(_CHUNK, resamples - start)
        raw = np.asarray(stream.random_raw(rows * n_clusters), dtype=np.uint64)
        drawn = (((raw >> np.uint64(32)) * np.uint64(n_clusters)) >> np.uint64(32)).astype(np.int64)
        flat = drawn + np.repeat(np.arange(rows), n_clusters) * n_clusters
        weights[start : start + rows] = np.bincount(flat, minlength=rows * n_clusters).reshape(rows, n_clusters)
    weights.flags.writeable = False
    return weights


def cluster_sums(values: ArrayLike, clusters: Sequence[str]) -> tuple[Floats, Floats]:
    """Sum and count of the values in each cluster, clusters in the order of their sorted names.

    Raises `DataError` for no values, a value that is not finite, unequal lengths, or an empty cluster name.
    """
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1 or len(numbers) != len(clusters):
        raise DataError(f"bootstrap: {numbers.shape} values and {len(clusters)} cluster names; wanted one name a value")
    if not len(numbers):
        raise DataError("bootstrap: no pairs came; wanted at least one question that both arms answered")
    if not np.isfinite(numbers).all():
        where = int(np.flatnonzero(~np.isfinite(numbers))[0])
        raise DataError(f"bootstrap: value {where} is {numbers[where]}; leave unscored pairs out and count them")
    if any(not name for name in clusters):
        raise DataError("bootstrap: an empty cluster name came; set cluster_id in the data set's adapter")
    names, of = np.unique(np.asarray(clusters, dtype=np.str_), return_inverse=True)
    sums = np.bincount(of, weights=numbers, minlength=len(names)).astype(np.float64)
    return sums, np.bincount(of, minlength=len(names)).astype(np.float64)


def estimate(
    differences: ArrayLike, clusters: Sequence[str], *, seed: int = 0, resamples: int = 10_000, scale: float = 1.0
) -> Estimate:
    """Bootstrap the question-weighted mean of paired differences; ``scale=100`` turns shares into percentage points."""
    if resamples < 100:
        raise ConfigError(f"report.resamples={resamples}: a 95 % interval wants at least 100 resamples")
    if seed < 0:
        raise ConfigError(f"report.seed={seed}: wanted a seed of 0 or more")
    sums, counts = cluster_sums(differences, clusters)
    total, size = float(counts.sum()), len(sums)
    point = float(sums.sum()) / total
    if size == 1:
        low = high = low_t = high_t = error = None
        flat = False
    else:
        drawn = resample_weights(seed, size, resamples) @ np.column_stack([sums, counts])
        ratios = drawn[:, 0] / drawn[:, 1]
        flat = bool(np.ptp(ratios) <= 1e-12 * max(1.0, abs(point)))
        low, high = (float(q) * scale for q in np.percentile(ratios, [2.5, 97.5], method="linear"))
        error = _standard_error(sums, counts, point) * scale
        reach = float(student.ppf(0.975, size - 1)) * error
        low_t, high_t = point * scale - reach, point * scale + reach
    return Estimate(
        point=point * scale,
        low=low,
        high=high,
        low_t=low_t,
        high_t=high_t,
        standard_error=error,
        n=int(total),
        n_clusters=size,
        resamples=resamples,
        seed=seed,
        degenerate=flat,
    )


def _standard_error(sums: Floats, counts: Floats, ratio: float) -> float:
    """Linearised standard error of a ratio of cluster totals."""
    size, residuals = len(sums), sums - ratio * counts
    return math.sqrt(size / (size - 1) * float(residuals @ residuals)) / float(counts.sum())
