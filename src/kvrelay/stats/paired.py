"""Counts and tests on paired outcomes: repaired and regressed, McNemar, sign flips over clusters, Holm.

A sign-flip test asks how often the summed difference would be as large if each cluster's difference could as well
have had the other sign. On single-question clusters of right/wrong outcomes it is the exact McNemar test.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import t as student

from kvrelay.core.errors import DataError
from kvrelay.stats.bootstrap import Floats

_ENUMERATE_UP_TO = 20
_BLOCK = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Transitions:
    """Questions that the second arm repaired (wrong to right), regressed (right to wrong) and left as they were."""

    gains: int
    losses: int
    ties: int

    @property
    def net(self) -> int:
        """Repaired less regressed: the accuracy difference times the number of pairs, exactly."""
        return self.gains - self.losses


def transitions(before: Sequence[bool], after: Sequence[bool]) -> Transitions:
    """Count the transitions of paired outcomes. Raises `DataError` for unequal lengths."""
    if len(before) != len(after):
        raise DataError(f"transitions: {len(before)} outcomes against {len(after)}; wanted pairs")
    gains = sum(bool(b) and not a for a, b in zip(before, after, strict=True))
    losses = sum(bool(a) and not b for a, b in zip(before, after, strict=True))
    return Transitions(gains=gains, losses=losses, ties=len(before) - gains - losses)


def mcnemar(gains: int, losses: int) -> float:
    """Exact two-sided McNemar p: binomial on the discordant pairs, 1 where there are none. It ignores clusters."""
    n = gains + losses
    tail = sum(math.comb(n, k) for k in range(min(gains, losses) + 1))
    return min(1.0, float(2 * tail / 2**n))


def sign_flip(sums: ArrayLike, *, seed: int = 0, flips: int = 10_000) -> float | None:
    """Two-sided sign-flip p of cluster sums of differences; ``None`` for fewer than two clusters.

    Exact for whole-number sums (convolution) and for up to 20 clusters that differ from zero (enumeration); else
    (1 + hits) / (flips + 1) over random flips, drawn from (seed, clusters, flips).
    """
    given = np.asarray(sums, dtype=np.float64)
    if given.ndim != 1 or not np.isfinite(given).all():
        raise DataError(f"sign_flip: wanted one finite sum a cluster, got shape {given.shape}")
    if len(given) < 2:
        return None
    sizes = np.abs(given[given != 0.0])
    # Sums that are equal on paper differ by roundings, and near zero those are all there is of them.
    reached = abs(float(given.sum())) - 1e-12 * float(sizes.sum())
    if (sizes == np.rint(sizes)).all():
        return _by_convolution(sizes.astype(int), reached)
    if len(sizes) <= _ENUMERATE_UP_TO:
        return _by_enumeration(sizes, reached)
    return _by_chance(sizes, reached, seed, flips)


def _by_convolution(sizes: np.ndarray, reached: float) -> float:
    chance = np.ones(1)
    for size in sizes:
        chance = 0.5 * np.pad(chance, (0, size)) + 0.5 * np.pad(chance, (size, 0))
    totals = 2 * np.arange(len(chance)) - int(sizes.sum())
    return min(1.0, float(chance[np.abs(totals) >= reached].sum()))


def _by_enumeration(sizes: Floats, reached: float) -> float:
    totals = np.zeros(1)
    for size in sizes:
        totals = np.concatenate([totals + size, totals - size])
    return float(np.mean(np.abs(totals) >= reached))


def _by_chance(sizes: Floats, reached: float, seed: int, flips: int) -> float:
    stream = np.random.PCG64(np.random.SeedSequence([seed, len(sizes), flips, 1]))
    hits = 0
    for start in range(0, flips, _BLOCK):
        rows = min(_BLOCK, flips - start)
        raw = np.asarray(stream.random_raw(rows * len(sizes)), dtype=np.uint64)
        signs = (raw >> np.uint64(63)).astype(np.float64).reshape(rows, -1) * 2 - 1
        hits += int(np.count_nonzero(np.abs(signs @ sizes) >= reached))
    return (1 + hits) / (flips + 1)


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down p over the family of tests that were made; ``None`` stays ``None`` and is not counted."""
    made = sorted((p, i) for i, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    running = 0.0
    for rank, (p, i) in enumerate(made):
        running = max(running, min(1.0, (len(made) - rank) * p))
        adjusted[i] = running
    return adjusted


def detectable(standard_error: float, n_clusters: int) -> float:
    """Smallest true difference found 80 times in 100 at the two-sided 5 % level, given the standard error seen."""
    df = n_clusters - 1
    return float(student.ppf(0.975, df) + student.ppf(0.8, df)) * standard_error
