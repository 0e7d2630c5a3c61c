"""What a run stood on: code, packages, machine and settings, written once a run beside its records.

No user name, host name or environment variable is recorded, but for SLURM's ids and ``HF_HUB_OFFLINE``; the home
folder is written as ``~`` wherever it occurs.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import kvrelay

ENVIRONMENT = (
    "HF_HUB_OFFLINE",
    "SLURM_JOB_ID",
    "SLURM_ARRAY_JOB_ID",
    "SLURM_ARRAY_TASK_ID",
    "SLURM_RESTART_COUNT",
    "SLURM_PROCID",
)
UNKNOWN = "unknown"
GIT_TIMEOUT_S = 20
CODE = ("*.py", "*.yaml", "*.toml", "*.txt", "*.lock")
"""Untracked files that count as code: hashing all of them would read whatever data lies about."""


def provenance(
    settings: Mapping[str, Any],
    *,
    models: Mapping[str, Any] | None = None,
    data: Mapping[str, Any] | None = None,
    judges: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Facts of this run as plain values. Never raises for what it cannot find out: that is ``unknown`` or absent.

    ``settings`` is the resolved configuration; ``models`` (revision, weight, tokenizer and template hashes, rotary
    embedding, dtype, attention kernel), ``data`` (hashes of files, split, filter) and ``judges`` are what their owners
    say of themselves, by name.
    """
    facts = {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["python", *sys.argv]),
        "git": git_state(Path(kvrelay.__file__).resolve().parent),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
        "packages": packages(),
        "hardware": hardware(),
        "environment": {name: os.environ[name] for name in ENVIRONMENT if name in os.environ},
        "settings": dict(settings),
        "models": dict(models or {}),
        "data": dict(data or {}),
        "judges": dict(judges or {}),
    }
    home = os.path.expanduser("~").rstrip("/")
    if not home.startswith("/"):
        return facts
    return _replaced(re.compile(rf"(?<![\w.-]){re.escape(home)}(?![\w.-])"), facts)


def git_state(folder: Path) -> dict[str, Any]:
    """Commit, dirty flag and hash of what differs from the commit, of the repository that ``folder`` is a part of.

    ``unknown`` throughout where there is no repository, no commit, no git, or where the folder is not the
    repository's own (a virtual environment inside somebody's project).
    """
    try:
        top = Path(_git(folder, "rev-parse", "--show-toplevel").strip())
        commit = _git(top, "rev-parse", "HEAD").strip()
        if not _git(folder, "ls-files", "--", "."):
            raise LookupError(folder)
        status = _git(top, "status", "--porcelain")
        return {"commit": commit, "dirty": bool(status), "diff_sha256": _diff_sha256(top) if status else None}
    except (OSError, LookupError, subprocess.SubprocessError, UnicodeError):
        return {"commit": UNKNOWN, "dirty": UNKNOWN, "diff_sha256": UNKNOWN}


def packages() -> dict[str, str]:
    """Versions of all installed distributions by name."""
    found = {str(one.metadata["Name"]).lower(): one.version for one in metadata.distributions() if one.metadata["Name"]}
    return dict(sorted(found.items()))


def hardware() -> dict[str, Any]:
    """Names and numbers of processors; torch's part of it where torch is installed."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    facts: dict[str, Any] = {"cpu": _cpu_name(), "cores": cores}
    try:
        import torch
    except ImportError:
        return facts
    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    facts |= {"threads": torch.get_num_threads(), "gpus": gpus, "cuda": torch.version.cuda}
    facts["deterministic"] = torch.are_deterministic_algorithms_enabled()
    return facts


def _git(folder: Path, *arguments: str, given: str | None = None) -> str:
    # Variables of a surrounding git command (a hook) would point at another repository.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return subprocess.run(
        ["git", "-C", str(folder), *arguments],
        input=given,
        capture_output=True,
        text=True,
        errors="surrogateescape",
        check=True,
        timeout=GIT_TIMEOUT_S,
        env=environment | {"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"},
    ).stdout


def _diff_sha256(top: Path) -> str:
    """One hash over the tracked changes and over the untracked files of code."""
    sha = hashlib.sha256()
    changes = _git(top, "diff", "HEAD", "--binary", "--no-color", "--no-ext-diff", "--no-textconv")
    names = _git(top, "-c", "core.quotePath=false", "ls-files", "--others", "--exclude-standard", "--", *CODE)
    hashes = _git(top, "hash-object", "--stdin-paths", given=names) if names else ""
    for part in (changes, names, hashes):
        sha.update(part.encode("utf-8", "surrogateescape") + b"\0")
    return sha.hexdigest()


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine() or UNKNOWN


def _replaced(home: re.Pattern[str], value: Any) -> Any:
    """The value with the home folder written as ``~`` in every string."""
    if isinstance(value, str):
        return home.sub("~", value)
    if isinstance(value, Mapping):
        return {name: _replaced(home, part) for name, part in value.items()}
    return [_replaced(home, part) for part in value] if isinstance(value, list | tuple) else value
