"""The oracles on a real model, in float32: what README and docs state comes from these numbers."""

from __future__ import annotations

import pytest
import torch
from tiny_models import keep_all, ragged_selection

from kvrelay.backend.decode import Asked, answer_rows, batched_cache
from kvrelay.backend.gate import check_gate
from kvrelay.backend.load import conversion_folder
from kvrelay.backend.model import CausalModel
from kvrelay.backend.prefill import prefill
from kvrelay.backend.prompt import Prompt, PromptRenderer
from kvrelay.backend.reference import literal_logits
from kvrelay.core.cache import KVCache
from kvrelay.core.example import Example, Unit
from kvrelay.core.history import PrefilledHistory
from kvrelay.core.positions import Position, PositionPlan
from kvrelay.core.rope import RotaryTable
from kvrelay.core.selection import Selection, pack
from kvrelay.placement.original import Original
from kvrelay.placement.roperelay import RoPERelay

FACTS = ("dog", "Biscuit"), ("cat", "Marlow"), ("boat", "Heron"), ("bicycle", "Comet"), ("robot", "Dimple")


@pytest.fixture(scope="module")
def prompt(smollm2_renderer: PromptRenderer) -> Prompt:
    units = tuple(
        Unit(
            id=str(index),
            text=f"User: I have a {thing} and it is called {name}.\nAssistant: {name} is a fine name for a {thing}.\n",
            index_text=f"{thing} {name}",
        )
        for index, (thing, name) in enumerate(FACTS)
    )
    example = Example(
        id="e",
        cluster_id="e",
        units=units,
        question="What is my boat called?",
        question_prompt="\nQuestion: What is my boat called? Answer with its name.",
        references=("Heron",),
        question_type="fact",
        preamble="These are our earlier conversations.\n",
    )
    return smollm2_renderer.render(example)


@pytest.fixture(scope="module")
def prefilled(smollm2: CausalModel, prompt: Prompt) -> PrefilledHistory:
    return prefill(smollm2, smollm2.row(prompt.prefilled_ids), prompt.text, "h", ())


@pytest.fixture(scope="module")
def noise(smollm2: CausalModel) -> dict[str, float]:
    """The gate's derived bounds (root mean square); a largest difference may be some ten times that."""
    return {check.name: 10 * check.bound for check in check_gate(smollm2)}


def ask(model: CausalModel, cache: KVCache, prompt: Prompt) -> torch.Tensor:
    ids = prompt.question.token_ids
    buffer, attend = batched_cache([cache], len(ids))
    positions = torch.arange(cache.next_position, cache.next_position + len(ids))[None]
    return model.logits(model.forward(model.row(ids), positions, buffer, attend)[0])


def place(prefilled: PrefilledHistory, selection: Selection, position: Position) -> KVCache:
    n_prefilled = prefilled.text.n_prefilled
    table = RotaryTable.of(prefilled.cache.rope, n_prefilled + 2048, "cpu")
    return prefilled.cache.restricted(selection).moved(position.place(selection, n_prefilled, "e"), table)


def largest(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one - other).abs().max())


def test_keep_all_roperelay_is_full_kv(
    smollm2: CausalModel, prefilled: PrefilledHistory, prompt: Prompt, noise: dict[str, float]
) -> None:
    full = ask(smollm2, prefilled.cache, prompt)
    kept = ask(smollm2, place(prefilled, keep_all(prefilled), RoPERelay()), prompt)
    print(f"keep-all RoPERelay against FullKV: {largest(kept, full):.3g}")
    assert largest(kept, full) <= noise["identity"]


def test_keep_all_moved_by_a_thousand_is_full_kv(
    smollm2: CausalModel, prefilled: PrefilledHistory, prompt: Prompt, noise: dict[str, float]
) -> None:
    cache = prefilled.cache
    plan = PositionPlan(
        coordinate_LHK=tuple(layer.coordinate_HK + 1000 for layer in cache.layers),
        next_position=cache.next_position + 1000,
    )
    moved = cache.moved(plan, RotaryTable.of(cache.rope, cache.next_position + 1001, "cpu"))
    full = ask(smollm2, cache, prompt)
    print(f"keep-all shifted by 1000 against FullKV: {largest(ask(smollm2, moved, prompt), full):.3g}")
    assert largest(ask(smollm2, moved, prompt), full) <= noise["translation invariance"]


def test_a_contiguous_suffix_is_alike_at_both_positions(
    smollm2: CausalModel, prefilled: PrefilledHistory, prompt: Prompt, noise: dict[str, float]
) -> None:
    """No protected states here: they would leave a gap, which RoPERelay closes and Original does not."""
    n_tokens, heads = prefilled.text.n_prefilled, prefilled.n_kv_heads
    keep = torch.zeros(heads, n_tokens, dtype=torch.bool)
    keep[:, -n_tokens // 2 :] = True
    layer = pack(keep, keep.float(), 0)
    selection = Selection(layers=(layer,) * prefilled.n_layers, protected=0, budget=n_tokens // 2)
    original = ask(smollm2, place(prefilled, selection, Original()), prompt)
    compact = ask(smollm2, place(prefilled, selection, RoPERelay()), prompt)
    print(f"contiguous suffix, RoPERelay against Original: {largest(original, compact):.3g}")
    assert largest(original, compact) <= noise["translation invariance"]


@pytest.mark.parametrize("position", [Original(), RoPERelay()], ids=lambda one: one.name)
def test_ragged_heads_are_as_the_literal_twin(
    smollm2: CausalModel, prefilled: PrefilledHistory, prompt: Prompt, noise: dict[str, float], position: Position
) -> None:
    placed = place(prefilled, ragged_selection(prefilled), position)
    literal = literal_logits(smollm2, placed, prompt.question.token_ids)
    print(f"ragged against literal, {position.name}: {largest(ask(smollm2, placed, prompt), literal):.3g}")
    assert largest(ask(smollm2, placed, prompt), literal) <= noise["identity"]


def test_the_model_answers_from_its_cache_and_batches_do_not_change_it(
    smollm2: CausalModel, smollm2_renderer: PromptRenderer, prefilled: PrefilledHistory, prompt: Prompt
) -> None:
    rows = [
        place(prefilled, ragged_selection(prefilled, seed, uniform=40), position)
        for seed in (1, 2)
        for position in (Original(), RoPERelay())
    ]
    rows = [prefilled.cache, *rows]
    asked = Asked(question_ids=prompt.question.token_ids, max_new_tokens=12)
    together = [answer.token_ids for answer in answer_rows(smollm2, rows, asked)]
    alone = [answer_rows(smollm2, [row], asked)[0].token_ids for row in rows]
    assert together == alone
    assert "Heron" in smollm2_renderer.text(together[0])


def test_the_same_weights_under_the_stock_attention_give_the_same_logits(
    smollm2: CausalModel, prefilled: PrefilledHistory, prompt: Prompt, noise: dict[str, float]
) -> None:
    from tiny_models import SMOLLM2
    from transformers import AutoModelForCausalLM

    stock = AutoModelForCausalLM.from_pretrained(conversion_folder(SMOLLM2), dtype=torch.float32)
    ids = torch.tensor([[*prompt.prefilled_ids, *prompt.question.token_ids]])
    with torch.inference_mode():
        whole = stock(ids).logits[0, -len(prompt.question.token_ids) :]
    ours = ask(smollm2, prefilled.cache, prompt)
    print(f"registered attention against stock SDPA: {largest(ours, whole):.3g}")
    assert largest(ours, whole) <= noise["identity"]
