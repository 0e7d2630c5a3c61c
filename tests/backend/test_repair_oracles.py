"""What repair must fulfil whatever the weights are, in float64 on every family.

Norms round to float32 inside, so routes that differ by 1e-16 before a norm are equal after it: ``EXACT`` is far above
what is left and far below any wrong state (those differ by more than 1e-3). GLM's router alone is a float32 product of
64 terms, whose order depends on the number of rows: 64 float32 roundings of a weight.
"""

from __future__ import annotations

import pytest
import torch
from edited_caches import N_TOKENS, SPAN, Deletion, largest, literal_refresh, shift, states, support
from tiny_models import make_tiny, token_ids

from kvrelay.backend.custom_gate import CustomGate
from kvrelay.backend.model import CausalModel
from kvrelay.backend.refresh import refreshed
from kvrelay.core.cache import KVCache
from kvrelay.core.edit import Edit
from kvrelay.core.repair import Executor
from kvrelay.repair.executors import Auto, Custom, Interval, Packed

EXACT, WRONG = 1e-10, 1e-3
ROUTER_EXACT = 64 * torch.finfo(torch.float32).eps
MOVE_BOUND = (5 * 2**0.5 + 2) * 2.0**-24
"""How far a float32 rotation may be from the exact one, relative to the pair's length (derived with core.rope)."""
EXECUTORS: tuple[Executor, ...] = (Interval(), Packed(), Auto(), Custom(experimental=True))
every_executor = pytest.mark.parametrize("executor", EXECUTORS, ids=lambda one: type(one).__name__)


@pytest.fixture
def deletion(tiny: CausalModel) -> Deletion:
    return Deletion(tiny)


def exact(model: CausalModel) -> float:
    return ROUTER_EXACT if model.module.config.model_type == "glm4_moe" else EXACT


def repair(deletion: Deletion, executor: Executor, slots: list[int] | tuple[int, ...]) -> KVCache:
    gate = CustomGate(deletion.model)
    done, n_refreshed = refreshed(deletion.model, deletion.shifted, executor.schedule(slots), deletion.edited_ids, gate)
    assert n_refreshed == len(slots)
    return done


@every_executor
def test_replay_is_re_prefill(deletion: Deletion, executor: Executor) -> None:
    assert largest(deletion.shifted, deletion.clean, deletion.suffix) > WRONG
    assert largest(repair(deletion, executor, deletion.suffix), deletion.clean) <= exact(deletion.model)


def test_the_shift_gives_clean_keys_at_layer_0_and_leaves_every_value_alone(deletion: Deletion) -> None:
    """Layer 0 sees tokens and positions only, so there the shift must give what a fresh pass gives."""
    first, clean = deletion.shifted.layers[0], deletion.clean.layers[0]
    assert (
        float((first.keys_HKD - clean.keys_HKD).abs().max()) <= MOVE_BOUND * float(clean.keys_HKD.abs().max()) * 2**0.5
    )
    kept = deletion.edit.kept(len(deletion.ids))
    for old, new in zip(deletion.dirty.layers, deletion.shifted.layers, strict=True):
        assert torch.equal(old.values_HKD[:, kept], new.values_HKD)
        assert torch.equal(old.keys_HKD[:, : deletion.splice], new.keys_HKD[:, : deletion.splice])
    assert float((first.values_HKD - clean.values_HKD).abs().max()) <= EXACT  # products of other shapes
    assert largest(deletion.shifted, deletion.clean, deletion.suffix) > WRONG  # deeper layers stay stale


@every_executor
def test_only_the_chosen_states_change(deletion: Deletion, executor: Executor) -> None:
    slots = support(deletion, 9)
    before = states(deletion.shifted).clone()
    after = repair(deletion, executor, slots)
    others = [slot for slot in range(deletion.end) if slot not in slots]
    assert torch.equal(states(after, others), states(deletion.shifted, others))
    assert torch.equal(states(deletion.shifted), before)  # the given cache is read only
    changed = (states(after, slots) - states(deletion.shifted, slots)).abs().amax((0, 1, 2, 4))
    assert bool((changed > WRONG).all())
    assert (after.next_position, after.master) == (deletion.shifted.next_position, deletion.shifted.master)


@pytest.mark.parametrize("n_intervals", [1, 2, 3, 7, 16, 28])
def test_packed_is_interval_and_both_are_the_literal_recurrence(deletion: Deletion, n_intervals: int) -> None:
    slots = support(deletion, n_intervals, seed=n_intervals)
    packed, one_by_one = repair(deletion, Packed(), slots), repair(deletion, Interval(), slots)
    assert largest(packed, one_by_one) <= exact(deletion.model)
    literal = literal_refresh(deletion.model, deletion.shifted, slots, deletion.edited_ids)
    assert largest(packed, literal) <= exact(deletion.model)


@pytest.mark.parametrize("n_intervals", range(1, 41))
def test_packed_is_interval_for_one_to_forty_intervals(n_intervals: int) -> None:
    model, _ = make_tiny("qwen3")
    deletion = Deletion(model, n_tokens=210)
    slots = support(deletion, n_intervals, seed=100 + n_intervals)
    assert largest(repair(deletion, Packed(), slots), repair(deletion, Interval(), slots)) <= exact(deletion.model)
    assert largest(repair(deletion, Custom(experimental=True), slots), repair(deletion, Interval(), slots)) <= exact(
        deletion.model
    )


@every_executor
def test_a_window_at_the_splice_is_exact_and_one_further_on_is_not(deletion: Deletion, executor: Executor) -> None:
    """Only a token whose predecessors are all exact becomes exact (KVLink's port put clean states in and hid this)."""
    at_splice = deletion.suffix[:30]
    assert largest(repair(deletion, executor, at_splice), deletion.clean, at_splice) <= exact(deletion.model)
    further = deletion.suffix[40:70]
    assert largest(repair(deletion, executor, further), deletion.clean, further) > WRONG


@every_executor
@pytest.mark.parametrize("n_states", [1, 31, 32, 33, 115])
def test_any_number_of_states_is_refreshed_exactly(deletion: Deletion, executor: Executor, n_states: int) -> None:
    """Block sizes of others' kernels failed or gave NaN around 32 (LMCache 2791, 3092)."""
    slots = [deletion.suffix[place * 115 // n_states] for place in range(n_states)]
    done = repair(deletion, executor, slots)
    assert bool(states(done).isfinite().all())
    assert largest(done, literal_refresh(deletion.model, deletion.shifted, slots, deletion.edited_ids)) <= exact(
        deletion.model
    )


@every_executor
def test_no_state_writes_nothing(deletion: Deletion, executor: Executor) -> None:
    assert executor.schedule(()) == ()
    assert repair(deletion, executor, ()) is deletion.shifted


@every_executor
def test_nothing_after_a_token_reaches_it(deletion: Deletion, executor: Executor) -> None:
    """Future keys were visible in others' sparse passes (LMCache 1152, LMCache-Ascend 14)."""
    slots = [slot for slot in support(deletion, 7) if slot < deletion.end - 30]
    done = repair(deletion, executor, slots)
    later = range(slots[-1] + 1, deletion.end)
    for layer in deletion.shifted.layers:
        layer.keys_HKD[:, later] += 50.0
        layer.values_HKD[:, later] -= 50.0
    deletion.edited_ids[slots[-1] + 1 :] = token_ids(len(later), seed=3)
    assert torch.equal(states(repair(deletion, executor, slots), slots), states(done, slots))
    between = next(slot for slot in deletion.suffix if slot not in slots and slots[0] < slot < slots[-1])
    for layer in deletion.shifted.layers:
        layer.values_HKD[:, between] += 50.0
    moved = repair(deletion, executor, slots)
    before, after = [s for s in slots if s < between], [s for s in slots if s > between]
    assert torch.equal(states(moved, before)[1:], states(done, before)[1:])
    assert largest(moved, done, after) > WRONG


def test_two_deletions_in_original_coordinates_are_one_edit(tiny: CausalModel) -> None:
    """After a shift, a later removal must not use coordinates from before it (llama.cpp 12160)."""
    both = Deletion(tiny, spans=[SPAN, (70, 90)])
    first = Edit.of_tokens([SPAN], len(both.ids))
    second = Edit.of_tokens([(70 - 25, 90 - 25)], len(both.ids) - 25)
    short = both.dirty.edited(first, len(both.ids))
    one_by_one = shift(short, second, len(both.ids) - 25)
    assert torch.equal(states(one_by_one), states(both.shifted))
    assert largest(repair(both, Packed(), both.suffix), both.clean) <= exact(tiny)
    untouched = range(SPAN[0], 70 - 25)
    window = repair(both, Packed(), list(untouched))
    assert largest(window, both.clean, list(untouched)) <= exact(tiny)


def test_twenty_deletions_drift_no_more_than_one(tiny: CausalModel) -> None:
    """Keys are rotated once, from the master copy, however many edits there were (llama.cpp 3825, 4097)."""
    many = Deletion(tiny, spans=[(start, start + 3) for start in range(20, 140, 6)])
    assert len(many.edit.spans) == 20
    first, clean = many.shifted.layers[0], many.clean.layers[0]
    assert (
        float((first.keys_HKD - clean.keys_HKD).abs().max()) <= MOVE_BOUND * float(clean.keys_HKD.abs().max()) * 2**0.5
    )
    assert many.shifted.layers[0].coordinate_HK[0].tolist() == list(range(many.end))
    assert largest(repair(many, Packed(), many.suffix), many.clean) <= exact(tiny)


def test_a_deletion_at_the_very_start_leaves_no_prefix(tiny: CausalModel) -> None:
    whole = Deletion(tiny, spans=[(0, 12)])
    assert whole.splice == 0
    assert largest(repair(whole, Packed(), whole.suffix), whole.clean) <= exact(tiny)
    assert largest(repair(whole, Interval(), whole.suffix), whole.clean) <= exact(tiny)


def test_a_repaired_context_is_edited_again_and_every_key_still_turns_once(tiny: CausalModel) -> None:
    """After Replay it is as if the once-edited text had been read afresh; after less, layer 0 still is."""
    deletion, later = Deletion(tiny), Edit.of_tokens([(60, 72)], N_TOKENS - (SPAN[1] - SPAN[0]))
    master = deletion.dirty.edited(deletion.edit, N_TOKENS)
    replayed = master.adopting(repair(deletion, Packed(), deletion.suffix), deletion.suffix)
    again, afresh = (shift(one, later, deletion.end) for one in (replayed, deletion.clean))
    assert again.next_position == afresh.next_position == deletion.end - 12
    assert largest(again, afresh, range(again.next_position)) <= exact(tiny)

    some = support(deletion, 7, 30)
    partly = shift(master.adopting(repair(deletion, Packed(), some), some), later, deletion.end)
    first, clean = partly.layers[0].keys_HKD, afresh.layers[0].keys_HKD
    assert float((first - clean).abs().max()) <= 2 * MOVE_BOUND * float(clean.abs().max()) * 2**0.5
    assert master.layers[0].coordinate_HK[0].tolist() == deletion.edit.kept(N_TOKENS), "the copy itself is unchanged"
