"""Transitions, McNemar, sign flips and Holm against enumeration, scipy and hand calculations."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from kvrelay.core.errors import DataError
from kvrelay.stats.paired import detectable, holm, mcnemar, sign_flip, transitions


def _enumerated(sums: list[float]) -> float:
    reached = abs(math.fsum(sums))
    flips = list(itertools.product((1, -1), repeat=len(sums)))
    return sum(
        abs(math.fsum(s * f for s, f in zip(sums, flip, strict=True))) >= reached - 1e-9 for flip in flips
    ) / len(flips)


def test_transitions_count_each_kind() -> None:
    before, after = [False, False, True, True, False], [True, False, False, True, True]
    found = transitions(before, after)
    assert (found.gains, found.losses, found.ties, found.net) == (2, 1, 2, 1)
    assert found.net == sum(after) - sum(before)
    with pytest.raises(DataError, match="5 outcomes against 4"):
        transitions(before, after[:4])


@pytest.mark.parametrize(("gains", "losses"), [(1, 0), (3, 1), (10, 2), (2, 10), (7, 7), (60, 35)])
def test_mcnemar_is_the_binomial_test(gains: int, losses: int) -> None:
    assert mcnemar(gains, losses) == pytest.approx(stats.binomtest(gains, gains + losses, 0.5).pvalue, rel=1e-12)


def test_mcnemar_without_discordant_pairs() -> None:
    assert mcnemar(0, 0) == 1.0
    assert 0.0 < mcnemar(900, 100) < 1e-100


@pytest.mark.parametrize("sums", [[2, -1, 1], [3, 0, 0, -3], [1, 1, 1, 1, 1, -1], [5, -2, 4, 1, 0, -1, 2], [0, 0]])
def test_sign_flip_of_whole_sums_is_exact(sums: list[float]) -> None:
    assert sign_flip(sums) == pytest.approx(_enumerated(sums), abs=1e-15)


def test_sign_flip_of_other_sums_is_exact_while_it_can_be() -> None:
    sums = [0.5, -0.25, 1.75, 0.1, 0.0, -0.7, 0.35]
    assert sign_flip(sums) == pytest.approx(_enumerated(sums), abs=1e-15)


def test_sums_that_cancel_on_paper_are_reached_by_every_flip() -> None:
    """Thirds add up to zero but for a rounding: every sum reaches that, as every whole-number sum reaches zero."""
    whole = np.array([-1.0, 2.0, -1.0, -3.0, 4.0, 1.0, -2.0, -1.0, 1.0])
    assert sign_flip(whole) == sign_flip(whole / 3) == 1.0


def test_sign_flip_by_chance_agrees_with_the_exact_value() -> None:
    """22 halves: too many to enumerate, but doubled they are whole numbers, whose test is exact."""
    sums = np.array([0.5] * 15 + [-0.5] * 7)
    exact = sign_flip(2 * sums)
    found = sign_flip(sums, flips=20_000)
    assert exact is not None and found is not None
    assert found == pytest.approx(exact, abs=5 * math.sqrt(exact * (1 - exact) / 20_000) + 1 / 20_000)
    assert found != exact
    assert found == sign_flip(sums, flips=20_000)
    assert found != sign_flip(sums, flips=20_000, seed=1)


def test_sign_flip_of_single_questions_is_mcnemar() -> None:
    sums = [1] * 30 + [-1] * 14 + [0] * 400
    assert sign_flip(sums) == pytest.approx(mcnemar(30, 14), rel=1e-12)


def test_sign_flip_needs_two_clusters_and_numbers() -> None:
    assert sign_flip([4.0]) is None
    assert sign_flip([0.0, 0.0]) == 1.0
    with pytest.raises(DataError, match="finite"):
        sign_flip([1.0, math.nan])


def test_holm_by_hand() -> None:
    """Three tests made: 3 x 0.01, then 2 x 0.03, then 0.04 raised to its predecessor."""
    found = holm([0.01, None, 0.04, 0.03])
    assert found == [pytest.approx(0.03), None, pytest.approx(0.06), pytest.approx(0.06)]
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([None]) == [None]
    assert holm([]) == []


def test_detectable_is_2_8_standard_errors_for_many_clusters() -> None:
    assert detectable(1.0, 100_000) == pytest.approx(1.959964 + 0.841621, abs=1e-4)
    assert detectable(2.0, 5) == pytest.approx(2 * (2.776445 + 0.940965), abs=1e-5)
