"""Where results lie on disk, and the only way in and out.

    OUT/<experiment>/kvrelay.json               marker: whose folder this is
    OUT/<experiment>/runs/<run_id>.json         what a run sets out to measure (`RunPlan`)
    OUT/<experiment>/runs/<run_id>.manifest.json, manifest.json    written last (`Manifest`); the second is the newest
    OUT/<experiment>/runs/<run_id>.1-of-4.manifest.json            the same of a job that answered a part (``shard``)
    OUT/<experiment>/records/<worker>.jsonl     answers, one shard a process
    OUT/<experiment>/judges/<judge id>.json     who judged (`JudgeFacts`), written before the first verdict
    OUT/<experiment>/verdicts/<judge id>.<worker>.jsonl
    OUT/<experiment>/provenance/<run_id>.json   OUT/<experiment>/report/
    OUT/<experiment>/answers.parquet, verdicts.parquet    shards that were merged (`compact`); read with the others
    OUT/<experiment>/quarantine/                copies of damaged lines (`quarantine`)

Everything but the shards is written whole under another name and renamed, so that a reader never sees half a file.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import uuid
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kvrelay.core.errors import AssetError, ConfigError
from kvrelay.run.appender import Appender, file_part
from kvrelay.run.atomic import FULL, unwritten, write_atomic
from kvrelay.run.lines import Record, checked, reason
from kvrelay.run.parts import ANSWERS, VERDICTS
from kvrelay.run.record import SCHEMA_VERSION, JudgeFacts, Manifest, RunPlan, RunRecord, Verdict, digest
from kvrelay.run.shards import merge
from kvrelay.run.twice import Disagreement, differing

LOG = logging.getLogger(__name__)
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
    return merge(ANSWERS.stream(folder), key=ANSWERS.key, rank=ANSWERS.rank)


def read_verdicts(folder: Path) -> dict[str, Verdict]:
    """All verdicts by item key (which holds the judge): a scored one before a final unscored one before the others."""
    return merge(VERDICTS.stream(folder), key=VERDICTS.key, rank=VERDICTS.rank)


def disagreements(folder: Path) -> list[Disagreement]:
    """Answers that were given twice, and items that were judged twice, with different outcomes, sorted by key.

    The same settings should give the same answer. Where they did not, `read_records` and `read_verdicts` take one of
    the two, the same one always; a report says so.
    """
    return [
        *differing(ANSWERS, folder, lambda record: record.answer if record.status == "ok" else None),
        *differing(VERDICTS, folder, lambda verdict: None if verdict.correct is None else str(verdict.correct)),
    ]


def moment(folder: Path) -> str:
    """Now, in UTC and ISO 8601; but later than every plan of the folder, however the clock was set.

    What is newer is told by ``created``: a clock that was turned back must not bring older settings into force.
    """
    times = [datetime.now(UTC)]
    for path in _plan_files(folder):
        with suppress(OSError, ValueError, KeyError, TypeError):  # what is damaged is named by who needs it
            times.append(_after(json.loads(path.read_bytes())["created"]))
    return max(times).isoformat(timespec="microseconds")


def in_order(folder: Path, facts: JudgeFacts) -> JudgeFacts:
    """A judge's facts, created later than those of every other identity of its name that is on file.

    Of several identities a report takes the newest, and a clock that was turned back must not bring an older one back.
    """
    others = [_after(one.created) for one in read_judges(folder) if one.name == facts.name and one.id != facts.id]
    if not others or _after(facts.created) > max(others):
        return facts
    return facts.model_copy(update={"created": max(others).isoformat(timespec="microseconds")})


def _after(created: str) -> datetime:
    """The next microsecond, in UTC."""
    when = datetime.fromisoformat(created)
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).astimezone(UTC) + timedelta(microseconds=1)


def write_plan(folder: Path, plan: RunPlan) -> Path:
    return _write_json(folder / "runs" / f"{plan.run_id}.json", plan.model_dump(mode="json"))


def read_plans(folder: Path) -> list[RunPlan]:
    """The plans of all runs, oldest first. Raises `AssetError` for one that is damaged or of a newer schema."""
    plans = [_read_whole(path, RunPlan) for path in _plan_files(folder)]
    return sorted(plans, key=lambda plan: (plan.created, plan.run_id))


def _plan_files(folder: Path) -> list[Path]:
    found = (folder / "runs").glob("*.json")
    return sorted(path for path in found if path.name[0] != "." and not path.name.endswith(".manifest.json"))


def write_manifest(folder: Path, manifest: Manifest, *, newest: bool = True) -> Path:
    """The run's own copy, then ``manifest.json``, the newest run's; a job's part of a run (``shard``) is no run."""
    value = manifest.model_dump(mode="json")
    own = _write_json(folder / "runs" / f"{manifest.run_id}.manifest.json", value)
    return _write_json(folder / "manifest.json", value) if newest else own


def read_manifest(folder: Path, run_id: str | None = None) -> Manifest | None:
    """A run's manifest (by default the newest); None for a run that has not finished, and for a manifest that is
    damaged: it is named, and the run's own command writes it anew. Raises `AssetError` for a newer schema."""
    path = folder / "manifest.json" if run_id is None else folder / "runs" / f"{run_id}.manifest.json"
    if not path.exists():
        return None
    try:
        return _read_whole(path, Manifest)
    except DamagedError as error:
        LOG.warning("%s is damaged and counts as missing: %s; the run's command writes it anew", path, error.why)
        return None


def write_judge(folder: Path, facts: JudgeFacts) -> Path:
    return _write_json(judge_file(folder / "judges", facts.id), facts.model_dump(mode="json"))


def judge_file(folder: Path, judge_id: str) -> Path:
    """The file of that judge in a folder of judges, whatever characters its name has."""
    sound = file_part(judge_id)
    return folder / f"{judge_id if sound == judge_id else f'{sound[:60]}-{digest(judge_id)[:16]}'}.json"


def read_judges(folder: Path) -> list[JudgeFacts]:
    """All identities that judged in this folder, oldest first."""
    found = [_read_whole(path, JudgeFacts) for path in (folder / "judges").glob("*.json")]
    return sorted(found, key=lambda facts: (facts.created, facts.id))


def write_provenance(folder: Path, run_id: str, facts: Mapping[str, Any]) -> Path:
    return _write_json(folder / "provenance" / f"{run_id}.json", facts)


def shard_digests(folder: Path) -> dict[str, str]:
    """sha256 of every shard and merged file as it is now, by its path in the folder: for `Manifest.files`."""
    merged = [folder / part.file for part in (ANSWERS, VERDICTS) if (folder / part.file).exists()]
    shards = [*merged, *(path for part in (ANSWERS, VERDICTS) for path in part.shards(folder))]
    return {path.relative_to(folder).as_posix(): _sha256(path) for path in shards}


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
        if not _holds_runs_of(path.parent, experiment):
            raise ConfigError(f"{path} is damaged ({error}); choose another folder (key: out)") from error
        LOG.warning(
            "%s is damaged (%s); the plans beside it are of %s, and it is written anew", path, error, experiment
        )
        _write_json(path, {"experiment": experiment, "schema_version": SCHEMA_VERSION})
        return
    if version > SCHEMA_VERSION:
        raise ConfigError(
            f"{path.parent} was written by a newer kvrelay (schema {version}; this one knows up to {SCHEMA_VERSION}); "
            "update kvrelay or choose another folder (key: out)"
        )
    if owner != experiment:
        raise ConfigError(
            f"{path.parent} belongs to experiment {owner!r}, not {experiment!r}; choose another folder (key: out)"
        )


def _holds_runs_of(folder: Path, experiment: str) -> bool:
    """Whether the folder's plans can be read and are all of this experiment."""
    with suppress(AssetError):
        return {plan.experiment for plan in read_plans(folder)} == {experiment}
    return False


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


class DamagedError(AssetError):
    """A whole file that is not what its schema says."""

    def __init__(self, path: Path, why: str) -> None:
        self.why = why
        super().__init__(f"{path} is damaged: {why}; delete it and give its command again")


def _read_whole(path: Path, schema: type[Record]) -> Record:
    try:
        return checked(json.loads(path.read_bytes()), schema, str(path))
    except AssetError:
        raise
    except (ValueError, AttributeError, RecursionError) as error:
        raise DamagedError(path, reason(error)) from error


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
