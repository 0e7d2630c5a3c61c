"""Where results lie on disk, and the only way in and out.

    OUT/<experiment>/kvrelay.json               marker: whose folder this is
    OUT/<experiment>/runs/<run_id>.json         what a run sets out to measure (`RunPlan`)
    OUT/<experiment>/runs/<run_id>.manifest.json, manifest.json    written last (`Manifest`); the second is the newest
    OUT/<experiment>/records/<worker>.jsonl     answers, one shard a process
    OUT/<experiment>/judges/<judge id>.json     who judged (`JudgeFacts`), written before the first verdict
    OUT/<experiment>/verdicts/<judge id>.<worker>.jsonl
    OUT/<experiment>/provenance/<run_id>.json   OUT/<experiment>/report/

Everything but the shards is written whole under another name and renamed, so that a reader never sees half a file.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from kvrelay.core.errors import AssetError, ConfigError
from kvrelay.run.appender import FULL, Appender, sync_folder, unwritten
from kvrelay.run.lines import Record, checked, reason, utf8
from kvrelay.run.record import SCHEMA_VERSION, Manifest, RunPlan, RunRecord, Verdict
from kvrelay.run.shards import merge

MARKER = "kvrelay.json"
FOLDERS = ("runs", "records", "judges", "verdicts", "provenance", "report")


def record_appender(folder: Path, *, worker: str | None = None) -> Appender:
    """The shard of this process's answers. ``worker`` is given only to reopen a shard by its name."""
    return Appender(folder / "records", worker=worker)


def verdict_appender(folder: Path, judge_id: str, *, worker: str | None = None) -> Appender:
    """The shard of this process's verdicts by one judge."""
    return Appender(folder / "verdicts", worker=worker, prefix=judge_id)


def read_records(folder: Path) -> dict[str, RunRecord]:
    """All answers by key; one that is ok stands before one that failed."""
    shards = sorted((folder / "records").glob("*.jsonl"))
    return merge(shards, RunRecord, key=lambda record: record.key, rank=lambda record: record.status != "ok")


def read_verdicts(folder: Path) -> dict[str, Verdict]:
    """All verdicts by item key (which holds the judge): a scored one before a final unscored one before the others."""
    shards = sorted((folder / "verdicts").glob("*.jsonl"))
    return merge(shards, Verdict, key=lambda verdict: verdict.item_key, rank=_verdict_rank)


def _verdict_rank(verdict: Verdict) -> int:
    return (verdict.correct is None) + (not verdict.is_final)


def write_plan(folder: Path, plan: RunPlan) -> Path:
    return _write_json(folder / "runs" / f"{plan.run_id}.json", plan.model_dump(mode="json"))


def read_plans(folder: Path) -> list[RunPlan]:
    """The plans of all runs, oldest first. Raises `AssetError` for one that is damaged or of a newer schema."""
    files = [path for path in (folder / "runs").glob("*.json") if not path.name.endswith(".manifest.json")]
    plans = [_read_whole(path, RunPlan) for path in files]
    return sorted(plans, key=lambda plan: (plan.created, plan.run_id))


def write_manifest(folder: Path, manifest: Manifest) -> Path:
    """The run's own copy, then ``manifest.json``, the newest run's."""
    value = manifest.model_dump(mode="json")
    _write_json(folder / "runs" / f"{manifest.run_id}.manifest.json", value)
    return _write_json(folder / "manifest.json", value)


def read_manifest(folder: Path, run_id: str | None = None) -> Manifest | None:
    """A run's manifest (by default the newest); None for a run that has not finished."""
    path = folder / "manifest.json" if run_id is None else folder / "runs" / f"{run_id}.manifest.json"
    return _read_whole(path, Manifest) if path.exists() else None


def write_judge(folder: Path, facts: JudgeFacts) -> Path:
    return _write_json(folder / "judges" / f"{facts.id}.json", facts.model_dump(mode="json"))


def read_judges(folder: Path) -> list[JudgeFacts]:
    """All identities that judged in this folder, oldest first."""
    found = [_read_whole(path, JudgeFacts) for path in (folder / "judges").glob("*.json")]
    return sorted(found, key=lambda facts: (facts.created, facts.id))


def write_provenance(folder: Path, run_id: str, facts: Mapping[str, Any]) -> Path:
    return _write_json(folder / "provenance" / f"{run_id}.json", facts)


def shard_digests(folder: Path) -> dict[str, str]:
    """sha256 of every shard as it is now, by its path in the folder: for `Manifest.files`."""
    shards = sorted(path for name in ("records", "verdicts") for path in (folder / name).glob("*.jsonl"))
    return {path.relative_to(folder).as_posix(): _sha256(path) for path in shards}


def write_atomic(path: Path, data: bytes | str) -> Path:
    """Write a whole file or nothing: temporary name beside it, fsync, rename, fsync of the folder.

    Raises `AssetError` when the disk takes no more; what stood there before then still stands.
    """
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with draft.open("xb") as file:
            file.write(utf8(data) if isinstance(data, str) else data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException as error:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise unwritten(path, error) from error
        raise
    sync_folder(path.parent)
    return path


def claim_folder(folder: Path, experiment: str) -> None:
    """Make sure, before any model is loaded, that results of this experiment can be written to this folder.

    Makes the folder and its parts, marks it and tries a write in each part. Raises `ConfigError` for a folder that
    holds other things, belongs to another experiment or a newer kvrelay, or cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # The names are read before the marker: a run that starts beside this one writes its marker first of all.
        names = [path.name for path in folder.iterdir() if not path.name.startswith(f".{MARKER}.")]
        if MARKER not in names and names:
            raise ConfigError(
                f"{folder} holds files of others ({', '.join(sorted(names)[:3])}) and no {MARKER}; "
                "results go to an empty or a new folder (key: out)"
            )
        if MARKER not in names:
            _write_json(folder / MARKER, {"experiment": experiment, "schema_version": SCHEMA_VERSION})
        _check_marker(folder / MARKER, experiment)
        for name in FOLDERS:
            _try_write(folder / name)
    except (OSError, AssetError) as error:
        if isinstance(error, OSError) and error.errno in FULL:
            raise unwritten(folder, error) from error
        if isinstance(error, FileExistsError):
            error = NotADirectoryError(errno.ENOTDIR, "a file stands where a folder is wanted", error.filename)
        raise ConfigError(f"results cannot be written to {folder}: {error}; choose another (key: out)") from error


def _check_marker(path: Path, experiment: str) -> None:
    try:
        marker = json.loads(path.read_bytes())
        owner, version = str(marker["experiment"]), int(marker["schema_version"])
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} is damaged ({error}); choose another folder (key: out)") from error
    if version > SCHEMA_VERSION:
        raise ConfigError(
            f"{path.parent} was written by a newer kvrelay (schema {version}; this one knows up to {SCHEMA_VERSION}); "
            "update kvrelay or choose another folder (key: out)"
        )
    if owner != experiment:
        raise ConfigError(
            f"{path.parent} belongs to experiment {owner!r}, not {experiment!r}; choose another folder (key: out)"
        )


def _try_write(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    probe = folder / f".probe.{uuid.uuid4().hex[:8]}.tmp"
    try:
        with probe.open("xb") as file:
            file.write(b"probe\n")
            file.flush()
            os.fsync(file.fileno())
    finally:
        probe.unlink(missing_ok=True)


def _write_json(path: Path, value: Any) -> Path:
    return write_atomic(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def _read_whole(path: Path, schema: type[Record]) -> Record:
    try:
        return checked(json.loads(path.read_bytes()), schema, str(path))
    except AssetError:
        raise
    except (ValueError, AttributeError) as error:
        raise AssetError(f"{path} is damaged: {reason(error)}; delete it and give its command again") from error


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
