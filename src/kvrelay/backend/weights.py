"""Weights from files, all of them or none: transformers fills gaps with random numbers, and says so in a warning."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformers import AutoModelForCausalLM

from kvrelay.core.errors import AssetError

PICKLES = ("*.bin", "*.pt", "*.pth", "*.pkl", "*.ckpt")


def read_weights(folder: str, **given: Any) -> Any:
    """The causal model in a folder (or of a hub id); ``given`` is what transformers takes.

    Only safetensors and GGUF files are read, and no code that comes with a model is run. Raises `AssetError` for a
    folder that has its weights as pickles alone, ``ValueError`` where a tensor of the model is not in the files, has
    another shape there, or where the files hold layers that the config does not have.
    """
    if "gguf_file" not in given:
        _refuse_pickles(Path(folder))
        given["use_safetensors"] = True
    module, found = AutoModelForCausalLM.from_pretrained(
        folder, **given, output_loading_info=True, ignore_mismatched_sizes=True, trust_remote_code=False
    )
    wrong = {
        "missing from its files": sorted(found["missing_keys"]),
        "of another shape than its config says": sorted(str(key[0]) for key in found["mismatched_keys"]),
        "of layers that its config does not have": sorted(key for key in found["unexpected_keys"] if ".layers." in key),
    }
    said = [f"{len(keys)} tensors are {what} ({keys[0]} first)" for what, keys in wrong.items() if keys]
    if said:
        raise ValueError("; ".join(said))
    return module


def _refuse_pickles(folder: Path) -> None:
    """A pickle is a program: reading one runs it."""
    pickles = sorted(path.name for pattern in PICKLES for path in folder.glob(pattern)) if folder.is_dir() else []
    if pickles and not any(folder.glob("*.safetensors")):
        raise AssetError(
            f"{folder} has its weights as pickles ({pickles[0]}), which can run code when they are read; wanted "
            "safetensors or GGUF: take the model's safetensors files (key: model.*.source)"
        )


def written_once(folder: Path, write: Callable[[Path], None]) -> None:
    """Make a model's folder by one rename, unless another process was first. What is left half-written is removed."""
    partial = folder.with_name(f"{folder.name}.partial-{os.getpid()}-{uuid.uuid4().hex[:6]}")
    try:
        write(partial)
        partial.rename(folder)
    except OSError:
        if not (folder / "config.json").is_file():
            raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
