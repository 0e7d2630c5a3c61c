"""Merging an experiment's shards into one Parquet file a kind: any time, any number of times, and nothing is lost.

Every distinct record goes in, also one that failed and was done again, so that a merged folder gives the same records
and the same disagreements as its shards did. Shards stay, unless ``prune`` asks for those to go that are whole in the
file; one that grows meanwhile, or that holds damage, stays all the same.
"""

from __future__ import annotations

import hashlib
import io
import logging
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvrelay.core.errors import AssetError
from kvrelay.run.atomic import sync_folder
from kvrelay.run.lines import Record, canonical
from kvrelay.run.merged import about, read_rows, write_merged
from kvrelay.run.parts import ANSWERS, VERDICTS, Part
from kvrelay.run.shards import Damage, Torn, scan

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """What a merge did to one kind: distinct records, their keys, shards read, and shards that are gone now."""

    file: Path
    rows: int
    keys: int
    shards: int
    pruned: int
    content_sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shard:
    path: Path
    said: dict[str, Any]
    sound: bool
    """Whether all of it is records: then nothing is lost with it."""


def compact(folder: Path, *, prune: bool = False) -> list[Compacted]:
    """Merge the shards of an experiment's folder; kinds of which there is nothing are left out.

    One merge at a time. Raises `AssetError` for a file that is damaged or of a newer schema, and when the disk is full;
    shards and file then stand as they stood.
    """
    done: list[Compacted] = []
    for part in (ANSWERS, VERDICTS):
        done += _compact(folder, part, prune)
    return done


def _compact(folder: Path, part: Part[Any], prune: bool) -> Iterator[Compacted]:
    file = folder / part.file
    before = about(file)
    found: dict[bytes, Any] = {}
    shards = [_read(path, part, found) for path in part.shards(folder)]
    for record in read_rows(file, part.schema):
        found.setdefault(canonical(record.model_dump(mode="json")), record)
    if not found:
        return
    ordered = sorted(found.items(), key=lambda item: (part.key(item[1]), part.rank(item[1]), item[0]))
    sources = dict(sorted({**before.sources, **{shard.path.name: shard.said for shard in shards}}.items()))
    if about(file) != before:
        raise AssetError(f"{file} was replaced by another process while its shards were read; merge again")
    told = write_merged(file, [(body, part.shown(record)) for body, record in ordered], sources)
    pruned = sum(_prune(shard) for shard in shards) if prune else 0
    yield Compacted(
        file=file,
        rows=told.rows,
        keys=len({part.key(record) for record in found.values()}),
        shards=len(shards),
        pruned=pruned,
        content_sha256=told.content_sha256,
    )


def _read(path: Path, part: Part[Record], found: dict[bytes, Record]) -> _Shard:
    """Put a shard's records into ``found``; what its bytes were at that moment."""
    data = path.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    sound = True
    for one in scan(io.BytesIO(data), part.schema, str(path)):
        if isinstance(one, Damage | Torn):
            sound = False
            LOG.warning("%s holds what is no record (%s); it stays", path, _why(one))
        else:
            found.setdefault(canonical(one.model_dump(mode="json")), one)
    said = {"bytes": len(whole), "sha256": hashlib.sha256(whole).hexdigest()}
    return _Shard(path=path, said=said, sound=sound)


def _why(one: Damage | Torn) -> str:
    return "a last line that is not whole" if isinstance(one, Torn) else f"line {one.number}: {one.why}"


def _prune(shard: _Shard) -> bool:
    """Remove a shard if it is still what was merged.

    It is renamed first, to a name that readers know too: a writer that is alive finds its file gone and writes its last
    lines to a new one, and what came in before that shows in the hash. A kill at any point leaves a shard.
    """
    if not shard.sound:
        return False
    aside = shard.path.with_name(f"{shard.path.stem}.{uuid.uuid4().hex[:8]}.jsonl")
    shard.path.rename(aside)
    data = aside.read_bytes()
    same = hashlib.sha256(data).hexdigest() == shard.said["sha256"]
    if same:
        aside.unlink()
    else:
        LOG.warning("%s grew while it was merged; what it holds now stays as %s", shard.path, aside)
    sync_folder(aside.parent)
    return same
