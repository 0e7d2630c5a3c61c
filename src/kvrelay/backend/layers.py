"""Cache layers for a stock model: append while reading and decoding, overwrite while repairing.

transformers asks a layer for lengths in order to build masks and positions. Here both always come from the caller,
so these answers are never used; they are given all the same, because the base class wants them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

from kvrelay.core.errors import PositionError


class _Layer(CacheLayerMixin):
    is_sliding = False

    def __init__(self) -> None:
        super().__init__()
        self.length = 0

    def lazy_initialization(self, key_states: Tensor, *args: Any) -> None:
        self.dtype, self.device, self.is_initialized = key_states.dtype, key_states.device, True

    def get_mask_sizes(self, query_length: Any) -> tuple[int, int]:
        return self.length + int(query_length), 0

    def get_seq_length(self) -> int:
        return self.length

    def get_max_length(self) -> int:
        return -1

    def get_max_cache_shape(self) -> int:
        return -1


class CaptureLayer(_Layer):
    """Keeps what one forward over a whole sequence produced."""

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        self.keys, self.values, self.length = key_states, value_states, key_states.shape[2]
        return key_states, value_states


class AppendLayer(_Layer):
    """A buffer (B, H, capacity, D) of which the first ``length`` columns are in use; new states are appended."""

    def __init__(self, keys: Tensor, values: Tensor, length: int) -> None:
        super().__init__()
        self.lazy_initialization(keys)
        self.keys, self.values, self.length = keys, values, length

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        end = self.length + key_states.shape[2]
        self.keys[:, :, self.length : end] = key_states
        self.values[:, :, self.length : end] = value_states
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]


class SlotLayer(_Layer):
    """Writes new states into chosen slots of (1, H, K, D) buffers, then gives the first ``end`` columns back.

    ``slots`` is an ascending index tensor on the buffers' device, or a slice where the slots are consecutive.
    """

    def __init__(self, keys: Tensor, values: Tensor, slots: Tensor | slice, end: int) -> None:
        super().__init__()
        self.lazy_initialization(keys)
        self.keys, self.values, self.slots, self.end, self.length = keys, values, slots, end, keys.shape[2]

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        for buffer, states in ((self.keys, key_states), (self.values, value_states)):
            if isinstance(self.slots, slice):
                buffer[:, :, self.slots] = states
            else:
                buffer.index_copy_(2, self.slots, states)
        return self.keys[:, :, : self.end], self.values[:, :, : self.end]


class JoinLayer(_Layer):
    """Puts new states after (1, H, K, D) states that are read and never changed; nothing of it is kept."""

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        super().__init__()
        self.lazy_initialization(keys)
        self.keys, self.values, self.length = keys, values, keys.shape[2]

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        return torch.cat([self.keys, key_states], 2), torch.cat([self.values, value_states], 2)


class RelayCache(Cache):
    """The layers above as the cache object that a model wants."""

    def __init__(self, layers: Sequence[_Layer]) -> None:
        super().__init__(layers=list(layers))

    def truncate(self, lengths: Sequence[int]) -> None:
        """Forget what came after ``lengths`` (one a layer). Raises `PositionError` for one beyond what is there."""
        for layer, length in zip(self.layers, lengths, strict=True):
            if not 0 <= length <= layer.length:
                raise PositionError(f"a cache layer of {layer.length} tokens cannot be cut to {length}")
            layer.length = length

    def lengths(self) -> list[int]:
        return [layer.length for layer in self.layers]


def capture_cache(n_layers: int) -> RelayCache:
    """An empty cache for a prefill."""
    return RelayCache([CaptureLayer() for _ in range(n_layers)])


def empty_buffer(like: Tensor, batch: int, capacity: int) -> Tensor:
    """Zeros (batch, H, capacity, D) in the dtype and on the device of ``like`` (H, K, D)."""
    return torch.zeros(batch, like.shape[0], capacity, like.shape[2], dtype=like.dtype, device=like.device)
