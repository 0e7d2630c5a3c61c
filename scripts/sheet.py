"""Human labels: python scripts/sheet.py export|import run=FOLDER sheet=labels.csv. ``--help`` lists the keys."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import hydra
from command import call, told
from omegaconf import DictConfig, OmegaConf

from kvrelay.core.errors import AssetError, ConfigError
from kvrelay.judging.sheet import as_csv, draw, labels, verdicts
from kvrelay.run.build import build
from kvrelay.run.record import RunRecord
from kvrelay.run.store import (
    in_order,
    read_plans,
    read_records,
    read_verdicts,
    verdict_appender,
    write_atomic,
    write_judge,
)

MODES = ("export", "import")


@dataclass(frozen=True, slots=True, kw_only=True)
class SheetSettings:
    """The keys of ``conf/sheet.yaml``."""

    mode: Literal["export", "import"]
    run: str
    sheet: str
    n: int = 200
    seed: int = 0
    by: Literal["answers", "questions"] = "answers"
    labeller: str = ""


def run_sheet(config: Mapping[str, Any]) -> str:
    """Write the sheet or take its labels in; what is said on stdout."""
    settings: SheetSettings = build({"_target_": f"{__name__}.{SheetSettings.__qualname__}", **config}, "")
    folder, file = Path(settings.run), Path(settings.sheet)
    planned = {key for plan in read_plans(folder) for cell in plan.cells for key in cell.keys}
    if not planned:
        raise AssetError(f"run = {folder}: it holds no run (runs/*.json); wanted OUT/NAME of an experiment (key: run)")
    records = [record for key, record in read_records(folder).items() if key in planned]
    return _export(settings, records, file) if settings.mode == "export" else _import(settings, records, folder, file)


def _export(settings: SheetSettings, records: list[RunRecord], file: Path) -> str:
    if file.exists():
        raise ConfigError(f"sheet = {file}: the file is there, and may hold labels; name another (key: sheet)")
    found = draw(records, n=settings.n, seed=settings.seed, by=settings.by)
    write_atomic(file, as_csv(found.items))
    long = f"; {found.too_long} are too long for a cell and were not drawn" if found.too_long else ""
    return f"{len(found.items)} of {found.available} distinct answers{long}: {file}"


def _import(settings: SheetSettings, records: list[RunRecord], folder: Path, file: Path) -> str:
    if not file.is_file():
        raise AssetError(f"sheet = {file}: there is no such file (key: sheet)")
    data = file.read_bytes()
    facts, given = verdicts(labels(data, records), settings.labeller)
    known = read_verdicts(folder)
    write_judge(folder, in_order(folder, facts))
    with verdict_appender(folder, facts.id) as appender:
        appender.append(*(verdict for verdict in given if verdict.item_key not in known))
    right = sum(verdict.correct is True for verdict in given)
    return f"{facts.id}: {len(given)} labels, {right} right, {len(given) - right} wrong"


@hydra.main(version_base=None, config_path="../conf", config_name="sheet")
def main(config: DictConfig) -> None:
    """One sheet."""
    with told():
        said = run_sheet(OmegaConf.to_container(config, resolve=True, throw_on_missing=True))  # type: ignore[arg-type]
        sys.stdout.write(f"{said}\n")


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] in MODES:
        sys.argv[1] = f"mode={sys.argv[1]}"
    call(main)
