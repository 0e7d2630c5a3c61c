"""Recomputing chosen tokens of a cache in place, through all layers (the seed of every repair executor)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from kvrelay.backend.attention import SlotRefresh
from kvrelay.backend.layers import RelayCache, SlotLayer
from kvrelay.backend.model import CausalModel
from kvrelay.core.cache import KVCache, LayerKV
from kvrelay.core.errors import PositionError


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


def refresh_slots(model: CausalModel, cache: KVCache, slots: Sequence[int], token_ids: Sequence[int]) -> KVCache:
    """A cache in which ``slots`` (ascending) hold the states of ``token_ids`` read afresh at their coordinates.

    Each refreshed token reads the full causal cache: fresh where refreshed, as it was elsewhere.
    """
    if not slots:
        return cache
    coordinate_K = one_coordinate(cache)
    where = torch.tensor(list(slots), device=coordinate_K.device)
    positions = coordinate_K[where]
    layers = [SlotLayer(layer.keys_HKD[None].clone(), layer.values_HKD[None].clone(), where) for layer in cache.layers]
    relay = SlotRefresh(positions, coordinate_K)
    model.forward(model.row(token_ids), positions[None].to(model.device), RelayCache(layers), relay)
    fresh = tuple(
        LayerKV(
            keys_HKD=written.keys[0],
            values_HKD=written.values[0],
            source_HK=old.source_HK,
            coordinate_HK=old.coordinate_HK,
            valid_HK=old.valid_HK,
        )
        for written, old in zip(layers, cache.layers, strict=True)
    )
    return KVCache(layers=fresh, rope=cache.rope, next_position=cache.next_position, master=cache.master)
