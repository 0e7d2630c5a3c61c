"""Which models are taken, which are refused by name, and what a model must show before it is used."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tiny_models import FAMILIES, YARN, make_tiny

from kvrelay.backend.attention import CausalPrefill
from kvrelay.backend.gate import check_gate
from kvrelay.backend.layers import capture_cache
from kvrelay.backend.load import ModelSpec, facts_of, load_model, read_config, read_tokenizer
from kvrelay.backend.model import CausalModel
from kvrelay.backend.scope import refuse_out_of_scope
from kvrelay.backend.tiny import byte_tokenizer, tiny_config, tiny_model
from kvrelay.core.errors import AssetError, ConfigError, InvariantError, PositionError, UnsupportedModelError


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_every_family_passes_its_gate(name: str, dtype: torch.dtype) -> None:
    model, _ = make_tiny(name, dtype)
    checks = {check.name: check for check in check_gate(model)}
    assert {"identity", "translation invariance", "replay equals re-prefill"} <= checks.keys()
    assert all(check.passed for check in checks.values())


@pytest.mark.parametrize("name", ["llama", "qwen2-yarn"])
def test_wrong_frequencies_fail_the_gate(name: str) -> None:
    model, _ = make_tiny(name, torch.float32)
    wrong = replace(model, rope=replace(model.rope, inv_freq=model.rope.inv_freq * 1.01))
    with pytest.raises(InvariantError, match="translation invariance"):
        check_gate(wrong)


def test_yarn_in_force_has_its_attention_factor() -> None:
    """transformers 4.57 ran Qwen2 without YaRN and without a word when it was given in the newer field."""
    model, _ = make_tiny("qwen2-yarn")
    assert model.rope.scaling == pytest.approx(1.138629436111989, abs=1e-9)
    check_gate(model, expected_scaling=1.138629436111989)
    plain, _ = make_tiny("qwen2")
    with pytest.raises(InvariantError, match="attention scaling"):
        check_gate(plain, expected_scaling=1.138629436111989)


def test_yarn_changes_the_low_frequencies_and_keeps_the_high_ones() -> None:
    yarn, _ = make_tiny("qwen2-yarn")
    plain = 1e6 ** -(torch.arange(0, 16, 2) / 16)
    assert yarn.rope.inv_freq[0] == plain[0]
    assert yarn.rope.inv_freq[-1] == pytest.approx(float(plain[-1]) / 4)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}}, "dynamic"),
        ({"rope_parameters": {"rope_type": "longrope"}}, "longrope"),
        ({"rope_parameters": {"rope_type": "default", "mrope_section": [1, 1, 2]}}, "M-RoPE"),
        ({"rope_parameters": {"rope_type": "invented"}}, "invented"),
        ({"model_type": "mamba"}, "mamba"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "sliding_attention"),
        ({"use_sliding_window": True, "sliding_window": 128}, "sliding"),
        ({"kv_lora_rank": 64}, "latent"),
        ({"cache_implementation": "quantized"}, "quantised"),
    ],
)
def test_what_is_out_of_scope_is_refused_by_name(changes: dict[str, Any], word: str) -> None:
    config = SimpleNamespace(**{"model_type": "llama", "rope_parameters": {"rope_type": "default"}, **changes})
    with pytest.raises(UnsupportedModelError, match=word) as caught:
        refuse_out_of_scope(config, "m")
    assert "model.*.source" in str(caught.value)


def test_a_sliding_window_that_is_named_but_off_is_no_reason() -> None:
    config = tiny_config("qwen2", sliding_window=128, use_sliding_window=False)
    refuse_out_of_scope(config, "m")


def test_longrope_in_a_saved_config_is_refused_before_weights_are_read(tmp_path: Path) -> None:
    """llama.cpp#24875: frequencies that flip with the length cannot be re-rotated."""
    factors = [1.0] * 8
    config = tiny_config(
        rope_parameters={
            "rope_type": "longrope",
            "rope_theta": 1e4,
            "short_factor": factors,
            "long_factor": factors,
            "factor": 2.0,
            "original_max_position_embeddings": 64,
        }
    )
    config.save_pretrained(tmp_path)
    with pytest.raises(UnsupportedModelError, match="longrope"):
        load_model(ModelSpec(name="m", source=str(tmp_path)))


def test_a_folder_without_tokenizer_is_one_clear_error(tmp_path: Path) -> None:
    tiny_model(tiny_config()).save_pretrained(tmp_path)
    with pytest.raises(AssetError, match="tokenizer") as caught:
        read_tokenizer(ModelSpec(name="m", source=str(tmp_path)))
    assert "model.m.source" in str(caught.value)


def test_a_missing_folder_and_a_missing_package_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(AssetError, match="does not exist"):
        load_model(ModelSpec(name="m", source=str(tmp_path / "none")))
    with pytest.raises(AssetError, match="make env"):
        load_model(ModelSpec(name="m", source="package:no_such_package_here", gguf_file="x.gguf"))


def test_a_hub_model_out_of_reach_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(AssetError, match=r"model\.m\.source=FOLDER"):
        read_config(ModelSpec(name="m", source="nobody/no-such-model"))


def test_rope_parameters_of_the_spec_reach_the_loaded_model(tmp_path: Path) -> None:
    tiny_model(tiny_config("qwen2", max_position_embeddings=4096)).save_pretrained(tmp_path)
    byte_tokenizer().save_pretrained(tmp_path)
    spec = ModelSpec(name="m", source=str(tmp_path), rope_parameters=YARN)
    model = load_model(spec)
    assert model.rope.scaling == pytest.approx(1.138629436111989)
    assert model.facts.position_range == 16384
    check_gate(model)


def test_facts_come_from_the_config_alone_and_count_parameters(tmp_path: Path) -> None:
    config = tiny_config("llama")
    stock = tiny_model(config)
    facts = facts_of(ModelSpec(name="m", source="x"), config)
    counted = sum(parameter.numel() for parameter in stock.parameters())
    norms = (2 * 3 + 1) * 64
    assert facts.n_parameters == counted - norms
    assert facts.state_bytes == 2 * 3 * 2 * 16 * 4


def test_an_unknown_device_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"model\.\*\.device"):
        ModelSpec(name="m", source="x", device="tpu")


def test_calls_around_the_seam_are_refused(tiny: CausalModel) -> None:
    ids = torch.tensor([[1, 2, 3]])
    with pytest.raises(PositionError, match="relay="):
        tiny.module.get_decoder()(input_ids=ids)
    with pytest.raises(PositionError, match="not supported"):
        tiny.module.get_decoder()(input_ids=ids, relay=CausalPrefill(), attention_mask=torch.ones(1, 1, 3, 3))
    tiny.module.set_attn_implementation("sdpa")
    with pytest.raises(PositionError, match="sdpa"):
        tiny.forward(ids, torch.arange(3)[None], capture_cache(3), CausalPrefill())


def test_importing_registers_nothing() -> None:
    import subprocess
    import sys

    code = (
        "import kvrelay.backend.load, kvrelay.backend.attention as a; from transformers import AttentionInterface; "
        "assert a.ATTENTION_NAME not in AttentionInterface().valid_keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
