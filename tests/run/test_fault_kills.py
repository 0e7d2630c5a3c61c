"""kill -9 at fifty moments of a real process, ten of them inside a write; and between a write and its rename.

What was acknowledged before the kill is there after it, nothing is there twice, and the same process finishes the rest.
docs/faults.md has the whole table of faults.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from stored_records import ROOT, environment, fill, keys_in, record, said, writer

from kvrelay.core.errors import AssetError
from kvrelay.run.store import read_manifest, read_plans, read_records, read_verdicts, record_appender

TOTAL = 600

HALF = """
import os, signal, sys, time
from pathlib import Path
from stored_records import record
from kvrelay.run.store import read_records, record_appender
folder, number, share = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
done = read_records(folder)
real = os.write
def half(descriptor, data):
    real(descriptor, data[: max(1, int(len(data) * share))])
    os.fsync(descriptor)
    real(1, b"HALF\\n")
    time.sleep(600)
with record_appender(folder, worker="w") as shard:
    for key in (f"h{number:02}a", f"h{number:02}b"):
        shard.append(record(key, answer="long " * 2_000))
        real(1, key.encode() + b"\\n")
    os.write = half
    shard.append(record(f"h{number:02}c", answer="long " * 2_000))
"""
"""Acknowledges two records and is then inside the write of a third until it is killed."""


def test_fifty_kills_at_random_moments_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    """Forty kills of one shard's writer, at any moment of its life; each life begins on what the one before left."""
    rng, folder = random.Random(11), tmp_path / "e"
    acknowledged: list[str] = []
    killed = 0
    while killed < 40:
        process = writer(folder, "w", 0, TOTAL, filler=rng.choice((1, 400, 4_000)))
        assert process.stdout is not None
        for _ in range(rng.randint(0, 14)):
            acknowledged.append(process.stdout.readline().decode().strip())
        time.sleep(rng.random() * 0.004)
        process.kill()
        acknowledged += said(process)
        killed += process.returncode == -signal.SIGKILL
        assert set(filter(None, acknowledged)) <= set(read_records(folder))
    for number in range(10):
        acknowledged += _killed_inside_a_write(folder, number, share=(number + 1) / 12)
    finished = writer(folder, "w", 0, TOTAL)
    acknowledged += said(finished)
    keys = keys_in(folder / "records" / "w.jsonl")
    assert finished.returncode == 0 and Counter(keys).most_common(1)[0][1] == 1
    assert set(keys) == {f"k{number:04}" for number in range(TOTAL)} | {
        f"h{n:02}{ab}" for n in range(10) for ab in "ab"
    }
    told = [key for key in acknowledged if key]
    assert len(told) == len(set(told)) and set(told) <= set(keys)
    torn = [path for path in (folder / "quarantine").iterdir() if ".torn." in path.name]
    assert len(torn) >= 10


def _killed_inside_a_write(folder: Path, number: int, share: float) -> list[str]:
    command = [sys.executable, "-c", HALF, str(folder), str(number), str(share)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment())
    assert process.stdout is not None
    told = [process.stdout.readline().decode().strip() for _ in range(3)]
    assert told == [f"h{number:02}a", f"h{number:02}b", "HALF"]
    process.kill()
    assert said(process) == [] and process.returncode == -signal.SIGKILL
    data = (folder / "records" / "w.jsonl").read_bytes()
    assert not data.endswith(b"\n"), "the kill was not inside a write"
    found = read_records(folder)
    assert {*told[:2]} <= found.keys() and f"h{number:02}c" not in found
    return told[:2]


STOP_BEFORE_RENAME = """
import os, signal, sys
from pathlib import Path
import kvrelay.run.store as store
folder, what = Path(sys.argv[1]), sys.argv[2]
real = Path.replace
def stop(path, target):
    if what in str(target):
        os.kill(os.getpid(), signal.SIGKILL)
    return real(path, target)
Path.replace = stop
from kvrelay.run.record import Cell, Manifest, PlannedCell, RunPlan
cell = Cell(model="m", dataset="d", selector="s", retention="r", position="p")
cells = (PlannedCell(cell=cell, config_sha256="c", keys=("k",)),)
plan = RunPlan(experiment="e", run_id="a", created="2027", cells=cells)
store.claim_folder(folder, "e")
store.write_plan(folder, plan)
store.write_manifest(folder, Manifest(run_id="a", experiment="e", expected=2, done=2))
"""


def stopped(folder: Path, what: str) -> int:
    command = [sys.executable, "-c", STOP_BEFORE_RENAME, str(folder), what]
    return subprocess.run(command, env=environment(), cwd=ROOT).returncode


@pytest.mark.parametrize("what", ["kvrelay.json", "runs/a.json", "a.manifest.json", "/manifest.json"])
def test_a_kill_between_write_and_rename_leaves_the_old_file_and_the_same_command_finishes(
    what: str, tmp_path: Path
) -> None:
    folder = tmp_path / "e"
    assert stopped(folder, what) == -signal.SIGKILL
    drafts = [path for path in folder.rglob(".*.tmp")]
    assert len(drafts) == 1 and not (folder / what.lstrip("/")).exists()
    assert read_plans(folder) == [] if what in ("kvrelay.json", "runs/a.json") else len(read_plans(folder)) == 1
    assert read_manifest(folder) is None
    assert stopped(folder, "nothing") == 0
    first = read_manifest(folder)
    assert first is not None and first.done == 2 and len(read_plans(folder)) == 1
    assert stopped(folder, "/manifest.json") == -signal.SIGKILL
    assert read_manifest(folder) == first and read_records(folder) == read_verdicts(folder) == {}


def test_lines_that_another_process_cut_off_are_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Two writers of one name: the other takes a line in the making for a torn one."""
    path, real, cuts = fill(tmp_path, record("a")), os.fsync, [1, 1]
    whole = path.stat().st_size

    def cut(descriptor: int) -> None:
        real(descriptor)
        if cuts:
            os.truncate(path, whole + cuts.pop())

    with record_appender(tmp_path, worker="w") as shard:
        monkeypatch.setattr(os, "fsync", cut)
        shard.append(record("b"), record("c"))
        monkeypatch.undo()
    assert list(read_records(tmp_path)) == ["a", "b", "c"] and "cut or moved by another process" in caplog.text
    with record_appender(tmp_path, worker="w") as shard:
        monkeypatch.setattr(os, "fsync", lambda descriptor: os.truncate(path, whole))
        with pytest.raises(AssetError, match="another process cuts or moves it"):
            shard.append(record("d"))


def test_a_shard_that_is_taken_away_is_begun_anew(tmp_path: Path) -> None:
    with record_appender(tmp_path, worker="w") as shard:
        shard.append(record("a"))
        shard.path.rename(shard.path.with_name("merged.jsonl"))
        shard.append(record("b"))
        shard.path.unlink()
        shard.append(record("c"))
    assert list(read_records(tmp_path)) == ["a", "b", "c"] and keys_in(shard.path) == ["c"]
    assert keys_in(shard.path.with_name("merged.jsonl")) == ["a", "b"]


def test_many_processes_that_reopen_one_name_lose_nothing(tmp_path: Path) -> None:
    """Every life of each process opens the shard anew and so looks for a torn tail while the others write."""
    folder = tmp_path / "e"
    for round_ in range(3):
        alive = [writer(folder, "same", n * 40, (n + 1) * 40, filler=9_000) for n in range(3)]
        if round_ == 0:
            alive[0].kill()
        told = [said(process) for process in alive]
        assert {key for keys in told for key in keys} <= set(read_records(folder))
    assert set(read_records(folder)) == {f"k{number:04}" for number in range(120)}
