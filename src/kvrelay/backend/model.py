"""A loaded model: what is known of it, and the one place that calls its forward."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from kvrelay.backend.attention import ATTENTION_NAME, Attend
from kvrelay.backend.layers import RelayCache
from kvrelay.core.errors import PositionError
from kvrelay.core.rope import RotarySpec

HALF_PRECISION = frozenset({"bfloat16", "float16"})
"""Types in which what else is in a batch can change an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """Everything about a model that plans, ranges and records need; from its config alone."""

    name: str
    n_layers: int
    n_query_heads: int
    n_kv_heads: int
    head_dim: int
    hidden_size: int
    vocab_size: int
    position_range: int
    dtype: str
    rope_type: str
    n_parameters: int = 0

    @property
    def element_bytes(self) -> int:
        return torch.empty(0, dtype=getattr(torch, self.dtype)).element_size()

    @property
    def state_bytes(self) -> int:
        """Bytes of one token's keys and values over all layers."""
        return 2 * self.n_layers * self.n_kv_heads * self.head_dim * self.element_bytes


@dataclass(frozen=True, slots=True, eq=False)
class CausalModel:
    """A stock causal language model whose attention is the registered one. Values in, values out."""

    module: Any
    facts: ModelFacts
    rope: RotarySpec
    eos_ids: tuple[int, ...]

    @property
    def device(self) -> torch.device:
        return self.module.get_input_embeddings().weight.device

    @property
    def dtype(self) -> torch.dtype:
        return self.module.dtype

    @torch.inference_mode()
    def forward(self, ids_BQ: Tensor, positions_BQ: Tensor, cache: RelayCache, relay: Attend) -> Tensor:
        """Hidden states (B, Q, hidden). Positions are always given; they never follow from a physical length."""
        body = self.module.get_decoder()
        if body.config._attn_implementation != ATTENTION_NAME:
            raise PositionError(
                f"the model's attention was changed to {body.config._attn_implementation!r} after loading"
            )
        keyword = "cache" if "cache" in _parameters(body) else "past_key_values"
        given = {keyword: cache, "input_ids": ids_BQ, "position_ids": positions_BQ, "use_cache": True, "relay": relay}
        return body(**given).last_hidden_state

    @torch.inference_mode()
    def logits(self, hidden: Tensor) -> Tensor:
        """float32 logits (float64 for a float64 model) of hidden states (..., hidden)."""
        out = self.module.get_output_embeddings()(hidden)
        return out if out.dtype == torch.float64 else out.float()

    def row(self, ids: Sequence[int]) -> Tensor:
        """Token ids as a batch of one on the model's device."""
        return torch.tensor([list(ids)], dtype=torch.long, device=self.device)


def _parameters(body: Any) -> frozenset[str]:
    """Names that a forward takes; decorators keep the signature through ``__wrapped__``."""
    return frozenset(inspect.signature(body.forward).parameters)
