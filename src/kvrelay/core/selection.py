"""Which states stay: ascending source positions per layer and KV head, and the one way from scores to them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from kvrelay.core.edit import Edit
from kvrelay.core.positions import PositionPlan

PADDING = -1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LayerSelection:
    """One layer's retained states.

    ``source_HK`` int64 (H, K): ascending source positions, protected ones first; a head that keeps fewer than K is
    padded on the left with -1. ``score_HK`` float32 (H, K): the selector's scores, NaN where it gave none.
    """

    source_HK: Tensor
    score_HK: Tensor

    @property
    def valid_HK(self) -> Tensor:
        return self.source_HK >= 0

    @property
    def counts_H(self) -> Tensor:
        return self.valid_HK.sum(-1)

    @property
    def rank_HK(self) -> Tensor:
        """Rank i of each state in its head, from 0; negative in padding."""
        n_heads, width = self.source_HK.shape
        slot = torch.arange(width, device=self.source_HK.device).expand(n_heads, width)
        return slot - (width - self.counts_H)[:, None]

    def edited(self, kept: Sequence[int], n_tokens: int) -> LayerSelection:
        """One layer of `Selection.edited`; ``kept`` are the original positions that stay."""
        slot_HK, source_HK = surviving(self.source_HK, kept, n_tokens)
        score_HK = self.score_HK.gather(1, slot_HK.clamp(min=0)).masked_fill(slot_HK < 0, torch.nan)
        return LayerSelection(source_HK=source_HK, score_HK=score_HK)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Selection:
    """What a selector decided: one `LayerSelection` a layer, the same object where layers keep the same states.

    ``protected`` P states precede the history and are in every head; ``budget`` is the number of history states asked
    for per layer and head (the mean over layers where a selector moves budget between layers). ``values_LHND`` are
    values that the selector merged (CaM), one (H, N, D) a layer; ``notes`` go to the record.
    """

    layers: tuple[LayerSelection, ...]
    protected: int
    budget: int
    values_LHND: tuple[Tensor, ...] | None = None
    notes: Mapping[str, object] = field(default_factory=dict)

    @property
    def anchor(self) -> int:
        """M: the largest retained count over all layers and KV heads, protected states included."""
        return max(int(layer.counts_H.max()) for layer in self.distinct())

    def distinct(self) -> tuple[LayerSelection, ...]:
        """The layers without repetition of shared objects."""
        return tuple({id(layer): layer for layer in self.layers}.values())

    def plan(self, coordinates: Callable[[LayerSelection], Tensor], next_position: int) -> PositionPlan:
        """A `PositionPlan` from a rule for one layer, evaluated once for layers that share an object."""
        made = {id(layer): coordinates(layer).masked_fill(~layer.valid_HK, 0) for layer in self.distinct()}
        return PositionPlan(coordinate_LHK=tuple(made[id(layer)] for layer in self.layers), next_position=next_position)

    def edited(self, edit: Edit, n_tokens: int) -> Selection:
        """What stays of it when tokens of the history of ``n_tokens`` are deleted, renumbered to the edited text."""
        kept = edit.kept(n_tokens)
        made = {id(layer): layer.edited(kept, n_tokens) for layer in self.distinct()}
        return replace(self, layers=tuple(made[id(layer)] for layer in self.layers), values_LHND=None)

    def counts_LH(self) -> list[list[int]]:
        """Exact retained counts per layer and head, protected states included."""
        return [layer.counts_H.tolist() for layer in self.layers]

    def digest(self) -> str:
        """sha256 of all retained source positions: equal digests mean equal kept sets."""
        sha = hashlib.sha256()
        made = {id(layer): layer.source_HK.cpu().numpy().tobytes() for layer in self.distinct()}
        for layer in self.layers:
            sha.update(made[id(layer)])
        return sha.hexdigest()


def top_states(scores_HT: Tensor, budget: int, forced_T: Tensor | None = None) -> Tensor:
    """Mask (H, T) of exactly min(budget, T) states a head: forced ones first, then by score, ties by lower index.

    Where more states are forced than the budget holds, the latest forced ones stay (window states cut to the latest).
    NaN scores rank with minus infinity. ``scores_HT`` is float32 or float64; ``forced_T`` a bool mask (T,).
    """
    n_heads, n_tokens = scores_HT.shape
    budget = min(budget, n_tokens)
    mask = torch.zeros(n_heads, n_tokens, dtype=torch.bool, device=scores_HT.device)
    ranked = scores_HT.nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
    if forced_T is not None:
        forced = forced_T.nonzero()[-budget:, 0] if budget else forced_T.nonzero()[:0, 0]
        mask[:, forced] = True
        budget -= len(forced)
        if budget == 0:
            return mask
        order = torch.sort(ranked, dim=-1, descending=True, stable=True).indices
        free = ~mask.gather(-1, order)
        chosen = free & (free.cumsum(-1) <= budget)
        return mask.scatter(-1, order, mask.gather(-1, order) | chosen)
    order = torch.sort(ranked, dim=-1, descending=True, stable=True).indices[:, :budget]
    return mask.scatter(-1, order, True)


def pack(keep_HT: Tensor, scores_HT: Tensor, protected: int) -> LayerSelection:
    """A `LayerSelection` from a history mask (H, T) and its scores: sorted by source, heads padded on the left.

    History token t stands at source position P + t; the P protected positions are put in front of every head.
    """
    n_heads, _ = keep_HT.shape
    device = keep_HT.device
    counts = keep_HT.sum(-1)
    width = int(counts.max())
    slot = keep_HT.cumsum(-1) - 1 + (width - counts)[:, None]
    head, token = keep_HT.nonzero(as_tuple=True)
    source = torch.full((n_heads, width), PADDING, dtype=torch.long, device=device)
    score = torch.full((n_heads, width), torch.nan, dtype=torch.float32, device=device)
    source[head, slot[head, token]] = token + protected
    score[head, slot[head, token]] = scores_HT[head, token].float()
    return _with_protected(source, score, counts, protected)


def _with_protected(source: Tensor, score: Tensor, counts: Tensor, protected: int) -> LayerSelection:
    n_heads, width = source.shape
    slot = torch.arange(width + protected, device=source.device).expand(n_heads, -1)
    rank = slot - (width - counts)[:, None]
    padded_source = torch.cat([source.new_zeros(n_heads, protected), source], 1)
    padded_score = torch.cat([score.new_full((n_heads, protected), torch.nan), score], 1)
    front = (rank >= 0) & (rank < protected)
    padded_source = torch.where(front, rank, padded_source).masked_fill(rank < 0, PADDING)
    return LayerSelection(source_HK=padded_source, score_HK=padded_score.masked_fill(front | (rank < 0), torch.nan))


def shared(layer: LayerSelection, n_layers: int) -> tuple[LayerSelection, ...]:
    """One selection for all layers, as one object."""
    return (layer,) * n_layers


def surviving(source_HK: Tensor, kept: Sequence[int], n_tokens: int) -> tuple[Tensor, Tensor]:
    """Slots of the states whose tokens are ``kept``, and their new source positions; both (H, K'), padded left by -1.

    New positions count the kept tokens from 0. ``source_HK`` holds positions in a text of ``n_tokens``, -1 in padding.
    """
    renumbered = torch.full((n_tokens + 1,), PADDING, dtype=torch.long, device=source_HK.device)
    renumbered[torch.tensor(list(kept), dtype=torch.long, device=source_HK.device)] = torch.arange(
        len(kept), device=source_HK.device
    )
    source = renumbered[source_HK]  # padding reads the last entry
    stays = source >= 0
    width = int(stays.sum(-1).max())
    # stable, so that what stays keeps its order while it moves to the end of its head
    slot = torch.sort(stays.long(), dim=-1, stable=True).indices[:, source.shape[1] - width :]
    found = source.gather(1, slot)
    return slot.masked_fill(found < 0, PADDING), found


def expand_heads(mask_T: Tensor, scores_T: Tensor, n_heads: int) -> tuple[Tensor, Tensor]:
    """One decision for all heads: views (H, T) of a mask and its scores."""
    return mask_T.expand(n_heads, -1), scores_T.expand(n_heads, -1)
