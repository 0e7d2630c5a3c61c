"""Answers without end: no more of one is read than the limit, by bytes as they are once unpacked."""

from __future__ import annotations

import gzip
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import httpx2
import pytest
from judge_server import MODEL, TRUE, Answer, always, answer_json, completion, item, items, states

from judges import client
from judges.client import LONGEST_BODY
from kvrelay.core.errors import EndpointError

LIMIT = 2**20
PART = 2**16
WHOLE = completion(TRUE).body


@pytest.fixture
def read(monkeypatch) -> list[int]:
    """A limit of a mebibyte, and the size of every part that the client takes in."""
    monkeypatch.setattr(client, "LONGEST_BODY", LIMIT)
    sizes: list[int] = []
    parts = httpx2.Response.aiter_bytes

    async def counted(response, *given):
        async for part in parts(response, *given):
            sizes.append(len(part))
            yield part

    monkeypatch.setattr(httpx2.Response, "aiter_bytes", counted)
    return sizes


class Endless:
    """Answers its first question, and all else with white space, 64 MiB of it unless the client hangs up before."""

    SENT = 2**26

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.lists_models = True
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection, suppress(OSError):
                self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, PART)
        asked = b""
        while b"\r\n\r\n" not in asked or (asked.startswith(b"POST") and not asked.endswith(b"}")):
            asked += connection.recv(PART)
        if b"banana" in asked or (self.lists_models and asked.startswith(b"GET")):
            whole = completion("banana") if b"banana" in asked else answer_json({"data": [{"id": MODEL}]})
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(whole.body) + whole.body)
            return
        self.sent.append(0)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
        while self.sent[-1] < self.SENT:
            connection.sendall(b" " * PART)
            self.sent[-1] += PART

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()


@pytest.fixture
def endless() -> Iterator[Endless]:
    server = Endless()
    yield server
    server.close()


def test_an_answer_without_end_is_given_up_at_the_limit(make_judge, endless, read):
    judge = make_judge(base_url=endless.url, timeout_s=15.0, retries=3).settled("judge")
    read.clear()
    (verdict,) = judge.verdicts([item()])
    assert (verdict.correct, verdict.reason, verdict.is_final) == (None, "transport_error", False)
    assert verdict.raw == f"HTTP 200: an answer of more than {LIMIT} bytes; given up"
    assert LIMIT < sum(read) <= LIMIT + max(read) and max(read) < LIMIT // 2
    assert len(endless.sent) == 1 and endless.sent[0] < Endless.SENT // 2


def test_a_list_of_models_without_end_is_no_list(make_judge, endless, read):
    endless.lists_models = False
    with pytest.raises(EndpointError, match=rf"more than {LIMIT} bytes"):
        make_judge(base_url=endless.url).settled("judge")
    assert sum(read) <= LIMIT + max(read)


@pytest.mark.parametrize(
    ("status", "state", "asked"),
    [(200, "transport_error", 1), (400, "rejected", 1), (413, "too_long", 1), (500, "transport_error", 3)],
)
def test_one_item_of_many(server, settled, read, status, state, asked):
    """A failure is what its status says, however long its body; the others have their verdicts."""
    given = [*items(2, 2), item(9, "right, but")]
    server.faults = {"right, but": always(Answer(body=b" " * (4 * LIMIT), status=status))}
    found = list(settled(retries=2).verdicts(given))
    assert states(given, found) == {"correct": 2, "wrong": 2, state: 1}
    assert sum(one.payload["candidate"] == "right, but" for one in server.asked) == asked
    assert sum(read) < asked * (LIMIT + max(read)) + 2**14


def test_a_refused_key_is_told_however_long_the_page(server, settled, read):
    server.says(Answer(body=b" " * (4 * LIMIT), status=401))
    with pytest.raises(EndpointError, match=r"HTTP 401.*judge\.\*\.api_key_env"):
        list(settled().verdicts(items(2, 2)))


def test_it_is_the_unpacked_answer_that_counts(server, settled, read):
    """Four mebibytes of white space are four kilobytes on the wire."""
    packed = {"Content-Encoding": "gzip"}
    bomb = Answer(body=gzip.compress(b" " * (4 * LIMIT)), headers=packed)
    given = [*items(1, 1), item(8, "right, packed"), item(9, "right, but")]
    server.faults = {
        "right, but": always(bomb),
        "right, packed": [Answer(body=gzip.compress(b" " * (LIMIT - len(WHOLE)) + WHOLE), headers=packed)],
    }
    assert len(bomb.body) < LIMIT // 100
    assert states(given, settled(retries=0).verdicts(given)) == {"correct": 2, "wrong": 1, "transport_error": 1}


def test_a_long_answer_within_the_limit_is_read_whole(server, settled):
    """What a model may think is far below it."""
    said = json.loads(WHOLE)
    said["choices"][0]["message"]["reasoning"] = "hm " * 1_000_000
    server.faults = {"right": [answer_json(said)]}
    assert LONGEST_BODY == 8 * 2**20
    assert states([item()], settled().verdicts([item()])) == {"correct": 1}
