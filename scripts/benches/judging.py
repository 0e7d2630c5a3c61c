"""Judgements against a server of our own on loopback: how many a second, what they cost, and that memory stays level.

Server and client are processes of their own: this file, run with ``serve`` or ``judge``. The server reads a request,
waits as long as it is told to, and says true; a client judges so many items once and tells its own time and peak.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from judges.endpoint import OpenAICompatibleJudge
from kvrelay.core.errors import InvariantError
from kvrelay.judging.protocol import BlindItem

MODEL = "bench"
CHOICE = {"index": 0, "message": {"role": "assistant", "content": '{"correct": true}'}, "finish_reason": "stop"}
COMPLETION = {"model": MODEL, "choices": [CHOICE], "usage": {"prompt_tokens": 200, "completion_tokens": 7}}
LISTED = {"object": "list", "data": [{"id": MODEL}]}
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_PEAK = re.compile(r"VmHWM:\s+(\d+) kB")


async def serve(latency_s: float) -> None:
    """Answer on a free port, whose number is the first line on stdout, until stdin ends."""

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = _LENGTH.search(head)
                await reader.readexactly(int(length[1]) if length else 0)
                if head.startswith(b"POST"):
                    await asyncio.sleep(latency_s)
                body = json.dumps(COMPLETION if head.startswith(b"POST") else LISTED).encode()
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
                )
                writer.write(body)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(connection, "127.0.0.1", 0, backlog=1024)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)


def judge(url: str, n_items: int, concurrency: int) -> dict[str, Any]:
    """Judge so many items of some hundred characters, made as they are read; this process's time and peak."""
    settled = OpenAICompatibleJudge(base_url=url, model=MODEL, concurrency=concurrency).settled("bench")
    start, spent = time.perf_counter(), time.process_time()
    counts = Counter(verdict.correct for verdict in settled.verdicts(_items(n_items)))
    seconds, cpu_s = time.perf_counter() - start, time.process_time() - spent
    return {"items": n_items, "seconds": seconds, "cpu_s": cpu_s, "peak_bytes": _peak_bytes(), "correct": counts[True]}


def _items(n_items: int) -> Iterator[BlindItem]:
    for number in range(n_items):
        yield BlindItem(
            key=f"{number:064d}",
            question=f"Where did I say that box {number} was to go when we moved?",
            references=("Into the room under the stairs",),
            candidate=f"You said that box {number} was to go into the room under the stairs. " * 4,
            question_type="single-session-user",
        )


def _peak_bytes() -> int:
    """The largest resident set since this program began; what getrusage tells may be its parent's."""
    found = _PEAK.search(Path("/proc/self/status").read_text(encoding="ascii"))
    return int(found[1]) * 1024 if found else 0


def measure(config: Any) -> dict[str, Any]:
    """One client for each number of items, one after the other. Raises `InvariantError` where verdicts are missing."""
    settings = config["judging"]
    with _server(settings["latency_s"]) as url:
        rows = [_client(url, n_items, settings["concurrency"]) for n_items in settings["items"]]
    wrong = [row for row in rows if row["correct"] != row["items"]]
    if wrong:
        raise InvariantError(f"verdicts were lost or changed on the way: {wrong}")
    head = f"concurrency {settings['concurrency']}, {1000 * settings['latency_s']:.0f} ms a reply, 2 processes"
    return {"rows": rows, "settings": dict(settings), "lines": [head, "", *_table(rows)]}


def _table(rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| items | seconds | items a second | client CPU ms an item | peak RSS MiB |",
        "|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        rate, cpu_ms = row["items"] / row["seconds"], 1000 * row["cpu_s"] / row["items"]
        peak = row["peak_bytes"] / 2**20
        lines.append(f"| {row['items']} | {row['seconds']:.1f} | {rate:.0f} | {cpu_ms:.2f} | {peak:.1f} |")
    return lines


@contextmanager
def _server(latency_s: float) -> Iterator[str]:
    command = [sys.executable, __file__, "serve", str(latency_s)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        process.terminate()


def _client(url: str, n_items: int, concurrency: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "judge", url, str(n_items), str(concurrency)]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        asyncio.run(serve(float(sys.argv[2])))
    else:
        sys.stdout.write(json.dumps(judge(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
