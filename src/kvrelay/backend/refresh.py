"""Recomputing chosen tokens of a cache in place, through all layers: the operator under every repair executor.

A refreshed token starts from its embedding, at its own coordinate, and in every layer reads the full causal cache:
fresh where refreshed, as it was elsewhere (SUR, sections 3.1 and A.1). In each layer the fresh keys and values of a
pass are written before its attention reads them. This is no erasure: what is not refreshed still holds what it held.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import Protocol

import torch
from torch import Tensor

from kvrelay.backend.attention import Attend, ForwardStopped
from kvrelay.backend.kernels import LastLayerWrites, kernel_for
from kvrelay.backend.layers import RelayCache, SlotLayer
from kvrelay.backend.model import CausalModel
from kvrelay.core.cache import KVCache
from kvrelay.core.errors import EditError, InvariantError, PositionError
from kvrelay.core.repair import Traversal, intervals


def one_coordinate(cache: KVCache) -> Tensor:
    """The coordinates (K,) that all layers and heads share.

    Raises `PositionError` where a token stands at different positions in different heads: a stock forward rotates a
    token once for all heads, so it cannot recompute such a token.
    """
    first = cache.layers[0].coordinate_HK[0]
    for index, layer in enumerate(cache.layers):
        same = layer.coordinate_HK.shape[1] == len(first) and bool(layer.valid_HK.all())
        if not same or not bool((layer.coordinate_HK == first.to(layer.coordinate_HK.device)).all()):
            raise PositionError(
                f"repair needs one coordinate a token, but layer {index} holds other states or coordinates than "
                "layer 0; use a selector that keeps the same tokens everywhere (bm25, full)"
            )
    return first


def ascending_coordinates(cache: KVCache) -> Tensor:
    """The same, and ascending with the slots. Raises `PositionError` where the order of positions is another."""
    coordinate_K = one_coordinate(cache)
    if bool((coordinate_K[1:] <= coordinate_K[:-1]).any()):
        raise PositionError(
            "repair needs coordinates that ascend with the slots, so that the states before a token are those that it "
            "may read; the cache's positions are in another order (keys: position.*; original and roperelay ascend)"
        )
    return coordinate_K


class WorkingCache:
    """A private copy of a cache's keys and values, (1, H, K, D) a layer, that passes write to.

    The copy is the harness's own and belongs to no repair's time, so it is a step of its own.
    """

    def __init__(self, cache: KVCache) -> None:
        self.origin = cache
        self.coordinate_K = ascending_coordinates(cache)
        self.keys = [_copied(layer.keys_HKD) for layer in cache.layers]
        self.values = [_copied(layer.values_HKD) for layer in cache.layers]

    def cache(self) -> KVCache:
        """The working copy as a cache. It shares the copy's memory: later passes would change it."""
        layers = tuple(
            replace(layer, keys_HKD=keys[0], values_HKD=values[0])
            for layer, keys, values in zip(self.origin.layers, self.keys, self.values, strict=True)
        )
        return replace(self.origin, layers=layers)


class KernelGate(Protocol):
    """Compares an experimental kernel with the reference before it may write; raises where it is too far off."""

    def check(self, work: WorkingCache, slots: Sequence[int], token_ids: Sequence[int]) -> None: ...


def refresh(
    model: CausalModel,
    work: WorkingCache,
    schedule: Sequence[Traversal],
    token_ids: Sequence[int],
    gate: KernelGate | None = None,
) -> int:
    """Run passes one after another on the evolving copy; the number of refreshed slots. ``token_ids``: one a slot.

    Raises `EditError` for passes that overlap, leave the cache, or whose slots do not ascend, and `InvariantError` for
    an experimental pass without a ``gate``, or one that its gate refuses.
    """
    _check(schedule, len(work.coordinate_K), len(token_ids))
    for traversal in schedule:
        if traversal.kernel == "blocks" and traversal.slots:
            if gate is None:
                raise InvariantError("an experimental pass came without an error gate (key: executor.custom)")
            gate.check(work, traversal.slots, token_ids)
        if traversal.slots:
            run_pass(model, work, traversal.slots, token_ids, kernel_of(model, traversal))
    return sum(len(traversal.slots) for traversal in schedule)


def refreshed(
    model: CausalModel,
    cache: KVCache,
    schedule: Sequence[Traversal],
    token_ids: Sequence[int],
    gate: KernelGate | None = None,
) -> tuple[KVCache, int]:
    """A refreshed copy of a cache and the number of refreshed slots; the cache itself where there are none."""
    if not any(traversal.slots for traversal in schedule):
        return cache, 0
    work = WorkingCache(cache)
    n_refreshed = refresh(model, work, schedule, token_ids, gate)
    return work.cache(), n_refreshed


def refresh_slots(model: CausalModel, cache: KVCache, slots: Sequence[int], token_ids: Sequence[int]) -> KVCache:
    """A cache in which ``slots`` (ascending) hold the states of ``token_ids``, all recomputed in one masked pass."""
    by_slot = [0] * cache.layers[0].keys_HKD.shape[1]
    for slot, token in zip(slots, token_ids, strict=True):
        by_slot[slot] = token
    return refreshed(model, cache, (Traversal(slots=tuple(slots), kernel="masked"),), by_slot)[0]


def kernel_of(model: CausalModel, traversal: Traversal) -> Attend:
    """How a pass's tokens read the cache, on this model."""
    group = model.facts.n_query_heads // model.facts.n_kv_heads
    return kernel_for(traversal.kernel, traversal.slots, group, model.device)


def run_pass(
    model: CausalModel, work: WorkingCache, slots: Sequence[int], token_ids: Sequence[int], attend: Attend
) -> None:
    """One stock forward of the tokens in ``slots`` (ascending, at least one), its states written in place.

    The last layer's attention and feed-forward part are left out, as nobody reads them.
    """
    end = slots[-1] + 1
    consecutive = end - slots[0] == len(slots)
    row = torch.tensor(list(slots), device=work.coordinate_K.device)
    where: dict[torch.device, Tensor | slice] = {}
    layers = []
    for keys, values in zip(work.keys, work.values, strict=True):
        if keys.device not in where:
            where[keys.device] = slice(slots[0], end) if consecutive else row.to(keys.device)
        layers.append(SlotLayer(keys, values, where[keys.device], end))
    positions = work.coordinate_K[row][None].to(model.device)
    ids = model.row([token_ids[slot] for slot in slots])
    with suppress(ForwardStopped):
        model.forward(ids, positions, RelayCache(layers), LastLayerWrites(attend, len(layers)))


def _check(schedule: Sequence[Traversal], n_slots: int, n_tokens: int) -> None:
    if n_tokens != n_slots:
        raise EditError(f"{n_tokens} token ids came for a cache of {n_slots} slots; wanted one a slot")
    seen: set[int] = set()
    for traversal in schedule:
        slots = traversal.slots
        if any(later <= slot for slot, later in pairwise(slots)) or not seen.isdisjoint(slots):
            raise EditError("the slots to refresh must ascend within a pass, and no two passes may share one")
        if slots and not 0 <= slots[0] <= slots[-1] < n_slots:
            raise EditError(f"slots {slots[0]} … {slots[-1]} were to be refreshed in a cache of {n_slots}")
        if traversal.kernel == "causal" and len(intervals(slots)) > 1:
            raise EditError(f"a causal pass takes one interval; it was given {len(intervals(slots))}")
        seen.update(slots)


def _copied(states_HKD: Tensor) -> Tensor:
    return states_HKD[None].clone(memory_format=torch.contiguous_format)
