"""Faults under the store: processes that are killed, disks that are full, two writers at once."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from stored_records import environment, keys_in, record, said, writer

from kvrelay.core.errors import AssetError
from kvrelay.run.store import read_records, record_appender


def test_kill_at_random_moments_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    rng = random.Random(20)
    folder, total = tmp_path / "e", 400
    acknowledged: list[str] = []
    killed_at_work = 0
    for _ in range(15):
        process = writer(folder, "w", 0, total, filler=4_000)
        assert process.stdout is not None
        for _ in range(rng.randint(0, 24)):
            acknowledged.append(process.stdout.readline().decode().strip())
        time.sleep(rng.random() * 0.004)
        process.kill()
        acknowledged += said(process)
        killed_at_work += process.returncode == -signal.SIGKILL
        found = read_records(folder)
        assert set(filter(None, acknowledged)) <= set(found)
    acknowledged += said(writer(folder, "w", 0, total, filler=1))
    keys = keys_in(folder / "records" / "w.jsonl")
    assert sorted(keys) == sorted(set(keys)) == [f"k{number:04}" for number in range(total)]
    acknowledged = [key for key in acknowledged if key]
    assert killed_at_work >= 10
    assert len(acknowledged) == len(set(acknowledged))


@pytest.mark.parametrize("workers", [("one", "two"), ("same", "same")])
def test_two_processes_in_one_folder(
    workers: tuple[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "e"
    both = [writer(folder, workers[0], 0, 60, filler=500), writer(folder, workers[1], 60, 120, filler=500)]
    assert [len(said(process)) for process in both] == [60, 60]
    assert [process.returncode for process in both] == [0, 0]
    assert len(read_records(folder)) == 120
    assert caplog.text == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "w.jsonl").symlink_to("/dev/full")
    shard = record_appender(tmp_path, worker="w")
    with shard, pytest.raises(AssetError, match=r"w\.jsonl: the disk is full.*finished records are safe.*resumes"):
        shard.append(record("a"))


LIMITED = """
import resource, sys
from pathlib import Path
from stored_records import record
from kvrelay.core.errors import AssetError
from kvrelay.run.store import record_appender
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
with record_appender(Path(sys.argv[1]), worker="w") as shard:
    resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, hard))
    for key in "abcdefgh":
        try:
            shard.append(record(key, answer=key * 1_000))
        except AssetError as error:
            print(key, shard.path.stat().st_size, error)
            break
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    shard.append(record("z"))
"""


def test_a_write_cut_short_is_taken_back(tmp_path: Path) -> None:
    """A file size limit gives what a full disk gives: part of the line, then an error."""
    command = [sys.executable, "-c", LIMITED, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=True)
    refused, size, message = done.stdout.split(" ", 2)
    path = tmp_path / "records" / "w.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    kept = keys_in(path)
    assert kept == [*"abcdefgh"[: len(kept) - 1], "z"] and refused == "abcdefgh"[len(kept) - 1]
    assert int(size) == sum(map(len, lines[:-1])) < 5_000 < int(size) + len(lines[0])
    assert "size limit" in message and "resumes" in message


def test_a_fragment_that_could_not_be_taken_back_spoils_itself_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real, room = os.write, [9]

    def write(descriptor: int, data: bytes) -> int:
        if not room:
            raise OSError(errno.EDQUOT, "over quota")
        return real(descriptor, data[: room.pop()])

    def truncate(descriptor: int, size: int) -> None:
        raise OSError(errno.EIO, "no")

    with record_appender(tmp_path, worker="w") as shard:
        shard.append(record("a"))
        with monkeypatch.context() as broken:
            broken.setattr(os, "write", write)
            broken.setattr(os, "ftruncate", truncate)
            with pytest.raises(AssetError, match="quota is used up"):
                shard.append(record("b"))
        shard.append(record("c"))
    assert list(read_records(tmp_path)) == ["a", "c"]
    assert f"{shard.path}:2 is damaged" in caplog.text


def test_a_line_that_fsync_refuses_was_never_acknowledged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fsync(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "no space")

    with record_appender(tmp_path, worker="w") as shard:
        shard.append(record("a"))
        with monkeypatch.context() as broken:
            broken.setattr(os, "fsync", fsync)
            with pytest.raises(AssetError, match="disk is full"):
                shard.append(record("b"))
        shard.append(record("c"))
    assert keys_in(shard.path) == ["a", "c"]
