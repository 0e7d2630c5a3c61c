"""Weights from files, all of them or none: transformers fills gaps with random numbers, and says so in a warning."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformers import AutoModelForCausalLM


def read_weights(folder: str, **given: Any) -> Any:
    """The causal model in a folder (or of a hub id); ``given`` is what transformers takes.

    Raises ``ValueError`` where a tensor of the model is not in the files, has another shape there, or where the files
    hold layers that the config does not have.
    """
    module, found = AutoModelForCausalLM.from_pretrained(
        folder, **given, output_loading_info=True, ignore_mismatched_sizes=True
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
