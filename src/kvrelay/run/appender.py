"""Append-only writing: one file a writer, one write and one fsync a call, no locks."""

from __future__ import annotations

import logging
import os
import re
import socket
import time
import uuid
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from kvrelay.core.errors import AssetError
from kvrelay.run.atomic import sync_folder, unwritten
from kvrelay.run.lines import encode
from kvrelay.run.quarantine import set_aside
from kvrelay.run.record import Schema

LOG = logging.getLogger(__name__)
TAIL_BLOCK_BYTES = 1 << 16
SETTLE_S = 0.05
"""A torn tail that changes within this time belongs to a writer that is alive."""
ATTEMPTS = 5
"""How often lines are written before a folder in which they do not stay is given up."""


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


class Appender:
    """The one writer of one shard, as a context manager.

    Opening makes the folder and cuts a torn last line, which nobody was told is written, off a file that a killed
    process left under the same name; the fragment is set aside. When ``append`` returns, its lines are on disk, in the
    file of this name. A shard that stayed empty is removed. Raises `AssetError` when the disk takes no more, with the
    file cut back to its last whole line.

    No other process has this file's name. Should one take it all the same, or merge the shard away, lines that were
    lost by it are written again before ``append`` returns.
    """

    def __init__(self, folder: Path, *, worker: str | None = None, prefix: str = "") -> None:
        self.worker = worker or worker_name()
        self.path = folder / ".".join(filter(None, (file_part(prefix), file_part(self.worker), "jsonl")))
        self._descriptor = -1

    def __enter__(self) -> Self:
        try:
            self._open()
            self._cut_torn_tail()
        except OSError as error:
            self._close()
            raise unwritten(self.path, error) from error
        sync_folder(self.path.parent)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        empty = os.fstat(self._descriptor).st_size == 0 and self.path.is_file() and self._is_named()
        self._close()
        if empty:
            self.path.unlink(missing_ok=True)

    def append(self, *records: Schema) -> None:
        """Write records with one write, so that a killed process leaves all of them or none, and wait for the disk.

        What was decoded together is redone together: a batch of other rows could differ in its last bits.
        """
        lines = b"".join(map(encode, records))
        for _ in range(ATTEMPTS):
            self._write(lines)
            if self._holds(lines):
                return
            LOG.warning("%s was cut or moved by another process; the last lines are written again", self.path)
            self._reopen()
        raise AssetError(
            f"cannot write {self.path}: another process cuts or moves it. The finished records are safe; end that "
            "process and give the same command again: it resumes where this one stopped"
        )

    def _write(self, lines: bytes) -> None:
        start = os.fstat(self._descriptor).st_size
        if start and os.pread(self._descriptor, 1, start - 1) != b"\n":
            # A line that could not be cut back: end it, so that it spoils itself alone.
            lines = b"\n" + lines
        written = 0
        try:
            while written < len(lines):
                written += os.write(self._descriptor, lines[written:])
            os.fsync(self._descriptor)
        except OSError as error:
            self._cut_back(start, written)
            raise unwritten(self.path, error) from error

    def _holds(self, lines: bytes) -> bool:
        """Whether the lines stand where this process just wrote, in the file that has this shard's name."""
        end = os.lseek(self._descriptor, 0, os.SEEK_CUR)
        return self._is_named() and os.pread(self._descriptor, len(lines), end - len(lines)) == lines

    def _is_named(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._descriptor), self.path.stat())
        except OSError:
            return False

    def _cut_back(self, start: int, written: int) -> None:
        """Take back what this process wrote, unless somebody wrote behind it."""
        with suppress(OSError):
            if os.fstat(self._descriptor).st_size == start + written:
                os.ftruncate(self._descriptor, start)
                os.fsync(self._descriptor)

    def _cut_torn_tail(self) -> None:
        while (whole := _whole_bytes(self._descriptor)) < (size := os.fstat(self._descriptor).st_size):
            time.sleep(SETTLE_S)
            if os.fstat(self._descriptor).st_size == size:
                set_aside(self.path, "torn", os.pread(self._descriptor, size - whole, whole))
                LOG.warning("%s ended in a torn line; it is cut off, set aside, and its example redone", self.path)
                os.ftruncate(self._descriptor, whole)
                os.fsync(self._descriptor)

    def _open(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)

    def _reopen(self) -> None:
        try:
            self._close()
            self._open()
        except OSError as error:
            raise unwritten(self.path, error) from error
        sync_folder(self.path.parent)

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
