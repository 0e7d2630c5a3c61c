"""Rotary modules of real models, and the slow literal rotation that the fast one is held against."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from transformers import LlamaConfig, Qwen2Config
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.qwen2.modeling_qwen2 import Qwen2RotaryEmbedding

from kvrelay.core.rope import RotarySpec

HEAD_DIM = 64
ROPES = {
    "default": {"rope_theta": 10_000.0},
    "linear": {"rope_theta": 10_000.0, "factor": 4.0},
    "llama3": {
        "rope_theta": 500_000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8_192,
    },
    "yarn": {"rope_theta": 1_000_000.0, "factor": 4.0, "original_max_position_embeddings": 32_768},
}
TwoStep = Callable[[Tensor, RotarySpec, Tensor, Tensor], Tensor]


def rotary_module(rope_type: str) -> torch.nn.Module:
    """The model library's own module: Qwen2 with static YaRN x4, Llama for the others."""
    config_class, module_class = (
        (Qwen2Config, Qwen2RotaryEmbedding) if rope_type == "yarn" else (LlamaConfig, LlamaRotaryEmbedding)
    )
    config = config_class(
        hidden_size=2 * HEAD_DIM,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=131_072,
        rope_parameters={"rope_type": rope_type, **ROPES[rope_type]},
    )
    return module_class(config)


@pytest.fixture(params=sorted(ROPES))
def module(request: pytest.FixtureRequest) -> torch.nn.Module:
    return rotary_module(request.param)


@pytest.fixture
def rope(module: torch.nn.Module) -> RotarySpec:
    """What the backend reads from a loaded model."""
    return RotarySpec(inv_freq=module.inv_freq, scaling=module.attention_scaling, rope_type=module.rope_type)


@pytest.fixture
def plain_rope() -> RotarySpec:
    """A small unscaled rotation, head width 8."""
    return RotarySpec(inv_freq=1.0 / 100.0 ** (torch.arange(4) / 4))


def _rotate_half(keys: Tensor) -> Tensor:
    half = keys.shape[-1] // 2
    return torch.cat((-keys[..., half:], keys[..., :half]), -1)


def _full_width(rope: RotarySpec, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    angles = positions.float()[..., None] * rope.inv_freq
    cos, sin = angles.cos() * rope.scaling, angles.sin() * rope.scaling
    return torch.cat((cos, cos), -1).to(dtype), torch.cat((sin, sin), -1).to(dtype)


@pytest.fixture
def fresh() -> Callable[[Tensor, RotarySpec, Tensor], Tensor]:
    """What a model caches at a position: R_p k in the dtype of k, from the float32 factors."""

    def turn(raw: Tensor, rope: RotarySpec, positions: Tensor) -> Tensor:
        cos, sin = _full_width(rope, positions, raw.dtype)
        return raw * cos + _rotate_half(raw) * sin

    return turn


@pytest.fixture
def two_step() -> TwoStep:
    """Appendix A to the letter, in the dtype of the keys: transposed scaled rotation / (c^2 + s^2), then the target."""

    def relocate(keys: Tensor, rope: RotarySpec, source: Tensor, target: Tensor) -> Tensor:
        cos, sin = _full_width(rope, source, keys.dtype)
        raw = (keys * cos - _rotate_half(keys) * sin) / (cos * cos + sin * sin)
        cos, sin = _full_width(rope, target, keys.dtype)
        return raw * cos + _rotate_half(raw) * sin

    return relocate
