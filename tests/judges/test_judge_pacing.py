"""How a server is spared: the limit that falls and recovers, doubling pauses, drawn waits, waits that are asked for."""

from __future__ import annotations

import asyncio
import random
import threading
from datetime import UTC, datetime

import pytest
from judge_server import Answer, answer_json, items, states

from judges.failures import retry_after_s, status_failure
from judges.pacing import LONGEST_WAIT_S, Breaker, Gate, Limits, jittered
from kvrelay.core.errors import ConfigError


def test_the_limit_halves_once_a_round_trip_and_grows_by_one_a_round():
    async def play() -> list[int]:
        gate, seen = Gate(8), []
        marks = [await gate.enter() for _ in range(8)]
        for mark in marks:
            gate.slow(mark)
            seen.append(gate.limit)
        for _ in range(4):
            gate.succeeded()
        seen.append(gate.limit)
        for _ in range(5 + 6 + 7 + 8):
            gate.succeeded()
        seen.append(gate.limit)
        for _ in range(5):
            gate.slow(gate.slowed)
            seen.append(gate.limit)
        return seen

    assert asyncio.run(play()) == [*[4] * 8, 5, 8, 4, 2, 1, 1, 1]


def test_places_are_given_in_order_and_retries_go_first():
    async def play() -> list[str]:
        gate, order = Gate(1), []

        async def one(name: str, first: bool) -> None:
            await gate.enter(first=first)
            order.append(name)
            await asyncio.sleep(0)
            gate.leave()

        await gate.enter()
        tasks = [asyncio.create_task(one(name, name == "retry")) for name in ("a", "b", "dropped", "retry")]
        await asyncio.sleep(0)
        tasks[2].cancel()
        gate.leave()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert gate.running == 0
        return order

    assert asyncio.run(play()) == ["retry", "a", "b"]


def test_a_shut_gate_lets_nobody_in_until_it_opens():
    async def play() -> tuple[int, int]:
        gate = Gate(2)
        gate.shut = True
        tasks = [asyncio.create_task(gate.enter()) for _ in range(3)]
        await asyncio.sleep(0)
        before = gate.running
        gate.open()
        await asyncio.sleep(0)
        after = gate.running
        tasks[2].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return before, after

    assert asyncio.run(play()) == (0, 2)


def test_a_busy_servers_own_count_falls_and_recovers(server, settled):
    """It bears four at once and refuses more; later it bears all. Its own count of simultaneous requests shows both."""
    given = items(60, 60)
    server.says(Answer())
    lock, strict = threading.Lock(), threading.Event()
    strict.set()

    def judge(asked):
        with lock:
            at_once = server.running[-1]
        if strict.is_set() and at_once > 4:
            return answer_json({}, status=429, Retry_After="0")
        return Answer(body=server.verdict(asked).body, after_s=0.05)

    server.judge = judge
    client = settled(concurrency=16, retries=30)
    assert states(given, client.verdicts(given)) == {"correct": 60, "wrong": 60}
    n_strict = len(server.running)
    assert max(server.running[:20]) > 4
    tail = server.running[n_strict // 2 :]
    assert sum(tail) / len(tail) < 8
    strict.clear()
    server.running.clear()
    more = items(200, 200)
    assert states(more, client.verdicts(more)) == {"correct": 200, "wrong": 200}
    assert max(server.running) > 8


def test_pauses_double_until_patience_ends():
    breaker = Breaker(Limits(breaker_after=2, breaker_wait_s=1.0, breaker_patience_s=10.0))
    assert [breaker.failed(), breaker.failed()] == [False, True]
    now, pauses = 100.0, []
    while (pause := breaker.pause(now)) is not None:
        pauses.append(pause)
        now += pause
    assert pauses == [1.0, 2.0, 4.0, 3.0]
    assert breaker.pause(now + 1) is None
    breaker.succeeded()
    assert breaker.pause(now + 2) == 1.0


def test_an_answer_breaks_the_row_but_only_a_success_ends_the_wait():
    breaker = Breaker(Limits(breaker_after=2, breaker_wait_s=1.0, breaker_patience_s=10.0))
    assert breaker.failed() is False
    breaker.answered()
    assert breaker.failed() is False
    assert breaker.pause(0.0) == 1.0
    breaker.answered()
    assert breaker.pause(5.0) == 2.0


def test_waits_are_drawn_from_a_bound_that_doubles_up_to_a_cap():
    limits = Limits(retry_wait_s=0.5)
    draws = {attempt: [jittered(limits, attempt, random.Random(i)) for i in range(400)] for attempt in (1, 2, 3, 40)}
    for attempt, bound in {1: 0.5, 2: 1.0, 3: 2.0, 40: LONGEST_WAIT_S}.items():
        assert 0 <= min(draws[attempt]) < 0.05 * bound
        assert 0.95 * bound < max(draws[attempt]) <= bound
    assert jittered(limits, 1, random.Random("a")) == jittered(limits, 1, random.Random("a"))


NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, None),
        ("", None),
        ("soon", None),
        ("nan", None),
        ("0", 0.0),
        ("1.5", 1.5),
        ("600", 600.0),
        ("-3", 0.0),
        ("inf", float("inf")),
        ("Mon, 30 Nov 2026 12:00:07 GMT", 7.0),
        ("Mon, 30 Nov 2026 13:00:07 +0100", 7.0),
        ("Mon, 30 Nov 2026 12:00:07", 7.0),
        ("Mon, 30 Nov 2026 11:59:00 GMT", 0.0),
        ("Mon, 99 Nov 2026 11:59:00 GMT", None),
    ],
)
def test_a_wait_that_is_asked_for(text, seconds):
    assert retry_after_s({} if text is None else {"retry-after": text}, NOW) == seconds


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (429, (True, True, False)),
        (408, (True, True, False)),
        (409, (True, False, False)),
        (500, (True, True, True)),
        (599, (True, True, True)),
        (405, (False, False, False)),
        (422, (False, False, False)),
    ],
)
def test_what_a_status_means(status, kind):
    failure = status_failure(status, f"HTTP {status}", None)
    assert (failure.retried, failure.slows, failure.breaks) == kind


@pytest.mark.parametrize(
    "change",
    [
        {"concurrency": 0},
        {"retries": -1},
        {"breaker_after": 0},
        {"timeout_s": 0.0},
        {"timeout_s": float("nan")},
        {"retry_wait_s": -1.0},
        {"retry_after_limit_s": -1.0},
        {"breaker_wait_s": 0.0},
        {"breaker_patience_s": 0.0},
    ],
)
def test_limits_out_of_range_are_named(change):
    with pytest.raises(ConfigError, match=rf"judge\.\*\.{next(iter(change))}"):
        Limits(**change)
