"""Many shards in one Parquet file: the records' own canonical JSON with its checksum, and columns to look at.

The file is written whole beside its place, read back, and renamed; it says in its footer which shards it was made of.
The same records give the same bytes, whatever the order of shards and however often they are merged.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from kvrelay.core.drafts import drafted
from kvrelay.core.errors import AssetError
from kvrelay.run.atomic import sync_folder, unwritten
from kvrelay.run.lines import Record, checked, reason, utf8
from kvrelay.run.record import SCHEMA_VERSION

ROWS_A_GROUP = 5_000
ABOUT = b"kvrelay"
ZSTD_LEVEL = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What a merged file's footer says. ``sources``: each shard's bytes and sha256 up to its last newline."""

    rows: int = 0
    content_sha256: str = ""
    sources: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def content_of(bodies: Iterable[bytes]) -> str:
    """Hash of records in their order."""
    sha = hashlib.sha256()
    for body in bodies:
        _count(sha, body)
    return sha.hexdigest()


def read_bodies(path: Path) -> Iterator[bytes]:
    """Canonical JSON of every record of a merged file; nothing where there is no file. Raises `AssetError` for a
    file that is damaged, at the latest behind the last record."""
    if not path.exists():
        return
    told, sha = about(path), hashlib.sha256()
    for body in _bodies(path):
        _count(sha, body)
        yield body
    if sha.hexdigest() != told.content_sha256:
        raise _damaged(path, "its records are not those that its footer tells of")


def _count(sha: Any, body: bytes) -> None:
    sha.update(len(body).to_bytes(8, "big") + body)


def _bodies(path: Path) -> Iterator[bytes]:
    import pyarrow as pa  # late: few folders are merged, and reports shall load fast
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            for batch in file.iter_batches(batch_size=ROWS_A_GROUP, columns=["crc", "record"]):
                for crc, text in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    body = text.encode()
                    if crc != f"{zlib.crc32(body):08x}":
                        raise _damaged(path, f"the checksum of a record is {crc}, its content gives another")
                    yield body
    except AssetError:
        raise
    except (pa.ArrowException, OSError, LookupError, ValueError, AttributeError) as error:
        raise _damaged(path, reason(error)) from error


def read_rows(path: Path, schema: type[Record]) -> Iterator[Record]:
    """The records of a merged file. Raises `AssetError` for a file that is damaged or of a newer schema."""
    for number, body in enumerate(read_bodies(path), start=1):
        try:
            yield checked(json.loads(body), schema, f"{path}, row {number}")
        except AssetError:
            raise
        except ValueError as error:
            raise _damaged(path, f"row {number}: {reason(error)}") from error


def about(path: Path) -> About:
    """The footer's words; empty where there is no file."""
    if not path.exists():
        return About()
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        said = json.loads(pq.read_schema(path).metadata[ABOUT])
        version = said.pop("schema_version")
        found = About(**said)
    except (pa.ArrowException, OSError, LookupError, TypeError, ValueError) as error:
        raise _damaged(path, reason(error)) from error
    if version > SCHEMA_VERSION:
        raise AssetError(f"{path} was written by a newer kvrelay; update kvrelay or choose another folder (key: out)")
    return found


def write_merged(path: Path, rows: Sequence[tuple[bytes, Mapping[str, Any]]], sources: Mapping[str, Any]) -> About:
    """Write (canonical JSON, columns) of records, in this order, as ``path``; read it back before and after the rename.

    Raises `AssetError` when the disk takes no more or gives back something else; the old file then still stands.
    """
    told = About(rows=len(rows), content_sha256=content_of(body for body, _ in rows), sources=dict(sources))
    try:
        with drafted(path) as draft:
            _write(draft, rows, told)
            if content_of(read_bodies(draft)) != told.content_sha256:
                raise _damaged(draft, "it does not give back what was written; the disk may be failing")
    except OSError as error:
        raise unwritten(path, error) from error
    sync_folder(path.parent)
    if about(path) != told:
        raise AssetError(f"{path} was replaced by another process while it was written; merge again")
    return told


def _write(path: Path, rows: Sequence[tuple[bytes, Mapping[str, Any]]], told: About) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = list(rows[0][1])
    said = {
        "schema_version": SCHEMA_VERSION,
        "rows": told.rows,
        "content_sha256": told.content_sha256,
        "sources": told.sources,
    }
    fields = [pa.field(name, pa.string()) for name in (*names, "crc", "record")]
    schema = pa.schema(fields, metadata={ABOUT: json.dumps(said, sort_keys=True).encode()})
    waiting = iter(rows)
    with path.open("xb") as file:
        packed: dict[str, Any] = {"compression": "zstd", "compression_level": ZSTD_LEVEL}
        packed |= dict.fromkeys(("use_dictionary", "write_statistics"), names)  # neither helps where all texts differ
        with pq.ParquetWriter(file, schema, version="2.6", write_page_checksum=True, **packed) as writer:
            while group := list(islice(waiting, ROWS_A_GROUP)):
                columns = [[_text(shown[name]) for _, shown in group] for name in names]
                columns += [[f"{zlib.crc32(body):08x}" for body, _ in group], [body.decode() for body, _ in group]]
                arrays = [pa.array(column, pa.string()) for column in columns]
                writer.write_batch(pa.record_batch(arrays, schema=schema))
        file.flush()
        os.fsync(file.fileno())


def _text(value: Any) -> str | None:
    """Text that Parquet can hold: a lone surrogate becomes its escape. The record itself keeps it."""
    return None if value is None else utf8(str(value)).decode()


def _damaged(path: Path, why: str) -> AssetError:
    return AssetError(
        f"{path} is damaged: {why.rstrip('.')}. Take it from a backup; or delete it: what its shards still hold is "
        "merged again, and the run's own command measures the rest again"
    )
