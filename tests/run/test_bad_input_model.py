"""Models that are missing, damaged, out of scope, or not what their settings say."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from compose import compose_run
from given_data import given
from plain_config import group, plain_config
from safetensors.torch import load_file, save_file

from kvrelay.backend.load import ModelSpec, load_model
from kvrelay.backend.tiny import byte_tokenizer, tiny_config, tiny_model
from kvrelay.core.errors import AssetError, ConfigError, InvariantError, KVRelayError, UnsupportedModelError
from kvrelay.run.store import read_records

Mend = Callable[[Path], object]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A sound model with its tokenizer."""
    target = tmp_path / "given model"
    tiny_model(tiny_config(vocab_size=258)).save_pretrained(target)
    byte_tokenizer().save_pretrained(target)
    return target


def config_of(tmp_path: Path, source: object = None, **spec: Any) -> dict[str, Any]:
    config = plain_config(tmp_path, selector=group("selector", "bm25"))
    config["dataset"] = {"g": given(questions=["a?", "b?"]), "max_history_tokens": None}
    config["model"]["tiny"].update({"source": str(source)} if source is not None else {}, **spec)
    return config


def refusal(config: dict[str, Any]) -> KVRelayError:
    """The one error of a run that measures nothing."""
    with pytest.raises(KVRelayError) as caught:
        compose_run(config)
    assert read_records(Path(config["out"]) / "plain") == {}
    assert "\n" not in str(caught.value)
    return caught.value


def cut(name: str, n_bytes: int) -> Mend:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:n_bytes])


def settings(**changes: Any) -> Mend:
    def mend(folder: Path) -> None:
        file = folder / "config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | changes))

    return mend


def remove(name: str) -> Mend:
    return lambda folder: (folder / name).unlink()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (cut("model.safetensors", 50_000), "cannot read its weights"),
        (cut("model.safetensors", 100), "cannot read its weights"),
        (cut("model.safetensors", 0), "cannot read its weights"),
        (remove("model.safetensors"), "cannot read its weights"),
        (settings(num_hidden_layers=4), r"9 tensors are missing from its files \(model\.layers\.3"),
        (settings(num_hidden_layers=2), r"9 tensors are of layers that its config does not have \(model\.layers\.2"),
        (settings(vocab_size=300), "2 tensors are of another shape than its config says"),
        (settings(num_attention_heads=3), "cannot read its config"),
        (cut("config.json", 40), "cannot read its config"),
        (remove("config.json"), "cannot read its config"),
        (remove("tokenizer.json"), "has no tokenizer"),
        (cut("tokenizer.json", 300), "cannot read its tokenizer"),
    ],
)
def test_a_damaged_folder_is_one_error_that_names_the_folder_and_its_key(
    damage: Mend, words: str, folder: Path, tmp_path: Path
) -> None:
    """transformers fills missing tensors with random numbers: an answer of such a model would look like any other."""
    damage(folder)
    error = refusal(config_of(tmp_path, folder))
    assert isinstance(error, AssetError) and error.exit_code == 3
    with pytest.raises(AssetError, match=rf"model tiny: .*{words}.*model\.tiny\.source"):
        raise error
    assert str(folder) in str(error)


@pytest.mark.parametrize("name", ["chat_template.jinja"])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{% for m in messages %}", "refuses these messages.*endfor"),
        ("{{ raise_exception('roles must alternate') }}", "refuses these messages: roles must alternate"),
        (None, "has no chat template"),
    ],
)
def test_a_broken_chat_template_is_met_before_the_weights(
    name: str, text: str | None, words: str, folder: Path, tmp_path: Path
) -> None:
    if text is None:
        (folder / name).unlink()
    else:
        (folder / name).write_text(text)
    with pytest.raises(AssetError, match=rf"{words}.*model\.\*\.chat_template=false"):
        raise refusal(config_of(tmp_path, folder))


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("{tmp}/nowhere", "nowhere does not exist"),
        ("{tmp}/file", "file is no folder"),
        ("package:no.such.package", "no.such.package is not installed"),
        ("seeded:nothing", "no tiny 'nothing'; there are glm4_moe, llama, qwen2, qwen3, qwen3_moe"),
        ("  ", "source is empty"),
    ],
)
def test_a_source_that_is_none_names_its_key(source: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(KVRelayError, match=rf"{words}.*model\..*\.source"):
        raise refusal(config_of(tmp_path, source.format(tmp=tmp_path)))


@pytest.mark.parametrize(
    ("rope", "words"),
    [
        ({"rope_type": "dynamic", "factor": 2.0}, "rope_type 'dynamic' is not supported.*exact: default, linear"),
        ({"rope_type": "longrope"}, "rope_type 'longrope' is not supported"),
        ({"rope_type": "yarn"}, "rope_type 'yarn' wants factor"),
        ({"rope_type": "llama3", "factor": 8.0}, "rope_type 'llama3' wants low_freq_factor, high_freq_factor"),
    ],
)
def test_a_rotary_embedding_out_of_scope_is_named(rope: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModelError, match=rf"model tiny: {words}.*model\.\*\.rope_parameters"):
        raise refusal(config_of(tmp_path, rope_parameters=rope))


def test_a_second_model_out_of_scope_is_refused_before_the_first_one_runs(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvrelay.run.experiment.load_model", lambda *_: pytest.fail("a model was loaded"))
    settings(model_type="mistral")(folder)
    config = config_of(tmp_path)
    config["model"]["second"] = config["model"]["tiny"] | {"name": "second", "source": str(folder)}
    with pytest.raises(UnsupportedModelError, match="model second: model_type 'mistral'"):
        raise refusal(config)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"device": "cuda:99"}, r"device cuda:99 is not here.*key: model\.tiny\.device"),
        ({"device": "tpu"}, r"device 'tpu' is unknown.*key: model\.\*\.device"),
        ({"device": "cuda:x"}, r"device 'cuda:x' is unknown"),
        ({"dtype": "int8"}, r"model\.tiny\.dtype = 'int8'.*'float32', 'bfloat16'"),
        ({"position_range": -5}, r"position_range is -5; wanted at least 16.*key: model\.\*\.position_range"),
        ({"answer_eos": ["<stop>"]}, r"answer_eos names '<stop>'.*key: model\.tiny\.answer_eos"),
        ({"sorce": "x"}, r"model\.tiny\.sorce = 'x'.*Did you mean 'source'"),
    ],
)
def test_a_wrong_setting_of_a_model_names_its_key(spec: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=words):
        raise refusal(config_of(tmp_path, **spec))


def test_a_plan_can_be_made_where_the_device_is_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compose_run(config_of(tmp_path, device="cuda:99") | {"dry_run": True}) == 0
    assert "2 questions" in capsys.readouterr().out


def test_the_smallest_range_has_room_for_the_gate(tmp_path: Path) -> None:
    """No history fits it, which each answer's record says."""
    assert compose_run(config_of(tmp_path, position_range=16)) == 5


def test_a_file_in_place_of_the_cache_folder_is_told_with_its_key(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(AssetError, match=r"cannot write its files to .*file.*key: model\.tiny\.cache_folder"):
        raise refusal(config_of(tmp_path, cache_folder=str(tmp_path / "file")))


def test_a_torn_file_of_the_cache_is_to_be_deleted_not_copied(tmp_path: Path) -> None:
    spec = ModelSpec(name="m", source="seeded:llama", cache_folder=str(tmp_path))
    load_model(spec)
    cut("tiny-llama/model.safetensors", 100)(tmp_path)
    with pytest.raises(AssetError, match=r"Delete .*tiny-llama: it is made again.*key: model\.m\.cache_folder"):
        load_model(spec)


def overflowing(folder: Path) -> None:
    """Activations beyond what float16 holds (65,504) and far within float32."""
    file = folder / "model.safetensors"
    weights = {name: value * (3e4 if "down_proj" in name else 1) for name, value in load_file(file).items()}
    save_file(weights, file, metadata={"format": "pt"})


def test_a_model_that_overflows_its_dtype_answers_nothing(folder: Path, tmp_path: Path) -> None:
    """Without the gate, too, and without any likelihood that would show it: an unanswerable question is judged by the
    answer's text alone."""
    overflowing(folder)
    config = config_of(tmp_path, folder, dtype="float16")
    config["dataset"]["g"]["unanswerable"] = True
    error = refusal(config)
    assert isinstance(error, InvariantError) and error.exit_code == 6
    assert "logits are not finite" in str(error) and "model.tiny.dtype" in str(error)
    config["gate"] = False
    assert compose_run(config) == 5
    records = read_records(tmp_path / "out" / "plain").values()
    assert records and all(record.error and "not finite" in record.error.message for record in records)
    config["model"]["tiny"]["dtype"] = "float32"
    assert compose_run(config | {"out": str(tmp_path / "wide")}) == 0


def test_one_answer_that_overflows_fails_alone(folder: Path, tmp_path: Path) -> None:
    """The token Q is broken; the question without it shares the history, the batch and the run."""
    file = folder / "model.safetensors"
    weights = load_file(file)
    letter = byte_tokenizer().convert_tokens_to_ids("Q")
    weights["model.embed_tokens.weight"][letter] = torch.nan
    save_file(weights, file, metadata={"format": "pt"})
    config = config_of(tmp_path, folder) | {"gate": False}
    config["dataset"]["g"]["questions"] = ["Q?", "a?"]
    assert compose_run(config) == 5
    found = {(record.question, record.status) for record in read_records(tmp_path / "out" / "plain").values()}
    assert found == {("Q?", "error"), ("a?", "ok")}
