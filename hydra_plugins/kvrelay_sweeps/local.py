"""Jobs one after another in this process, as under Hydra's basic launcher; a failed one does not end the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hydra.core.utils import JobReturn, JobStatus, configure_log, run_job, setup_globals
from hydra.plugins.launcher import Launcher
from omegaconf import open_dict

from hydra_plugins.kvrelay_sweeps.sweep import Sweep, say

INTERRUPTED = 130


class LocalSweep(Launcher):
    """Runs every job, also where earlier ones exited or raised; only an interruption ends the sweep."""

    def setup(self, *, hydra_context: Any, task_function: Any, config: Any) -> None:
        self.hydra_context = hydra_context
        self.task_function = task_function
        self.config = config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        setup_globals()
        configure_log(self.config.hydra.hydra_logging, self.config.hydra.verbose)
        sweep = Sweep(self.config, job_overrides, initial_job_idx)
        say(f"{len(job_overrides)} jobs, one after another, in this process")
        sweep.begin()
        results = [sweep.ended(place, self._error(place, sweep)) for place in range(len(job_overrides))]
        return sweep.closed(results)

    def _error(self, place: int, sweep: Sweep) -> str:
        """What ended a job other than its own end; empty for one that ended well."""
        config = self.hydra_context.config_loader.load_sweep_config(self.config, sweep.jobs[place])
        with open_dict(config):
            config.hydra.job.id = config.hydra.job.num = sweep.first + place
        try:
            result = run_job(
                hydra_context=self.hydra_context,
                task_function=self.task_function,
                config=config,
                job_dir_key="hydra.sweep.dir",
                job_subdir_key="hydra.sweep.subdir",
            )
        except SystemExit as error:
            if error.code == INTERRUPTED:
                raise
            return str(sweep.told(place).get("error") or f"exit status {error.code}") if error.code else ""
        if result.status == JobStatus.COMPLETED:
            return ""
        return " ".join(f"{type(result._return_value).__name__}: {result._return_value}".split())
