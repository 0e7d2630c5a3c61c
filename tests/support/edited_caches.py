"""Deletions for the tests of repair: edited texts, shifted caches, random supports and a literal refresh."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tiny_models import token_ids
from torch import Tensor

from kvrelay.backend.attention import CausalPrefill
from kvrelay.backend.layers import RelayCache, SlotLayer, capture_cache
from kvrelay.backend.model import CausalModel
from kvrelay.backend.prefill import full_cache
from kvrelay.backend.refresh import WorkingCache
from kvrelay.core.cache import KVCache
from kvrelay.core.edit import Edit, Span
from kvrelay.core.repair import EditedContext, intervals
from kvrelay.core.rope import RotaryTable

N_TOKENS, SPAN = 160, (20, 45)
"""The text of most tests, and what is deleted from it: P = 20, S = 115."""


def prefilled(model: CausalModel, ids: Sequence[int]) -> KVCache:
    """The states of one text, read in one pass."""
    captured = capture_cache(model.facts.n_layers)
    positions = torch.arange(len(ids), device=model.device)[None]
    model.forward(model.row(ids), positions, captured, CausalPrefill())
    return full_cache(model, captured, len(ids))


def shift(cache: KVCache, edit: Edit, n_tokens: int) -> KVCache:
    """Deleted states dropped, the rest moved together by one rotation from ``cache``."""
    table = RotaryTable.of(cache.rope, cache.next_position, "cpu")
    return cache.edited(edit, n_tokens).at_source(n_tokens - edit.n_deleted, table)


class Deletion:
    """One text with spans deleted: its edited tokens, the shifted cache and the clean one."""

    def __init__(
        self,
        model: CausalModel,
        spans: Sequence[Span] = (SPAN,),
        n_tokens: int = N_TOKENS,
        ids: Sequence[int] | None = None,
    ) -> None:
        self.model = model
        self.ids = list(ids) if ids is not None else token_ids(n_tokens)
        n_tokens = len(self.ids)
        self.edit = Edit.of_tokens(spans, n_tokens)
        self.edited_ids = [self.ids[place] for place in self.edit.kept(n_tokens)]
        self.splice, self.end = self.edit.splice, len(self.edited_ids)
        self.dirty = prefilled(model, self.ids)
        self.shifted = shift(self.dirty, self.edit, n_tokens)
        self.clean = prefilled(model, self.edited_ids)

    @property
    def suffix(self) -> list[int]:
        return list(range(self.splice, self.end))

    @property
    def context(self) -> EditedContext:
        return EditedContext(
            token_ids=tuple(self.edited_ids),
            pieces=("",) * self.end,
            special=(False,) * self.end,
            splice=self.splice,
            case_id="case",
        )


def support(deletion: Deletion, n_intervals: int, seed: int = 0) -> tuple[int, ...]:
    """Random suffix slots in exactly so many intervals, each of one to three slots with a gap behind it."""
    generator = torch.Generator().manual_seed(seed)
    starts = torch.randperm(len(deletion.suffix) // 4, generator=generator)[:n_intervals].sort().values.tolist()
    lengths = torch.randint(1, 4, (n_intervals,), generator=generator).tolist()
    slots = tuple(
        deletion.splice + 4 * start + one
        for start, length in zip(starts, lengths, strict=True)
        for one in range(length)
    )
    assert len(intervals(slots)) == n_intervals
    return slots


def states(cache: KVCache, slots: Sequence[int] | slice = slice(None)) -> Tensor:
    """Keys and values of some slots, (L, 2, H, B, D)."""
    where = slots if isinstance(slots, slice) else list(slots)
    return torch.stack([torch.stack([layer.keys_HKD[:, where], layer.values_HKD[:, where]]) for layer in cache.layers])


def largest(one: KVCache, other: KVCache, slots: Sequence[int] | slice = slice(None)) -> float:
    """Largest difference of two caches' keys and values."""
    return float((states(one, slots) - states(other, slots)).abs().max())


def literal_refresh(model: CausalModel, cache: KVCache, slots: Sequence[int], ids: Sequence[int]) -> KVCache:
    """The recurrence as written: slot by slot in ascending order, head by head, softmax over the slots up to it."""
    work = WorkingCache(cache)
    for slot in slots:
        layers = [
            SlotLayer(keys, values, slice(slot, slot + 1), slot + 1)
            for keys, values in zip(work.keys, work.values, strict=True)
        ]
        position = work.coordinate_K[slot][None, None]
        model.forward(model.row([ids[slot]]), position, RelayCache(layers), _Literal(slot))
    return work.cache()


class _Literal:
    def __init__(self, slot: int) -> None:
        self.slot = slot

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Tensor:
        group = query.shape[1] // key.shape[1]
        rows = []
        for head in range(query.shape[1]):
            keys, values = key[0, head // group, : self.slot + 1], value[0, head // group, : self.slot + 1]
            rows.append(torch.softmax(keys @ query[0, head, 0] * scaling, 0) @ values)
        return torch.stack(rows)[None, :, None]
