"""A KV cache whose entries carry their positions.

Shape letters, used everywhere: L layer, H KV head, T history token, N prefilled token (P protected + T), K slot,
D head width, Q question token, B batch row.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from kvrelay.core.edit import Edit
from kvrelay.core.errors import PositionError
from kvrelay.core.positions import PositionPlan
from kvrelay.core.rope import RotarySpec, RotaryTable, rotate
from kvrelay.core.selection import Selection, surviving


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LayerKV:
    """One layer: heads may hold different tokens, so shorter heads are padded on the left.

    ``keys_HKD``, ``values_HKD`` in the model's dtype, zero in padding; ``source_HK`` int64, where the token stood;
    ``coordinate_HK`` int64, the position that its key is rotated to now; ``valid_HK`` bool, False in padding.
    """

    keys_HKD: Tensor
    values_HKD: Tensor
    source_HK: Tensor
    coordinate_HK: Tensor
    valid_HK: Tensor

    @property
    def counts_H(self) -> Tensor:
        return self.valid_HK.sum(-1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KVCache:
    """All layers, what their keys were rotated with, and where the next token stands. Operations return new caches.

    ``master`` is true for a cache as prefill made it. Only a master's keys may be moved: rotation upon rotation drifts
    (relative key error .0028 after one, .078 after 64 in bf16).
    """

    layers: tuple[LayerKV, ...]
    rope: RotarySpec
    next_position: int
    master: bool = True

    @property
    def cache_bytes(self) -> int:
        """Bytes of the keys and values of valid states."""
        per_state = 2 * self.layers[0].keys_HKD.shape[-1] * self.layers[0].keys_HKD.element_size()
        return sum(int(layer.counts_H.sum()) for layer in self.layers) * per_state

    def restricted(self, selection: Selection) -> KVCache:
        """Only the selected states, content unchanged (CaM's merged values put in), order by source."""
        layers = []
        for index, (layer, kept) in enumerate(zip(self.layers, selection.layers, strict=True)):
            values = layer.values_HKD if selection.values_LHND is None else selection.values_LHND[index]
            layers.append(_gather(layer, values, kept.source_HK, kept.source_HK))
        return replace(self, layers=tuple(layers))

    def edited(self, edit: Edit, n_tokens: int) -> KVCache:
        """The cache without the states of deleted tokens; what stays is renumbered, keys and values untouched.

        ``source_HK`` becomes the position in the edited text of n' tokens, ``coordinate_HK`` stays what the keys are
        rotated to, so that one `moved` from this copy closes the gap. ``n_tokens`` is the length of the unedited
        context. Heads may hold different states.
        """
        kept = edit.kept(n_tokens)
        made: dict[int, tuple[Tensor, Tensor]] = {}
        layers: list[LayerKV] = []
        for layer in self.layers:
            if id(layer.source_HK) not in made:
                made[id(layer.source_HK)] = surviving(layer.source_HK, kept, n_tokens)
            layers.append(_gather(layer, layer.values_HKD, *made[id(layer.source_HK)]))
        return replace(self, layers=tuple(layers))

    def moved(self, plan: PositionPlan, table: RotaryTable) -> KVCache:
        """Keys re-rotated to the plan's coordinates; values, order and validity untouched.

        ``table`` reaches at least one beyond the largest coordinate, source or target. Raises `PositionError` for a
        cache that has been moved before.
        """
        if not self.master:
            raise PositionError(
                "this cache has been moved already; move the prefill's own copy, so that keys never drift"
            )
        composed: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}
        layers = []
        for layer, target in zip(self.layers, plan.coordinate_LHK, strict=True):
            if torch.equal(layer.coordinate_HK, target):
                layers.append(layer)
                continue
            pair = (layer.source_HK.data_ptr(), target.data_ptr())
            if pair not in composed:
                composed[pair] = table.composed(*_one_row_if_shared(layer.coordinate_HK, target))
            layers.append(replace(layer, keys_HKD=rotate(layer.keys_HKD, *composed[pair]), coordinate_HK=target))
        return replace(self, layers=tuple(layers), next_position=plan.next_position, master=False)

    def at_source(self, n_tokens: int, table: RotaryTable) -> KVCache:
        """Every state at its source position, the next token at ``n_tokens``: after `edited` that is the shift."""
        plan = PositionPlan(coordinate_LHK=tuple(layer.source_HK for layer in self.layers), next_position=n_tokens)
        return self.moved(plan, table)

    def adopting(self, repaired: KVCache, slots: Sequence[int]) -> KVCache:
        """This copy with what ``repaired``, the same slots moved, holds in ``slots`` (alike in all layers and heads).

        Refreshed states come with the coordinate at which they were computed, all others keep theirs. So the next edit
        starts from here and still turns every key once, from where it was computed.
        """
        chosen = torch.tensor(list(slots), dtype=torch.long)
        layers = []
        for old, new in zip(self.layers, repaired.layers, strict=True):
            where = chosen.to(old.keys_HKD.device)
            layers.append(
                replace(
                    old,
                    keys_HKD=old.keys_HKD.index_copy(1, where, new.keys_HKD[:, where]),
                    values_HKD=old.values_HKD.index_copy(1, where, new.values_HKD[:, where]),
                    coordinate_HK=old.coordinate_HK.index_copy(1, where, new.coordinate_HK[:, where]),
                )
            )
        return replace(self, layers=tuple(layers))

    def content_digest(self) -> tuple[str, str]:
        """sha256 of (kept source positions, their values): equal in both arms of a pair, whatever the coordinates."""
        source, values = hashlib.sha256(), hashlib.sha256()
        for layer in self.layers:
            source.update(layer.source_HK.cpu().contiguous().numpy().tobytes())
            values.update(layer.values_HKD.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
        return source.hexdigest(), values.hexdigest()


def _gather(layer: LayerKV, values_HND: Tensor, slot_HK: Tensor, source_HK: Tensor) -> LayerKV:
    """The states in ``slot_HK`` (-1 is padding), said to stand at ``source_HK``."""
    valid = slot_HK >= 0
    index = slot_HK.clamp(min=0)
    width = layer.keys_HKD.shape[-1]
    wide = index[..., None].expand(-1, -1, width)
    keys, values = layer.keys_HKD.gather(1, wide), values_HND.gather(1, wide)
    if not bool(valid.all()):
        keys = keys.masked_fill(~valid[..., None], 0)
        values = values.masked_fill(~valid[..., None], 0)
    return LayerKV(
        keys_HKD=keys,
        values_HKD=values,
        source_HK=source_HK,
        coordinate_HK=layer.coordinate_HK.gather(1, index).masked_fill(~valid, 0),
        valid_HK=valid,
    )


def _one_row_if_shared(source_HK: Tensor, target_HK: Tensor) -> tuple[Tensor, Tensor]:
    """Heads with equal indices need one row of factors, not H."""
    if bool((source_HK == source_HK[:1]).all()) and bool((target_HK == target_HK[:1]).all()):
        return source_HK[0], target_HK[0]
    return source_HK, target_HK
