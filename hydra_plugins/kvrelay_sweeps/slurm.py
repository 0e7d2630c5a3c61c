"""Jobs on SLURM, through submitit: one array a sweep, and a wait that every job's end is seen in.

submitit's own wait takes the results in order, so that the first job to die without a result ends it, and counts a
preempted job as unfinished for ever. Here a job has ended when its result is there, or when squeue knows it no longer.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

from hydra.core.singleton import Singleton
from hydra.core.utils import JobReturn, JobStatus
from hydra_plugins.hydra_submitit_launcher.config import BaseQueueConf
from hydra_plugins.hydra_submitit_launcher.submitit_launcher import SlurmLauncher

from hydra_plugins.kvrelay_sweeps.sweep import Sweep, say
from kvrelay.core.errors import AssetError, ConfigError

ASKING_S = 60
"""After so long a SLURM command that does not answer is left."""
ABSENT = 2
"""So many times in a row squeue must not know a job: it may be asked between two states, and a shared file system
shows a result late."""


class SlurmSweep(SlurmLauncher):
    """Submits all jobs as one array and waits for all of them. ``poll_s`` is the longest pause between two looks."""

    def __init__(self, *, poll_s: int = 30, **params: Any) -> None:
        super().__init__(**params)
        self.poll_s = poll_s
        if params.get("nodes", 1) != 1 or params.get("tasks_per_node", 1) != 1:
            raise ConfigError(
                "hydra.launcher.nodes and tasks_per_node: a job is one process, and more would do the same work again; "
                "take more jobs (key: shard), and gpus_per_node for a model that needs several GPUs"
            )

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        sweep = Sweep(self.config, job_overrides, initial_job_idx)
        accounts = _accounts()
        at_once = min(len(job_overrides), int(self.params.get("array_parallelism", len(job_overrides))))
        say(f"{len(job_overrides)} SLURM jobs, {at_once} at once; logs and states: {sweep.folder}")
        sweep.begin()
        jobs = self._submitted(sweep)
        sweep.begin([job.job_id for job in jobs])
        results: dict[int, JobReturn] = {}
        for place in ends(jobs, self.poll_s):
            # of a job that says itself how it ended, the accounts still say for a while that it runs
            state = _state(jobs[place].job_id) if accounts and not jobs[place].paths.result_pickle.exists() else ""
            results[place] = sweep.ended(place, self._error(jobs[place], sweep, place, state), state)
        return sweep.closed([results[place] for place in range(len(jobs))])

    def _submitted(self, sweep: Sweep) -> Sequence[Any]:
        import submitit  # late: every command looks through the plugins, and few submit

        plain = {field.name for field in fields(BaseQueueConf)}
        given = {name: value for name, value in self.params.items() if name != "submitit_folder"}
        retries = given.pop("max_num_timeout")
        # a job that is warned as soon as it starts would be requeued again and again
        given["signal_delay_s"] = min(given["signal_delay_s"], given["timeout_min"] * 60 // 4)
        executor = submitit.AutoExecutor(
            cluster="slurm", folder=self.params["submitit_folder"], slurm_max_num_timeout=retries
        )
        executor.update_parameters(**{name if name in plain else f"slurm_{name}": given[name] for name in given})
        numbers = [sweep.first + place for place in range(len(sweep.jobs))]
        return executor.map_array(
            self,
            sweep.jobs,
            ["hydra.sweep.dir"] * len(numbers),
            numbers,
            [f"job_id_for_{number}" for number in numbers],
            [Singleton.get_state()] * len(numbers),
        )

    def _error(self, job: Any, sweep: Sweep, place: int, state: str) -> str:
        """Why a job did not end well: what it wrote itself, what its result says, what SLURM says; empty if it did."""
        said = sweep.told(place)
        if job.paths.result_pickle.exists():
            try:
                result = job.results()[0]
            except Exception as error:
                return " ".join(str(error).split())[-300:]
            if result.status == JobStatus.COMPLETED:
                return ""
            return said.get("error") or " ".join(f"{result._return_value}".split())
        if said.get("state") in ("failed", "incomplete"):
            return str(said.get("error"))
        if said.get("state") == "stopped":
            return f"it was stopped{f' ({state})' if state else ''}: {said.get('error') or 'by a signal'}"
        return f"it died without a word{f' ({state})' if state else ''}; its last lines: {job.paths.stderr}"


def ends(jobs: Sequence[Any], poll_s: float) -> Iterator[int]:
    """Places of the jobs in the order in which they are seen to have ended; the first looks come soon."""
    left, absent, began = dict(enumerate(jobs)), dict.fromkeys(range(len(jobs)), 0), time.monotonic()
    while left:
        known = queued()
        for place, job in list(left.items()):
            absent[place] = absent[place] + 1 if known is not None and job.job_id not in known else 0
            if job.paths.result_pickle.exists() or absent[place] >= ABSENT:
                del left[place]
                yield place
        if left:
            time.sleep(min(poll_s, 1 + (time.monotonic() - began) / 20))


def queued() -> set[str] | None:
    """Ids of my jobs that wait, run or end; None where squeue does not answer."""
    said = _asked("squeue", "--me", "-h", "-r", "-o", "%i")
    return None if said is None else set(said.split())


def _accounts() -> bool:
    """Whether sacct can tell how jobs ended. Raises `AssetError` where there is no SLURM at all."""
    if _asked("squeue", "--me", "-h") is None:
        raise AssetError(
            "squeue does not answer here: this is no host that SLURM jobs are submitted from; take "
            "hydra/launcher=local (LAUNCHER=local for make)"
        )
    if _asked("sacct", "-n", "-X", "-o", "State") is not None:
        return True
    say(
        "sacct does not work here: that a job has ended is seen all the same, how it ended only where it says so itself"
    )
    return False


def _state(job_id: str) -> str:
    """SLURM's word for how a job ended, as ``TIMEOUT``; empty where it has none yet."""
    said = (_asked("sacct", "-n", "-X", "-P", "-o", "State", "-j", job_id) or "").split()
    return said[0] if said else ""


def _asked(*command: str) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ASKING_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
