"""H2O against a float64 reference, its split, and the known bugs of accumulated attention."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from kvrelay.core.budget import Ratio
from kvrelay.core.history import ColumnMass
from kvrelay.selection.h2o import H2O


@pytest.mark.parametrize("n_history", [1, 7, 40])
@pytest.mark.parametrize(("n_query_heads", "n_kv_heads"), [(4, 2), (6, 2), (2, 2)])
@pytest.mark.parametrize("group", ["mean", "max", "sum"])
@pytest.mark.parametrize("normalise", ["none", "visible_queries"])
def test_equals_the_slow_reference(
    make_history, question, kept_tokens, best, n_history, n_query_heads, n_kv_heads, group, normalise
) -> None:
    selector = H2O(group=group, normalise=normalise, heavy_share=0.3)
    history = make_history(n_history, needs=selector.needs, n_query_heads=n_query_heads, n_kv_heads=n_kv_heads)
    reduce = {"mean": lambda v: sum(v) / len(v), "max": max, "sum": sum}[group]
    size = n_query_heads // n_kv_heads
    for layer in range(2):
        mass = history.history_mass(ColumnMass(), layer).double().tolist()
        heads = [mass[h * size : (h + 1) * size] for h in range(n_kv_heads)]
        visible = [n_history - t if normalise == "visible_queries" else 1 for t in range(n_history)]
        expected = [[reduce([row[t] for row in head]) / visible[t] for t in range(n_history)] for head in heads]
        scores = selector.scores_HT(history, layer).double()
        # the grouped sums are exact; one division by the visible queries rounds, by half an ulp of float32
        torch.testing.assert_close(scores, torch.tensor(expected).double(), rtol=2**-24, atol=0)
        for budget in {1, n_history // 2 or 1, n_history}:
            n_recent = budget - (budget * 3) // 10
            kept = kept_tokens(selector.select(history, question, budget))[layer]
            recent = range(n_history - n_recent, n_history)
            assert kept == [best(row, budget, recent) for row in expected]


def test_column_sums_of_a_known_causal_attention(make_history, question, kept_tokens) -> None:
    # KVCache-Factory#49, #24: scores from a non-causal block, or from the window's queries alone
    attention = torch.tensor(
        [[1.0, 0.0, 0.0, 0.0], [0.25, 0.75, 0.0, 0.0], [0.5, 0.0, 0.5, 0.0], [0.25, 0.5, 0.125, 0.125]]
    )
    history = make_history(4, protected=0, n_layers=1, n_query_heads=1, n_kv_heads=1)
    history = replace(history, evidence={ColumnMass(): (attention.sum(0)[None],)})
    assert H2O().scores_HT(history, 0).tolist() == [[2.0, 1.25, 0.625, 0.125]]
    fair = H2O(normalise="visible_queries").scores_HT(history, 0)
    assert fair.tolist() == [[0.5, pytest.approx(1.25 / 3), 0.3125, 0.125]]
    assert kept_tokens(H2O().select(history, question, 2)) == [[[0, 3]]]
    assert kept_tokens(H2O(heavy_share=1.0).select(history, question, 2)) == [[[0, 1]]]


def test_the_visible_queries_of_a_token_are_those_from_it_on(make_history) -> None:
    # with uniform attention rows 1 / (n + 1), over protected tokens too, every sum divides by the same N - n
    n = 9
    rows = torch.tril(torch.ones(n, n, dtype=torch.float64))
    history = make_history(6, protected=3, n_layers=1, n_query_heads=1, n_kv_heads=1)
    history = replace(history, evidence={ColumnMass(): (rows.sum(0)[None].float(),)})
    assert H2O(normalise="visible_queries").scores_HT(history, 0).tolist() == [[1.0] * 6]


@pytest.mark.parametrize(
    ("share", "budget", "recent"), [(0.5, 10, 5), (0.5, 1, 1), (0.5, 7, 4), (0.0, 4, 4), (1.0, 4, 0)]
)
def test_the_split(share: float, budget: int, recent: int) -> None:
    assert H2O(heavy_share=share).recent(budget) == recent


def test_the_split_is_integer_arithmetic() -> None:
    assert H2O(heavy_share=0.29).recent(100) == 71  # int(100 * 0.29) is 28


def test_a_fixed_number_of_recent_states(make_history, question, kept_tokens) -> None:
    assert [H2O(recent_states=8).recent(budget) for budget in (5, 8, 100)] == [5, 8, 8]
    selector = H2O(recent_states=3)
    history = make_history(20, needs=selector.needs)
    kept = kept_tokens(selector.select(history, question, 5))
    assert all(head[-3:] == [17, 18, 19] and head[1] < 17 for layer in kept for head in layer)


def test_samples_do_not_leak_into_each_other(make_history, question) -> None:
    # FMInference/H2O#31: scores stayed in the module; KVCache-Factory#46, #25: later samples differed
    selector = H2O()
    short, long = make_history(30, needs=selector.needs), make_history(90, needs=selector.needs, seed=1)
    first = selector.select(short, question, 6).digest()
    selector.select(long, question, 9)
    assert selector.select(short, question, 6).digest() == first


def test_ten_per_cent_of_a_thousand(make_history, question) -> None:
    # int(1000 * (1 - 0.9)) is 99
    selector = H2O()
    history = make_history(1000, needs=selector.needs, n_layers=1)
    selection = selector.select(history, question, Ratio(ratio=0.1).states(1000))
    assert selection.counts_LH() == [[103, 103]]
