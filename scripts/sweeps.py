"""The jobs of an experiment's sweeps, from what launchers and jobs left in ``OUT/sweeps/NAME``."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvrelay.run.portion import Portion
from kvrelay.run.record import RunRecord

ASKING_S = 20
ACTIVE = frozenset({"running", "waiting"})
UNDER_WAY = frozenset({"RUNNING", "COMPLETING", "SUSPENDED"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job of a sweep as it stands now."""

    num: int
    overrides: tuple[str, ...]
    slurm: str
    state: str
    """running, waiting (in SLURM's queue, also again), silent, not begun; done, incomplete, failed, stopped, died."""
    error: str

    def holds(self, record: RunRecord) -> bool:
        """Whether this answer is of the job's model, data set and part of the histories."""
        model, dataset, shard = (self._value(key) for key in ("model", "dataset", "shard"))
        return (
            (not model or record.cell.model in _names(model))
            and (not dataset or record.cell.dataset in _names(dataset))
            and Portion.of(shard or None).holds(record.history_id)
        )

    def _value(self, key: str) -> str:
        return next((one.partition("=")[2] for one in self.overrides if one.partition("=")[0] == key), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweeps:
    """The newest sweep's command, and all jobs: of several with the same settings, in several sweeps, the newest."""

    command: str
    jobs: tuple[Job, ...]


def read_sweeps(folder: Path, recent_s: float) -> Sweeps:
    """All sweeps into an experiment's folder. ``recent_s``: a job that SLURM cannot be asked about runs if it, or any
    writer of records, wrote something in the last so many seconds.
    """
    roots = sorted(path.parent for path in (folder.parent / "sweeps" / folder.name).glob("*/sweep.json"))
    queue, writing = _queue(), _wrote_lately(folder / "records", recent_s)
    jobs: dict[frozenset[str], Job] = {}
    command = ""
    for root in roots:
        whole = _read(root / "sweep.json")
        command = whole.get("command") or command
        ended = {row["num"]: row for row in _rows(root / "ended.jsonl")}
        for job in whole.get("jobs", []):
            found = _job(job, _read(root / str(job["num"]) / "status.json"), ended.get(job["num"]), queue, writing)
            jobs[frozenset(one for one in found.overrides if not one.startswith("hydra."))] = found
    return Sweeps(command=command, jobs=tuple(jobs.values()))


def _job(
    job: Mapping[str, Any],
    said: Mapping[str, Any],
    ended: Mapping[str, Any] | None,
    queue: Mapping[str, str] | None,
    writing: bool,
) -> Job:
    """What the job wrote of itself, put right by the queue, and by its launcher where it could write no more."""
    slurm = job.get("job") or said.get("job") or ""
    state, error = said.get("state", ""), said.get("error", "")
    if queue is not None and slurm in queue:
        state, error = ("running" if queue[slurm] in UNDER_WAY else "waiting"), ""
    elif state in ("", "running"):
        if ended is not None:
            state, error = ("died" if ended["error"] else "done"), ended["error"]
        elif queue is not None and slurm:
            state, error = "died", "it is in SLURM's queue no longer, and did not say why"
        else:
            state = ("running" if writing else "silent") if state else "not begun"
    overrides = tuple(job["overrides"])
    return Job(num=job["num"], overrides=overrides, slurm=slurm, state=state, error=error)


def _queue() -> dict[str, str] | None:
    """SLURM's state of each of my jobs by id; None where there is no SLURM to ask."""
    try:
        command = ["squeue", "--me", "-h", "-r", "-o", "%i %T"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=ASKING_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode:
        return None
    return dict(line.split(maxsplit=1) for line in done.stdout.splitlines() if " " in line.strip())


def _wrote_lately(records: Path, recent_s: float) -> bool:
    now = time.time()
    return any(now - path.stat().st_mtime < recent_s for path in records.glob("*.jsonl"))


def _names(value: str) -> set[str]:
    return {name.strip() for name in value.strip("[]").split(",")}


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return
    for line in lines:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and "num" in row:
            yield {"error": "", **row}
