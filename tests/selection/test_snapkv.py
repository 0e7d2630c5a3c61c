"""SnapKV against a float64 reference, its windows, and the known bugs of window selectors."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch

from kvrelay.core.history import WindowMass
from kvrelay.selection.snapkv import SnapKV

SHAPES = [(50, 5, 20), (50, 5, 1), (50, 5, 5), (50, 5, 50), (50, 12, 8), (4, 8, 2), (9, 8, 9), (17, 8, 30)]
HEADS = [(4, 2), (6, 2), (2, 2), (4, 1)]


@pytest.mark.parametrize(("n_history", "window", "budget"), SHAPES)
@pytest.mark.parametrize(("n_query_heads", "n_kv_heads"), HEADS)
@pytest.mark.parametrize(
    ("pooling", "edges"), [("max", "padded"), ("mean", "padded"), ("mean", "real")], ids=["max", "padded", "real"]
)
def test_equals_the_slow_reference(
    make_history, question, kept_tokens, best, slow_window_scores,
    n_history, window, budget, n_query_heads, n_kv_heads, pooling, edges,
) -> None:  # fmt: skip
    for order, group in itertools.product(["group_then_pool", "pool_then_group"], ["mean", "max", "sum"]):
        selector = SnapKV(window=window, kernel=5, pooling=pooling, edges=edges, order=order, group=group)
        history = make_history(
            n_history, needs=selector.needs, n_query_heads=n_query_heads, n_kv_heads=n_kv_heads, seed=n_history
        )
        kept = kept_tokens(selector.select(history, question, budget))
        n_scored = max(0, n_history - window)
        for layer in range(history.n_layers):
            mass = history.history_mass(selector.need, layer)[:, :n_scored]
            expected = slow_window_scores(mass, n_kv_heads, selector)
            scores = selector.scores_HT(history, layer)
            assert scores.isnan().sum(-1).tolist() == [n_history - n_scored] * n_kv_heads
            assert scores[:, :n_scored].tolist() == expected
            forced = range(n_scored, n_history)
            rows = [row + [0.0] * len(forced) for row in expected]
            assert kept[layer] == [best(row, min(budget, n_history), forced) for row in rows]


def test_order_matters_for_max_pooling_alone(make_history) -> None:
    mass = torch.tensor([[8.0, 0.0, 0.0, 0.0], [0.0, 0.0, 8.0, 0.0]])
    shape = dict(n_query_heads=2, n_kv_heads=1, protected=0, n_layers=1)
    made = {}
    for pooling, order in itertools.product(["max", "mean"], ["group_then_pool", "pool_then_group"]):
        selector = SnapKV(window=1, kernel=3, pooling=pooling, order=order)
        history = replace(make_history(4, **shape), evidence={selector.need: (mass,)})
        made[pooling, order] = selector.scores_HT(history, 0)[0, :3].tolist()
    assert made["max", "group_then_pool"] == [4.0, 4.0, 4.0]
    assert made["max", "pool_then_group"] == [4.0, 8.0, 4.0]
    assert made["mean", "group_then_pool"] == pytest.approx(made["mean", "pool_then_group"])


def test_protected_and_window_mass_do_not_leak_into_history_scores(make_history) -> None:
    selector = SnapKV(window=2, kernel=3)
    mass = torch.tensor([[99.0, 1.0, 2.0, 3.0, 77.0, 88.0]])
    history = make_history(5, protected=1, n_layers=1, n_query_heads=1, n_kv_heads=1)
    history = replace(history, evidence={selector.need: (mass,)})
    assert selector.scores_HT(history, 0)[0, :3].tolist() == [2.0, 3.0, 3.0]


def test_the_question_as_observer_forces_nothing(make_history, question, kept_tokens, best) -> None:
    selector = SnapKV(window=8, kernel=1, observe="question")
    assert selector.question_aware and not SnapKV().question_aware
    assert selector.needs == {WindowMass(window=8, over="question")}
    history = make_history(20, needs=selector.needs, n_query_heads=2)
    kept = kept_tokens(selector.select(history, question, 6))
    for layer in range(2):
        rows = history.history_mass(selector.need, layer).tolist()
        assert kept[layer] == [best(row, 6) for row in rows]


def test_kept_entries_ascend(make_history, question) -> None:
    # kvpress#173: top-k output came in score order
    selector = SnapKV()
    selection = selector.select(make_history(100, needs=selector.needs), question, 50)
    assert all(bool((layer.source_HK.diff(dim=-1) > 0).all()) for layer in selection.layers)


def test_the_window_survives_equal_scores_in_bf16(make_history, question, kept_tokens) -> None:
    # kvpress#226, #227: a sentinel of max + 1 is 300 again in bf16 and ties with the best scores
    selector = SnapKV(window=4, kernel=1)
    history = make_history(20, needs=selector.needs)
    mass = tuple(torch.full((4, 23), 300.0, dtype=torch.bfloat16) for _ in range(2))
    assert float(torch.tensor(300.0, dtype=torch.bfloat16) + 1) == 300.0
    kept = kept_tokens(selector.select(replace(history, evidence={selector.need: mass}), question, 6))
    assert kept == [[[0, 1, 16, 17, 18, 19]] * 2] * 2


def test_ties_go_to_the_earlier_token(make_history, question, kept_tokens) -> None:
    selector = SnapKV(window=1, kernel=1)
    history = make_history(8, needs=selector.needs, protected=0, n_layers=1, n_query_heads=1, n_kv_heads=1)
    mass = torch.tensor([[0.0, 2.0, 1.0, 2.0, 2.0, 1.0, 2.0, 9.0]])
    kept = kept_tokens(selector.select(replace(history, evidence={selector.need: (mass,)}), question, 4))
    assert kept == [[[1, 3, 4, 7]]]


def test_the_selection_is_at_kv_head_granularity(make_history, question) -> None:
    # FasterDecoding/SnapKV#22: caches at query-head granularity hold G copies
    selector = SnapKV()
    selection = selector.select(make_history(64, needs=selector.needs, n_query_heads=6, n_kv_heads=2), question, 40)
    assert {layer.source_HK.shape for layer in selection.layers} == {(2, 43)}


def test_selected_scores_stand_beside_their_tokens(make_history, question) -> None:
    selector = SnapKV(window=5)
    history = make_history(40, needs=selector.needs)
    selection = selector.select(history, question, 12)
    for index, layer in enumerate(selection.layers):
        scores = selector.scores_HT(history, index)
        expected = scores.gather(1, layer.source_HK[:, 3:] - 3)
        torch.testing.assert_close(layer.score_HK[:, 3:], expected, rtol=0, atol=0, equal_nan=True)
        assert layer.score_HK[:, :3].isnan().all()
