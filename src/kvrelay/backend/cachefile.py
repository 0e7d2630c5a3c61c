"""KV caches as files: safetensors with a hash for every tensor, which say whose they are and are refused for another's.

A file holds the states as prefill made them (bfloat16 stays bfloat16), where each stood and stands, what they were
rotated with, and of which model, template, text and selection they are. safetensors notices a file that was cut, but no
flipped bit; the hashes do. Its name holds a hash of what it is of and one of what is in it, so that equal caches are
one file. Reading one back:

    path = find_cache(folder, identity)
    cache = load_cache(path, identity)      # `restricted`, `edited`, `moved` and `answer_rows` take it as any other
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from kvrelay.core.cache import KVCache, LayerKV
from kvrelay.core.drafts import drafted
from kvrelay.core.errors import AssetError
from kvrelay.core.rope import RotarySpec

FORMAT = "kvrelay-cache"
VERSION = 1
SUFFIX = ".safetensors"
PARTS = tuple(field.name for field in fields(LayerKV))
FREQUENCIES = "inv_freq"


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheIdentity:
    """Whose states these are, as hashes: any difference makes another cache.

    ``model`` is `model_fingerprint`, ``template`` the tokenizer's and its chat template's, ``tokens`` that of all
    prefilled tokens, ``selection`` the selector's and retention's settings, ``question`` empty where the selection
    serves every question of its history.
    """

    model: str
    dtype: str
    template: str
    history_id: str
    tokens: str
    selection: str
    question: str = ""

    @property
    def sha256(self) -> str:
        return _digest(asdict(self))


def save_cache(folder: Path, cache: KVCache, identity: CacheIdentity) -> Path:
    """Write a cache, unless it is there already, and return its path. Raises ``OSError`` where the disk takes no more;
    a reader finds the whole file or none."""
    tensors, same = _tensors(cache)
    about = {
        "identity": asdict(identity),
        "layers": len(cache.layers),
        "next_position": cache.next_position,
        "master": cache.master,
        "rope_type": cache.rope.rope_type,
        "scaling": cache.rope.scaling.hex(),
        "same": same,
        "sha256": {name: tensor_sha256(tensor) for name, tensor in tensors.items()},
    }
    path = folder / f"{identity.sha256[:24]}.{_digest(about)[:24]}{SUFFIX}"
    if path.exists():
        return path
    try:
        with drafted(path) as draft:
            metadata = {"format": FORMAT, "version": str(VERSION), "about": json.dumps(about, sort_keys=True)}
            save_file(tensors, draft, metadata=metadata)
            with draft.open("rb+") as file:
                os.fsync(file.fileno())
    except SafetensorError as error:  # its own class for a disk that is full
        raise OSError(str(error)) from error
    return path


def find_cache(folder: Path, identity: CacheIdentity) -> Path | None:
    """The file of this identity, if there is one."""
    return next(iter(sorted(folder.glob(f"{identity.sha256[:24]}.*{SUFFIX}"))), None)


def load_cache(path: Path, identity: CacheIdentity | None = None, device: str | torch.device = "cpu") -> KVCache:
    """The cache of a file. Raises `AssetError` for a file that is damaged, of a newer version, or of another model,
    template, text or selection than ``identity`` says; without one, nobody is asked whose it is."""
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            about = _about(path, file.metadata() or {})
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except AssetError:
        raise
    except (SafetensorError, OSError, ValueError, LookupError) as error:
        raise _damaged(path, str(error)) from error
    if path.name.split(".")[1:2] != [_digest(about)[:24]]:
        raise _damaged(path, "its description is not the one that its name was made of")
    if identity is not None:
        _check_identity(path, about["identity"], asdict(identity))
    found = {name: tensor_sha256(tensor) for name, tensor in tensors.items()}
    if wrong := sorted(name for name in {*found, *about["sha256"]} if found.get(name) != about["sha256"].get(name)):
        raise _damaged(path, f"the hash of {', '.join(wrong[:3])} is not the one on record")
    return _cache(about, {name: tensor.to(device) for name, tensor in tensors.items()})


def tensor_sha256(tensor: Tensor) -> str:
    """Hash of a tensor's number format, shape and bytes."""
    sha = hashlib.sha256(f"{tensor.dtype} {tuple(tensor.shape)} ".encode())
    sha.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return sha.hexdigest()


def _tensors(cache: KVCache) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors by name, and names of those that are another one's: layers may share where their states stood."""
    tensors: dict[str, Tensor] = {}
    same: dict[str, str] = {}
    first: dict[Any, str] = {}
    named = {f"{part}.{index}": getattr(layer, part) for index, layer in enumerate(cache.layers) for part in PARTS}
    for name, tensor in {**named, FREQUENCIES: cache.rope.inv_freq}.items():
        place = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
        if (known := first.setdefault(place, name)) != name:
            same[name] = known
        else:
            tensors[name] = _whole(tensor)
    return tensors, same


def _whole(tensor: Tensor) -> Tensor:
    """A tensor that has its memory to itself: the format refuses views of a larger one."""
    found = tensor.detach().cpu().contiguous()
    return found if found.untyped_storage().nbytes() == found.nbytes else found.clone()


def _cache(about: dict[str, Any], tensors: dict[str, Tensor]) -> KVCache:
    held = tensors | {name: tensors[known] for name, known in about["same"].items()}
    return KVCache(
        layers=tuple(LayerKV(**{part: held[f"{part}.{index}"] for part in PARTS}) for index in range(about["layers"])),
        rope=RotarySpec(
            inv_freq=held[FREQUENCIES], scaling=float.fromhex(about["scaling"]), rope_type=about["rope_type"]
        ),
        next_position=about["next_position"],
        master=about["master"],
    )


def _about(path: Path, metadata: dict[str, str]) -> dict[str, Any]:
    if metadata.get("format") != FORMAT:
        raise _damaged(path, "it does not say that it is a cache of kvrelay")
    if int(metadata["version"]) > VERSION:
        raise AssetError(
            f"{path} was written by a newer kvrelay (version {metadata['version']} of its caches; this one reads up to "
            f"{VERSION}); update kvrelay or choose another folder (key: keep_caches)"
        )
    found: dict[str, Any] = json.loads(metadata["about"])
    return found


def _check_identity(path: Path, found: dict[str, str], wanted: dict[str, str]) -> None:
    wrong = [name for name in {**found, **wanted} if found.get(name) != wanted.get(name)]
    if wrong:
        shown = ", ".join(f"{name} {str(found.get(name))[:12]} and not {str(wanted.get(name))[:12]}" for name in wrong)
        raise AssetError(
            f"{path} is of another {' and '.join(wrong)} ({shown}); take the cache that was made with these settings "
            "(key: keep_caches)"
        )


def _damaged(path: Path, why: str) -> AssetError:
    reason = " ".join(why.split())[:300].rstrip(".")
    return AssetError(f"{path} is damaged: {reason}; delete it: the run's command writes it anew (key: keep_caches)")


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
