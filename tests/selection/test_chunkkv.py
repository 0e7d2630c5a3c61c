"""ChunkKV against a float64 reference, and the known bugs of whole chunks."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from kvrelay.core.budget import Ratio
from kvrelay.selection.chunkkv import ChunkKV, chunk_means


def slow_kept(rows: list[list[float]], n_history: int, window: int, chunk: int, budget: int) -> list[int]:
    """Chunks of summed scores by rank, whole until one no longer fits; the window first."""
    n_scored = max(0, n_history - window)
    kept = list(range(n_scored, n_history))[-budget:]
    summed = [math.fsum(column) for column in zip(*rows, strict=True)] if n_scored else []
    chunks = [range(start, min(start + chunk, n_scored)) for start in range(0, n_scored, chunk)]
    means = [math.fsum(summed[t] for t in tokens) / len(tokens) for tokens in chunks]
    for index in sorted(range(len(chunks)), key=lambda c: (-means[c], c)):
        kept += list(chunks[index])[: budget - len(kept)]
    return sorted(kept)


@pytest.mark.parametrize("n_history", [1, 4, 30, 47, 53, 60])
@pytest.mark.parametrize("chunk", [1, 5, 10, 100])
@pytest.mark.parametrize(("n_query_heads", "n_kv_heads"), [(4, 2), (6, 2)])
def test_equals_the_slow_reference(
    make_history, question, kept_tokens, slow_window_scores, n_history, chunk, n_query_heads, n_kv_heads
) -> None:
    for window, kernel in [(7, 1), (7, 5), (64, 1)]:
        selector = ChunkKV(window=window, chunk=chunk, kernel=kernel, group="sum")
        history = make_history(
            n_history, needs=selector.needs, n_query_heads=n_query_heads, n_kv_heads=n_kv_heads, seed=chunk
        )
        for budget in {1, n_history // 3 or 1, max(1, n_history - 2), n_history}:
            kept = kept_tokens(selector.select(history, question, budget))
            for layer in range(2):
                mass = history.history_mass(selector.need, layer)[:, : max(0, n_history - window)]
                rows = slow_window_scores(mass, n_kv_heads, selector)
                assert kept[layer] == [slow_kept(rows, n_history, window, chunk, budget)] * n_kv_heads


def test_chunk_means_by_hand() -> None:
    assert chunk_means(torch.tensor([1.0, 3.0, 4.0, 4.0, 9.0]), 2).tolist() == [2.0, 2.0, 4.0, 4.0, 9.0]
    assert chunk_means(torch.tensor([1.0, 3.0, 4.0, 4.0]), 2).tolist() == [2.0, 2.0, 4.0, 4.0]
    assert chunk_means(torch.tensor([1.0, 2.0]), 10).tolist() == [1.5, 1.5]
    assert chunk_means(torch.tensor([]), 10).tolist() == []


def test_by_hand(make_history, question, kept_tokens) -> None:
    selector = ChunkKV(window=2, chunk=3)
    history = make_history(12, protected=1, n_layers=1, n_query_heads=2, n_kv_heads=2)
    # heads sum to chunks 3 3 3 | 9 0 0 | 5 5 5 | 4; chunks 0 and 1 tie at 3
    mass = torch.tensor([[99.0, 1, 1, 1, 9, 0, 0, 2, 2, 2, 4, 50, 50], [99.0, 2, 2, 2, 0, 0, 0, 3, 3, 3, 0, 50, 50]])
    history = replace(history, evidence={selector.need: (mass,)})
    expected = {2: [], 4: [6, 7], 5: [6, 7, 8], 6: [6, 7, 8, 9], 8: [0, 1, 6, 7, 8, 9], 9: [0, 1, 2, 6, 7, 8, 9]}
    for budget, scored in expected.items():
        assert kept_tokens(selector.select(history, question, budget)) == [[[*scored, 10, 11]] * 2]
    assert kept_tokens(selector.select(history, question, 1)) == [[[11]] * 2]


@pytest.mark.parametrize("n_history", [1000, 1990, 4000])
def test_the_budget_is_met_exactly(make_history, question, n_history) -> None:
    # kvpress#261, #263: 80, 170 and 380 of 100, 199 and 400 states were kept
    selector = ChunkKV(chunk=20)
    budget = Ratio(ratio=0.1).states(n_history)
    history = make_history(n_history, needs=selector.needs, n_layers=1)
    assert selector.select(history, question, budget).counts_LH() == [[3 + budget] * 2]


def test_heads_share_a_layers_chunks_and_layers_differ(make_history, question, kept_tokens) -> None:
    selector = ChunkKV(window=4)
    kept = kept_tokens(selector.select(make_history(100, needs=selector.needs), question, 24))
    assert kept[0][0] == kept[0][1] and kept[1][0] == kept[1][1]
    assert kept[0] != kept[1]


def test_the_question_as_observer_counts_chunks_to_the_end(make_history, question, kept_tokens) -> None:
    selector = ChunkKV(window=4, chunk=5, observe="question")
    history = make_history(12, protected=0, n_layers=1, n_query_heads=1, n_kv_heads=1)
    mass = torch.tensor([[0.0] * 10 + [3.0, 3.0]])
    history = replace(history, evidence={selector.need: (mass,)})
    assert kept_tokens(selector.select(history, question, 4)) == [[[0, 1, 10, 11]]]
