"""Retention in exact integers."""

from __future__ import annotations

from fractions import Fraction

import pytest

from kvrelay.core.budget import Ratio, States
from kvrelay.core.errors import ConfigError


def test_ten_per_cent_of_a_thousand_is_a_hundred() -> None:
    assert Ratio(ratio=0.1).states(1000) == 100
    assert int(1000 * (1 - 0.9)) == 99  # what a compression ratio in floating point would keep


@pytest.mark.parametrize("percent", ["0.01", "1", "5", "10", "20", "29", "57", "99.99", "100"])
def test_a_ratio_is_the_floor_of_the_exact_product(percent: str) -> None:
    exact = Fraction(percent) / 100
    retention = Ratio(ratio=float(exact))
    for n_history in [*range(1, 400), 9_999, 10_000, 32_768, 131_071]:
        assert retention.states(n_history) == max(1, int(n_history * exact))


def test_every_basis_point_is_exact() -> None:
    assert [Ratio(ratio=points / 10_000).states(10_000) for points in range(1, 10_001)] == [*range(1, 10_001)]


def test_a_short_history_keeps_at_least_one_state_and_an_empty_one_none() -> None:
    # kvpress 264: nothing was kept of short contexts
    assert Ratio(ratio=0.1).states(5) == 1
    assert Ratio(ratio=0.1).states(0) == 0


@pytest.mark.parametrize("ratio", [0, -0.1, 1.0001, 10.0, float("nan"), float("inf")])
def test_a_ratio_out_of_range_is_refused(ratio: float) -> None:
    with pytest.raises(ConfigError, match=r"wanted above 0 and at most 1 \(key: retention\.\*\.ratio\)"):
        Ratio(ratio=ratio)


@pytest.mark.parametrize("ratio", [0.12345, 1 / 3, 0.00001, 1e-12])
def test_a_ratio_between_basis_points_is_refused(ratio: float) -> None:
    with pytest.raises(ConfigError, match=r"basis points.*\(key: retention\.\*\.ratio\)"):
        Ratio(ratio=ratio)


def test_a_number_of_states_is_cut_to_the_history() -> None:
    assert [States(count=2048).states(n_history) for n_history in (0, 100, 2048, 9000)] == [0, 100, 2048, 2048]


@pytest.mark.parametrize("count", [0, -5])
def test_no_states_are_refused(count: int) -> None:
    with pytest.raises(ConfigError, match=rf"{count} states; wanted at least 1 \(key: retention\.\*\.count\)"):
        States(count=count)
