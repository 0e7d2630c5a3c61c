"""What must hold exactly whatever the weights are: identity, translation, suffix, ragged = literal, causality.

Float64 models carry float32 rotary factors and float32 norms (transformers casts both), so equal routes agree to
float32 rounding of the norms: ``CLOSE`` is 2^-23 times the logits' size times a few operations; measured below it.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tiny_models import keep_all, ragged_selection, token_ids

from kvrelay.backend.decode import Asked, answer_rows, batched_cache
from kvrelay.backend.model import CausalModel
from kvrelay.backend.reference import literal_logits
from kvrelay.core.cache import KVCache
from kvrelay.core.positions import Position, PositionPlan
from kvrelay.core.rope import RotaryTable
from kvrelay.core.selection import Selection, pack
from kvrelay.placement.original import Original
from kvrelay.placement.roperelay import RoPERelay

CLOSE = 32 * torch.finfo(torch.float32).eps


def ask(model: CausalModel, cache: KVCache, ids: list[int]) -> torch.Tensor:
    """Logits (Q, vocabulary) of a question read in one pass."""
    buffer, attend = batched_cache([cache], len(ids))
    positions = torch.arange(cache.next_position, cache.next_position + len(ids))[None]
    return model.logits(model.forward(model.row(ids), positions, buffer, attend)[0])


def place(cache: KVCache, selection: Selection, position: Position, n_prefilled: int) -> KVCache:
    table = RotaryTable.of(cache.rope, n_prefilled + 4096, "cpu")
    return cache.restricted(selection).moved(position.place(selection, n_prefilled, "e"), table)


def assert_close(one: torch.Tensor, other: torch.Tensor) -> None:
    scale = float(other.abs().max())
    assert float((one - other).abs().max()) <= CLOSE * scale


@pytest.fixture
def question() -> list[int]:
    return token_ids(7, seed=9)


@pytest.mark.parametrize("position", [Original(), RoPERelay()], ids=lambda one: one.name)
def test_keeping_all_gives_the_logits_of_one_stock_pass(
    tiny_pair: tuple[CausalModel, Any], read: Any, question: list[int], position: Position
) -> None:
    model, stock = tiny_pair
    history = token_ids(40)
    prefilled = read(model, history)
    placed = place(prefilled.cache, keep_all(prefilled), position, 40)
    with torch.inference_mode():
        whole = stock(torch.tensor([history + question])).logits[0, -len(question) :]
    assert_close(ask(model, placed, question), whole)


def test_moving_everything_by_a_thousand_changes_nothing(tiny: CausalModel, read: Any, question: list[int]) -> None:
    cache = read(tiny, token_ids(40)).cache
    plan = PositionPlan(coordinate_LHK=tuple(layer.coordinate_HK + 1000 for layer in cache.layers), next_position=1040)
    moved = cache.moved(plan, RotaryTable.of(cache.rope, 2000, "cpu"))
    # The model rounds angles p w in float32: at p = 1040 that is an error of up to 2^-24 * 1040 radians.
    allowed = 8 * 1040 * torch.finfo(torch.float32).eps
    one, other = ask(tiny, moved, question), ask(tiny, cache, question)
    assert float((one - other).abs().max()) <= allowed * float(other.abs().max())


def test_a_contiguous_suffix_answers_alike_at_original_and_compact_positions(
    tiny: CausalModel, read: Any, question: list[int]
) -> None:
    prefilled = read(tiny, token_ids(40), protected=0)
    keep = torch.zeros(prefilled.n_kv_heads, 40, dtype=torch.bool)
    keep[:, -12:] = True
    layer = pack(keep, keep.float(), 0)
    selection = Selection(layers=(layer,) * prefilled.n_layers, protected=0, budget=12)
    original = ask(tiny, place(prefilled.cache, selection, Original(), 40), question)
    compact = ask(tiny, place(prefilled.cache, selection, RoPERelay(), 40), question)
    allowed = 8 * 47 * torch.finfo(torch.float32).eps
    assert float((original - compact).abs().max()) <= allowed * float(original.abs().max())


@pytest.mark.parametrize("position", [Original(), RoPERelay()], ids=lambda one: one.name)
def test_ragged_heads_answer_as_the_literal_twin_does(
    tiny: CausalModel, read: Any, question: list[int], position: Position
) -> None:
    """AdaKV's and PyramidKV's case: unequal layers and heads, a question of several tokens, states moved forward."""
    prefilled = read(tiny, token_ids(40))
    placed = place(prefilled.cache, ragged_selection(prefilled), position, 40)
    assert_close(ask(tiny, placed, question), literal_logits(tiny, placed, question))


def test_later_question_tokens_do_not_reach_earlier_ones(tiny: CausalModel, read: Any, question: list[int]) -> None:
    prefilled = read(tiny, token_ids(40))
    placed = place(prefilled.cache, ragged_selection(prefilled), RoPERelay(), 40)
    changed = [*question[:-1], (question[-1] + 1) % 96]
    one, other = ask(tiny, placed, question), ask(tiny, placed, changed)
    assert torch.equal(one[:-1], other[:-1])
    assert not torch.equal(one[-1], other[-1])


def test_garbage_in_padding_changes_no_bit(tiny: CausalModel, read: Any, question: list[int]) -> None:
    from dataclasses import replace

    prefilled = read(tiny, token_ids(40))
    placed = place(prefilled.cache, ragged_selection(prefilled), RoPERelay(), 40)
    dirty = replace(
        placed,
        layers=tuple(
            replace(
                layer,
                keys_HKD=torch.where(layer.valid_HK[..., None], layer.keys_HKD, 1e4),
                values_HKD=torch.where(layer.valid_HK[..., None], layer.values_HKD, -1e4),
            )
            for layer in placed.layers
        ),
    )
    assert any(not bool(layer.valid_HK.all()) for layer in placed.layers)
    assert torch.equal(ask(tiny, dirty, question), ask(tiny, placed, question))


def test_a_batch_of_unequal_rows_answers_as_each_row_alone(tiny: CausalModel, read: Any, question: list[int]) -> None:
    prefilled = read(tiny, token_ids(40))
    rows = [
        place(prefilled.cache, ragged_selection(prefilled, seed), position, 40)
        for seed in (1, 2)
        for position in (Original(), RoPERelay())
    ] + [prefilled.cache]
    asked = Asked(question_ids=tuple(question), max_new_tokens=6, reference_ids=(5, 6, 7), option_ids=((3, 4), (3, 9)))
    together = answer_rows(tiny, rows, asked)
    alone = [answer_rows(tiny, [row], asked)[0] for row in rows]
    for one, other in zip(together, alone, strict=True):
        assert one.token_ids == other.token_ids
        assert one.stopped_by_eos == other.stopped_by_eos
        assert_close(one.first_logits, other.first_logits)
        assert one.reference_nll == pytest.approx(other.reference_nll, rel=CLOSE)
        assert one.option_logprobs == pytest.approx(other.option_logprobs, rel=CLOSE)


def test_scores_beside_the_answer_do_not_change_it_and_are_right(
    tiny_pair: tuple[CausalModel, Any], read: Any, question: list[int]
) -> None:
    model, stock = tiny_pair
    history = token_ids(40)
    cache = read(model, history).cache
    plain = Asked(question_ids=tuple(question), max_new_tokens=6)
    scored = Asked(question_ids=tuple(question), max_new_tokens=6, reference_ids=(5, 6, 7), option_ids=((3, 4), (3, 9)))
    one, other = answer_rows(model, [cache], plain)[0], answer_rows(model, [cache], scored)[0]
    assert one.token_ids == other.token_ids
    with torch.inference_mode():
        log_p = stock(torch.tensor([history + question + [5, 6, 7]])).logits[0].log_softmax(-1)
        options = stock(torch.tensor([history + question + [3]])).logits[0, -1].log_softmax(-1)
    start = len(history) + len(question) - 1
    nll = -sum(float(log_p[start + step, token]) for step, token in enumerate((5, 6, 7))) / 3
    assert other.reference_nll == pytest.approx(nll, rel=CLOSE)
    assert other.option_logprobs == pytest.approx([float(options[4]), float(options[9])], rel=CLOSE)


def test_greedy_answers_are_those_of_generate(
    tiny_pair: tuple[CausalModel, Any], read: Any, question: list[int]
) -> None:
    model, stock = tiny_pair
    history = token_ids(40)
    with torch.inference_mode():
        whole = stock.generate(torch.tensor([history + question]), max_new_tokens=8, do_sample=False)
    wanted = whole[0, len(history) + len(question) :].tolist()
    wanted = wanted[: wanted.index(96)] if 96 in wanted else wanted
    asked = Asked(question_ids=tuple(question), max_new_tokens=8)
    assert list(answer_rows(model, [read(model, history).cache], asked)[0].token_ids) == wanted


def test_the_order_of_questions_does_not_matter(tiny: CausalModel, read: Any, question: list[int]) -> None:
    prefilled = read(tiny, token_ids(40))
    before = [layer.keys_HKD.clone() for layer in prefilled.cache.layers]
    first = Asked(question_ids=tuple(token_ids(11, seed=3)), max_new_tokens=5)
    second = Asked(question_ids=tuple(question), max_new_tokens=5)
    alone = answer_rows(tiny, [prefilled.cache], second)[0]
    answer_rows(tiny, [prefilled.cache], first)
    after = answer_rows(tiny, [prefilled.cache], second)[0]
    assert torch.equal(alone.first_logits, after.first_logits)
    assert all(torch.equal(one, layer.keys_HKD) for one, layer in zip(before, prefilled.cache.layers, strict=True))


def test_arms_of_a_pair_share_values_and_differ_in_moved_keys_only(tiny: CausalModel, read: Any) -> None:
    prefilled = read(tiny, token_ids(40))
    selection = ragged_selection(prefilled)
    kept = prefilled.cache.restricted(selection)
    table = RotaryTable.of(kept.rope, 64, "cpu")
    plan = RoPERelay().place(selection, 40, "e")
    moved = kept.moved(plan, table)
    assert moved.content_digest() == kept.content_digest()
    for layer, before, target in zip(moved.layers, kept.layers, plan.coordinate_LHK, strict=True):
        still = (before.coordinate_HK == target) | ~before.valid_HK
        assert torch.equal(layer.keys_HKD[still], before.keys_HKD[still])
        assert not torch.equal(layer.keys_HKD[~still], before.keys_HKD[~still])
        assert torch.equal(layer.values_HKD, before.values_HKD)


def test_stopping_at_the_limit_and_at_the_end_token_are_told_apart(tiny: CausalModel, read: Any) -> None:
    from dataclasses import replace

    cache = read(tiny, token_ids(40)).cache
    asked = Asked(question_ids=(1, 2, 3), max_new_tokens=3)
    answer = answer_rows(tiny, [cache], asked)[0]
    assert len(answer.token_ids) == 3 and not answer.stopped_by_eos
    ending = replace(tiny, eos_ids=(answer.token_ids[1],))
    cut = answer_rows(ending, [cache], asked)[0]
    if answer.token_ids[0] == answer.token_ids[1]:
        assert cut.token_ids == ()
    else:
        assert cut.token_ids == answer.token_ids[:1]
    assert cut.stopped_by_eos


def test_whole_options_are_scored_by_the_mean_over_their_tokens(
    tiny_pair: tuple[CausalModel, Any], read: Any, question: list[int]
) -> None:
    model, stock = tiny_pair
    history, options = token_ids(40), ((3, 4, 8), (3,), (7, 2))
    asked = Asked(question_ids=tuple(question), max_new_tokens=0, option_ids=options, whole_options=True)
    answer = answer_rows(model, [read(model, history).cache], asked)[0]
    assert answer.token_ids == ()
    start = len(history) + len(question) - 1
    for option, found in zip(options, answer.option_logprobs, strict=True):
        with torch.inference_mode():
            log_p = stock(torch.tensor([history + question + list(option)])).logits[0].log_softmax(-1)
        wanted = sum(float(log_p[start + step, token]) for step, token in enumerate(option)) / len(option)
        assert found == pytest.approx(wanted, rel=CLOSE)
