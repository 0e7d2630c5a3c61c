"""Recomputing in place: nothing changes nothing, everything equals a fresh prefill, and unequal heads are refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from tiny_models import keep_all, ragged_selection, token_ids

from kvrelay.backend.model import CausalModel
from kvrelay.backend.refresh import refresh_slots
from kvrelay.core.errors import PositionError


def test_refreshing_nothing_gives_the_same_object(tiny: CausalModel, read: Any) -> None:
    cache = read(tiny, token_ids(20)).cache
    assert refresh_slots(tiny, cache, [], []) is cache


def test_refreshing_every_state_of_garbage_gives_a_fresh_prefill(tiny: CausalModel, read: Any) -> None:
    ids = token_ids(20)
    fresh = read(tiny, ids).cache
    garbage = replace(
        fresh,
        layers=tuple(
            replace(layer, keys_HKD=layer.keys_HKD * 0 + 3.0, values_HKD=layer.values_HKD * 0 - 2.0)
            for layer in fresh.layers
        ),
    )
    repaired = refresh_slots(tiny, garbage, list(range(20)), ids)
    for one, other in zip(repaired.layers, fresh.layers, strict=True):
        allowed = 64 * torch.finfo(torch.float32).eps * float(other.keys_HKD.abs().max())
        assert float((one.keys_HKD - other.keys_HKD).abs().max()) <= allowed
        assert float((one.values_HKD - other.values_HKD).abs().max()) <= allowed


def test_other_slots_keep_their_bits_and_the_given_cache_is_untouched(tiny: CausalModel, read: Any) -> None:
    cache = read(tiny, token_ids(20)).cache
    before = [layer.keys_HKD.clone() for layer in cache.layers]
    changed = refresh_slots(tiny, cache, [5, 9], [1, 2])
    others = [slot for slot in range(20) if slot not in (5, 9)]
    for old, layer, kept in zip(cache.layers, changed.layers, before, strict=True):
        assert torch.equal(layer.keys_HKD[:, others], old.keys_HKD[:, others])
        assert not torch.equal(layer.values_HKD[:, [5, 9]], old.values_HKD[:, [5, 9]])
        assert torch.equal(old.keys_HKD, kept)


def test_tokens_at_unlike_positions_in_unlike_heads_are_refused(tiny: CausalModel, read: Any) -> None:
    prefilled = read(tiny, token_ids(20))
    ragged = prefilled.cache.restricted(ragged_selection(prefilled))
    with pytest.raises(PositionError, match="one coordinate"):
        refresh_slots(tiny, ragged, [0], [1])
    whole = prefilled.cache.restricted(keep_all(prefilled))
    assert refresh_slots(tiny, whole, [3], [1]).next_position == 20
