"""Benchmarks: python scripts/bench.py bench=grid, or another of `benches/`. Prints tables, writes out/bench/NAME/."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

import hydra
from omegaconf import DictConfig, OmegaConf

# Before torch starts its threads: ones that spin while they wait make a busy machine several times slower.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from kvrelay.core.errors import ConfigError
from kvrelay.run.provenance import provenance
from kvrelay.run.store import write_atomic

BENCHES = Path(__file__).parent / "benches"


def run_bench(config: Any) -> Path:
    """Measure, print and write one benchmark; the path of its numbers."""
    known = sorted(path.stem for path in BENCHES.glob("*.py"))
    if config["bench"] not in known:
        raise ConfigError(f"bench = {config['bench']!r}: wanted one of {', '.join(known)}")
    found = importlib.import_module(f"benches.{config['bench']}").measure(config)
    report = _report(config, found)
    sys.stdout.write(report[f"{config['bench']}.md"] if report else "\n".join(found["lines"]) + "\n")
    path = Path(config["out"]) / "bench" / config["bench"] / "summary.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, json.dumps({**found, "provenance": provenance(config)}, indent=1, default=str) + "\n")
    for name, data in report.items():
        write_atomic(path.parent / name, data)
    sys.stdout.write(f"\n{path}\n")
    return path


def _report(config: Any, found: Any) -> dict[str, Any]:
    """Tables and figures of those benchmarks that have a place beside the paper's."""
    name = f"kvrelay.report.benches.{config['bench']}"
    if importlib.util.find_spec(name) is None:
        return {}
    files: dict[str, Any] = importlib.import_module(name).files(found, found["told"])
    return files


@hydra.main(version_base=None, config_path="../conf", config_name="bench")
def main(config: DictConfig) -> None:
    """One benchmark."""
    run_bench(OmegaConf.to_container(config, resolve=True))


if __name__ == "__main__":
    from command import call

    call(main)
