"""A chat server on loopback that judges as a test says, for commands that run as processes of their own."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from scripted_judge import GOLD

MODEL = "Qwen/Qwen2.5-32B-Instruct"
Item = Mapping[str, Any]
"""The payload of a request: question, references, candidate, question_type, question_date."""


def truly(item: Item) -> str:
    """The right verdict on gold items and on answers of `scripted_judge.answered_run`."""
    known = GOLD.get((item["question"], item["candidate"]))
    return said(item["candidate"].startswith("right") if known is None else known)


def said(correct: bool) -> str:
    return json.dumps({"correct": correct})


@dataclass(kw_only=True)
class Judging:
    """``decide`` gives the content of a reply, or a status to fail with. ``gate`` is waited for before each reply."""

    decide: Callable[[Item], str | int] = truly
    finish: Callable[[Item], str] = lambda item: "stop"
    fingerprint: str | None = None
    """``system_fingerprint`` of every reply."""
    url: str = ""
    asked: list[Item] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    """Requests about items as they came, byte by byte."""
    gate: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def answers_asked(self) -> list[Item]:
        """Requests about answers, not about gold items."""
        with self.lock:
            return [item for item in self.asked if (item["question"], item["candidate"]) not in GOLD]

    def reply(self, raw: bytes) -> tuple[int, dict[str, Any]]:
        body = json.loads(raw)
        content = body["messages"][-1]["content"]
        if "untrusted data" not in body["messages"][0]["content"]:
            return 200, self._completion("banana", "stop")
        item = json.loads(content.rsplit("\n\n", 1)[-1])
        with self.lock:
            self.asked.append(item)
            self.bodies.append(raw)
        self.gate.wait(30)
        decided = self.decide(item)
        if isinstance(decided, int):
            return decided, {"error": {"message": "no"}}
        return 200, self._completion(decided, self.finish(item))

    def _completion(self, content: str, finish: str) -> dict[str, Any]:
        message = {"role": "assistant", "content": content}
        usage = {"prompt_tokens": 100, "completion_tokens": 6, "total_tokens": 106}
        choice = {"index": 0, "message": message, "finish_reason": finish}
        told = {"system_fingerprint": self.fingerprint} if self.fingerprint else {}
        return {"id": "x", "object": "chat.completion", "model": MODEL, "choices": [choice], "usage": usage, **told}


@contextmanager
def judging(**scripted: Any) -> Iterator[Judging]:
    """The server, listing `MODEL`; it serves until the block ends."""
    script = Judging(**scripted)
    script.gate.set()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._send(200, {"data": [{"id": MODEL}]})

        def do_POST(self) -> None:
            self._send(*script.reply(self.rfile.read(int(self.headers["Content-Length"]))))

        def _send(self, status: int, value: object) -> None:
            body = json.dumps(value).encode()
            try:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            except OSError:
                """The client has gone."""

        def log_message(self, format: str, *args: object) -> None:
            """Nothing on stderr."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    script.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield script
    finally:
        script.gate.set()
        server.shutdown()
        thread.join()
        server.server_close()
