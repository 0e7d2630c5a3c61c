"""Whole units, then a width-limited forward window: every tie and clip worked by hand."""

from __future__ import annotations

import math
from functools import reduce
from operator import add

import pytest
import torch

from kvrelay.repair.admission import admit, best_token, by_sum, window

UNITS = [(0, 4), (4, 5), (5, 12), (12, 20)]
SCORES = [0.1, 0.2, 0.1, 0, 0.9, 0.3, 0.3, 0.8, 0.1, 0.1, 0.1, 0.1, 0.7, 0, 0, 0, 0, 0, 0, 0.6]
RANKING = [1, 2, 3, 0]
WORKED = {
    0: [],
    1: [4],
    2: [4, 7],
    3: [4, 7, 8],
    4: [4, 7, 8, 9],
    5: [4, 7, 8, 9, 10],
    6: [4, 7, 8, 9, 10, 11],
    7: [4, 6, 7, 8, 9, 10, 11],  # six from the peak at 7 would cross the end at 12: moved left
    8: [4, 5, 6, 7, 8, 9, 10, 11],
    9: [*range(4, 13)],
    10: [*range(4, 14)],
    11: [*range(4, 15)],
    12: [*range(4, 16)],
    13: [*range(4, 17)],
    14: [*range(4, 18)],
    15: [*range(4, 19)],
    16: [*range(4, 20)],
    17: [1, *range(4, 20)],  # the last unit's peak is its second token
    18: [1, 2, *range(4, 20)],
    19: [1, 2, 3, *range(4, 20)],
    20: [*range(20)],
    21: [*range(20)],
}


def peak(unit: tuple[int, int]) -> int:
    return best_token(unit, SCORES)


@pytest.mark.parametrize("budget", WORKED)
def test_worked_example(budget: int) -> None:
    assert sorted(admit(UNITS, RANKING, budget, peak)) == WORKED[budget]


@pytest.mark.parametrize("budget", [6, 11])
def test_continue_admits_later_units_that_fit_before_the_window(budget: int) -> None:
    chosen = sorted(admit(UNITS, RANKING, budget, peak, on_overflow="continue"))
    # 6: unit 1, then unit 0, then one token at the peak of unit 2; 11: units 1 and 2, then three of unit 3
    assert chosen == {6: [0, 1, 2, 3, 4, 7], 11: [*range(4, 15)]}[budget]


def test_continue_skips_to_a_smaller_unit_and_comes_back() -> None:
    assert sorted(admit([(0, 6), (6, 8), (8, 10)], [0, 2, 1], 5, lambda unit: unit[0] + 1, on_overflow="continue")) == [
        1,
        6,
        7,
        8,
        9,
    ]


@pytest.mark.parametrize(("lookback", "expected"), [(0, [9]), (1, [8]), (3, [6]), (5, [5]), (9, [5])])
def test_lookback_stays_in_the_unit(lookback: int, expected: list[int]) -> None:
    assert admit([(5, 12)], [0], 1, lambda unit: 9, lookback=lookback) == expected


@pytest.mark.parametrize(
    ("start", "width", "expected"),
    [(7, 2, (7, 9)), (11, 1, (11, 12)), (11, 4, (8, 12)), (5, 7, (5, 12)), (2, 3, (5, 8))],
)
def test_window(start: int, width: int, expected: tuple[int, int]) -> None:
    assert window((5, 12), start, width) == expected


def test_the_earliest_of_equal_tokens_is_the_peak() -> None:
    assert best_token((1, 5), [9.0, 1.0, 2.0, 2.0, 0.0]) == 2
    assert best_token((0, 3), [-math.inf, -1.0, -1.0]) == 1


def test_unit_sums_tie_exactly_whatever_the_order_of_terms() -> None:
    scores = torch.tensor([2.0**60, 1, -(2.0**60), 2.0**60, -(2.0**60), 1])
    assert reduce(add, scores.tolist()[:3]) < reduce(add, scores.tolist()[3:]), "a plain sum breaks the tie"
    assert by_sum([(0, 3), (3, 6)], scores, 3) == [0, 1, 2]
    scores[5] = 2
    assert sorted(by_sum([(0, 3), (3, 6)], scores, 4)) == [0, 3, 4, 5]
