"""Merge an experiment's shards into answers.parquet and verdicts.parquet: python scripts/merge.py name=table1."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import hydra
from omegaconf import DictConfig, OmegaConf

from kvrelay.core.errors import AssetError, ConfigError
from kvrelay.run.compact import Compacted, compact
from kvrelay.run.store import MARKER, claim_folder


def run_merge(config: Any) -> list[Compacted]:
    """Merge, and say what was done."""
    folder = Path(config["out"]) / config["name"]
    if not isinstance(config["prune"], bool):
        raise ConfigError(f"prune = {config['prune']!r}: wanted true or false (key: prune)")
    if not (folder / MARKER).exists():
        raise AssetError(f"{folder} holds no experiment; point to one (keys: out, name)")
    claim_folder(folder, config["name"])
    done = compact(folder, prune=config["prune"])
    for one in done:
        gone = f", {one.pruned} of them removed" if config["prune"] else ""
        sys.stdout.write(
            f"{one.file}: {one.rows} records of {one.keys} keys, {one.shards} shards read{gone}; "
            f"content {one.content_sha256[:16]}\n"
        )
    if not done:
        sys.stdout.write(f"{folder} holds nothing to merge\n")
    return done


@hydra.main(version_base=None, config_path="../conf", config_name="merge")
def main(config: DictConfig) -> None:
    """One experiment."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    run_merge(OmegaConf.to_container(config, resolve=True))


if __name__ == "__main__":
    from command import call

    call(main)
