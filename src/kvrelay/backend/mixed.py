"""How mixed a repaired cache is: what refreshed states still read from stale ones, and how far they end from Replay.

A refreshed token may attend to stale predecessors, so its state is not the clean one (SUR, appendix H). A diagnostic:
it reads the clean cache and runs the refresh again with its attention watched, and belongs to no method.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from kvrelay.backend.attention import Attend
from kvrelay.backend.kernels import kernel_for, position_mask
from kvrelay.backend.model import CausalModel
from kvrelay.backend.refresh import WorkingCache, run_pass
from kvrelay.core.cache import KVCache, LayerKV
from kvrelay.core.repair import EditedContext


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedLayer:
    """One layer, over the refreshed slots. Deviations are |X - X*|^2 / |X*|^2 from the states of the edited text run
    afresh (Replay's, in exact arithmetic), keys and values apart, before the refresh and after it.

    ``stale_mass`` is the share of the refreshed tokens' attention that falls on stale states, mean over tokens and
    query heads; None in the last layer, whose attention a refresh leaves out.
    """

    stale_key_deviation: float
    stale_value_deviation: float
    key_deviation: float
    value_deviation: float
    stale_mass: float | None


def mixed_layers(
    model: CausalModel, shifted: KVCache, clean: KVCache, context: EditedContext, slots: Sequence[int]
) -> list[MixedLayer]:
    """Refresh ``slots`` of the shifted cache once more and look, layer by layer; nothing where there are none."""
    if not slots:
        return []
    work = WorkingCache(shifted)
    stale = torch.ones(len(context.token_ids), dtype=torch.bool)
    stale[: context.splice] = False
    stale[list(slots)] = False
    group = model.facts.n_query_heads // model.facts.n_kv_heads
    watch = _StaleMass(kernel_for("masked", slots, group, model.device), slots, stale)
    run_pass(model, work, slots, context.token_ids, watch)
    return [
        MixedLayer(
            stale_key_deviation=_deviation(before.keys_HKD, true.keys_HKD, slots),
            stale_value_deviation=_deviation(before.values_HKD, true.values_HKD, slots),
            key_deviation=_deviation(after.keys_HKD, true.keys_HKD, slots),
            value_deviation=_deviation(after.values_HKD, true.values_HKD, slots),
            stale_mass=watch.mass_L.get(index),
        )
        for index, (before, after, true) in enumerate(_three(shifted, work.cache(), clean))
    ]


class _StaleMass:
    """Attends as the inner kernel does and sums how much of it falls on stale slots."""

    def __init__(self, inner: Attend, slots: Sequence[int], stale_K: Tensor) -> None:
        self.inner, self.slots, self.stale_K = inner, slots, stale_K
        self.mass_L: dict[int, float] = {}

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Tensor:
        n_heads, n_keys = key.shape[1], key.shape[2]
        group = query.shape[1] // n_heads
        hidden = ~position_mask(self.slots, query.device).repeat(group, 1)
        stale = self.stale_K[:n_keys].to(query.device)
        exact = torch.promote_types(query.dtype, torch.float32)
        total = 0.0
        for head in range(n_heads):  # one KV head at a time bounds the memory
            rows = query[0, head * group : (head + 1) * group].reshape(-1, query.shape[-1]).to(exact)
            scores = (rows @ key[0, head].to(exact).t()).mul_(scaling).masked_fill_(hidden, -torch.inf)
            total += float(scores.softmax(-1)[:, stale].sum())
        self.mass_L[layer] = total / (query.shape[1] * query.shape[2])
        return self.inner.attend(layer, query, key, value, scaling)


def _three(*caches: KVCache) -> list[tuple[LayerKV, ...]]:
    return list(zip(*(cache.layers for cache in caches), strict=True))


def _deviation(states_HKD: Tensor, clean_HKD: Tensor, slots: Sequence[int]) -> float:
    chosen = torch.tensor(list(slots), device=states_HKD.device)
    states, clean = states_HKD[:, chosen].double(), clean_HKD[:, chosen].double().to(states_HKD.device)
    return float((states - clean).square().sum() / clean.square().sum())
