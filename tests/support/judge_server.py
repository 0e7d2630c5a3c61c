"""A judge's server on loopback that misbehaves on purpose, and keeps what it was asked and how many asked at once."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from kvrelay.judging.protocol import BlindItem
from kvrelay.run.record import Verdict

MODEL = "org/Judge-1B"
TRUE, FALSE = '{"correct": true}', '{"correct": false}'


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One HTTP answer. ``drip_s`` is the pause after each byte, ``after_s`` the one before the first; ``announced``
    lies about the length; ``drop`` hangs up without a word."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    after_s: float = 0.0
    drip_s: float = 0.0
    announced: int | None = None
    drop: bool = False


@dataclass(frozen=True, kw_only=True)
class Asked:
    path: str
    body: bytes
    headers: Mapping[str, str]
    client: int
    """The port that it came from: requests of one kept-alive connection share it."""
    at_s: float

    @property
    def fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = json.loads(self.body)
        return fields

    @property
    def messages(self) -> list[dict[str, str]]:
        return self.fields.get("messages") or self.fields["input"]

    @property
    def payload(self) -> dict[str, Any]:
        user = self.messages[-1]["content"]
        payload: dict[str, Any] = json.loads(user[user.index("\n\n") :])
        return payload

    @property
    def constraint(self) -> str:
        structured = self.fields.get("structured_outputs")
        form = self.fields.get("response_format") or self.fields.get("text", {}).get("format")
        return next(iter(structured)) if structured else form["type"] if form else "none"


def answer_json(value: object, status: int = 200, **headers: str) -> Answer:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Answer(body=json.dumps(value).encode(), status=status, headers=named)


def completion(content: object, finish: str | None = "stop", model: str | None = MODEL, **message: object) -> Answer:
    choice = {"index": 0, "message": {"role": "assistant", "content": content, **message}, "finish_reason": finish}
    usage = {"prompt_tokens": 200, "completion_tokens": 7, "total_tokens": 207}
    return answer_json({"object": "chat.completion", "model": model, "choices": [choice], "usage": usage})


def response(text: str | None, status: str = "completed", why: str | None = None, reasoning: str = "") -> Answer:
    thought = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": reasoning}]}
    message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
    body = {
        "object": "response",
        "model": MODEL,
        "status": status,
        "incomplete_details": {"reason": why} if why else None,
        "output": [*([thought] if reasoning else []), *([message] if text is not None else [])],
        "usage": {"input_tokens": 190, "output_tokens": 9},
    }
    return answer_json(body)


class JudgeServer:
    """Judges by itself: an answer is right that begins with ``right``. ``faults`` of a candidate come before that.

    A first question (of something else than a verdict) is answered as a server would that enforces ``enforces``,
    refuses ``refuses`` with 422, and ignores every other form. ``judge`` may be replaced by any other behaviour.
    """

    def __init__(self, port: int = 0) -> None:
        self.asked: list[Asked] = []
        self.probes: list[Asked] = []
        self.looks = 0
        self.served: list[str] = [MODEL]
        self.models: Answer | None = None
        self.looks_away: list[Answer] = []
        """What the list of models gives first, before it is found again."""
        self.faults: dict[str, list[Answer]] = {}
        self.enforces: tuple[str, ...] = ()
        self.refuses: tuple[str, ...] = ()
        self.canary = completion("banana")
        self.judge: Callable[[Asked], Answer] = self.verdict
        self.running: list[int] = []
        """Requests at once, noted as each comes in."""
        self.closing = threading.Event()
        self._now = 0
        self._lock = threading.Lock()
        self._http = _Http(("127.0.0.1", port), _Handler)
        self._http.fake = self
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._http.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def says(self, *answers: Answer) -> None:
        """Give these in turn, and the last one for ever, whatever is asked."""
        left = list(answers)

        def next_answer(asked: Asked) -> Answer:
            with self._lock:
                return left.pop(0) if len(left) > 1 else left[0]

        self.judge = next_answer

    def verdict(self, asked: Asked) -> Answer:
        text = TRUE if asked.payload["candidate"].startswith("right") else FALSE
        return response(text) if asked.path.endswith("/responses") else completion(text)

    def close(self) -> None:
        """Also what a crash looks like: connections are cut, and nobody listens any more."""
        self.closing.set()
        self._http.shutdown()
        self._thread.join()
        self._http.cut()
        self._http.server_close()

    def answer(self, asked: Asked) -> Answer:
        if b"banana" in asked.body:
            self.probes.append(asked)
            return self._probed(asked)
        with self._lock:
            self.asked.append(asked)
            faults = self.faults.get(asked.payload["candidate"])
            fault = faults.pop(0) if faults else None
        return fault or self.judge(asked)

    def _probed(self, asked: Asked) -> Answer:
        if asked.constraint in self.refuses:
            return answer_json({"detail": f"{asked.constraint}: extra fields not permitted"}, status=422)
        if asked.constraint not in self.enforces:
            return response("banana") if asked.path.endswith("/responses") else self.canary
        text = '{"fruit": "banana"}' if asked.constraint == "json_object" else TRUE
        return response(text) if asked.path.endswith("/responses") else completion(text)

    def enter(self) -> None:
        with self._lock:
            self._now += 1
            self.running.append(self._now)

    def leave(self) -> None:
        with self._lock:
            self._now -= 1


class _Http(ThreadingHTTPServer):
    fake: JudgeServer
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, *given: Any) -> None:
        self._open: set[Any] = set()
        super().__init__(*given)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def cut(self) -> None:
        for request in list(self._open):
            with suppress(OSError):
                request.shutdown(2)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    @property
    def fake(self) -> JudgeServer:
        assert isinstance(self.server, _Http)
        return self.server.fake

    def do_GET(self) -> None:
        self.fake.looks += 1
        listed = {"object": "list", "data": [{"id": name, "object": "model"} for name in self.fake.served]}
        away = self.fake.looks_away
        self._send(away.pop(0) if away else self.fake.models or answer_json(listed))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): text for name, text in self.headers.items()}
        asked = Asked(path=self.path, body=body, headers=headers, client=self.client_address[1], at_s=time.monotonic())
        self.fake.enter()
        try:
            answer = self.fake.answer(asked)
            self.fake.closing.wait(answer.after_s)
        finally:
            self.fake.leave()
        self._send(answer)

    def _send(self, answer: Answer) -> None:
        if answer.drop or self.fake.closing.is_set():
            self.close_connection = True
            return
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


def item(number: int = 0, candidate: str = "right", **fields: Any) -> BlindItem:
    """One item; its number alone tells it from the others."""
    defaults: dict[str, Any] = {
        "key": f"key-{number}",
        "question": f"Where did I leave kayak {number}?",
        "references": ("At the boathouse",),
        "candidate": candidate,
        "question_type": "single-session-user",
        "question_date": "2024/03/02 (Sat) 10:15",
    }
    return BlindItem(**(defaults | fields))


def items(right: int, wrong: int) -> list[BlindItem]:
    """So many of each, mixed."""
    mixed = [item(2 * i, f"right {i}") for i in range(right)] + [item(2 * i + 1, f"no, {i}") for i in range(wrong)]
    return sorted(mixed, key=lambda one: int(one.key.removeprefix("key-")))


def states(asked: Sequence[BlindItem], verdicts: Iterable[Verdict], *, unbegun: int = 0) -> dict[str, int]:
    """Items by state; fails where one is lost or doubled beyond the ``unbegun`` that an error left for the next run."""
    found = list(verdicts)
    keys = Counter(verdict.item_key for verdict in found)
    assert set(keys.values()) <= {1}, "doubled"
    assert keys.keys() <= {one.key for one in asked}, "of no item"
    assert len(asked) - len(keys) == unbegun, "lost"
    return dict(Counter(_state(verdict) for verdict in found))


def _state(verdict: Verdict) -> str:
    return verdict.reason if verdict.correct is None else "correct" if verdict.correct else "wrong"


def always(answer: Answer, times: int = 1000) -> list[Answer]:
    """The same fault for as long as a test lasts."""
    return [replace(answer)] * times
