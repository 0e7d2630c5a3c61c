"""Agreement of raters on the same answers: raw, by class, Cohen's kappa, Gwet's AC1, Krippendorff's alpha.

With shares of the 2x2 table, p_o = both + neither and p_a, p_b the shares that either rater calls right:

    kappa = (p_o - p_e) / (1 - p_e),   p_e = p_a p_b + (1 - p_a)(1 - p_b)            (Cohen 1960)
    AC1   = (p_o - p_e) / (1 - p_e),   p_e = 2 q (1 - q),  q = (p_a + p_b) / 2       (Gwet 2008)

Where nearly all answers are wrong kappa is low however often the raters agree; AC1 stands beside it for that reason.
A verdict that is missing is no rating: pairs are over the answers that both rated, and what is left out is counted.
Intervals resample whole clusters with the weights that all comparisons share: counts are sums over clusters, so each
resample's kappa comes from its weighted 2x2 table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from kvrelay.core.errors import DataError
from kvrelay.stats.bootstrap import Floats, resample_weights
from kvrelay.stats.paired import mcnemar

ENDS = (2.5, 97.5)
UNDEFINED_AT_MOST = 0.025
"""Share of resamples without a value beyond which there is no interval: they could hide one of its tails whole."""
ONE_CLASS = "undefined (one class)"
ONE_CLUSTER = "not estimable: one cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficient:
    """A coefficient with its percentile interval. ``value`` is None where all ratings are of one class."""

    value: float | None
    low: float | None = None
    high: float | None = None
    undefined: int = 0
    """Resamples that were all of one class, and have no value."""
    note: str = ""
    """Why there is no value or no interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Two raters over the answers that both rated."""

    n: int
    n_clusters: int
    both: int
    first_only: int
    second_only: int
    neither: int
    only_first_missing: int
    only_second_missing: int
    both_missing: int
    observed: float | None
    positive: float | None
    """Of the ratings of right, 2 both / (2 both + disagreements); None if nobody gave one."""
    negative: float | None
    kappa: Coefficient
    ac1: Coefficient
    mcnemar_p: float | None
    """Whether one rater is more lenient: exact test on the answers where they disagree."""


def agreement(
    first: ArrayLike, second: ArrayLike, clusters: Sequence[str], *, seed: int = 0, resamples: int = 10_000
) -> Agreement:
    """Compare two raters' verdicts, 1.0, 0.0 or NaN where missing, answer by answer.

    Raises `DataError` for unequal lengths or another value. Nothing that both rated gives n = 0 and no coefficient.
    """
    a, b = _ratings(first, clusters), _ratings(second, clusters)
    rated = ~np.isnan(a) & ~np.isnan(b)
    x, y = a[rated] == 1.0, b[rated] == 1.0
    cells = np.column_stack([x & y, x & ~y, ~x & y, ~x & ~y]).astype(np.float64)
    by_cluster = _by_cluster(cells, np.asarray(clusters, dtype=np.str_)[rated])
    both, first_only, second_only, neither = (int(count) for count in cells.sum(axis=0))
    apart = first_only + second_only
    return Agreement(
        n=len(x),
        n_clusters=len(by_cluster),
        both=both,
        first_only=first_only,
        second_only=second_only,
        neither=neither,
        only_first_missing=int((np.isnan(a) & ~np.isnan(b)).sum()),
        only_second_missing=int((~np.isnan(a) & np.isnan(b)).sum()),
        both_missing=int((np.isnan(a) & np.isnan(b)).sum()),
        observed=(both + neither) / len(x) if len(x) else None,
        positive=2 * both / (2 * both + apart) if both + apart else None,
        negative=2 * neither / (2 * neither + apart) if neither + apart else None,
        kappa=_coefficient(by_cluster, kappas, seed, resamples),
        ac1=_coefficient(by_cluster, ac1s, seed, resamples),
        mcnemar_p=mcnemar(first_only, second_only) if len(x) else None,
    )


def kappas(tables: Floats) -> Floats:
    """Cohen's kappa of many 2x2 tables, rows (both, first only, second only, neither); NaN where one class is all."""
    n = tables.sum(axis=1)
    first, second = tables[:, 0] + tables[:, 1], tables[:, 0] + tables[:, 2]
    observed = (tables[:, 0] + tables[:, 3]) * n
    chance = first * second + (n - first) * (n - second)
    return _over_chance(observed, chance, n * n)


def ac1s(tables: Floats) -> Floats:
    """Gwet's AC1 of many 2x2 tables; NaN only where a table is empty."""
    n = tables.sum(axis=1)
    twice = 2 * tables[:, 0] + tables[:, 1] + tables[:, 2]
    observed = (tables[:, 0] + tables[:, 3]) * 2 * n
    return _over_chance(observed, twice * (2 * n - twice), 2 * n * n)


def krippendorff(
    ratings: ArrayLike, clusters: Sequence[str], *, seed: int = 0, resamples: int = 10_000
) -> tuple[Coefficient, int]:
    """Krippendorff's alpha for nominal data, and how many answers it is over: those with two ratings or more.

    ``ratings`` has a row an answer and a column a rater, NaN where missing. With n_uc the ratings c of answer u, m_u
    their number, n_c = sum_u n_uc and n = sum_c n_c (Krippendorff 2011, sections C and D):

        alpha = 1 - (n - 1) sum_u (m_u^2 - sum_c n_uc^2) / (m_u - 1)  /  (n^2 - sum_c n_c^2)
    """
    given = np.asarray(ratings, dtype=np.float64)
    if given.ndim != 2 or len(given) != len(clusters):
        raise DataError(f"alpha: {given.shape} ratings and {len(clusters)} cluster names; wanted a row a name")
    classes = np.unique(given[~np.isnan(given)])
    counts = np.column_stack([(given == kind).sum(axis=1) for kind in classes]) if len(classes) else given[:, :0]
    pairable = counts.sum(axis=1) >= 2
    n_uc = counts[pairable].astype(np.float64)
    m_u = n_uc.sum(axis=1)
    disagreement = (m_u**2 - (n_uc**2).sum(axis=1)) / (m_u - 1)
    cells = np.column_stack([disagreement, n_uc])
    by_cluster = _by_cluster(cells, np.asarray(clusters, dtype=np.str_)[pairable])
    return _coefficient(by_cluster, _alphas, seed, resamples), int(pairable.sum())


def _alphas(sums: Floats) -> Floats:
    by_class = sums[:, 1:]
    n = by_class.sum(axis=1)
    expected = n**2 - (by_class**2).sum(axis=1)
    return _over_chance(expected - (n - 1) * sums[:, 0], np.zeros_like(n), expected)


def _over_chance(observed: Floats, chance: Floats, most: Floats) -> Floats:
    """(observed - chance) / (most - chance), all three counts of one unit; NaN where chance explains everything."""
    room = most - chance
    return np.divide(observed - chance, room, out=np.full(len(room), np.nan), where=room > 0)


def _ratings(values: ArrayLike, clusters: Sequence[str]) -> Floats:
    found = np.asarray(values, dtype=np.float64)
    if found.ndim != 1 or len(found) != len(clusters):
        raise DataError(
            f"agreement: {found.shape} verdicts and {len(clusters)} cluster names; wanted one name a verdict"
        )
    if not np.isin(found[~np.isnan(found)], (0.0, 1.0)).all():
        raise DataError("agreement: a verdict is neither 0, 1 nor missing (NaN); wanted right, wrong or none")
    return found


def _by_cluster(cells: Floats, clusters: np.ndarray) -> Floats:
    """Sums of the columns in each cluster, clusters in the order of their sorted names."""
    if (clusters == "").any():
        raise DataError("agreement: an empty cluster name came; set cluster_id in the data set's adapter")
    names, of = np.unique(clusters, return_inverse=True)
    columns = [np.bincount(of, weights=column, minlength=len(names)) for column in cells.T]
    return np.column_stack(columns) if columns else np.empty((len(names), 0))


def _coefficient(by_cluster: Floats, formula: Callable[[Floats], Floats], seed: int, resamples: int) -> Coefficient:
    size = len(by_cluster)
    point = formula(by_cluster.sum(axis=0, keepdims=True))[0] if size else np.nan
    if np.isnan(point):
        return Coefficient(value=None, note=ONE_CLASS if size else "no answer that both rated")
    if size == 1:
        return Coefficient(value=float(point), note=ONE_CLUSTER)
    drawn = formula(resample_weights(seed, size, resamples) @ by_cluster)
    undefined = int(np.isnan(drawn).sum())
    if undefined > UNDEFINED_AT_MOST * resamples:
        note = f"not estimable: {undefined} of {resamples} resamples are of one class"
        return Coefficient(value=float(point), undefined=undefined, note=note)
    low, high = np.nanpercentile(drawn, ENDS, method="linear")
    return Coefficient(value=float(point), low=float(low), high=float(high), undefined=undefined)
