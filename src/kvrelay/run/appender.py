"""Append-only writing: one file a writer, one write and one fsync a call, no locks."""

from __future__ import annotations

import errno
import logging
import os
import re
import socket
import uuid
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from kvrelay.core.errors import AssetError
from kvrelay.run.lines import encode
from kvrelay.run.record import Schema

LOG = logging.getLogger(__name__)
TAIL_BLOCK_BYTES = 1 << 16
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


def file_part(text: str) -> str:
    """A name cut down to what every file system takes."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip(".-")[:80]


def worker_name() -> str:
    """A name that no other process has: SLURM's ids where there are any, then host, process id and random digits."""
    ids = [os.environ.get(f"SLURM_{name}") for name in ("ARRAY_JOB_ID", "ARRAY_TASK_ID", "JOB_ID", "PROCID")]
    array, task, job, rank = (file_part(value or "") for value in ids)
    slurm = [f"{array}_{task}" if array else job, rank] if array or job else []
    parts = [*slurm, file_part(socket.gethostname()) or "host", str(os.getpid()), uuid.uuid4().hex[:8]]
    return "-".join(part for part in parts if part)


def sync_folder(folder: Path) -> None:
    """Make a new or renamed name in a folder durable; file systems that cannot are left alone."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class Appender:
    """The one writer of one shard, as a context manager.

    Opening makes the folder and cuts a torn last line off a file that a killed process left under the same name. When
    ``append`` returns, its lines are on disk. A shard that stayed empty is removed. Raises `AssetError` when the disk
    takes no more, with the file cut back to its last whole line.
    """

    def __init__(self, folder: Path, *, worker: str | None = None, prefix: str = "") -> None:
        self.worker = worker or worker_name()
        self.path = folder / ".".join(filter(None, (file_part(prefix), file_part(self.worker), "jsonl")))
        self._descriptor = -1

    def __enter__(self) -> Self:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
            whole = _whole_bytes(self._descriptor)
            if whole < os.fstat(self._descriptor).st_size:
                LOG.warning("%s ended in a torn line; it is cut off and its example redone", self.path)
                os.ftruncate(self._descriptor, whole)
        except OSError as error:
            self._close()
            raise unwritten(self.path, error) from error
        sync_folder(self.path.parent)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        empty = os.fstat(self._descriptor).st_size == 0 and self.path.is_file()
        self._close()
        if empty:
            self.path.unlink(missing_ok=True)

    def append(self, *records: Schema) -> None:
        """Write records with one write, so that a killed process leaves all of them or none, and wait for the disk.

        What was decoded together is redone together: a batch of other rows could differ in its last bits.
        """
        line = b"".join(map(encode, records))
        start = os.fstat(self._descriptor).st_size
        if start and os.pread(self._descriptor, 1, start - 1) != b"\n":
            # A line that could not be cut back: end it, so that it spoils itself alone.
            line = b"\n" + line
        written = 0
        try:
            while written < len(line):
                written += os.write(self._descriptor, line[written:])
            os.fsync(self._descriptor)
        except OSError as error:
            self._cut_back(start, written)
            raise unwritten(self.path, error) from error

    def _cut_back(self, start: int, written: int) -> None:
        """Take back what this process wrote, unless somebody wrote behind it."""
        with suppress(OSError):
            if os.fstat(self._descriptor).st_size == start + written:
                os.ftruncate(self._descriptor, start)
                os.fsync(self._descriptor)

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _whole_bytes(descriptor: int) -> int:
    """Size of a file up to and with its last newline."""
    end = os.fstat(descriptor).st_size
    while end > 0:
        start = max(0, end - TAIL_BLOCK_BYTES)
        cut = os.pread(descriptor, end - start, start).rfind(b"\n")
        if cut >= 0:
            return start + cut + 1
        end = start
    return 0
