"""A model as a plain folder (safetensors, tokenizer, chat template, generation config) that other servers read."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import transformers

from kvrelay.backend.fingerprint import model_fingerprint
from kvrelay.backend.load import ModelSpec, load_model, read_tokenizer
from kvrelay.backend.weights import written_once
from kvrelay.core.errors import AssetError

MARKER = "kvrelay_export.json"
"""Says what was exported into a folder and which files that made: whose folder it is, and whether it is whole."""


def export_model(spec: ModelSpec, folder: Path) -> bool:
    """Write the model that ``spec`` describes to ``folder``, as it runs here: its dtype, its rotary settings, its ends
    of an answer. False where the same export already lies there whole.

    The folder appears by one rename. An export of another model is replaced by it. Raises `AssetError` for a folder
    that holds anything else, and where the model cannot be read or the folder not be written.
    """
    identity = _identity(spec)
    if _lies_whole(folder, identity):
        return False
    _require_own(folder)
    # an absolute path: the working folder of who asks may not be what renames
    _write(replace(spec, device="cpu"), folder.absolute(), identity)
    return True


def _write(spec: ModelSpec, folder: Path, identity: dict[str, Any]) -> None:
    model = load_model(spec)
    tokenizer = read_tokenizer(spec)
    if spec.answer_eos:
        model.module.generation_config.eos_token_id = list(model.eos_ids)

    def write(partial: Path) -> None:
        model.module.save_pretrained(partial)
        tokenizer.save_pretrained(partial)
        sizes = {path.name: path.stat().st_size for path in sorted(partial.iterdir())}
        (partial / MARKER).write_text(json.dumps({**identity, "files": sizes}, indent=2) + "\n", encoding="utf-8")
        if folder.is_dir():  # an older export of ours, or empty
            shutil.rmtree(folder)

    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        written_once(folder, write)
    except Exception as error:  # safetensors has a class of its own for a full disk
        raise AssetError(
            f"model {spec.name}: cannot be written to {folder}: {error}; make room there or choose another folder "
            f"(key: to)"
        ) from error


def _identity(spec: ModelSpec) -> dict[str, Any]:
    """What decides the files' content."""
    names = ("source", "revision", "gguf_file", "dtype", "rope_parameters", "answer_eos")
    fields = {name: getattr(spec, name) for name in names}
    made_from = {"fingerprint": model_fingerprint(spec), "transformers": transformers.__version__}
    identity: dict[str, Any] = json.loads(json.dumps({**fields, **made_from}))
    return identity


def _marker(folder: Path) -> dict[str, Any] | None:
    """What the folder's marker says; None where there is none that can be read."""
    try:
        said = json.loads((folder / MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return said if isinstance(said, dict) and isinstance(said.get("files"), dict) else None


def _lies_whole(folder: Path, identity: dict[str, Any]) -> bool:
    said = _marker(folder)
    if said is None or {**identity, "files": said["files"]} != said:
        return False
    return all(
        (folder / name).is_file() and (folder / name).stat().st_size == size for name, size in said["files"].items()
    )


def _require_own(folder: Path) -> None:
    """Only what an export wrote may be replaced by one."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise AssetError(f"to = {folder}: this is a file; wanted a folder that is new or empty (key: to)")
    own = {MARKER, *(_marker(folder) or {"files": {}})["files"]}
    others = sorted(path.name for path in folder.iterdir() if path.name not in own)
    if others:
        raise AssetError(
            f"to = {folder}: the folder holds {others[0]!r}, which no export wrote; wanted one that is new, empty or "
            "an earlier export (key: to)"
        )
