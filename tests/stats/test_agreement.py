"""Agreement of raters against tables worked out by hand and slow references written from the formulas."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest

from kvrelay.core.errors import DataError
from kvrelay.stats.agreement import ONE_CLASS, ONE_CLUSTER, ac1s, agreement, kappas, krippendorff
from kvrelay.stats.bootstrap import resample_weights

NAN = float("nan")
EXACT = 1e-12
"""Counts below 2^53 are exact in float64; a handful of operations on them leave a few units in the last place."""


def raters(both: int, first: int, second: int, neither: int) -> tuple[list[float], list[float]]:
    return [1.0] * (both + first) + [0.0] * (second + neither), (
        [1.0] * both + [0.0] * first + [1.0] * second + [0.0] * neither
    )


def alone(size: int) -> list[str]:
    return [f"q{i:04}" for i in range(size)]


# --- by hand --------------------------------------------------------------------------------------------------------


def test_the_textbook_table() -> None:
    """p_o = 35/50 = .7; p_e = .5 * .6 + .5 * .4 = .5; kappa = .2/.5. AC1: q = .55, p_e = 2 * .55 * .45 = .495."""
    found = agreement(*raters(20, 5, 10, 15), alone(50), resamples=200)
    assert (found.both, found.first_only, found.second_only, found.neither, found.n) == (20, 5, 10, 15, 50)
    assert found.observed == pytest.approx(0.70, abs=EXACT)
    assert found.kappa.value == pytest.approx(0.40, abs=EXACT)
    assert found.ac1.value == pytest.approx((0.70 - 0.495) / (1 - 0.495), abs=EXACT)
    assert found.positive == pytest.approx(40 / 55, abs=EXACT)
    assert found.negative == pytest.approx(30 / 45, abs=EXACT)
    # P(X <= 5 or X >= 10), X binomial (15, 1/2)
    assert found.mcnemar_p == pytest.approx(2 * (1 + 15 + 105 + 455 + 1365 + 3003) / 2**15, abs=EXACT)


def test_the_paradox_of_kappa() -> None:
    """94 of 100 agree, and kappa is below zero: p_e = .03 * .03 + .97 * .97 = .9418."""
    found = agreement(*raters(0, 3, 3, 94), alone(100), resamples=200)
    assert found.observed == pytest.approx(0.94, abs=EXACT)
    assert found.kappa.value == pytest.approx((0.94 - 0.9418) / (1 - 0.9418), abs=EXACT)
    assert found.kappa.value is not None and found.kappa.value < 0
    assert found.ac1.value == pytest.approx((0.94 - 0.0582) / (1 - 0.0582), abs=EXACT)
    assert found.positive == 0.0 and found.negative == pytest.approx(188 / 194, abs=EXACT)


def test_perfect_agreement() -> None:
    found = agreement(*raters(12, 0, 0, 28), alone(40), resamples=500)
    assert (found.kappa.value, found.kappa.low, found.kappa.high) == (1.0, 1.0, 1.0)
    assert (found.ac1.value, found.observed, found.positive, found.negative) == (1.0, 1.0, 1.0, 1.0)
    assert found.mcnemar_p == 1.0


def test_perfect_disagreement() -> None:
    """p_o = 0, p_e = 1/2 for both coefficients with half right and half wrong."""
    found = agreement(*raters(0, 10, 10, 0), alone(20), resamples=200)
    assert (found.observed, found.kappa.value, found.ac1.value) == (0.0, -1.0, -1.0)


@pytest.mark.parametrize("table", [(9, 0, 0, 0), (0, 0, 0, 9)])
def test_one_class_leaves_kappa_undefined_and_the_rest_defined(table: tuple[int, int, int, int]) -> None:
    found = agreement(*raters(*table), alone(9), resamples=200)
    assert (found.kappa.value, found.kappa.low, found.kappa.note) == (None, None, ONE_CLASS)
    assert (found.observed, found.ac1.value, found.ac1.low, found.ac1.high) == (1.0, 1.0, 1.0, 1.0)
    assert (found.positive is None) == (table[0] == 0) and (found.negative is None) == (table[3] == 0)


def test_one_cluster_has_values_and_no_interval() -> None:
    found = agreement(*raters(20, 5, 10, 15), ["c"] * 50, resamples=200)
    for coefficient in (found.kappa, found.ac1):
        assert coefficient.value is not None and (coefficient.low, coefficient.high) == (None, None)
        assert coefficient.note == ONE_CLUSTER
    assert found.n_clusters == 1


def test_a_missing_verdict_is_counted_and_no_rating() -> None:
    a, b = raters(20, 5, 10, 15)
    gaps_a, gaps_b = [NAN, NAN, 0.0, 1.0, NAN], [1.0, 0.0, NAN, NAN, NAN]
    found = agreement(a + gaps_a, b + gaps_b, alone(55), resamples=200)
    whole = agreement(a, b, alone(50), resamples=200)
    assert (found.only_first_missing, found.only_second_missing, found.both_missing) == (2, 2, 1)
    assert (found.n, found.kappa, found.ac1, found.observed) == (50, whole.kappa, whole.ac1, 0.7)


def test_nothing_that_both_rated() -> None:
    found = agreement([1.0, NAN], [NAN, 0.0], ["c", "d"], resamples=200)
    assert (found.n, found.n_clusters, found.observed, found.kappa.value, found.mcnemar_p) == (0, 0, None, None, None)


@pytest.mark.parametrize(
    ("a", "b", "clusters", "told"),
    [
        ([0.5], [1.0], ["c"], "neither 0, 1 nor missing"),
        ([1.0, 0.0], [1.0], ["c", "d"], "wanted one name a verdict"),
        ([1.0], [1.0], [""], "empty cluster name"),
    ],
)
def test_bad_input_is_told(a: list[float], b: list[float], clusters: list[str], told: str) -> None:
    with pytest.raises(DataError, match=told):
        agreement(a, b, clusters)


# --- against slow references ----------------------------------------------------------------------------------------


def slow_kappa(a: Sequence[float], b: Sequence[float]) -> Fraction | None:
    n = len(a)
    observed = Fraction(sum(x == y for x, y in zip(a, b, strict=True)), n)
    chance = sum((Fraction(a.count(kind), n) * Fraction(b.count(kind), n) for kind in (0.0, 1.0)), Fraction(0))
    return None if chance == 1 else (observed - chance) / (1 - chance)


def slow_ac1(a: Sequence[float], b: Sequence[float]) -> Fraction:
    n = len(a)
    observed = Fraction(sum(x == y for x, y in zip(a, b, strict=True)), n)
    right = Fraction(a.count(1.0) + b.count(1.0), 2 * n)
    chance = 2 * right * (1 - right)
    return (observed - chance) / (1 - chance)


def drawn_raters(seed: int, size: int) -> tuple[list[float], list[float], list[str]]:
    rng = np.random.default_rng(seed)
    a = (rng.random(size) < 0.3).astype(float)
    b = np.where(rng.random(size) < 0.85, a, 1 - a)
    return a.tolist(), b.tolist(), [f"c{i}" for i in rng.integers(0, 12, size)]


@pytest.mark.parametrize("seed", range(5))
def test_coefficients_equal_the_formulas(seed: int) -> None:
    a, b, clusters = drawn_raters(seed, 83)
    found = agreement(a, b, clusters, resamples=100)
    expected = slow_kappa(a, b)
    assert expected is not None
    assert found.kappa.value == pytest.approx(float(expected), abs=EXACT)
    assert found.ac1.value == pytest.approx(float(slow_ac1(a, b)), abs=EXACT)


def test_the_interval_is_that_of_drawing_whole_clusters_one_by_one() -> None:
    a, b, clusters = drawn_raters(7, 60)
    found = agreement(a, b, clusters, seed=3, resamples=300)
    names = sorted(set(clusters))
    kappa_draws, ac1_draws = [], []
    for weights in resample_weights(3, len(names), 300):
        rows = [
            i
            for name, times in zip(names, weights.astype(int), strict=True)
            for _ in range(times)
            for i, cluster in enumerate(clusters)
            if cluster == name
        ]
        one, other = [a[i] for i in rows], [b[i] for i in rows]
        kappa_draws.append(float(slow_kappa(one, other)))  # type: ignore[arg-type]
        ac1_draws.append(float(slow_ac1(one, other)))
    for coefficient, draws in ((found.kappa, kappa_draws), (found.ac1, ac1_draws)):
        low, high = np.percentile(draws, [2.5, 97.5])
        assert (coefficient.low, coefficient.high) == (pytest.approx(low, abs=EXACT), pytest.approx(high, abs=EXACT))
        assert coefficient.low is not None and coefficient.value is not None and coefficient.low < coefficient.value


def test_the_order_of_answers_changes_nothing() -> None:
    a, b, clusters = drawn_raters(2, 40)
    again = agreement(a[::-1], b[::-1], clusters[::-1], resamples=200)
    assert again == agreement(a, b, clusters, resamples=200)


def test_swapping_the_raters_swaps_the_counts_alone() -> None:
    a, b, clusters = drawn_raters(4, 50)
    one, other = agreement(a, b, clusters, resamples=200), agreement(b, a, clusters, resamples=200)
    assert (one.first_only, one.second_only) == (other.second_only, other.first_only)
    assert (one.kappa, one.ac1, one.mcnemar_p) == (other.kappa, other.ac1, other.mcnemar_p)


def test_resamples_of_one_class_are_counted_and_beyond_a_tail_there_is_no_interval() -> None:
    """One answer of 40 is right: a resample misses it with chance (39/40)^40 = .363."""
    found = agreement(*raters(1, 0, 0, 39), alone(40), resamples=1000)
    assert found.kappa.value == 1.0 and found.kappa.low is None
    assert "resamples are of one class" in found.kappa.note
    weights = resample_weights(0, 40, 1000)
    assert found.kappa.undefined == int((weights[:, 0] == 0).sum()) + int((weights[:, 0] == 40).sum())
    assert found.ac1.low == found.ac1.high == 1.0


def test_few_resamples_of_one_class_leave_an_interval() -> None:
    """Four right answers of 40 are all missed with chance (36/40)^40 = .015, below the tail's .025."""
    found = agreement(*raters(4, 0, 1, 35), alone(40), resamples=2000)
    assert 0 < found.kappa.undefined <= 50
    assert found.kappa.low is not None and found.kappa.high == 1.0


def test_many_tables_at_once_give_each_its_own() -> None:
    tables = np.array([[20, 5, 10, 15], [9, 0, 0, 0], [0, 0, 0, 0], [1, 0, 0, 1]], dtype=float)
    assert kappas(tables).tolist()[0] == pytest.approx(0.4, abs=EXACT)
    assert np.isnan(kappas(tables)).tolist() == [False, True, True, False]
    assert np.isnan(ac1s(tables)).tolist() == [False, False, True, False]


# --- alpha ----------------------------------------------------------------------------------------------------------


def slow_alpha(rows: Sequence[Sequence[float]]) -> Fraction | None:
    """The coincidence matrix, pair by pair: o_ck gains 1/(m - 1) for every ordered pair of a row's ratings."""
    coincidences: dict[tuple[float, float], Fraction] = {}
    for row in rows:
        values = [value for value in row if value == value]
        for one, other in permutations(range(len(values)), 2):
            pair = values[one], values[other]
            coincidences[pair] = coincidences.get(pair, Fraction(0)) + Fraction(1, len(values) - 1)
    totals: dict[float, Fraction] = {}
    for (one, _), count in coincidences.items():
        totals[one] = totals.get(one, Fraction(0)) + count
    n = sum(totals.values(), Fraction(0))
    seen = sum((count for (one, other), count in coincidences.items() if one != other), Fraction(0))
    chance = sum((x * y for c, x in totals.items() for k, y in totals.items() if c != k), Fraction(0))
    return None if chance == 0 else 1 - (n - 1) * seen / chance


def test_two_raters_by_hand() -> None:
    """Ten answers, 20 ratings, 14 wrong and 6 right, 4 disagreements: alpha = 1 - 19 * 8 / (2 * 14 * 6) = .0952..."""
    a = [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0]
    b = [1.0, 1.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    found, n = krippendorff(np.column_stack([a, b]), alone(10), resamples=100)
    assert n == 10 and found.value == pytest.approx(1 - 19 * 8 / (2 * 14 * 6), abs=EXACT)


def test_three_raters_with_gaps_by_hand() -> None:
    """Rows (1 1 1), (1 0 -), (0 0 1), (- 0 0), (1 - -): the last pairs with nothing.

    Disagreement: (1 0): 2/1; (0 0 1): 4 ordered pairs / 2 = 2; together 4. Right 5, wrong 5, n = 10:
    alpha = 1 - 9 * 4 / (2 * 5 * 5) = .28.
    """
    rows = [[1, 1, 1], [1, 0, NAN], [0, 0, 1], [NAN, 0, 0], [1, NAN, NAN]]
    found, n = krippendorff(rows, alone(5), resamples=100)
    assert n == 4 and found.value == pytest.approx(0.28, abs=EXACT)


@pytest.mark.parametrize("kinds", [2, 5])
def test_alpha_equals_the_coincidence_matrix(kinds: int) -> None:
    rng = np.random.default_rng(kinds)
    rows = rng.integers(0, kinds, (30, 4)).astype(float)
    rows[rng.random(rows.shape) < 0.3] = NAN
    found, n = krippendorff(rows, alone(30), resamples=100)
    expected = slow_alpha(rows.tolist())
    assert expected is not None and found.value == pytest.approx(float(expected), abs=EXACT)
    assert n == int(((~np.isnan(rows)).sum(axis=1) >= 2).sum())


def test_alpha_of_one_class_and_of_nothing() -> None:
    assert krippendorff([[1.0, 1.0], [1.0, 1.0]], ["a", "b"], resamples=100)[0].note == ONE_CLASS
    empty, n = krippendorff([[1.0, NAN], [NAN, 1.0]], ["a", "b"], resamples=100)
    assert (empty.value, n) == (None, 0)
    with pytest.raises(DataError, match="wanted a row a name"):
        krippendorff([[1.0, 1.0]], ["a", "b"])


def test_alpha_has_an_interval_over_clusters() -> None:
    rng = np.random.default_rng(1)
    rows = rng.integers(0, 2, (40, 3)).astype(float)
    clusters = [f"c{i % 8}" for i in range(40)]
    found, _ = krippendorff(rows, clusters, seed=2, resamples=200)
    draws = []
    for weights in resample_weights(2, 8, 200).astype(int):
        drawn = [row for row, c in zip(rows.tolist(), clusters, strict=True) for _ in range(weights[int(c[1:])])]
        draws.append(float(slow_alpha(drawn)))  # type: ignore[arg-type]
    low, high = np.percentile(draws, [2.5, 97.5])
    assert (found.low, found.high) == (pytest.approx(low, abs=1e-10), pytest.approx(high, abs=1e-10))
