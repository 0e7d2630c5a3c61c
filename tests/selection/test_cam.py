"""CaM as a selector: forced probabilities, the selection, and that every arm gets the same merged values."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from kvrelay.core.history import PrefilledHistory
from kvrelay.selection.cam import CaM
from kvrelay.selection.draws import uniform
from kvrelay.selection.merging import BLOCK_TOKENS

MERGED = [1, 1, 1, 1.5, 2.25, 2.875, 3.5625, 4.21875, 4.890625, 5.5546875, 6.22265625, 3.77734375]


@pytest.fixture
def twelve(make_history):
    """T = 12, P = 3, values of ones, and the window mass given for the history (the protected tokens have none)."""

    def make(selector: CaM, mass: list[float], protected_mass: float = 0.0) -> PrefilledHistory:
        history = make_history(12)
        rows = torch.tensor([protected_mass] * 3 + mass).expand(4, -1)
        layers = tuple(replace(layer, values_HKD=torch.ones_like(layer.values_HKD)) for layer in history.cache.layers)
        (need,) = selector.needs
        return replace(history, cache=replace(history.cache, layers=layers), evidence={need: (rows, rows)})

    return make


@pytest.mark.parametrize("window", [1, 2, 5])
def test_every_token_merges_where_p_is_one(twelve, question, window) -> None:
    # start = ceil(1.2) = 2; the tokens before it have no mass and all others the same: p = 1
    selector = CaM(window=window, merge_window=2)
    selection = selector.select(twelve(selector, [0.0, 0.0] + [1.0] * 10), question, 4)
    for values in selection.values_LHND:
        assert values[:, :, 0].tolist() == [[1.0] * 3 + MERGED] * 2
    assert selection.notes["merge_rate"] == 1.0
    ratio = (sum(value**2 for value in MERGED) / 12) ** 0.5
    assert selection.notes["value_norm_ratio"] == pytest.approx(ratio, rel=1e-6)


def test_no_token_merges_where_p_is_zero(twelve, question) -> None:
    selector = CaM(window=2, merge_window=2)
    history = twelve(selector, [1.0] + [0.0] * 11)
    selection = selector.select(history, question, 4)
    assert all(torch.equal(values, torch.ones(2, 15, 6)) for values in selection.values_LHND)
    assert selection.notes == {"merge_rate": 0.0, "value_norm_ratio": 1.0}


def test_nothing_at_all_has_probability_zero(twelve, question) -> None:
    # 0 / 0 in the published code is set to 0
    selector = CaM(window=2, merge_window=2)
    assert selector.select(twelve(selector, [0.0] * 12), question, 4).notes["merge_rate"] == 0.0


def test_the_sink_makes_merges_rare(twelve, question) -> None:
    mass = [0.0, 0.0] + [1.0] * 10
    for sinks, rate in [("history", 1.0), ("prompt", 0.0)]:
        selector = CaM(window=2, merge_window=2, sinks=sinks)
        assert selector.select(twelve(selector, mass, protected_mass=1e9), question, 4).notes["merge_rate"] == rate


@pytest.mark.parametrize("sinks", ["prompt", "history"])
@pytest.mark.parametrize(("n_history", "merge_window"), [(60, 4), (61, 8), (20, 1), (300, 12)])
def test_equals_the_published_loop_with_the_same_draws(make_history, question, sinks, n_history, merge_window) -> None:
    selector = CaM(window=8, merge_window=merge_window, sinks=sinks, seed=3)
    history = make_history(n_history, needs=selector.needs)
    selection = selector.select(history, question, 5)
    (need,) = selector.needs
    start, merges = -(-n_history // 10), 0
    for layer in range(2):
        expected = history.cache.layers[layer].values_HKD.double().clone()
        draws = uniform((2, n_history), "selector.cam", "h", 3, layer)
        for head in range(2):
            a = history.evidence[need][layer].double()[2 * head : 2 * head + 2].mean(0) / 8
            always = a[(0 if sinks == "prompt" else 3) : 3 + start]
            for i in range(3 + start, 3 + n_history - merge_window):
                p = a[i] / torch.cat([always, a[i : i + merge_window]]).max()
                if draws[head, i - 3] < p:
                    expected[head, i + 1 : i + 1 + merge_window] += expected[head, i] / merge_window
                    merges += 1
        # float32 sums of up to BLOCK + w terms after each other, bounded by the largest value met
        bound = n_history * (BLOCK_TOKENS + merge_window + 2) * 2**-24 * float(expected.abs().max())
        torch.testing.assert_close(selection.values_LHND[layer].double(), expected, rtol=0, atol=bound)
    assert selection.notes["merge_rate"] == merges / (4 * (n_history - merge_window - start))


@pytest.mark.parametrize(("loud", "merges"), [(0, False), (1, False), (2, True)])
def test_the_reference_is_the_tokens_before_the_start(twelve, question, loud, merges) -> None:
    # start = 2: a loud token 0 or 1 silences every merge (p = 1e-9), a loud token 2 its own neighbourhood alone
    mass = [1e-9] * 12
    mass[loud] = 1.0
    selector = CaM(window=2, merge_window=2)
    selection = selector.select(twelve(selector, mass), question, 4)
    # tokens 2 to 9 may merge; token 2 does, and with no louder reference so do 3 to 9
    assert selection.notes["merge_rate"] == (1.0 if merges else 0.0)


def test_the_window_has_no_scores(make_history, question) -> None:
    selector = CaM(window=8)
    history = make_history(30, needs=selector.needs)
    for layer in selector.select(history, question, 12).layers:
        assert layer.score_HK.isnan().tolist() == [[True] * 3 + [False] * 4 + [True] * 8] * 2


@pytest.mark.parametrize("n_history", [1, 5, 36])
def test_a_history_too_short_to_merge(make_history, question, n_history) -> None:
    # the first candidate is ceil(T / 10) and the last T - 33; they meet at T = 37
    selector = CaM(sinks="history")
    history = make_history(n_history, needs=selector.needs, dtype=torch.bfloat16)
    selection = selector.select(history, question, 1)
    assert selection.notes["merge_rate"] == 0.0
    for layer, values in zip(history.cache.layers, selection.values_LHND, strict=True):
        assert torch.equal(values, layer.values_HKD)


@pytest.mark.parametrize("budget", [1, 5, 20, 60])
@pytest.mark.parametrize(("n_query_heads", "n_kv_heads"), [(4, 2), (6, 2)])
@pytest.mark.parametrize("group", ["mean", "max", "sum"])
def test_the_selection_is_the_top_of_unpooled_window_mass(
    make_history, question, kept_tokens, best, budget, n_query_heads, n_kv_heads, group
) -> None:
    selector = CaM(window=8, merge_window=4, group=group)
    history = make_history(60, needs=selector.needs, n_query_heads=n_query_heads, n_kv_heads=n_kv_heads)
    kept = kept_tokens(selector.select(history, question, budget))
    (need,), size = selector.needs, n_query_heads // n_kv_heads
    reduce = {"mean": lambda v: sum(v) / len(v), "max": max, "sum": sum}[group]
    for layer in range(2):
        mass = history.history_mass(need, layer).double().tolist()
        rows = [[reduce(c) for c in zip(*mass[h * size : (h + 1) * size], strict=True)] for h in range(n_kv_heads)]
        assert kept[layer] == [best(row, budget, range(52, 60)) for row in rows]


def test_merged_values_are_one_draw(make_history, question) -> None:
    def values(history: PrefilledHistory, budget: int, seed: int = 0) -> torch.Tensor:
        return torch.stack(CaM(window=8, merge_window=4, seed=seed).select(history, question, budget).values_LHND)

    (need,) = CaM(window=8).needs
    history = make_history(200, needs=[need])
    first = values(history, 20)
    assert torch.equal(first, values(history, 20)) and torch.equal(first, values(history, 50))
    assert not torch.equal(first, values(history, 20, seed=1))
    assert not torch.equal(first, values(replace(history, history_id="other"), 20))


def test_heads_and_layers_toss_their_own_coins_at_the_given_rate(make_history, question) -> None:
    # every p is 1/2: a token's own mass is half of the reference; equal values show the coins
    selector = CaM(window=8, merge_window=1)
    (need,) = selector.needs
    history = make_history(2000, protected=0)
    mass = torch.full((4, 2000), 0.5)
    mass[:, 0] = 1.0
    history = replace(history, evidence={need: (mass, mass)})
    layers = tuple(replace(layer, values_HKD=torch.ones_like(layer.values_HKD)) for layer in history.cache.layers)
    selection = selector.select(replace(history, cache=replace(history.cache, layers=layers)), question, 10)
    rows = torch.stack(selection.values_LHND)[..., 0].reshape(4, -1)
    assert all(not torch.equal(rows[i], rows[j]) for i in range(4) for j in range(i))
    # 4 x 1799 fair coins: five standard deviations
    assert abs(selection.notes["merge_rate"] - 0.5) < 5 * 0.5 / (4 * 1799) ** 0.5


def test_protected_values_and_the_cache_itself_are_untouched(make_history, question) -> None:
    selector = CaM(window=8, merge_window=4, sinks="history")
    history = make_history(100, needs=selector.needs, dtype=torch.bfloat16)
    before = [layer.values_HKD.clone() for layer in history.cache.layers]
    selection = selector.select(history, question, 10)
    restricted = history.cache.restricted(selection)
    for layer, values, old, kept in zip(
        history.cache.layers, selection.values_LHND, before, restricted.layers, strict=True
    ):
        assert torch.equal(layer.values_HKD, old)
        assert values.dtype == torch.bfloat16 and values.shape == old.shape
        assert torch.equal(values[:, :3], old[:, :3]) and not torch.equal(values, old)
        expected = values.gather(1, kept.source_HK[..., None].expand(-1, -1, values.shape[-1]))
        assert torch.equal(kept.values_HKD, expected)
        assert torch.equal(kept.keys_HKD, layer.keys_HKD.gather(1, kept.source_HK[..., None].expand(-1, -1, 6)))


@pytest.mark.parametrize(("n_history", "start"), [(1, 1), (10, 1), (11, 2), (3000, 300), (115_001, 11_501)])
def test_the_start_is_an_integer_ceiling(n_history: int, start: int) -> None:
    assert CaM().start(n_history) == start
