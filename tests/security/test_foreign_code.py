"""Nothing that came with a model or a data set is ever run: no pickle, no code from the hub, no archive unpacked."""

from __future__ import annotations

import ast
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from compose import compose
from plain_config import ROOT, plain_config

from kvrelay.backend.load import ModelSpec, load_model, read_config, read_tokenizer
from kvrelay.backend.tiny import seeded_folder
from kvrelay.core.errors import AssetError, ConfigError
from kvrelay.run.build import refuse_foreign_code

TOPS = ("src/kvrelay", "data_adapters", "judges", "scripts", "hydra_plugins")
CODE = [path for top in TOPS for path in (ROOT / top).rglob("*.py")]
UNPICKLERS = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "imp"}
UNPACKERS = {"zipfile", "tarfile", "zipimport", "bz2", "lzma"}
READERS = {
    *(
        "torch.load",
        "torch.jit.load",
        "torch.hub.load",
        "numpy.load",
        "np.load",
        "pd.read_pickle",
        "pandas.read_pickle",
    ),
    *(
        "yaml.load",
        "yaml.unsafe_load",
        "yaml.full_load",
        "shutil.unpack_archive",
        "eval",
        "exec",
        "os.system",
        "os.popen",
    ),
}


def nodes(source: str) -> Iterator[ast.AST]:
    return ast.walk(ast.parse(source))


def forbidden(source: str) -> list[str]:
    """Imports, calls and keywords of a module that could run what a file brings along."""
    found = []
    for node in nodes(source):
        if isinstance(node, ast.Import):
            found += [name.name for name in node.names if name.name.split(".")[0] in UNPICKLERS | UNPACKERS]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in UNPICKLERS | UNPACKERS:
            found.append(str(node.module))
        elif isinstance(node, ast.Call):
            if ast.unparse(node.func) in READERS:
                found.append(ast.unparse(node.func))
            for word in node.keywords:
                if word.arg in ("trust_remote_code", "allow_pickle", "shell") and ast.unparse(word.value) != "False":
                    found.append(f"{word.arg}={ast.unparse(word.value)}")
    return found


def test_no_module_reads_pickles_archives_or_foreign_code() -> None:
    assert len(CODE) > 100
    found = {path.relative_to(ROOT).as_posix(): forbidden(path.read_text(encoding="utf-8")) for path in CODE}
    assert {name: words for name, words in found.items() if words} == {}


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from zipfile import ZipFile",
        "import torch\ntorch.load('x')",
        "f(trust_remote_code=True)",
        "f(trust_remote_code=said)",
        "import numpy as np\nnp.load('x', allow_pickle=True)",
        "yaml.load(text)",
    ],
)
def test_what_is_forbidden_is_recognised(source: str) -> None:
    assert forbidden(source)


def test_every_loader_of_ours_says_that_it_takes_no_foreign_code() -> None:
    """Left out, transformers asks on the terminal and waits for an answer."""
    calls = [
        ast.unparse(node)
        for name in ("load", "weights")
        for node in nodes((ROOT / "src" / "kvrelay" / "backend" / f"{name}.py").read_text(encoding="utf-8"))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".from_pretrained")
    ]
    assert len(calls) == 3 and all("trust_remote_code=False" in call for call in calls)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "model"
    shutil.copytree(seeded_folder("seeded:llama", str(tmp_path / "cache")), made)
    return made


def spec(folder: Path) -> ModelSpec:
    return ModelSpec(name="m", source=str(folder))


EVIL = """
from pathlib import Path
Path({marker!r}).write_text("ran")
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
class EvilConfig(LlamaConfig):
    model_type = "evil"
class EvilModel(LlamaForCausalLM):
    pass
class EvilTokenizer(PreTrainedTokenizerFast):
    pass
"""


def poison(folder: Path, marker: Path, model_type: str) -> None:
    """The folder now names code of its own for config, model and tokenizer."""
    (folder / "evil.py").write_text(EVIL.format(marker=str(marker)))
    names = {"AutoConfig": "evil.EvilConfig", "AutoModelForCausalLM": "evil.EvilModel"}
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": model_type, "auto_map": names}
    (folder / "config.json").write_text(json.dumps(config))
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings |= {"auto_map": {"AutoTokenizer": ["evil.EvilTokenizer", "evil.EvilTokenizer"]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def test_code_beside_the_weights_is_left_alone_where_the_library_knows_the_model(folder: Path, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    poison(folder, marker, "llama")
    model, tokenizer = load_model(spec(folder)), read_tokenizer(spec(folder))
    assert type(model.module).__name__ == "LlamaForCausalLM" and "Evil" not in type(tokenizer).__name__
    assert not marker.exists()


def test_a_model_that_needs_code_of_its_own_is_refused(folder: Path, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    poison(folder, marker, "evil")
    for read in (read_config, load_model):
        with pytest.raises(AssetError, match=r"model m: cannot read its config from .*(key: model\.m\.source)"):
            read(spec(folder))
    assert not marker.exists()


class Bomb:
    """A pickle that writes a file when it is read."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return exec, (f"open({str(self.marker)!r}, 'w').write('ran')",)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "consolidated.00.pth"])
def test_weights_that_are_pickles_are_refused_and_not_read(name: str, folder: Path, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    for weights in folder.glob("*.safetensors"):
        weights.unlink()
    torch.save({"lm_head.weight": Bomb(marker)}, folder / name)
    with pytest.raises(AssetError, match=rf"weights as pickles \({name}\).*safetensors or GGUF.*key: model"):
        load_model(spec(folder))
    assert not marker.exists()


def test_pickles_beside_safetensors_are_not_looked_at(folder: Path, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    torch.save({"lm_head.weight": Bomb(marker)}, folder / "pytorch_model.bin")
    load_model(spec(folder))
    assert not marker.exists()


@pytest.mark.parametrize(
    ("path", "key"),
    [
        (("trust_remote_code",), "trust_remote_code"),
        (("model", "tiny", "trust_remote_code"), r"model\.tiny\.trust_remote_code"),
        (
            ("model", "tiny", "template_options", "trust_remote_code"),
            r"model\.tiny\.template_options\.trust_remote_code",
        ),
        (("model", "tiny", "rope_parameters", "auto_map"), r"model\.tiny\.rope_parameters\.auto_map"),
        (("dataset", "plain", "trust_remote_code"), r"dataset\.plain\.trust_remote_code"),
        (("selector", "bm25", "TRUST_REMOTE_CODE"), r"selector\.bm25\.TRUST_REMOTE_CODE"),
        (("judge", "lexical", "trust_remote_code"), r"judge\.lexical\.trust_remote_code"),
    ],
)
@pytest.mark.parametrize("value", [True, False, None])
def test_the_key_that_would_let_code_in_is_refused_wherever_it_stands(
    path: tuple[str, ...], key: str, value: Any, tmp_path: Path
) -> None:
    config = plain_config(tmp_path)
    place = config
    for part in path[:-1]:
        place = place.setdefault(part, {})
    place[path[-1]] = value
    with pytest.raises(ConfigError, match=rf"^{key}: code that comes with .* take it away"):
        compose(config)


def test_the_key_is_found_in_lists_too() -> None:
    with pytest.raises(ConfigError, match=r"^a\.b\[1\]\.auto_map: "):
        refuse_foreign_code({"b": [1, {"auto_map": "x"}]}, "a")
    refuse_foreign_code({"b": [1, {"c": ["trust_remote_code"]}]}, "a")
