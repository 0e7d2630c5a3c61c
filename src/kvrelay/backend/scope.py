"""Which models are in scope, and refusal by name of those that are not."""

from __future__ import annotations

from typing import Any

from kvrelay.core.errors import UnsupportedModelError

FAMILIES = frozenset({"llama", "qwen2", "qwen3", "qwen3_moe", "glm4_moe"})
EXACT_ROPE_TYPES = frozenset({"default", "linear", "llama3", "yarn"})
ROPE_SETTINGS = {
    "linear": ("factor",),
    "yarn": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
}
"""Without which a type means nothing; what else it takes has a default of its own."""


def rope_parameters(config: Any) -> dict[str, Any]:
    """The rotary settings of a config, whichever name its version of transformers gives them."""
    found = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    return dict(found)


def refuse_out_of_scope(config: Any, name: str) -> None:
    """Raise `UnsupportedModelError` for a model whose states cannot be moved or repaired exactly."""
    for reason in (_family(config), _rope(config), _sliding(config), _other(config)):
        if reason:
            raise UnsupportedModelError(f"model {name}: {reason} (keys: model.*.source, model.*.rope_parameters)")


def _family(config: Any) -> str | None:
    kind = getattr(config, "model_type", "unknown")
    if kind in FAMILIES:
        return None
    return f"model_type {kind!r} is not supported; supported: {', '.join(sorted(FAMILIES))}"


def _rope(config: Any) -> str | None:
    parameters = rope_parameters(config)
    if "mrope_section" in parameters:
        return "M-RoPE gives a token several positions, so its key cannot be moved by one rotation"
    kind = parameters.get("rope_type", parameters.get("type", "default"))
    missing = [setting for setting in ROPE_SETTINGS.get(kind, ()) if setting not in parameters]
    if missing:
        return f"rope_type {kind!r} wants {', '.join(missing)} beside it"
    if kind in EXACT_ROPE_TYPES:
        return None
    return (
        f"rope_type {kind!r} is not supported, because its frequencies may depend on the length; "
        f"exact: {', '.join(sorted(EXACT_ROPE_TYPES))}"
    )


def _sliding(config: Any) -> str | None:
    kinds = set(getattr(config, "layer_types", None) or ())
    off = kinds - {"full_attention"}
    if off:
        return f"layers of type {', '.join(sorted(off))} do not see the whole cache"
    if getattr(config, "use_sliding_window", False) and getattr(config, "sliding_window", None) and not kinds:
        return "sliding-window attention is switched on (use_sliding_window)"
    return None


def _other(config: Any) -> str | None:
    if getattr(config, "kv_lora_rank", None):
        return "multi-head latent attention caches no rotated keys"
    if getattr(config, "cache_implementation", None) == "quantized":
        return "quantised caches cannot be re-rotated exactly"
    return None
