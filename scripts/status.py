"""How far a run or a sweep is, by model and data set and by job; its errors; the command that finishes the rest.

    python scripts/status.py run=outputs/table1

Reads what plans, jobs and workers wrote, and SLURM's queue where there is one. Exits with 0 when every planned answer
is there, with 5 when not.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hydra
from omegaconf import DictConfig, OmegaConf
from sweeps import ACTIVE, Job, Sweeps, read_sweeps

from kvrelay.core.errors import AssetError, ConfigError, IncompleteError
from kvrelay.run.build import build
from kvrelay.run.record import RunRecord
from kvrelay.run.store import read_plans, read_records
from kvrelay.stats.plans import Plans, merge

SETTLED = frozenset({"done", "incomplete"})
"""States of jobs that went to their end; what their examples came to stands in the records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusSettings:
    """``run`` is an experiment's folder; ``recent_s`` seconds of silence end a job that no queue speaks for."""

    run: str
    recent_s: float = 300.0
    errors: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One (model, data set): cells of which every answer is there, and answers."""

    model: str
    dataset: str
    cells: int
    cells_done: int
    answers: int
    done: int
    failed: int

    @property
    def missing(self) -> int:
        return self.answers - self.done - self.failed


def merged(folder: Path) -> Plans:
    """The plans in force. Raises `AssetError` for a folder without one."""
    if not (plans := read_plans(folder)):
        raise AssetError(
            f"{folder} holds no run plan (runs/*.json); wanted an experiment's folder, out/name (key: run)"
        )
    return merge(plans)


def rows(plans: Plans, records: Mapping[str, RunRecord]) -> list[Row]:
    """What the plans in force expect, and what of it is there."""
    found: dict[tuple[str, str], list[Counter[str]]] = {}
    for cell, keys in plans.keys.items():
        counts = Counter(records[key].status if key in records else "missing" for key in keys)
        found.setdefault((cell.model, cell.dataset), []).append(counts)
    return [
        Row(
            model=model,
            dataset=dataset,
            cells=len(cells),
            cells_done=sum(counts["ok"] == counts.total() for counts in cells),
            answers=sum(counts.total() for counts in cells),
            done=sum(counts["ok"] for counts in cells),
            failed=sum(counts["error"] for counts in cells),
        )
        for (model, dataset), cells in sorted(found.items())
    ]


def errors(records: Mapping[str, RunRecord], jobs: Sequence[Job], at_most: int) -> list[str]:
    """Errors of examples, alike but for their numbers, with counts, the most frequent first; then those of jobs."""
    kinds = Counter(
        f"{record.error.kind}: {re.sub(r'[0-9]+', 'N', record.error.message)[:200]}"
        for record in records.values()
        if record.status == "error" and record.error
    )
    shown = [f"  {count} x {kind}" for kind, count in kinds.most_common(at_most)]
    if len(kinds) > at_most:
        shown.append(f"  and {len(kinds) - at_most} more kinds (errors=N shows more)")
    return shown + [f"  job {job.num}: {job.error[:300]}" for job in jobs if job.error and job.state not in SETTLED]


def lines(
    folder: Path, table: Sequence[Row], sweeps: Sweeps, records: Mapping[str, RunRecord], shown: int
) -> list[str]:
    """The whole report as text."""
    answers, done, failed = (sum(getattr(row, key) for row in table) for key in ("answers", "done", "failed"))
    states = Counter(job.state for job in sweeps.jobs)
    said = ", ".join(f"{count} {state}" for state, count in states.items())
    head = f"{folder}: {done} of {answers} answers done, {failed} failed, {answers - done - failed} missing"
    text = [head + (f"; jobs: {said}" if said else ""), "", *_table(table)]
    if sweeps.jobs:
        text += ["", *(_job_line(job, sweeps.jobs, records) for job in sweeps.jobs)]
    if found := errors(records, sweeps.jobs, shown):
        text += ["", "errors:", *found]
    return text


def _table(table: Sequence[Row]) -> list[str]:
    head = ("model", "data set", "cells done", "answers", "done", "failed", "missing")
    cells = [
        (row.model, row.dataset, f"{row.cells_done}/{row.cells}", row.answers, row.done, row.failed, row.missing)
        for row in table
    ]
    whole = [head, *(tuple(map(str, row)) for row in cells)]
    widths = [max(len(row[place]) for row in whole) for place in range(len(head))]
    return ["  ".join(value.ljust(width) for value, width in zip(row, widths, strict=True)).rstrip() for row in whole]


def _job_line(job: Job, jobs: Sequence[Job], records: Mapping[str, RunRecord]) -> str:
    common = set.intersection(*(set(one.overrides) for one in jobs)) if len(jobs) > 1 else set()
    own = " ".join(one for one in job.overrides if one not in common and not one.startswith("hydra."))
    counts = Counter(record.status for record in records.values() if job.holds(record))
    slurm = f" (SLURM {job.slurm})" if job.slurm else ""
    return f"job {job.num}  {own}  {job.state}{slurm}: {counts['ok']} done, {counts['error']} failed"


def _command(folder: Path) -> str:
    """The newest command that answered into this folder; empty where none says so."""
    said = [json.loads(path.read_bytes()) for path in (folder / "provenance").glob("*.json")]
    newest: dict[str, Any] = max(said, key=lambda facts: str(facts.get("created", "")), default={})
    return str(newest.get("command", ""))


def _advice(folder: Path, sweeps: Sweeps) -> str:
    if busy := sum(job.state in ACTIVE for job in sweeps.jobs):
        return f"{busy} jobs run or wait; if they leave anything, the same command goes on:\n  {sweeps.command}"
    if command := sweeps.command or _command(folder):
        return f"this finishes the rest; what is done is not repeated:\n  {command}"
    return f"to finish the rest, give the command again that made {folder}; what is done is not repeated"


def status(settings: StatusSettings) -> None:
    """Print it. Raises `IncompleteError`, which says what to do, where an answer is missing or failed."""
    folder = Path(settings.run)
    if not folder.is_dir():
        raise ConfigError(f"run = {settings.run}: there is no such folder (key: run, or RUN= for make)")
    plans = merged(folder)
    planned = {key for keys in plans.keys.values() for key in keys}
    records = {key: record for key, record in read_records(folder).items() if key in planned}
    table = rows(plans, records)
    sweeps = read_sweeps(folder, settings.recent_s)
    sys.stdout.write("\n".join(lines(folder, table, sweeps, records, settings.errors)) + "\n")
    sys.stdout.flush()
    if any(row.done < row.answers for row in table):
        raise IncompleteError(_advice(folder, sweeps))


@hydra.main(version_base=None, config_path="../conf", config_name="status")
def main(config: DictConfig) -> None:
    """One look."""
    given: Any = OmegaConf.to_container(config, resolve=True)
    settings: StatusSettings = build({"_target_": f"{__name__}.StatusSettings", **given}, "")
    status(settings)


if __name__ == "__main__":
    from command import call

    call(main)
