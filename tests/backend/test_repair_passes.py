"""Passes over a working copy: what is written when, and what wrong masks, orders or caches would do."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from edited_caches import Deletion, largest, prefilled, states, support
from tiny_models import keep_all, make_tiny, ragged_selection, token_ids
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from kvrelay.backend.layers import RelayCache, SlotLayer
from kvrelay.backend.model import CausalModel
from kvrelay.backend.refresh import WorkingCache, refresh, refreshed, run_pass
from kvrelay.core.errors import EditError, InvariantError, PositionError
from kvrelay.core.positions import PositionPlan
from kvrelay.core.repair import Kernel, Traversal, intervals
from kvrelay.core.rope import RotaryTable
from kvrelay.repair.executors import Auto, Interval, Packed

CPU = torch.device("cpu")
WRONG = 1e-3


class _Wrong:
    """SDPA with a mask of rows and columns instead of positions: aligned at the bottom right or the top left."""

    def __init__(self, slots: tuple[int, ...], aligned: str) -> None:
        self.slots, self.aligned = slots, aligned

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Tensor:
        n_queries, n_keys = query.shape[2], key.shape[2]
        offset = n_keys - n_queries if self.aligned == "bottom right" else 0
        mask = torch.ones(n_queries, n_keys, dtype=torch.bool).tril(offset)
        return scaled_dot_product_attention(query, key, value, attn_mask=mask, enable_gqa=True, scale=scaling)


@pytest.mark.parametrize("aligned", ["bottom right", "top left"])
def test_a_mask_of_rows_is_found_out_on_scattered_slots(tiny: CausalModel, aligned: str) -> None:
    """Scattered queries under a bottom-right causal mask see future keys (LMCache 1152, CacheBlend 21)."""
    deletion = Deletion(tiny)
    slots = support(deletion, 8)
    right, _ = refreshed(tiny, deletion.shifted, Interval().schedule(slots), deletion.edited_ids)
    work = WorkingCache(deletion.shifted)
    run_pass(tiny, work, slots, deletion.edited_ids, _Wrong(slots, aligned))
    assert largest(work.cache(), right, slots) > WRONG


def test_intervals_must_be_run_in_ascending_order(tiny: CausalModel) -> None:
    deletion = Deletion(tiny)
    schedule = Interval().schedule(support(deletion, 8))
    right, _ = refreshed(tiny, deletion.shifted, schedule, deletion.edited_ids)
    wrong, _ = refreshed(tiny, deletion.shifted, schedule[::-1], deletion.edited_ids)
    assert largest(right, wrong) > WRONG


class _ReadBeforeWrite(SlotLayer):
    def update(
        self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        before = self.keys.clone(), self.values.clone()
        super().update(key_states, value_states)
        return before[0][:, :, : self.end], before[1][:, :, : self.end]


def test_states_are_written_before_they_are_read(tiny: CausalModel, monkeypatch: pytest.MonkeyPatch) -> None:
    deletion = Deletion(tiny)
    slots = support(deletion, 8)
    right, _ = refreshed(tiny, deletion.shifted, Packed().schedule(slots), deletion.edited_ids)
    monkeypatch.setattr("kvrelay.backend.refresh.SlotLayer", _ReadBeforeWrite)
    wrong, _ = refreshed(tiny, deletion.shifted, Packed().schedule(slots), deletion.edited_ids)
    assert largest(right, wrong) > WRONG


@pytest.mark.parametrize("kernel", ["causal", "masked"])
def test_leaving_out_the_last_layers_attention_changes_no_bit(
    tiny: CausalModel, monkeypatch: pytest.MonkeyPatch, kernel: Kernel
) -> None:
    """And the pass after an ended one works: the model's own wrappers undo what they set."""
    deletion = Deletion(tiny)
    slots = tuple(deletion.suffix[10:40])
    schedule = (Traversal(slots=slots, kernel=kernel),)
    short, _ = refreshed(tiny, deletion.shifted, schedule, deletion.edited_ids)
    seen: list[int] = []

    class Whole:
        def __init__(self, inner: object, n_layers: int) -> None:
            self.inner = inner

        def attend(self, layer: int, *args: object) -> Tensor:
            seen.append(layer)
            return self.inner.attend(layer, *args)  # type: ignore[attr-defined, no-any-return]

    monkeypatch.setattr("kvrelay.backend.refresh.LastLayerWrites", Whole)
    whole, _ = refreshed(tiny, deletion.shifted, schedule, deletion.edited_ids)
    assert seen == [0, 1, 2]
    assert torch.equal(states(short), states(whole))
    assert torch.equal(states(prefilled(tiny, deletion.edited_ids)), states(deletion.clean))


def test_slots_are_written_into_the_working_copy_alone(tiny: CausalModel) -> None:
    deletion = Deletion(tiny)
    work = WorkingCache(deletion.shifted)
    before = states(deletion.shifted).clone()
    assert refresh(tiny, work, Auto().schedule((30, 31, 50)), deletion.edited_ids) == 3
    assert torch.equal(states(deletion.shifted), before)
    assert all(layer.is_contiguous() for layer in (*work.keys, *work.values))
    assert not torch.equal(states(work.cache()), before)


def test_a_schedule_that_makes_no_sense_is_refused(tiny: CausalModel) -> None:
    deletion = Deletion(tiny)

    def run(*passes: Traversal, ids: list[int] | None = None) -> None:
        refreshed(tiny, deletion.shifted, passes, deletion.edited_ids if ids is None else ids)

    def one(*slots: int, kernel: Kernel = "masked") -> Traversal:
        return Traversal(slots=slots, kernel=kernel)

    with pytest.raises(EditError, match="ascend"):
        run(one(5, 4))
    with pytest.raises(EditError, match="no two passes"):
        run(one(4, 5), one(5, 6))
    with pytest.raises(EditError, match="in a cache of 135"):
        run(one(4, 135))
    with pytest.raises(EditError, match="one interval"):
        run(one(4, 6, kernel="causal"))
    with pytest.raises(EditError, match="one a slot"):
        run(one(4), ids=[1, 2])
    with pytest.raises(InvariantError, match="without an error gate"):
        run(one(4, kernel="blocks"))


def test_a_compressed_and_relocated_cache_is_repaired_where_tokens_have_one_coordinate(tiny: CausalModel) -> None:
    """All of a compact memory recomputed is a fresh pass over the kept tokens; executors agree on a part of it."""
    ids = token_ids(60)
    kept = [0, 1, *range(10, 30), *range(40, 55)]
    cache = prefilled(tiny, ids)
    layers = tuple(
        replace(
            layer,
            keys_HKD=layer.keys_HKD[:, kept],
            values_HKD=layer.values_HKD[:, kept],
            source_HK=layer.source_HK[:, kept],
            coordinate_HK=layer.coordinate_HK[:, kept],
            valid_HK=layer.valid_HK[:, kept],
        )
        for layer in cache.layers
    )
    compact = torch.arange(len(kept)).expand(layers[0].source_HK.shape)
    plan = PositionPlan(coordinate_LHK=(compact,) * len(layers), next_position=len(kept))
    moved = replace(cache, layers=layers).moved(plan, RotaryTable.of(cache.rope, 60, "cpu"))
    kept_ids = [ids[place] for place in kept]
    all_slots = tuple(range(len(kept)))
    fresh, _ = refreshed(tiny, moved, Packed().schedule(all_slots), kept_ids)
    allowed = 64 * torch.finfo(torch.float32).eps
    assert largest(fresh, prefilled(tiny, kept_ids)) <= allowed
    some = (4, 5, 9, 20, 21, 33)
    packed, _ = refreshed(tiny, moved, Packed().schedule(some), kept_ids)
    one_by_one, _ = refreshed(tiny, moved, Interval().schedule(some), kept_ids)
    assert largest(packed, one_by_one) <= allowed
    backwards = PositionPlan(coordinate_LHK=(compact.flip(-1),) * len(layers), next_position=len(kept))
    reversed_cache = replace(cache, layers=layers).moved(backwards, RotaryTable.of(cache.rope, 60, "cpu"))
    with pytest.raises(PositionError, match="ascend with the slots"):
        refreshed(tiny, reversed_cache, Packed().schedule(some), kept_ids)


def test_unequal_heads_are_refused(tiny: CausalModel, read: object) -> None:
    history = read(tiny, token_ids(30))  # type: ignore[operator]
    ragged = history.cache.restricted(ragged_selection(history))
    with pytest.raises(PositionError, match="one coordinate"):
        WorkingCache(ragged)
    WorkingCache(history.cache.restricted(keep_all(history)))


@pytest.mark.parametrize("n_slots", [32, 33])
def test_half_precision_is_finite_at_block_borders(n_slots: int) -> None:
    for dtype in (torch.float16, torch.bfloat16):
        model, _ = make_tiny("llama", dtype)
        deletion = Deletion(model)
        slots = tuple(deletion.suffix[:: 115 // n_slots][:n_slots])
        assert len(intervals(slots)) == n_slots and all(later > slot for slot, later in pairwise(slots))
        for executor in (Packed(), Interval()):
            done, _ = refreshed(model, deletion.shifted, executor.schedule(slots), deletion.edited_ids)
            assert bool(states(done).isfinite().all())


def test_the_cache_object_that_a_pass_gets_holds_one_layer_a_layer(tiny: CausalModel) -> None:
    layer = SlotLayer(torch.zeros(1, 2, 5, 4), torch.zeros(1, 2, 5, 4), torch.tensor([1, 3]), 4)
    keys, values = layer.update(torch.ones(1, 2, 2, 4), 2 * torch.ones(1, 2, 2, 4))
    assert keys.shape == values.shape == (1, 2, 4, 4)
    assert keys[0, 0, :, 0].tolist() == [0, 1, 0, 1] and values[0, 0, :, 0].tolist() == [0, 2, 0, 2]
    assert RelayCache([layer]).lengths() == [5]
