"""An API key goes into a request's header and nowhere else: a marker is planted, and everything written is searched.

The server gives the key back wherever a server's words can come from: error bodies of every kind, replies, reasoning,
usage, its own model's name, and texts that are no JSON.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from command_line import call, smoke

MARKER = "sk-marker-7f3b9c1d5e8a4f60"
MODEL = "org/judge"
SOUND = 24
"""So many requests are answered as they should be: the first and the gold items, without which nobody judges."""


class Echo(BaseHTTPRequestHandler):
    """Answers in turn with everything that can go wrong, the request's key in all of it."""

    protocol_version = "HTTP/1.1"
    refuse_all = False
    seen: list[str]
    asked: int

    def do_GET(self) -> None:
        self._send(200, {"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": self._key()}]})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        server: Any = self.server
        with server.lock:
            server.asked += 1
            number = max(0, server.asked - SOUND)
            server.seen.append(self._key())
        words = f"your key is {self._key()}, header Bearer {self._key()}"
        if server.refuse_all:
            return self._send(401, {"error": {"message": words, "type": self._key(), "code": self._key()}})
        turns: list[tuple[int, Any]] = [
            (200, self._reply('{"correct": true}')),
            (200, self._reply(f"I judge that {words}")),
            (400, {"error": {"message": words}}),
            (500, {"detail": words}),
            (429, {"message": words}),
            (200, f"<html>{words}</html>".encode()),
            (200, {"error": words}),
            (422, {"detail": [{"msg": words}]}),
            (200, self._reply(None, reasoning=words, reasoning_content=words, refusal=words)),
            (503, words.encode()),
        ]
        self._send(*turns[number % len(turns)])

    def _key(self) -> str:
        return (self.headers["Authorization"] or "").removeprefix("Bearer ")

    def _reply(self, content: str | None, **message: Any) -> dict[str, Any]:
        usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5, "note": self._key()}
        choice = {"index": 0, "message": {"role": "assistant", "content": content, **message}, "finish_reason": "stop"}
        told = {"id": self._key(), "object": "chat.completion", "model": MODEL, "system_fingerprint": self._key()}
        return {**told, "choices": [choice], "usage": usage}

    def _send(self, status: int, body: Any) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status, self._key())
        self.send_header("Content-Length", str(len(data)))
        self.send_header("X-Request-Id", self._key())
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing on stderr."""


@pytest.fixture
def server() -> Iterator[Any]:
    found: Any = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    found.seen, found.asked, found.lock, found.refuse_all = [], 0, threading.Lock(), False
    thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield found
    found.shutdown()
    thread.join()
    found.server_close()


def judged_by(server: Any) -> list[str]:
    url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    judge = {"base_url": url, "model": MODEL, "constraint": "none", "retries": 1, "retry_wait_s": 0.01}
    judge |= {"breaker_after": 50, "breaker_wait_s": 0.05, "breaker_patience_s": 2, "timeout_s": 20}
    return ["judge=[qwen25_32b]", "gold_threshold=null", *(f"judge.qwen25_32b.{k}={v}" for k, v in judge.items())]


def leaks(folder: Path, *printed: str) -> list[str]:
    """Every place in which the marker, or its end, stands."""
    signs = (MARKER.encode(), MARKER[-12:].encode())
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 8
    found = [
        str(path) for path in files if any(sign in path.read_bytes() or sign in path.name.encode() for sign in signs)
    ]
    return found + [text for text in printed if MARKER[-12:] in text]


def test_a_key_is_in_nothing_that_a_run_writes_or_prints(server: Any, tmp_path: Path) -> None:
    given = [*smoke(tmp_path, 5), "selector=[bm25,snapkv]", *judged_by(server)]
    status, out, err = call(*given, KVRELAY_JUDGE_API_KEY=MARKER)
    assert status in (0, 5) and "items got no reply" in err, err
    assert server.asked >= 10 + SOUND and set(server.seen) == {MARKER}
    assert leaks(tmp_path, out, err) == []
    verdicts = b"".join(path.read_bytes() for path in (tmp_path / "out" / "smoke" / "verdicts").glob("*.jsonl"))
    assert b"your key is ***" in verdicts and b"KVRELAY_JUDGE_API_KEY" not in verdicts


@pytest.mark.parametrize("full", ["", "1"])
def test_a_key_is_in_no_error_that_ends_a_run(full: str, server: Any, tmp_path: Path) -> None:
    server.refuse_all = True
    given = [*smoke(tmp_path, 1), "selector=[bm25]", *judged_by(server)]
    shown = {"HYDRA_FULL_ERROR": "1"} if full else {}
    status, out, err = call(*given, KVRELAY_JUDGE_API_KEY=MARKER, **shown)
    assert status == (4 if not full else 1), err
    assert "HTTP 401" in err and server.asked > 0
    assert MARKER[-12:] not in out + err


@pytest.mark.parametrize(
    ("override", "words"),
    [
        (f"judge.qwen25_32b.base_url=http://user:{MARKER}@127.0.0.1:9/v1", "credentials"),
        (f"judge.qwen25_32b.base_url=http://127.0.0.1:9/v1?key={MARKER}", "credentials"),
        (f"judge.qwen25_32b.api_key_env={MARKER}", "must be the NAME"),
        (f"+judge.qwen25_32b.api_key={MARKER}", "no such field"),
    ],
)
def test_a_key_that_was_put_into_the_configuration_is_refused_and_not_repeated(
    override: str, words: str, tmp_path: Path
) -> None:
    quoted = override.replace("=", "='", 1) + "'"
    status, out, err = call(*smoke(tmp_path, 1), "judge=[qwen25_32b]", quoted)
    assert status == 2 and words in err
    assert MARKER not in out + err and not (tmp_path / "out").exists()
