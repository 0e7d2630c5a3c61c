"""Whole files at once: written under another name, flushed to the disk, renamed. And what a full disk is called."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

from kvrelay.core.drafts import drafted
from kvrelay.core.errors import AssetError
from kvrelay.run.lines import utf8

FULL = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file has reached the size limit of this process",
}


def unwritten(path: Path, error: OSError) -> AssetError:
    """What a user is told when the disk takes no more."""
    reason = FULL.get(error.errno or 0) or error.strerror or str(error)
    return AssetError(
        f"cannot write {path}: {reason}. The finished records are safe; make room there (or point the key out to "
        "another disk) and give the same command again: it resumes where this one stopped"
    )


def sync_folder(folder: Path) -> None:
    """Make a new or renamed name in a folder durable; file systems that cannot are left alone."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_atomic(path: Path, data: str | bytes) -> Path:
    """Write a whole file so that a reader, and a machine that stops, finds the old one or the new one.

    Makes the folder. Raises `AssetError` when the disk takes no more; the old file then still stands.
    """
    try:
        with drafted(path) as draft, draft.open("xb") as file:
            file.write(utf8(data) if isinstance(data, str) else data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise unwritten(path, error) from error
    sync_folder(path.parent)
    return path
