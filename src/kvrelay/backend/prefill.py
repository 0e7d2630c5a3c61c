"""Reading a history once, with the evidence that selectors need recorded on the way."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import Tensor

from kvrelay.backend.attention import CausalPrefill, RaggedContinuation
from kvrelay.backend.layers import AppendLayer, RelayCache, capture_cache, empty_buffer
from kvrelay.backend.model import CausalModel
from kvrelay.backend.recorders import QuestionObserver, recorder_for
from kvrelay.core.cache import KVCache, LayerKV
from kvrelay.core.history import HistoryText, Need, PrefilledHistory, Question, WindowMass


def full_cache(model: CausalModel, captured: RelayCache, n_tokens: int) -> KVCache:
    """A master `KVCache`, every token at its own position, from what a forward of one sequence captured."""
    layers = []
    shared: dict[torch.device, tuple[Tensor, Tensor]] = {}
    for layer in captured.layers:
        keys, values = layer.keys[0], layer.values[0]
        if keys.device not in shared:
            ones = torch.ones(1, n_tokens, dtype=torch.bool, device=keys.device)
            numbers = torch.arange(n_tokens, device=keys.device)
            shared[keys.device] = (numbers.expand(keys.shape[0], -1), ones.expand(keys.shape[0], -1))
        positions, valid = shared[keys.device]
        layers.append(
            LayerKV(keys_HKD=keys, values_HKD=values, source_HK=positions, coordinate_HK=positions, valid_HK=valid)
        )
    return KVCache(layers=tuple(layers), rope=model.rope, next_position=n_tokens)


def prefill(
    model: CausalModel, token_ids: Tensor, text: HistoryText, history_id: str, needs: Iterable[Need]
) -> PrefilledHistory:
    """Read N = P + T tokens (1, N) in one pass. Evidence that observes the question is added by `observe_question`."""
    wanted = [need for need in needs if not _observes_question(need)]
    recorders = {need: recorder_for(need, text) for need in sorted(wanted, key=repr)}
    captured = capture_cache(model.facts.n_layers)
    n_tokens = token_ids.shape[1]
    positions = torch.arange(n_tokens, device=token_ids.device)[None]
    model.forward(token_ids, positions, captured, CausalPrefill(list(recorders.values())))
    evidence = {need: _by_layer(recorder.mass_L) for need, recorder in recorders.items()}
    return PrefilledHistory(
        cache=full_cache(model, captured, n_tokens),
        text=text,
        history_id=history_id,
        n_query_heads=model.facts.n_query_heads,
        evidence=evidence,
    )


def observe_question(
    model: CausalModel, prefilled: PrefilledHistory, question: Question, needs: Iterable[Need]
) -> PrefilledHistory:
    """The same history with evidence of what the question attends to over the full cache, if any is needed."""
    wanted = [need for need in needs if _observes_question(need)]
    if not wanted:
        return prefilled
    n_prefilled, ids = prefilled.text.n_prefilled, model.row(question.token_ids)
    cache = _continued(prefilled.cache, ids.shape[1])
    inner = RaggedContinuation([None] * prefilled.n_layers, [n_prefilled] * prefilled.n_layers)
    observer = QuestionObserver(inner, n_prefilled)
    positions = torch.arange(n_prefilled, n_prefilled + ids.shape[1], device=ids.device)[None]
    model.forward(ids, positions, cache, observer)
    seen = _by_layer(observer.mass_L)
    return replace(prefilled, evidence={**prefilled.evidence, **dict.fromkeys(wanted, seen)})


def _continued(cache: KVCache, n_more: int) -> RelayCache:
    layers = []
    for layer in cache.layers:
        width = layer.keys_HKD.shape[1]
        keys = empty_buffer(layer.keys_HKD, 1, width + n_more)
        values = empty_buffer(layer.keys_HKD, 1, width + n_more)
        keys[0, :, :width], values[0, :, :width] = layer.keys_HKD, layer.values_HKD
        layers.append(AppendLayer(keys, values, width))
    return RelayCache(layers)


def _observes_question(need: Need) -> bool:
    return isinstance(need, WindowMass) and need.over == "question"


def _by_layer(mass_L: dict[int, Tensor]) -> tuple[Tensor, ...]:
    return tuple(mass_L[layer] for layer in sorted(mass_L))
