"""Streamed evidence against the whole attention matrix in float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tiny_models import FAMILIES, make_tiny, token_ids

from kvrelay.backend.prefill import observe_question
from kvrelay.backend.recorders import summed_attention
from kvrelay.core.history import ColumnMass, Question, WindowMass


def literal_mass(query: torch.Tensor, key: torch.Tensor, scaling: float) -> torch.Tensor:
    """Column sums of the causal attention matrix of the last Q of K tokens: (Hq, K) float64."""
    heads, n_queries, _ = query.shape
    group, n_keys = heads // key.shape[0], key.shape[1]
    out = torch.zeros(heads, n_keys, dtype=torch.float64)
    for head in range(heads):
        for row in range(n_queries):
            seen = n_keys - n_queries + row + 1
            scores = key[head // group, :seen].double() @ query[head, row].double() * scaling
            out[head, :seen] += scores.softmax(0)
    return out


@pytest.mark.parametrize("rows", [1, 7, 64])
@pytest.mark.parametrize("n_queries", [1, 5, 61])
def test_column_sums_do_not_depend_on_the_block_size(rows: int, n_queries: int) -> None:
    generator = torch.Generator().manual_seed(0)
    query, key = torch.randn(4, n_queries, 8, generator=generator), torch.randn(2, 61, 8, generator=generator)
    found = summed_attention(query, key, 0.3, block_bytes=rows * 4 * 2 * 61)
    # Each weight is right to a few float32 roundings; a column sums n_queries of them.
    allowed = 16 * torch.finfo(torch.float32).eps * n_queries
    assert float((found.double() - literal_mass(query, key, 0.3)).abs().max()) <= allowed


def test_bf16_states_are_weighed_in_float32() -> None:
    """bf16 has 8 bits of mantissa: sums of bf16 weights over 500 rows would be off by far more than 1e-4."""
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(4, 500, 16, generator=generator).bfloat16()
    key = torch.randn(2, 500, 16, generator=generator).bfloat16()
    found = summed_attention(query, key, 0.25)
    literal = literal_mass(query, key, 0.25)
    assert float(((found.double() - literal) / literal).abs().max()) < 1e-4


def test_known_four_by_four_matrix_is_causal() -> None:
    """KVCache-Factory#49: only the last window was causal. Equal scores: row i gives 1/(i+1) to each of its keys."""
    found = summed_attention(torch.zeros(1, 4, 2), torch.randn(1, 4, 2), 1.0)[0]
    wanted = [1 + 1 / 2 + 1 / 3 + 1 / 4, 1 / 2 + 1 / 3 + 1 / 4, 1 / 3 + 1 / 4, 1 / 4]
    assert found.tolist() == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_prefill_records_what_the_stock_model_attends_to(name: str, read: Any) -> None:
    model, stock = make_tiny(name)
    ids = token_ids(30)
    needs = (WindowMass(window=4), WindowMass(window=99), ColumnMass())
    prefilled = read(model, ids, protected=3, needs=needs)
    with torch.inference_mode():
        attentions = stock(torch.tensor([ids]), output_attentions=True).attentions
    for layer, weights in enumerate(attentions):
        whole = weights[0].double()
        # transformers takes the softmax of a float64 model in float32.
        allowed = 30 * 16 * torch.finfo(torch.float32).eps
        wanted = {needs[0]: whole[:, -4:].sum(1), needs[1]: whole[:, -27:].sum(1), needs[2]: whole.sum(1)}
        for need, mass in wanted.items():
            assert float((prefilled.evidence[need][layer] - mass).abs().max()) <= allowed


def test_recording_changes_no_state(read: Any) -> None:
    model, _ = make_tiny("llama")
    plain, watched = read(model, token_ids(30)), read(model, token_ids(30), needs=(ColumnMass(), WindowMass(window=4)))
    for one, other in zip(plain.cache.layers, watched.cache.layers, strict=True):
        assert torch.equal(one.keys_HKD, other.keys_HKD) and torch.equal(one.values_HKD, other.values_HKD)


def test_a_question_that_is_observed_attends_to_the_history_as_in_one_pass(read: Any) -> None:
    model, stock = make_tiny("qwen2")
    history, question = token_ids(30), token_ids(6, seed=5)
    prefilled = read(model, history)
    need = WindowMass(window=8, over="question")
    seen = observe_question(model, prefilled, Question(text="q", token_ids=tuple(question)), [need])
    with torch.inference_mode():
        attentions = stock(torch.tensor([history + question]), output_attentions=True).attentions
    for layer, weights in enumerate(attentions):
        wanted = weights[0, :, -6:, :30].sum(1).double()
        assert float((seen.evidence[need][layer] - wanted).abs().max()) <= 6 * 16 * torch.finfo(torch.float32).eps


def test_evidence_is_fresh_for_each_history(read: Any) -> None:
    """FMInference/H2O#31: scores of the sample before must not linger."""
    model, _ = make_tiny("llama")
    first = read(model, token_ids(30, seed=1), needs=(ColumnMass(),)).evidence[ColumnMass()]
    read(model, token_ids(50, seed=2), needs=(ColumnMass(),))
    again = read(model, token_ids(30, seed=1), needs=(ColumnMass(),)).evidence[ColumnMass()]
    assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))
