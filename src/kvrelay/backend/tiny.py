"""Seeded random models of a few layers with a byte tokenizer: the smoke test's model, and every offline test's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel as ByteDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from transformers import (
    Glm4MoeConfig,
    Glm4MoeForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)

from kvrelay.backend.weights import written_once
from kvrelay.core.errors import ConfigError

SEEDED = "seeded:"
SPECIAL = ("<|turn|>", "<|end|>")
TEMPLATE = (
    "{% for m in messages %}<|turn|>{{ m['role'] }}\n{{ m['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|turn|>assistant\n{% endif %}"
)
FAMILIES: dict[str, tuple[Any, Any]] = {
    "llama": (LlamaConfig, LlamaForCausalLM),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
    "qwen3_moe": (Qwen3MoeConfig, Qwen3MoeForCausalLM),
    "glm4_moe": (Glm4MoeConfig, Glm4MoeForCausalLM),
}
_EXPERTS = {"moe_intermediate_size": 32, "num_experts_per_tok": 2}
FAMILY_SETTINGS: dict[str, dict[str, Any]] = {
    "qwen3_moe": {**_EXPERTS, "num_experts": 4, "norm_topk_prob": True},
    # As GLM-4.5-Air: one dense layer first, half of each head rotated; the norms are those of its larger sister.
    "glm4_moe": {**_EXPERTS, "n_routed_experts": 4, "use_qk_norm": True, "first_k_dense_replace": 1},
}


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """One token a byte, two special tokens and a chat template."""
    letters = {letter: index for index, letter in enumerate(sorted(ByteLevel.alphabet()))}
    backend = Tokenizer(BPE(vocab=letters, merges=[]))
    backend.pre_tokenizer = ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = ByteDecoder()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=SPECIAL[1], pad_token=SPECIAL[1])
    tokenizer.add_special_tokens({"additional_special_tokens": [SPECIAL[0]]})
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def tiny_config(family: str = "llama", vocab_size: int = 258, **changes: Any) -> Any:
    """A config of 3 layers, 4 query heads on 2 KV heads, head width 16, unless ``changes`` say otherwise."""
    if family not in FAMILIES:
        raise ConfigError(f"there is no tiny {family!r}; there are {', '.join(sorted(FAMILIES))} (key: model.*.source)")
    given: dict[str, Any] = {
        "vocab_size": vocab_size,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "max_position_embeddings": 16384,
        "initializer_range": 0.2,
        "tie_word_embeddings": False,
        "eos_token_id": 257,
        "bos_token_id": None,
        **FAMILY_SETTINGS.get(family, {}),
        **changes,
    }
    return FAMILIES[family][0](**given)


def tiny_model(config: Any, seed: int = 0, dtype: torch.dtype = torch.float32) -> Any:
    """A randomly initialised model of a config; the global generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = FAMILIES[config.model_type][1](config).eval()
    rotary = module.get_decoder().rotary_emb
    exact = {name: buffer.clone() for name, buffer in rotary.named_buffers()}
    module = module.to(dtype)
    for name, buffer in exact.items():  # a conversion rounds frequencies too; loading with a dtype does not
        setattr(rotary, name, buffer)
    if dtype == torch.float64 and getattr(config, "num_experts_per_tok", None):
        module.set_experts_implementation("eager")  # grouped matrix products have no float64
    return module


def seeded_folder(source: str, cache_folder: str) -> Path:
    """The saved model that ``seeded:FAMILY`` means, made once."""
    family = source.removeprefix(SEEDED)
    folder = Path(cache_folder) / f"tiny-{family}"
    if not (folder / "config.json").is_file():
        tokenizer = byte_tokenizer()
        model = tiny_model(tiny_config(family, len(tokenizer)))

        def write(partial: Path) -> None:
            model.save_pretrained(partial)
            tokenizer.save_pretrained(partial)

        written_once(folder, write)
    return folder
