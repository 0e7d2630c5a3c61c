"""RoPERelay's latency rule, worked by hand."""

from __future__ import annotations

import math

import pytest

from kvrelay.core.errors import DataError
from kvrelay.stats.latency import clustered_ratio, paired_ratio


def test_medians_then_geometric_mean_with_log_t() -> None:
    """Medians 2 and 4 against 2 and 5: ratios 2 and 2.5."""
    found = paired_ratio({"b": [9.0, 2.0, 1.0], "a": [2.0]}, {"a": [5.0], "b": [4.0, 4.0, 100.0]})
    assert found.ratio == pytest.approx(math.sqrt(5.0), rel=1e-12)
    half = (math.log(2.5) - math.log(2.0)) / 2
    assert found.log_sd == pytest.approx(half * math.sqrt(2), rel=1e-12)
    # The standard error of two values is half their distance; t(1) = 12.7062047.
    assert found.high == pytest.approx(math.sqrt(5.0) * math.exp(12.706204736 * half), rel=1e-8)
    assert found.low == pytest.approx(math.sqrt(5.0) / math.exp(12.706204736 * half), rel=1e-8)
    assert found.overhead_percent == pytest.approx(100 * (math.sqrt(5.0) - 1), rel=1e-12)
    assert found.n == 2


def test_cases_of_one_cluster_count_once() -> None:
    """Ratios 2 and 8 in one cluster are 4, and 1 in the other: the geometric mean is 2, not the cube root of 16.

    The standard error of ln 4 and ln 1 is half their distance, ln 2, with t(1) = 12.7062047.
    """
    clusters = {"a1": "a", "a2": "a", "b1": "b"}
    found = clustered_ratio({"a1": 1.0, "a2": 1.0, "b1": 3.0}, {"a1": 2.0, "a2": 8.0, "b1": 3.0}, clusters)
    assert (found.ratio, found.n) == (pytest.approx(2.0, rel=1e-12), 2)
    assert found.high == pytest.approx(2.0 ** (1 + 12.706204736), rel=1e-8)
    assert found.low == pytest.approx(2.0 ** (1 - 12.706204736), rel=1e-8)


def test_placements_of_one_question_give_no_interval() -> None:
    """Three copies of one measurement are no three questions."""
    found = clustered_ratio(dict.fromkeys("xyz", 4.0), dict.fromkeys("xyz", 2.0), dict.fromkeys("xyz", "q"))
    assert (found.ratio, found.low, found.high, found.n) == (pytest.approx(0.5), None, None, 1)


@pytest.mark.parametrize(
    ("other", "message"),
    [({"x": 1.0}, "1 cases were timed on one side only, first 'y'"), ({"x": 0.0, "y": 1.0}, "cluster 'q' has times")],
)
def test_bad_times_of_cases_are_told(other: dict[str, float], message: str) -> None:
    with pytest.raises(DataError, match=message):
        clustered_ratio({"x": 1.0, "y": 1.0}, other, {"x": "q", "y": "q"})


def test_one_question_has_no_interval() -> None:
    found = paired_ratio({"a": [2.0]}, {"a": [3.0]})
    assert (found.ratio, found.low, found.high, found.log_sd) == (pytest.approx(1.5), None, None, None)


def test_swapping_sides_inverts_the_ratio() -> None:
    one, other = {"a": [1.0, 3.0], "b": [2.0]}, {"a": [2.5], "b": [1.5]}
    there, back = paired_ratio(one, other), paired_ratio(other, one)
    assert there.ratio * back.ratio == pytest.approx(1.0, rel=1e-12)
    assert float(there.low or 0) * float(back.high or 0) == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize(
    ("baseline", "other", "message"),
    [
        ({"a": [1.0]}, {"a": [1.0], "b": [1.0]}, "1 questions were timed on one side only, first 'b'"),
        ({}, {}, "no timed questions"),
        ({"a": [0.0]}, {"a": [1.0]}, r"question 'a' has times \[0.0\]"),
        ({"a": [1.0]}, {"a": []}, r"question 'a' has times \[\]"),
        ({"a": [1.0]}, {"a": [math.nan]}, "seconds above zero"),
    ],
)
def test_bad_times_are_told(baseline: dict[str, list[float]], other: dict[str, list[float]], message: str) -> None:
    with pytest.raises(DataError, match=message):
        paired_ratio(baseline, other)
