"""Reports of the deletion study on disk, and how their tables are read back."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

from kvrelay.report.write import write_report
from kvrelay.run.lines import encode
from kvrelay.run.store import write_atomic, write_plan
from tests.stats.deletion_study import Files

FEW = 200


def on_disk(files: Files, folder: Path) -> Path:
    for i, plan in enumerate(files.plans):
        write_plan(folder, plan.model_copy(update={"run_id": f"{plan.run_id}-{i}"}))
    write_atomic(folder / "records" / "w.jsonl", b"".join(map(encode, files.records.values())))
    write_atomic(folder / "verdicts" / "v.jsonl", b"".join(map(encode, files.verdicts.values())))
    return folder


def reported(files: Files, folder: Path, view: str, **options: Any) -> Path:
    write_report(on_disk(files, folder), view=view, **({"resamples": FEW} | options))
    return folder / "report"


def csv_rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def grid(path: Path, heading: str) -> list[dict[str, str]]:
    """The Markdown table under a heading, by its heads."""
    part = path.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [re.split(r" *(?<!\\)\| *", line.strip("| ")) for line in part.splitlines() if line.startswith("|")]
    return [dict(zip(lines[0], line, strict=True)) for line in lines[2:]]


def part_of(report: Path, view: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((report / "summary.json").read_text())["views"][view]
    return found
