"""Reading shards and merging them: idempotent, and the same whatever the order of files and lines.

Lines are found in bytes, because U+2028 and its like end no line of JSONL. A line without its newline was never
acknowledged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kvrelay.core.errors import AssetError
from kvrelay.run.lines import Record, canonical, checked, decode, pieces, reason
from kvrelay.run.quarantine import FOLDER, set_aside

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """A line that is no record, or not one alone. ``lost`` is false where all that it holds is sound (glued lines)."""

    number: int
    data: bytes
    why: str
    lost: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Torn:
    """What stands behind the last newline: it is being written, or its process was killed."""

    data: bytes


def scan(lines: Iterable[bytes], schema: type[Record], name: str) -> Iterator[Record | Damage | Torn]:
    """What the lines of a shard hold, in their order: sound records, and what is none.

    Of a damaged line every part that is a record with its right checksum is given all the same. Raises `AssetError` for
    a schema newer than this software's.
    """
    for number, line in enumerate(lines, start=1):
        if not line.endswith(b"\n"):
            yield Torn(data=line)
        elif line.strip():
            try:
                yield checked(decode(line), schema, f"{name}:{number}")
            except AssetError:
                raise
            except (ValueError, RecursionError) as error:
                yield from _salvaged(line, schema, f"{name}:{number}", number, reason(error))


def _salvaged(line: bytes, schema: type[Record], where: str, number: int, why: str) -> Iterator[Record | Damage]:
    parts = pieces(line)
    found: list[Record] = []
    for part in parts if len(parts) > 1 else ():
        try:
            found.append(checked(decode(part), schema, where))
        except AssetError:
            raise
        except (ValueError, RecursionError):
            continue
    yield from found
    if found:
        why = f"{len(found)} records stand on it, glued together with {len(parts) - len(found)} fragments"
    yield Damage(number=number, data=line, why=why, lost=len(found) < len(parts))


def read_shard(path: Path, schema: type[Record]) -> Iterator[Record]:
    """The sound records of one shard in its order; damage is named by file and line and set aside.

    Raises `AssetError` for a schema newer than this software's.
    """
    damaged = 0
    try:
        with path.open("rb") as lines:
            for found in scan(lines, schema, str(path)):
                if isinstance(found, Damage):
                    damaged += found.lost
                    _name(path, found)
                elif isinstance(found, Torn):
                    LOG.info("%s ends in a line that is not whole: it is being written, or will be redone", path)
                else:
                    yield found
    except FileNotFoundError:  # merged away since the folder was listed
        return
    if damaged:
        LOG.warning(
            "%s holds %d damaged line(s), set aside in %s/; the same command measures them again", path, damaged, FOLDER
        )


def _name(path: Path, damage: Damage) -> None:
    """Once a line: later readings find the copy and only count it."""
    if not damage.lost:
        LOG.warning("%s:%d: %s; all are read", path, damage.number, damage.why)
        return
    level = logging.WARNING if set_aside(path, f"line{damage.number}", damage.data) else logging.DEBUG
    LOG.log(level, "%s:%d is damaged and set aside: %s", path, damage.number, damage.why)


def merge(
    records: Iterable[Record], *, key: Callable[[Record], str], rank: Callable[[Record], int]
) -> dict[str, Record]:
    """One record a key, sorted by key; the same whatever the order in which they come.

    Of two records of one key the lower ``rank`` stays, then the smaller canonical JSON.
    """
    best: dict[str, Record] = {}
    for record in records:
        name = key(record)
        rival = best.get(name)
        best[name] = record if rival is None else _better(rival, record, rank)
    return dict(sorted(best.items()))


def _better(one: Record, other: Record, rank: Callable[[Record], int]) -> Record:
    ranks = rank(one), rank(other)
    if ranks[0] != ranks[1]:
        return one if ranks[0] < ranks[1] else other
    return min(one, other, key=lambda record: canonical(record.model_dump(mode="json")))
