"""Which model this is, without loading it: so that answers of one model are never taken for another's."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from kvrelay.backend.load import ModelSpec, weight_location

WEIGHTS = ("*.safetensors", "*.bin", "*.gguf")
DESCRIPTIONS = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
)


def model_fingerprint(spec: ModelSpec) -> str:
    """sha256 of a folder's descriptions and of its weight files' names and sizes; of id and revision for a hub model.

    Weights themselves are not read: hundreds of gigabytes would delay every start. A file that is exchanged for
    another of the same size and name is not noticed.
    """
    folder = Path(weight_location(spec))
    if not folder.is_dir():
        return hashlib.sha256(json.dumps([spec.source, spec.revision]).encode()).hexdigest()
    sha = hashlib.sha256()
    for name in DESCRIPTIONS:
        if (folder / name).is_file():
            sha.update(name.encode() + (folder / name).read_bytes())
    files = sorted(path for pattern in WEIGHTS for path in folder.glob(pattern))
    if spec.gguf_file is not None:
        files = [path for path in files if path.name == spec.gguf_file]
    sha.update(json.dumps([[path.name, path.stat().st_size] for path in files]).encode())
    return sha.hexdigest()
