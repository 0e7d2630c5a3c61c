"""Bytes that are no record: copied out of their shard, once, for whoever wants to know what happened to them.

    OUT/<experiment>/quarantine/<records or verdicts>.<shard>.<line 7, or torn>.<hash>.bad

A shard itself is never rewritten, so that a line's number stays its name; only a torn tail, which nobody was told is
written, is cut off before the next line follows it.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path

from kvrelay.core.errors import AssetError
from kvrelay.run.atomic import write_atomic

FOLDER = "quarantine"


def place_of(shard: Path, where: str, data: bytes) -> Path:
    """Where these bytes of a shard are kept: equal bytes of one place have one name."""
    found = hashlib.sha256(data).hexdigest()[:12]
    return shard.parent.parent / FOLDER / f"{shard.parent.name}.{shard.name}.{where}.{found}.bad"


def set_aside(shard: Path, where: str, data: bytes) -> bool:
    """Copy damaged bytes of a shard. Whether this is news: false where the copy was there already.

    A folder that cannot be written is no reason to stop reading it: the bytes still stand in their shard.
    """
    path = place_of(shard, where, data)
    if path.exists():
        return False
    with suppress(AssetError):
        write_atomic(path, data)
    return True
