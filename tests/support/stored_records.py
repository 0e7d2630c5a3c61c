"""Records for the tests of the store, and a process that writes them until it is done or killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from kvrelay.run.record import Cell, RunRecord
from kvrelay.run.store import record_appender

ROOT = Path(__file__).resolve().parents[2]
CELL = Cell(model="m", dataset="d", selector="s", retention="r", position="p")


def record(key: str, **fields: Any) -> RunRecord:
    plain: dict[str, Any] = {"pair_key": "p", "cell": CELL, "run_id": "r", "worker": "w", "example_id": key}
    plain |= {"cluster_id": "c", "history_id": "h", "question": "q", "question_type": "t", "status": "ok"}
    return RunRecord(key=key, **(plain | fields))


def fill(folder: Path, *records: RunRecord, worker: str = "w") -> Path:
    with record_appender(folder, worker=worker) as shard:
        for one in records:
            shard.append(one)
    return shard.path


def keys_in(path: Path) -> list[str]:
    return [json.loads(line)["record"]["key"] for line in path.read_bytes().split(b"\n") if line]


# The writer of the tests that kill: appends the records that are missing and says on stdout which are on disk.
WRITER = """
import os, sys
from pathlib import Path
from stored_records import record
from kvrelay.run.store import claim_folder, read_records, record_appender
folder, worker, first, last, filler = Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:])
claim_folder(folder, "e")
done = read_records(folder)
with record_appender(folder, worker=worker) as shard:
    for key in (f"k{number:04}" for number in range(first, last)):
        if key not in done:
            shard.append(record(key, answer=key * filler))
            os.write(1, key.encode() + b"\\n")
"""


def writer(folder: Path, worker: str, first: int, last: int, filler: int = 1) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", WRITER, str(folder), worker, str(first), str(last), str(filler)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, env=environment())


def environment() -> dict[str, str]:
    """What a process of the tests needs to find the package and this module."""
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(Path(__file__).parent)])}


def said(process: subprocess.Popen[bytes]) -> list[str]:
    assert process.stdout is not None
    with process.stdout:
        lines = process.stdout.read()
    process.wait()
    return lines.decode().split("\n")[:-1]
