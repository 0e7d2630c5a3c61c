"""What a job of a sweep leaves behind it in its own folder: ``status.json`` and ``job.log``.

Hydra keeps what a job raises for its launcher, so that SLURM calls the job COMPLETED and its log has no stack trace.
Here a job says itself how it ended, its stack trace goes to its own log, and it exits with a status that is not 0.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kvrelay.core.errors import IncompleteError, KVRelayError
from kvrelay.run.store import write_atomic

LOG, STATUS = "job.log", "status.json"
FAULT = 1
"""Exit status of an error that is this software's own."""


def own_folder() -> tuple[Path, list[str]] | None:
    """Folder and overrides of the sweep's job that this process is; None outside of a sweep."""
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    if not HydraConfig.initialized() or HydraConfig.get().mode != RunMode.MULTIRUN:
        return None
    config = HydraConfig.get()
    return Path(config.runtime.output_dir), [str(one) for one in config.overrides.task]


@contextmanager
def told_in_files(job: tuple[Path, Sequence[str]] | None) -> Iterator[None]:
    """Write the job's status and log around what is done inside. Errors go on; one of this software's own becomes an
    exit with status 1 once its stack trace is written. Outside of a sweep nothing is written.
    """
    if job is None:
        yield
        return
    folder, overrides = job
    began = {
        "overrides": list(overrides),
        "job": slurm_id(),
        "restarts": int(os.environ.get("SLURM_RESTART_COUNT") or 0),
        "pid": os.getpid(),
        "began": _now(),
    }
    _write(folder, {**began, "state": "running"})
    handler = _log_to(folder)
    try:
        yield
    except BaseException as error:
        with suppress(KVRelayError, OSError):  # a full disk is told by the error in hand
            _write(folder, {**began, "ended": _now(), **_ending(error)})
            _tell(error, handler)
        if isinstance(error, Exception) and not isinstance(error, KVRelayError | OSError):
            sys.exit(FAULT)
        raise
    else:
        _write(folder, {**began, "ended": _now(), "state": "done"})
    finally:
        logging.getLogger().removeHandler(handler)
        handler.close()


def slurm_id() -> str:
    """SLURM's id of this job as squeue shows it, ``123_4`` or ``123``; empty outside of SLURM."""
    array, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array else os.environ.get("SLURM_JOB_ID", "")


def _ending(error: BaseException) -> dict[str, Any]:
    """``stopped`` is what a requeue, or the same command again, goes on from; ``incomplete`` has failed examples."""
    if isinstance(error, SystemExit) and error.code == IncompleteError.exit_code:
        return {"state": "incomplete", "error": "some answers failed; their records say why"}
    if not isinstance(error, Exception):
        return {"state": "stopped", "error": " ".join(str(error).split())}
    state = "incomplete" if isinstance(error, IncompleteError) else "failed"
    return {"state": state, "error": " ".join(f"{type(error).__name__}: {error}".split())[:2000]}


def _log_to(folder: Path) -> logging.Handler:
    handler = logging.FileHandler(folder / LOG, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
    logging.getLogger().addHandler(handler)
    return handler


def _tell(error: BaseException, handler: logging.Handler) -> None:
    """The stack trace into the log; one that is nobody's mistake but ours to the terminal too."""
    trace = "".join(traceback.format_exception(error))
    if isinstance(error, Exception) and not isinstance(error, KVRelayError | OSError):
        sys.stderr.write(trace)
    handler.emit(logging.makeLogRecord({"name": "job", "levelname": "ERROR", "msg": trace}))


def _write(folder: Path, status: dict[str, Any]) -> None:
    write_atomic(folder / STATUS, json.dumps(status, indent=1) + "\n")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
