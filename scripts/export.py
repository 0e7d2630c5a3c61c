"""Write a model as a plain folder that other servers read: python scripts/export.py model=smollm2 to=FOLDER

GGUF weights are dequantised; the folder's path is the command's only line on stdout.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import hydra
from omegaconf import DictConfig, OmegaConf

# Before torch starts its threads: ones that spin while they wait make a busy machine several times slower.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from kvrelay.backend.export import export_model
from kvrelay.core.errors import ConfigError
from kvrelay.run.build import build_group


def run_export(config: Mapping[str, Any]) -> Path:
    """Export the one model that ``config`` names; the path of its folder."""
    models = build_group(config["model"], "model")
    if len(models) != 1:
        raise ConfigError(f"model = {list(models)}: wanted one model, because a folder holds one (key: model)")
    if not isinstance(config["to"], str) or not config["to"].strip():
        raise ConfigError(f"to = {config['to']!r}: wanted the path of a folder (key: to)")
    folder = Path(config["to"]).expanduser()
    (spec,) = models.values()
    made = export_model(spec, folder)
    sys.stderr.write(f"{spec.name}: {'written' if made else 'already there'}\n")
    sys.stdout.write(f"{folder}\n")
    return folder


@hydra.main(version_base=None, config_path="../conf", config_name="export")
def main(config: DictConfig) -> None:
    """One model's export."""
    run_export(OmegaConf.to_container(config, resolve=True, throw_on_missing=True))  # type: ignore[arg-type]


if __name__ == "__main__":
    from command import call

    call(main)
