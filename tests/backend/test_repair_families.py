"""Models with experts, half-rotated heads, norms before rotation and explicit head widths."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from edited_caches import Deletion, largest, states
from tiny_models import make_tiny

from kvrelay.backend.attention import register_attention
from kvrelay.backend.gate import check_gate
from kvrelay.backend.load import ModelSpec, facts_of, load_model, wrap_model
from kvrelay.backend.refresh import refreshed
from kvrelay.backend.scope import refuse_out_of_scope
from kvrelay.backend.tiny import byte_tokenizer, tiny_config, tiny_model
from kvrelay.core.errors import UnsupportedModelError
from kvrelay.repair.executors import Interval, Packed

MOE = ("qwen3_moe", "glm4_moe")


@pytest.mark.parametrize("family", MOE)
def test_parameters_are_counted_with_all_experts(family: str) -> None:
    config = tiny_config(family)
    module = tiny_model(config)
    counted = sum(value.numel() for name, value in module.named_parameters() if "norm" not in name)
    assert facts_of(ModelSpec(name="m", source="x"), config).n_parameters == counted


def test_dense_layers_among_sparse_ones_are_counted() -> None:
    for changes in ({"mlp_only_layers": [1]}, {"decoder_sparse_step": 2}):
        config = tiny_config("qwen3_moe", **changes)
        counted = sum(value.numel() for name, value in tiny_model(config).named_parameters() if "norm" not in name)
        assert facts_of(ModelSpec(name="m", source="x"), config).n_parameters == counted


def test_glm_turns_half_of_each_head_and_the_shift_leaves_the_rest() -> None:
    model, _ = make_tiny("glm4_moe")
    assert model.rope.rotary_dim == 8 and model.facts.head_dim == 16
    deletion = Deletion(model)
    kept = deletion.edit.kept(len(deletion.ids))
    for old, new in zip(deletion.dirty.layers, deletion.shifted.layers, strict=True):
        assert torch.equal(old.keys_HKD[:, kept, 8:], new.keys_HKD[..., 8:])
        moved = (old.keys_HKD[:, kept, :8] != new.keys_HKD[..., :8]).any(-1)
        assert bool(moved[:, deletion.splice :].all()) and not bool(moved[:, : deletion.splice].any())


@pytest.mark.parametrize("family", ["qwen3", "qwen3_moe", "glm4_moe"])
def test_a_head_width_that_is_not_hidden_over_heads_is_taken_from_the_config(family: str) -> None:
    """Others took hidden / heads, which is wrong for Qwen3-30B-A3B (InfoFlow-KV)."""
    config = tiny_config(family, vocab_size=97, head_dim=24)
    register_attention()
    module = tiny_model(config, dtype=torch.float64)
    module.set_attn_implementation("kvrelay")
    model = wrap_model(module, facts_of(ModelSpec(name="m", source="x", dtype="float64"), config))
    assert model.facts.head_dim == 24 != model.facts.hidden_size // model.facts.n_query_heads
    deletion = Deletion(model)
    for executor in (Packed(), Interval()):
        replayed, _ = refreshed(model, deletion.shifted, executor.schedule(deletion.suffix), deletion.edited_ids)
        assert largest(replayed, deletion.clean) <= 64 * torch.finfo(torch.float32).eps


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("family", MOE)
def test_a_saved_model_with_experts_loads_and_passes_the_gate(family: str, dtype: str, tmp_path: Path) -> None:
    model = load_model(saved(family, dtype, tmp_path))
    assert {check.name for check in check_gate(model)} >= {"replay equals re-prefill"}


@pytest.mark.parametrize("family", MOE)
def test_experts_in_bfloat16_replay_up_to_tokens_that_another_expert_took(family: str, tmp_path: Path) -> None:
    """A rounding may send a token to another expert, so single tokens differ and most do not."""
    model = load_model(saved(family, "bfloat16", tmp_path))
    deletion = Deletion(model)
    replayed, _ = refreshed(model, deletion.shifted, Packed().schedule(deletion.suffix), deletion.edited_ids)
    off = (states(replayed) - states(deletion.clean)).abs().amax((0, 1, 2, 4))
    stale = (states(deletion.shifted) - states(deletion.clean)).abs().amax((0, 1, 2, 4))
    assert bool(states(replayed).isfinite().all())
    assert float(off[deletion.splice :].median()) < float(stale[deletion.splice :].median()) / 4


def saved(family: str, dtype: str, folder: Path) -> ModelSpec:
    tiny_model(tiny_config(family, len(byte_tokenizer()))).save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return ModelSpec(name="m", source=str(folder), dtype=dtype)  # type: ignore[arg-type]


def test_sliding_windows_of_these_families_are_refused_where_they_are_on() -> None:
    refuse_out_of_scope(tiny_config("qwen3_moe", sliding_window=64, use_sliding_window=False), "m")
    on = SimpleNamespace(model_type="qwen3_moe", use_sliding_window=True, sliding_window=64, rope_parameters={})
    with pytest.raises(UnsupportedModelError, match="sliding"):
        refuse_out_of_scope(on, "m")
    with pytest.raises(UnsupportedModelError, match="deepseek_v3"):
        refuse_out_of_scope(SimpleNamespace(model_type="deepseek_v3", kv_lora_rank=512), "m")
