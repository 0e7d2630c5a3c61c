"""What allocators may look at besides tokens: a model over the shifted cache of an edited context.

Nothing here changes the cache, and nothing that is computed is kept: a pass stops as soon as what was asked for is
there, and its own keys and values are dropped with it. The question stands at the positions after the context.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import torch
from torch import Tensor

from kvrelay.backend.attention import Attend, ForwardStopped, RaggedContinuation
from kvrelay.backend.kernels import CausalInterval
from kvrelay.backend.layers import JoinLayer, RelayCache
from kvrelay.backend.model import CausalModel
from kvrelay.backend.refresh import ascending_coordinates
from kvrelay.core.cache import KVCache
from kvrelay.core.deviation import relative
from kvrelay.core.errors import ConfigError, EditError
from kvrelay.core.history import Question
from kvrelay.core.repair import EditedContext, FreshStates


class ModelProbe:
    """The core protocol `Probe` over ``cache``, which holds the context's n tokens, shifted and one coordinate each.

    The question is its bare text where that was given, else all tokens that follow the context. Raises `EditError`
    where neither has a token, or where the cache is not that of the context.
    """

    def __init__(self, model: CausalModel, cache: KVCache, context: EditedContext, question: Question) -> None:
        self.model, self.cache, self.context = model, cache, context
        self.question_ids = question.text_ids or question.token_ids
        self.coordinate_K = ascending_coordinates(cache)
        if len(self.coordinate_K) != len(context.token_ids):
            raise EditError(
                f"the cache holds {len(self.coordinate_K)} states, the edited context {len(context.token_ids)} tokens"
            )

    @property
    def n_layers(self) -> int:
        return self.model.facts.n_layers

    @torch.inference_mode()
    def embeddings(self, token_ids: Sequence[int]) -> Tensor:
        """Frozen input embeddings (len, hidden) in float32."""
        return self.model.module.get_input_embeddings()(self.model.row(token_ids)[0]).float()

    def question_attention(self, layers: Iterable[int], visit: Callable[[int, Tensor], None]) -> None:
        """Hand on each asked layer's attention of the question to the context, (Hq, U, n) float32, ascending."""
        wanted = sorted({self._checked(layer) for layer in layers})
        if not wanted:
            return
        ids = self._question()
        n_slots = len(self.coordinate_K)
        inner = RaggedContinuation([None] * self.n_layers, [n_slots] * self.n_layers)
        self._run(ids, n_slots, _AttentionVisitor(inner, wanted, n_slots, visit))

    def fresh_states(self, layer: int) -> FreshStates:
        """The suffix and the question, run through the layers before ``layer``; only prefix states are read."""
        ids, splice, n_slots = self._question(), self.context.splice, len(self.coordinate_K)
        catcher = _StateCatcher(CausalInterval(), self._checked(layer))
        self._run((*self.context.suffix_ids, *ids), splice, catcher)
        query, key, value = catcher.caught
        stale, exact = self.cache.layers[layer], torch.float32
        return FreshStates(
            key_HSD=key[0, :, splice:n_slots].to(exact),
            value_HSD=value[0, :, splice:n_slots].to(exact),
            stale_key_HSD=stale.keys_HKD[:, splice:].to(exact),
            stale_value_HSD=stale.values_HKD[:, splice:].to(exact),
            question_query=query[0, :, n_slots - splice :].to(exact),
            question_key_HUD=key[0, :, n_slots:].to(exact),
            scaling=catcher.scaling,
        )

    def _run(self, ids: Sequence[int], n_read: int, attend: Attend) -> None:
        """A pass of the tokens after the first ``n_read`` slots, which it reads: the context's, then new ones."""
        known = self.coordinate_K[n_read:]
        start = self.cache.next_position
        after = torch.arange(start, start + len(ids) - len(known), device=known.device)
        positions = torch.cat([known, after])[None].to(self.model.device)
        layers = [
            JoinLayer(layer.keys_HKD[None, :, :n_read], layer.values_HKD[None, :, :n_read])
            for layer in self.cache.layers
        ]
        with suppress(ForwardStopped):
            self.model.forward(self.model.row(ids), positions, RelayCache(layers), attend)

    def _question(self) -> tuple[int, ...]:
        if not self.question_ids:
            raise EditError("the question has no tokens; an allocator that probes the model with it needs some")
        return self.question_ids

    def _checked(self, layer: int) -> int:
        if not 0 <= layer < self.n_layers:
            raise ConfigError(
                f"an allocator asked for layer {layer} of a model with layers 0 … {self.n_layers - 1} "
                "(keys: allocator.*.layers, allocator.*.layer)"
            )
        return layer


class CleanModelProbe(ModelProbe):
    """The core protocol `CleanProbe`: it has also seen ``clean``, the cache of the edited text run afresh."""

    def __init__(
        self, model: CausalModel, cache: KVCache, context: EditedContext, question: Question, clean: KVCache
    ) -> None:
        super().__init__(model, cache, context, question)
        self.clean = clean

    def deviation(self) -> Tensor:
        """(L, S) float32: |K - K*|^2 / |K*|^2 + |V - V*|^2 / |V*|^2 against the clean states K*, V*, over heads."""
        start = self.context.splice
        rows = []
        for shifted, clean in zip(self.cache.layers, self.clean.layers, strict=True):
            exact = torch.promote_types(clean.keys_HKD.dtype, torch.float32)
            pairs = ((clean.keys_HKD, shifted.keys_HKD), (clean.values_HKD, shifted.values_HKD))
            keys, values = (relative(*(one[:, start:].to(exact) for one in pair)) for pair in pairs)
            rows.append((keys + values).float().cpu())
        return torch.stack(rows)


class _AttentionVisitor:
    """Hands on softmax rows of the asked layers; ends the pass at the last of them."""

    def __init__(
        self, inner: Attend, wanted: Sequence[int], n_slots: int, visit: Callable[[int, Tensor], None]
    ) -> None:
        self.inner, self.wanted, self.n_slots, self.visit = inner, frozenset(wanted), n_slots, visit
        self.last = max(wanted)

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Tensor:
        if layer in self.wanted:
            self.visit(layer, question_softmax(query[0], key[0], scaling)[:, :, : self.n_slots].float())
        if layer == self.last:
            raise ForwardStopped
        return self.inner.attend(layer, query, key, value, scaling)


class _StateCatcher:
    """Keeps one layer's queries, keys and values and ends the pass there."""

    def __init__(self, inner: Attend, layer: int) -> None:
        self.inner, self.layer = inner, layer
        self.caught: tuple[Tensor, Tensor, Tensor] = ()  # type: ignore[assignment]
        self.scaling = 1.0

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Tensor:
        if layer == self.layer:
            self.caught, self.scaling = (query, key, value), scaling
            raise ForwardStopped
        return self.inner.attend(layer, query, key, value, scaling)


def question_softmax(query_HUD: Tensor, key_HKD: Tensor, scaling: float) -> Tensor:
    """(Hq, U, K) attention of the last U of K positions, causal, at least in float32."""
    n_query_heads, n_new, width = query_HUD.shape
    n_heads, n_keys, _ = key_HKD.shape
    exact = torch.promote_types(query_HUD.dtype, torch.float32)
    folded = query_HUD.reshape(n_heads, -1, width).to(exact)
    scores = (folded @ key_HKD.to(exact).transpose(1, 2)).mul_(scaling).view(n_query_heads, n_new, n_keys)
    future = torch.ones(n_new, n_new, dtype=torch.bool, device=scores.device).triu(1)
    scores[:, :, n_keys - n_new :].masked_fill_(future, -torch.inf)
    return scores.softmax(-1)
