"""How refreshed tokens read a cache: three ways to the same attention, exact by position.

Slots hold ascending positions, so a token in slot s may read slots 0 … s. A pass hands on the keys and values of slots
0 … its last one; B are its refreshed tokens, G the query heads of one KV head, n the slots that are handed on. No way
repeats keys or values for the query heads, and none makes a T x T mask.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention

from kvrelay.backend.attention import Attend, ForwardStopped
from kvrelay.core.repair import Kernel

CAUSAL_ROWS = 512
"""Rows that one causal call treats on a CPU, where torch writes its mask out: 512 x n, not T x T."""
MASK_BYTES = 1 << 26
"""What all masks of a masked pass may take together; above it, they are made again for each layer."""
CHUNKS, CHUNK_ROWS = 8, 8
"""Most chunks, and least rows of one, of a masked pass on a CPU. For slots spread evenly, c chunks read (1 + 1/c) / 2
of the keys; on an accelerator one call is faster than several."""
PRODUCT_CHUNKS, PRODUCT_ROWS = 3, 24
"""The same of a pass by products. Fewer, because each chunk brings its keys into a product's layout again."""
LEVEL_KEYS = 64
"""First keys whose largest score is a row's level. They hold the sink of attention: it is near the row's maximum."""
QUERY_BLOCK, KEY_BLOCK = 32, 1024
"""Tokens a block of the blockwise kernel: scores of a block stay within a core's cache."""


class LastLayerWrites:
    """Ends a pass when its last layer's keys and values are written: what that layer would attend to, nobody reads."""

    def __init__(self, inner: Attend, n_layers: int) -> None:
        self.inner = inner
        self.last = n_layers - 1

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Tensor:
        if layer == self.last:
            raise ForwardStopped
        return self.inner.attend(layer, query, key, value, scaling)


class CausalInterval:
    """The last Q of n consecutive positions: token i of them reads keys 0 … n - Q + i (bottom-right alignment)."""

    def __init__(self) -> None:
        self.products: ProductSlots | None = None

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Tensor:
        n_queries, n_keys = query.shape[2], key.shape[2]
        if n_queries == 1:
            return folded_attention(query, key, value, None, scaling)
        if _products_are_faster(query):
            slots = range(n_keys - n_queries, n_keys)
            if self.products is None or self.products.slots != slots:
                self.products = ProductSlots(slots, query.shape[1] // key.shape[1])
            return self.products.attend(layer, query, key, value, scaling)
        rows = CAUSAL_ROWS if query.device.type == "cpu" else n_queries
        parts = []
        for start in range(0, n_queries, rows):
            stop = min(n_queries, start + rows)
            end = n_keys - n_queries + stop
            parts.append(
                scaled_dot_product_attention(
                    query[:, :, start:stop],
                    key[:, :, :end],
                    value[:, :, :end],
                    attn_mask=causal_lower_right(stop - start, end),
                    enable_gqa=query.shape[1] != key.shape[1],
                    scale=scaling,
                )
            )
        return parts[0] if len(parts) == 1 else torch.cat(parts, 2)


class MaskedSlots:
    """Any ascending slots at once: SDPA under one boolean mask of positions, made once and reused by all layers.

    The query heads of a KV head are folded into the query axis. Rows are cut into ``chunks`` of neighbours, each of
    which meets the keys up to its own last position only; its mask is the part of the one mask that it needs.
    """

    def __init__(self, slots: Sequence[int], group: int, device: torch.device) -> None:
        self.slots = slots
        self.group = group
        self.chunks = list(_chunks(len(slots), device))
        self.keeps = sum((stop - start) * (slots[stop - 1] + 1) for start, stop in self.chunks) * group <= MASK_BYTES
        self.masks: dict[tuple[int, torch.device], Tensor | None] = {}
        self.products = ProductSlots(slots, group)

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Tensor:
        if _products_are_faster(query):
            return self.products.attend(layer, query, key, value, scaling)
        parts = []
        for start, stop in self.chunks:
            end = self.slots[stop - 1] + 1
            mask = self._mask(start, stop, query.device)
            part = folded_attention(query[:, :, start:stop], key[:, :, :end], value[:, :, :end], mask, scaling)
            parts.append(part)
        return parts[0] if len(parts) == 1 else torch.cat(parts, 2)

    def _mask(self, start: int, stop: int, device: torch.device) -> Tensor | None:
        """(G (stop - start), end) bool, or None where one token reads all that is handed on."""
        if stop - start == 1:
            return None
        if (start, device) not in self.masks:
            mask = position_mask(self.slots[start:stop], device).repeat(self.group, 1)
            if not self.keeps:
                return mask
            self.masks[start, device] = mask
        return self.masks[start, device]


class ProductSlots:
    """Any ascending slots in bfloat16 on a CPU, where SDPA multiplies at a fraction of the speed of a plain product.

    What a product rounds is a score less its row's ``level``. Softmax is the same for any level, and the error is 2^-8
    of the distance from it (2^-8 of the score, were none taken off); sums are float32, and weights are rounded to the
    cache's type as fused kernels do. A KV head is done with before the next, as its keys stay in a core's cache.
    """

    def __init__(self, slots: Sequence[int], group: int) -> None:
        self.slots = slots
        self.group = group
        rows = min(CAUSAL_ROWS, max(PRODUCT_ROWS, -(-len(slots) // PRODUCT_CHUNKS)))
        self.chunks = [(start, min(len(slots), start + rows)) for start in range(0, len(slots), rows)]
        self.keeps = 2 * sum((stop - start) * (slots[stop - 1] + 1) for start, stop in self.chunks) <= MASK_BYTES
        self.masks: dict[int, Tensor] = {}

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Tensor:
        n_heads = key.shape[1]
        rows = query[0].unflatten(0, (n_heads, self.group)).transpose(1, 2).flatten(1, 2)  # a token's heads together
        level = self._level(rows, key[0], scaling)
        out = torch.empty_like(rows)
        heads = zip(rows, key[0].transpose(1, 2), value[0], level, out, strict=True)
        for mine, turned, values, its_level, done in heads:
            for start, stop in self.chunks:
                end, cut = self.slots[stop - 1] + 1, slice(start * self.group, stop * self.group)
                scores = (self._mask(start, stop) - its_level[start:stop]).flatten(0, 1)
                scores.addmm_(mine[cut], turned[:, :end], alpha=scaling)
                torch.mm(scores.softmax(-1), values[:end], out=done[cut])
        tokens = out.unflatten(1, (-1, self.group)).transpose(0, 1).flatten(1, 2)  # as the next layer reads it
        return tokens.transpose(0, 1)[None]

    def _level(self, rows: Tensor, key: Tensor, scaling: float) -> Tensor:
        """(H, B, G, 1): each row's largest score among the first keys, of those that all rows may read."""
        first = key[:, : min(LEVEL_KEYS, self.slots[0] + 1)]
        found = (rows @ first.transpose(1, 2)).amax(-1, keepdim=True).mul_(scaling)
        return found.unflatten(1, (-1, self.group))

    def _mask(self, start: int, stop: int) -> Tensor:
        """(stop - start, 1, end) to be added: 0 or -inf."""
        if start in self.masks:
            return self.masks[start]
        hidden = ~position_mask(self.slots[start:stop], torch.device("cpu"))
        mask = torch.zeros(hidden.shape, dtype=torch.bfloat16).masked_fill_(hidden, -torch.inf)[:, None]
        if self.keeps:
            self.masks[start] = mask
        return mask


class BlockwiseSlots:
    """Experimental: softmax over blocks of keys with a running maximum, sums in float32.

    A block of queries meets the key blocks up to its last position and no more. In half precision, scores are a product
    and the product's own rounding error, each rounded (2^-18 of a score together); weights are rounded to the cache's
    type for the product with the values, as fused kernels do.
    """

    def __init__(self, slots: Sequence[int], group: int, device: torch.device) -> None:
        self.slots = slots
        self.group = group
        self.masks: dict[tuple[int, int, torch.device], Tensor] = {}

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Tensor:
        out = torch.empty_like(query)
        for start in range(0, len(self.slots), QUERY_BLOCK):
            stop = min(len(self.slots), start + QUERY_BLOCK)
            rows = _folded(query[:, :, start:stop], key.shape[1])[0]
            # head by head, because a batch of cut keys would be copied for the product
            heads = zip(rows, key[0], value[0], strict=True)
            done = torch.stack([self._block(start, stop, *head, scaling) for head in heads])
            out[:, :, start:stop] = done.view(query.shape[1], stop - start, -1)
        return out

    def _block(self, start: int, stop: int, query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Tensor:
        """(G (stop - start), D) of one KV head; the running maximum starts below every score."""
        exact = torch.promote_types(query.dtype, torch.float32)
        peak = torch.full((len(query), 1), -torch.inf, dtype=exact, device=query.device)
        total, mixed = torch.zeros_like(peak), torch.zeros(query.shape, dtype=exact, device=query.device)
        end = self.slots[stop - 1] + 1
        for first in range(0, end, KEY_BLOCK):
            last = min(end, first + KEY_BLOCK)
            scores = exact_scores(query, key[first:last]).mul_(scaling)
            if last > self.slots[start] + 1:
                scores.masked_fill_(self._hidden(start, stop, first, last, query.device), -torch.inf)
            higher = torch.maximum(peak, scores.amax(-1, keepdim=True))
            weights, faded = scores.sub_(higher).exp_(), (peak - higher).exp_()
            total = total * faded + weights.sum(-1, keepdim=True)
            mixed = mixed * faded + weights.to(value.dtype) @ value[first:last]
            peak = higher
        return (mixed / total).to(query.dtype)

    def _hidden(self, start: int, stop: int, first: int, last: int, device: torch.device) -> Tensor:
        if (start, first, device) not in self.masks:
            seen = position_mask(self.slots[start:stop], device, first, last)
            self.masks[start, first, device] = ~seen.repeat(self.group, 1)
        return self.masks[start, first, device]


def kernel_for(kernel: Kernel, slots: Sequence[int], group: int, device: torch.device) -> Attend:
    """The attention of one pass over ascending ``slots``; ``group`` is G."""
    if kernel == "causal":
        return CausalInterval()
    return MaskedSlots(slots, group, device) if kernel == "masked" else BlockwiseSlots(slots, group, device)


def position_mask(slots: Sequence[int], device: torch.device, first: int = 0, last: int | None = None) -> Tensor:
    """(B, last - first) bool: which of the slots ``first`` … ``last`` - 1 each token may read; all up to its own."""
    row = torch.tensor(list(slots), device=device)
    return torch.arange(first, slots[-1] + 1 if last is None else last, device=device) <= row[:, None]


def folded_attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scaling: float) -> Tensor:
    """SDPA of (1, Hq, B, D) over (1, H, n, D) with the G query heads of a KV head as further rows; mask (G B, n)."""
    out = scaled_dot_product_attention(_folded(query, key.shape[1]), key, value, attn_mask=mask, scale=scaling)
    return out.reshape(query.shape)


def exact_scores(query: Tensor, key: Tensor) -> Tensor:
    """q k of (R, D) and (n, D) in float32 (float64 for float64), though a half-precision product is rounded."""
    turned = key.t()
    rounded = query @ turned
    if query.dtype not in (torch.bfloat16, torch.float16):
        return rounded
    missing = torch.addmm(rounded, query, turned, beta=-1)
    return rounded.float().add_(missing)


def _folded(query: Tensor, n_heads: int) -> Tensor:
    _, n_query_heads, n_tokens, width = query.shape
    return query.reshape(1, n_heads, n_query_heads // n_heads * n_tokens, width)


def _products_are_faster(query: Tensor) -> bool:
    return query.device.type == "cpu" and query.dtype == torch.bfloat16


def _chunks(n_tokens: int, device: torch.device) -> list[tuple[int, int]]:
    """Neighbouring rows that share a cut of the keys, half-open."""
    rows = n_tokens if device.type != "cpu" else max(CHUNK_ROWS, -(-n_tokens // CHUNKS))
    return [(start, min(n_tokens, start + rows)) for start in range(0, n_tokens, rows)]
