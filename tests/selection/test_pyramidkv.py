"""PyramidKV's integer schedule, and that each layer keeps its share of SnapKV's ranking."""

from __future__ import annotations

import random

import pytest

from kvrelay.core.budget import Ratio
from kvrelay.selection.pyramidkv import PyramidKV, layer_shares, uniform_reason
from kvrelay.selection.snapkv import SnapKV


def published_shares(n_layers: int, n_history: int, budget: int, window: int, beta: int) -> list[int]:
    """KVCache-Factory's schedule with its integer step, for budgets far above the window."""
    moved = budget - window
    low = moved // beta
    high = 2 * moved - low
    if high >= n_history - window:
        high = n_history - window
        low = 2 * moved - high
    step = (high - low) // (n_layers - 1)
    return [window + high - layer * step for layer in range(n_layers)]


def test_two_layers_by_hand() -> None:
    # floor 8; 92 states move: lo = 92 // 20 = 4, hi = 180
    assert layer_shares(2, 1000, 100, 8, 20) == (188, 12)
    # hi is cut at T - w = 142, so lo = 184 - 142 = 42
    assert layer_shares(2, 150, 100, 8, 20) == (150, 50)


def test_remainders_go_to_the_largest_fractions() -> None:
    # floor 1; 4 move: lo 0, hi 8; the line 8, 16/3, 8/3, 0 sums to 16 and its floors to 15: 8/3 has the larger rest
    assert layer_shares(4, 100, 5, 1, 20) == (9, 6, 4, 1)


@pytest.mark.parametrize(
    ("n_layers", "n_history", "budget", "mean_published", "first"),
    [
        (32, 4000, 400, 401.0, 773),
        (28, 4000, 400, 408.5, 773),
        (32, 8000, 800, 809.0, 1553),
        (32, 8000, 128, 133.5, 242),
    ],
)
def test_the_published_overshoot_is_gone(n_layers, n_history, budget, mean_published, first) -> None:
    # KVCache-Factory#36, #17: the step's floor is lost and the total overshoots
    published = published_shares(n_layers, n_history, budget, 8, 20)
    assert sum(published) / n_layers == mean_published
    shares = layer_shares(n_layers, n_history, budget, 8, 20)
    assert sum(shares) == n_layers * budget
    assert shares[0] == published[0] == first
    assert shares[-1] == 8 + (budget - 8) // 20
    # a step that is at most one too small drifts by at most one a layer
    assert all(
        0 <= theirs - ours <= layer + 1 for layer, (ours, theirs) in enumerate(zip(shares, published, strict=True))
    )


def test_the_schedule_lies_on_the_published_line_within_one_state() -> None:
    shares = layer_shares(28, 32_000, 3200, 8, 20)
    low, high = 3192 // 20, 2 * 3192 - 3192 // 20
    for layer, share in enumerate(shares):
        assert abs(share - 8 - (high - layer * (high - low) / 27)) < 1


@pytest.mark.parametrize("beta", [1, 2, 20, 1000])
@pytest.mark.parametrize("window", [1, 8, 32, 64])
@pytest.mark.parametrize("n_layers", [1, 2, 3, 28, 32])
def test_properties(n_layers: int, window: int, beta: int) -> None:
    # kvpress#265, #266: budgets of 0 and a division by zero. Small T exhaustively, large T drawn
    draw = random.Random(n_layers * 1000 + window + beta)
    cases = [(n, b) for n in range(1, 9) for b in range(1, n + 1)]
    for _ in range(120):
        n_history = draw.randint(9, 130_000)
        cases.append((n_history, draw.choice([1, 2, n_history // 10 or 1, n_history, draw.randint(1, n_history)])))
    for n_history, budget in cases:
        shares = layer_shares(n_layers, n_history, budget, window, beta)
        assert len(shares) == n_layers
        assert sum(shares) == n_layers * budget
        assert list(shares) == sorted(shares, reverse=True)
        assert shares[-1] >= 1 and shares[0] <= n_history
        equal = shares[0] == shares[-1]
        assert equal == (uniform_reason(n_layers, n_history, budget, beta) is not None), (n_history, budget, shares)


def test_a_small_history_is_not_silently_uniform(make_history, question) -> None:
    # kvpress falls back to uniform under T = 200 w at 10 %: T = 4000 with w = 64 gave 400 everywhere
    shares = layer_shares(32, 4000, 400, 64, 20)
    assert shares[0] == 64 + 2 * 336 - 16 and shares[-1] == 64 + 16
    assert layer_shares(2, 300, 3, 32, 20) == (5, 1)
    selector = PyramidKV()
    history = make_history(300, needs=selector.needs)
    assert "uniform" not in selector.select(history, question, 30).notes


@pytest.mark.parametrize(
    ("n_layers", "budget", "beta", "reason"),
    [(1, 10, 20, "one layer"), (2, 1, 20, "budget of 1"), (2, 50, 20, "whole history"), (2, 10, 1, "beta is 1")],
)
def test_uniform_shares_say_why(make_history, question, n_layers, budget, beta, reason) -> None:
    selector = PyramidKV(beta=beta)
    selection = selector.select(make_history(50, needs=selector.needs, n_layers=n_layers), question, budget)
    assert reason in selection.notes["uniform"]
    assert selection.counts_LH() == [[3 + budget] * 2] * n_layers


@pytest.mark.parametrize(("n_history", "budget"), [(300, 30), (300, 60), (300, 200), (40, 39), (5, 2), (2, 1)])
def test_each_layer_keeps_its_share_of_snapkv(make_history, question, kept_tokens, n_history, budget) -> None:
    selector, snapkv = PyramidKV(window=16), SnapKV(window=16)
    history = make_history(n_history, needs=selector.needs, n_layers=4)
    selection = selector.select(history, question, budget)
    shares = layer_shares(4, n_history, budget, 16, 20)
    assert selection.counts_LH() == [[3 + share] * 2 for share in shares]
    assert selection.budget == budget and selection.anchor == 3 + shares[0]
    for layer, share in enumerate(shares):
        assert kept_tokens(selection)[layer] == kept_tokens(snapkv.select(history, question, share))[layer]


def test_a_share_below_the_window_keeps_the_latest(make_history, question, kept_tokens) -> None:
    selector = PyramidKV(window=32)
    history = make_history(300, needs=selector.needs, n_layers=3)
    kept = kept_tokens(selector.select(history, question, 20))
    # floor 10; 10 move: lo 0, hi 20
    assert layer_shares(3, 300, 20, 32, 20) == (30, 20, 10)
    assert kept[2] == [list(range(290, 300))] * 2


def test_every_history_has_its_own_schedule(make_history, question) -> None:
    # AdaKV's pyramid was computed on the first sample and reused for all later ones
    selector = PyramidKV(window=8)
    short, long = make_history(100, needs=selector.needs), make_history(200, needs=selector.needs)
    first = selector.select(short, question, 10).digest()
    assert selector.select(long, question, 20).counts_LH() == [[3 + 32] * 2, [3 + 8] * 2]
    assert selector.select(short, question, 10).digest() == first


def test_a_tiny_history_keeps_a_state(make_history, question) -> None:
    # kvpress#264, #277: nothing was kept of a short context
    selector = PyramidKV()
    budget = Ratio(ratio=0.1).states(5)
    assert budget == 1
    selection = selector.select(make_history(5, needs=selector.needs), question, budget)
    assert selection.counts_LH() == [[4, 4], [4, 4]]
