"""What both launchers share: the list of a sweep's jobs on disk, a line for each that ends, and one error for all."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn, JobStatus

from kvrelay.core.drafts import drafted
from kvrelay.core.errors import ConfigError, IncompleteError

JOBS, ENDED = "sweep.json", "ended.jsonl"
COMMAND = "KVRELAY_COMMAND"
"""Environment variable: the command that a person gave, where it is not this process's own."""


class Sweep:
    """The jobs of one sweep. ``sweep.json`` names them before the first one begins; ``ended.jsonl`` has a line a job.

    Raises `ConfigError` for Hydra's own batches: a failure in one would keep the next from being begun.
    """

    def __init__(self, config: Any, overrides: Sequence[Sequence[str]], first: int) -> None:
        if config.hydra.sweeper.get("max_batch_size") is not None:
            raise ConfigError(
                "hydra.sweeper.max_batch_size: a failed job would end the sweep with its batch; leave it out, and "
                "bound the jobs that run at once by hydra.launcher.array_parallelism"
            )
        self.folder = Path(str(config.hydra.sweep.dir))
        self.folder.mkdir(parents=True, exist_ok=True)
        self.jobs = [[str(one) for one in job] for job in overrides]
        self.first = first
        self.failed: list[str] = []

    def begin(self, ids: Sequence[str] = ()) -> None:
        """Write the list of jobs, with SLURM's ids where there are any."""
        jobs = [
            {"num": self.first + place, "overrides": job, "job": ids[place] if ids else ""}
            for place, job in enumerate(self.jobs)
        ]
        whole = {"command": os.environ.get(COMMAND) or shlex.join(["python", *sys.argv]), "began": _now(), "jobs": jobs}
        with drafted(self.folder / JOBS) as draft:
            draft.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")

    def told(self, place: int) -> dict[str, Any]:
        """What a job wrote of itself; empty for one that never began."""
        try:
            said = json.loads((self.folder / str(self.first + place) / "status.json").read_bytes())
        except (OSError, ValueError):
            return {}
        return said if isinstance(said, dict) else {}

    def ended(self, place: int, error: str = "", state: str = "") -> JobReturn:
        """Say and write how a job ended: well, or with an error."""
        row = {"num": self.first + place, "state": state or ("FAILED" if error else "COMPLETED"), "error": error[:2000]}
        with (self.folder / ENDED).open("a", encoding="utf-8") as file:
            file.write(json.dumps({**row, "ended": _now()}) + "\n")
        label = f"job {self.first + place} ({' '.join(self._own(place))})"
        say(f"{label}: {error or 'done'}")
        if error:
            self.failed.append(f"  {label}: {error[:300]}")
        result = JobReturn()
        result.overrides = self.jobs[place]
        result.status = JobStatus.FAILED if error else JobStatus.COMPLETED
        return result

    def closed(self, results: list[JobReturn]) -> list[JobReturn]:
        """All results; each that failed holds the one error that lists them all, which the sweeper then raises."""
        error = IncompleteError(
            f"{len(self.failed)} of {len(self.jobs)} jobs did not end well; what is finished is kept, and the same "
            f"command goes on from there (scripts/status.py says what is missing; logs lie in {self.folder}):\n"
            + "\n".join(self.failed)
        )
        for result in results:
            if result.status == JobStatus.FAILED:
                result.return_value = error
        return results

    def _own(self, place: int) -> list[str]:
        """The overrides that tell this job from the others."""
        common = set.intersection(*map(set, self.jobs)) if len(self.jobs) > 1 else set()
        return [one for one in self.jobs[place] if one not in common]


def say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
