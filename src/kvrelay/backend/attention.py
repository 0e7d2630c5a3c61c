"""The one attention function that this software registers, and what it does in each kind of forward pass.

A stock model looks its attention up by name and hands on every keyword that it does not know. So one registered
function and one keyword, ``relay``, run prefill, ragged caches and repair on unchanged model code. transformers builds
no mask for a name that it does not know, and it drops what it cannot use in silence: hence the refusals here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from kvrelay.core.errors import PositionError

ATTENTION_NAME = "kvrelay"


class Attend(Protocol):
    """How queries (B, Hq, Q, D) read a layer's keys and values (B, H, K, D); gives (B, Hq, Q, D)."""

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Tensor: ...


class ForwardStopped(Exception):
    """Raised in an ``attend`` to end a forward pass early: all that was wanted of it has been computed.

    It passes through a stock model's own forward, whose wrappers undo what they set in ``finally``; whoever runs the
    pass catches it.
    """


class Recorder(Protocol):
    """Watches a causal prefill, layer by layer, and keeps a reduction of its attention."""

    def record(self, layer: int, query: Tensor, key: Tensor, scaling: float) -> None: ...


def relay_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float,
    relay: Attend | None = None,
    dropout: float = 0.0,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """What transformers calls for each layer. Refuses to run without its keyword, with a mask, or to give weights."""
    if relay is None:
        raise PositionError("a forward pass came without its relay= keyword; call the model through kvrelay.backend")
    if attention_mask is not None or dropout or kwargs.get("output_attentions"):
        raise PositionError(
            "attention_mask, dropout and output_attentions are not supported; masks come from positions"
        )
    out = relay.attend(int(module.layer_idx), query, key, value, scaling)  # type: ignore[arg-type]
    return out.transpose(1, 2).contiguous(), None


def register_attention() -> None:
    """Make the function known to transformers; called when a model is loaded, never on import."""
    AttentionInterface.register(ATTENTION_NAME, relay_attention)


class CausalPrefill:
    """Every token of one sequence attends to itself and all before it; recorders watch."""

    def __init__(self, recorders: Sequence[Recorder] = ()) -> None:
        self.recorders = recorders

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Tensor:
        if query.shape[2] != key.shape[2]:
            raise PositionError(f"prefill wants an empty cache; {query.shape[2]} queries met {key.shape[2]} keys")
        for recorder in self.recorders:
            recorder.record(layer, query, key, scaling)
        return scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True, scale=scaling)


class RaggedContinuation:
    """New tokens after a history of which each row, layer and head may hold another number of states.

    ``valid_LBHK``: per layer a bool (B, H, K) over the history's slots, or None where every slot is valid. Columns
    from K on are the new tokens, causal among themselves. Query heads of one KV head are folded into the query axis,
    so that no kernel needs keys and values repeated.
    """

    def __init__(self, valid_LBHK: Sequence[Tensor | None], widths_L: Sequence[int]) -> None:
        self.valid_LBHK = valid_LBHK
        self.widths_L = widths_L

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Tensor:
        batch, n_query_heads, n_new, width = query.shape
        n_heads, n_keys = key.shape[1], key.shape[2]
        group = n_query_heads // n_heads
        folded = query.reshape(batch, n_heads, group * n_new, width)
        mask = self._mask(layer, n_new, n_keys, query.device)
        if mask is not None and n_new > 1:
            mask = mask[:, :, None].expand(-1, -1, group, -1, -1).reshape(*mask.shape[:2], group * n_new, n_keys)
        out = scaled_dot_product_attention(folded, key, value, attn_mask=mask, scale=scaling)
        return out.reshape(batch, n_query_heads, n_new, width)

    def _mask(self, layer: int, n_new: int, n_keys: int, device: torch.device) -> Tensor | None:
        """(B or 1, H or 1, n_new, n_keys) bool, or None where nothing is hidden."""
        valid, width = self.valid_LBHK[layer], self.widths_L[layer]
        if valid is None and n_new == 1:
            return None
        n_seen = n_keys - width
        among_new = torch.ones(n_new, n_seen, dtype=torch.bool, device=device).tril(n_seen - n_new)
        if valid is None:
            history = torch.ones(1, 1, n_new, width, dtype=torch.bool, device=device)
        else:
            history = valid[:, :, None].expand(-1, -1, n_new, -1)
        return torch.cat([history, among_new.expand(*history.shape[:2], -1, -1)], -1)
