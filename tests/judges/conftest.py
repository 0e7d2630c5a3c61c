"""A server on loopback that says what a test tells it to, and keeps what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from judges.endpoint import OpenAICompatibleJudge
from kvrelay.judging.protocol import BlindItem

MODEL = "org/Judge-1B"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One scripted HTTP answer. ``drip_s`` is the pause after each byte; ``announced`` lies about the length."""

    body: bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    drip_s: float = 0.0
    announced: int | None = None


@dataclass(frozen=True, kw_only=True)
class Asked:
    path: str
    body: bytes
    headers: dict[str, str]


class FakeServer:
    """Gives its answers in turn, the last one for ever; lists ``served`` under /models unless ``models`` is set."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.asked: list[Asked] = []
        self.served: list[str] = [MODEL]
        self.models: Answer | None = None
        self.closing = threading.Event()
        self._lock = threading.Lock()
        self._http = LoopbackServer(("127.0.0.1", 0), Handler)
        self._http.fake = self
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def says(self, *answers: Answer) -> None:
        self.answers = list(answers)

    def next_answer(self, asked: Asked) -> Answer:
        with self._lock:
            self.asked.append(asked)
            return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def close(self) -> None:
        self.closing.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    @staticmethod
    def json(value: object, status: int = 200, **headers: str) -> Answer:
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        return Answer(body=json.dumps(value).encode(), status=status, headers=named)

    def completion(self, content: object, finish: str | None = "stop", **message: object) -> Answer:
        choice = {"index": 0, "message": {"role": "assistant", "content": content, **message}, "finish_reason": finish}
        usage = {"prompt_tokens": 200, "completion_tokens": 7, "total_tokens": 207}
        return self.json({"id": "x", "object": "chat.completion", "model": MODEL, "choices": [choice], "usage": usage})


class LoopbackServer(ThreadingHTTPServer):
    fake: FakeServer


class Handler(BaseHTTPRequestHandler):
    """Passes requests to the fake server that its HTTP server belongs to."""

    protocol_version = "HTTP/1.1"

    @property
    def fake(self) -> FakeServer:
        assert isinstance(self.server, LoopbackServer)
        return self.server.fake

    def do_GET(self) -> None:
        listed = {"object": "list", "data": [{"id": name, "object": "model"} for name in self.fake.served]}
        self._send(self.fake.models or self.fake.json(listed))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): text for name, text in self.headers.items()}
        self._send(self.fake.next_answer(Asked(path=self.path, body=body, headers=headers)))

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        for name, text in {"Content-Type": "application/json", **answer.headers}.items():
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(answer.body) if answer.announced is None else answer.announced))
        self.end_headers()
        self._drip(answer) if answer.drip_s else self.wfile.write(answer.body)
        self.close_connection = self.close_connection or answer.announced is not None

    def _drip(self, answer: Answer) -> None:
        with suppress(OSError):
            for byte in answer.body:
                if self.fake.closing.wait(answer.drip_s):
                    return
                self.wfile.write(bytes([byte]))

    def log_message(self, format: str, *args: Any) -> None:
        """The suite's output stays its own."""


@pytest.fixture
def server() -> Iterator[FakeServer]:
    fake = FakeServer()
    fake.says(fake.completion('{"correct": true}'))
    yield fake
    fake.close()


@pytest.fixture
def make_judge(server: FakeServer) -> Callable[..., OpenAICompatibleJudge]:
    def make(**settings: Any) -> OpenAICompatibleJudge:
        defaults: dict[str, Any] = {"base_url": server.url, "model": MODEL, "timeout_s": 20.0, "retries": 0}
        return OpenAICompatibleJudge(**(defaults | settings))

    return make


@pytest.fixture
def make_item() -> Callable[..., BlindItem]:
    def make(**fields: Any) -> BlindItem:
        defaults: dict[str, Any] = {
            "key": "k" * 64,
            "question": "Where did I leave the blue kayak?",
            "references": ("At the boathouse",),
            "candidate": "You left it at the boathouse.",
            "question_type": "single-session-user",
            "question_date": "2024/03/02 (Sat) 10:15",
        }
        return BlindItem(**(defaults | fields))

    return make
