"""The slow twin of decoding: one row, one token at a time, attention head by head over the states that are there.

Nothing is padded, batched or masked: a head's list of states is gathered, the new token's own state is appended, and
softmax is taken in float64. Tests compare the fast path with this; nothing else uses it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from kvrelay.backend.layers import AppendLayer, RelayCache, empty_buffer
from kvrelay.backend.model import CausalModel
from kvrelay.core.cache import KVCache


class LiteralAttention:
    """Attention of one new token over the valid states of each KV head, in float64."""

    def __init__(self, cache: KVCache) -> None:
        self.valid_LHK = [layer.valid_HK for layer in cache.layers]

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Tensor:
        out = torch.zeros_like(query)
        group = query.shape[1] // key.shape[1]
        for head in range(query.shape[1]):
            kept = head // group
            valid = self.valid_LHK[layer][kept]
            there = torch.cat([valid, valid.new_ones(key.shape[2] - len(valid))])
            keys, values = key[0, kept][there].double(), value[0, kept][there].double()
            weights = torch.softmax(keys @ query[0, head, 0].double() * scaling, dim=0)
            out[0, head, 0] = (weights @ values).to(out.dtype)
        return out


def literal_logits(model: CausalModel, cache: KVCache, token_ids: Sequence[int]) -> Tensor:
    """Logits (Q, vocabulary) after each of the tokens that follow a cache, fed one by one."""
    layers = []
    for layer in cache.layers:
        width = layer.keys_HKD.shape[1]
        keys, values = (empty_buffer(layer.keys_HKD, 1, width + len(token_ids)) for _ in range(2))
        keys[0, :, :width], values[0, :, :width] = layer.keys_HKD, layer.values_HKD
        layers.append(AppendLayer(keys, values, width))
    appended, literal = RelayCache(layers), LiteralAttention(cache)
    found = []
    for offset, token in enumerate(token_ids):
        position = torch.tensor([[cache.next_position + offset]], device=model.device)
        hidden = model.forward(model.row([token]), position, appended, literal)
        found.append(model.logits(hidden[0, -1]))
    return torch.stack(found)
