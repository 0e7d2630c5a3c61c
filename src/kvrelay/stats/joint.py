"""How sure "k of n improved" is: the number of positive differences and their mean, over joint resamples.

The cells of a table share their questions, so that they are no n independent trials and a binomial test of k would be
wrong. The bootstrap that draws a data set's clusters once for all its cells keeps what they share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvrelay.stats.bootstrap import ClusterSums, resampled
from kvrelay.stats.compare import Comparison
from kvrelay.stats.maxt import words


@dataclass(frozen=True, slots=True, kw_only=True)
class Joint:
    """Over ``n`` comparisons that have an interval: how many are above zero, and their plain mean; 95 % intervals."""

    n: int
    positive: int
    positive_low: int
    positive_high: int
    mean: float
    mean_low: float
    mean_high: float


def joint(comparisons: Sequence[Comparison], *, seed: int = 0, resamples: int = 10_000) -> Joint | None:
    """Percentile intervals over resamples of all comparisons at once; ``None`` for fewer than two with an interval.

    Comparisons of one data set are resampled together, data sets independently of each other. Resamples in which a
    comparison has no pair are left out.
    """
    kept = [c for c in comparisons if c.estimate is not None and c.estimate.low is not None and c.sums is not None]
    if len(kept) < 2:
        return None
    found = []
    for name in sorted({c.dataset for c in kept}):
        mine = [c for c in kept if c.dataset == name]
        ratios = resampled([_sums(c) for c in mine], seed=seed, resamples=resamples)
        found.append((ratios.T * [c.metric.scale for c in mine])[_order(name, seed, resamples)])
    drawn = np.concatenate(found, axis=1)
    drawn = drawn[~np.isnan(drawn).any(axis=1)]
    points = [c.estimate.point for c in kept if c.estimate is not None]
    counts, means = (drawn > 0).sum(axis=1), drawn.mean(axis=1)
    low, high = np.percentile(counts, [2.5, 97.5], method="inverted_cdf")
    mean_low, mean_high = np.percentile(means, [2.5, 97.5], method="linear")
    return Joint(
        n=len(kept),
        positive=sum(point > 0 for point in points),
        positive_low=int(low),
        positive_high=int(high),
        mean=float(np.mean(points)),
        mean_low=float(mean_low),
        mean_high=float(mean_high),
    )


def _sums(c: Comparison) -> ClusterSums:
    assert c.sums is not None
    return c.sums


def _order(dataset: str, seed: int, resamples: int) -> NDArray[np.intp]:
    """A data set's own order of the resamples: sets with equally many clusters share a weight matrix, and row b of one
    must tell nothing of row b of another."""
    stream = np.random.PCG64(np.random.SeedSequence([seed, resamples, 3, *words(dataset)]))
    return np.argsort(np.asarray(stream.random_raw(resamples)), kind="stable")
