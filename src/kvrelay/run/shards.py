"""Reading shards and merging them: idempotent, and the same whatever the order of files and lines.

Lines are found in bytes, because U+2028 and its like end no line of JSONL. A line without its newline was never
acknowledged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from kvrelay.core.errors import AssetError
from kvrelay.run.lines import Record, canonical, checked, decode, reason

LOG = logging.getLogger(__name__)


def merge(
    paths: Iterable[Path], schema: type[Record], *, key: Callable[[Record], str], rank: Callable[[Record], int]
) -> dict[str, Record]:
    """The records of many shards, one a key, sorted by key; the same whatever the order of shards and lines.

    Of two records of one key the lower ``rank`` stays, then the smaller canonical JSON. A torn last line is passed
    over; a damaged line is named in a warning and its record counts as missing.
    """
    best: dict[str, Record] = {}
    for path in paths:
        for record in read_shard(path, schema):
            name = key(record)
            rival = best.get(name)
            best[name] = record if rival is None else _better(rival, record, rank)
    return dict(sorted(best.items()))


def _better(one: Record, other: Record, rank: Callable[[Record], int]) -> Record:
    ranks = rank(one), rank(other)
    if ranks[0] != ranks[1]:
        return one if ranks[0] < ranks[1] else other
    return min(one, other, key=lambda record: canonical(record.model_dump(mode="json")))


def read_shard(path: Path, schema: type[Record]) -> Iterator[Record]:
    """The sound records of one shard in its order. Raises `AssetError` for a schema newer than this software's."""
    damaged = 0
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.endswith(b"\n") or not line.strip():
                    continue
                try:
                    record = checked(decode(line), schema, f"{path}:{number}")
                except (ValueError, RecursionError) as error:
                    if isinstance(error, AssetError):
                        raise
                    damaged += 1
                    LOG.warning("%s:%d is damaged and set aside: %s", path, number, reason(error))
                else:
                    yield record
    except FileNotFoundError:
        return
    if damaged:
        LOG.warning("%s holds %d damaged line(s); the same command measures them again", path, damaged)
