"""Many items at once: read as they are taken up, joined by key, and handed over whatever ends the run."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest
from judge_server import MODEL, Answer, answer_json, completion, item, items, states

from judges import engine
from kvrelay.core.errors import EndpointError


def test_items_are_read_as_they_are_taken_up(settled):
    """Never more than twice the concurrency ahead of what has been handed over, however many there are."""
    read = 0

    def reading():
        nonlocal read
        for one in items(100, 100):
            read += 1
            yield one

    ahead, found = [], []
    for verdict in settled(concurrency=4).verdicts(reading()):
        found.append(verdict)
        ahead.append(read - len(found))
    assert states(items(100, 100), found) == {"correct": 100, "wrong": 100}
    assert max(ahead) <= 8


def test_no_more_at_once_than_configured(server, settled):
    server.judge = lambda asked: Answer(body=server.verdict(asked).body, after_s=0.01)
    assert states(items(30, 30), settled(concurrency=5).verdicts(items(30, 30))) == {"correct": 30, "wrong": 30}
    assert 1 < max(server.running) <= 5


def test_replies_in_another_order_find_their_items(server, settled):
    """The later an item was asked, the sooner it is answered: a whole window comes back in reverse."""
    given = items(8, 8)
    order = {one.candidate: place for place, one in enumerate(given)}
    together = threading.Barrier(16)

    def reversed_(asked):
        together.wait(20)
        return Answer(body=server.verdict(asked).body, after_s=0.03 * (16 - order[asked.payload["candidate"]]))

    server.judge = reversed_
    found = list(settled(concurrency=16).verdicts(given))
    assert [one.item_key for one in found] != [one.key for one in given]
    assert states(given, found) == {"correct": 8, "wrong": 8}
    assert all(one.correct == given[int(one.item_key[4:])].candidate.startswith("right") for one in found)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (answer_json({"error": {"message": "bad key"}}, status=401), r"HTTP 401: bad key.*judge\.\*\.api_key_env"),
        (answer_json({}, status=403), r"HTTP 403.*judge\.\*\.api_key_env"),
        (answer_json({"detail": "no such model"}, status=404), rf"HTTP 404: no such model.*it serves: {MODEL}"),
        (answer_json({}, status=307, Location="/v1/chat/completions"), r"HTTP 307.*judge\.\*\.base_url"),
        (completion('{"correct": true}', model="org/Other-2B"), "model was 'org/Judge-1B' and now is 'org/Other-2B'"),
    ],
)
def test_what_every_item_would_meet_stops_the_run_at_once(server, settled, answer, words):
    """In flight when it came: three others, whose verdicts are handed over before the error."""
    given = items(20, 20)
    together = threading.Barrier(4)

    def judge(asked):
        if len(server.asked) <= 4:
            together.wait(20)
        mine = asked.payload["candidate"] == given[0].candidate
        return answer if mine else Answer(body=server.verdict(asked).body, after_s=0.3)

    server.judge = judge
    found = []
    with pytest.raises(EndpointError, match=words):
        for verdict in settled(concurrency=4, retries=3).verdicts(given):
            found.append(verdict)
    assert states(given, found, unbegun=37) == {"correct": 1, "wrong": 2}
    assert len(server.asked) == 4


def test_an_interrupt_hands_over_what_is_in_flight_and_begins_nothing(server, settled):
    """One of the four in flight cannot be read and would be asked for again: it is left for the next run."""
    given = items(20, 20)
    together = threading.Barrier(4, action=lambda: os.kill(os.getpid(), signal.SIGINT))

    def judge(asked):
        together.wait(20)
        mine = asked.payload["candidate"] == given[0].candidate
        return Answer(body=(completion("yes") if mine else server.verdict(asked)).body, after_s=0.5)

    server.judge = judge
    found = []
    with pytest.raises(KeyboardInterrupt):
        for verdict in settled(concurrency=4).verdicts(given):
            found.append(verdict)
    assert states(given, found, unbegun=37) == {"correct": 1, "wrong": 2}
    assert len(server.asked) == 4
    server.judge = server.verdict
    rest = [one for one in given if one.key not in {verdict.item_key for verdict in found}]
    assert states(rest, settled().verdicts(rest)) == {"correct": 19, "wrong": 18}


def test_closing_gives_up_what_has_not_begun(server, settled):
    before = threading.active_count()
    given = items(50, 50)
    verdicts = settled(concurrency=2).verdicts(given)
    first = next(verdicts)
    verdicts.close()
    assert states(given, [first], unbegun=99) in ({"correct": 1}, {"wrong": 1})
    assert len(server.asked) <= 1 + 2 * 2
    time.sleep(0.05)
    assert not [one for one in threading.enumerate() if one.name == "judge"]
    assert threading.active_count() <= before + 2


def test_a_fault_of_the_items_source_reaches_the_caller_after_what_was_in_flight(server, settled):
    both = threading.Barrier(3)

    def judge(asked):
        both.wait(20)
        return Answer(body=server.verdict(asked).body, after_s=0.3)

    def reading():
        yield from items(1, 1)
        both.wait(20)
        raise OSError("the disk is gone")

    server.judge, found = judge, []
    with pytest.raises(OSError, match="the disk is gone"):
        for verdict in settled(concurrency=4).verdicts(reading()):
            found.append(verdict)
    assert states(items(1, 1), found) == {"correct": 1, "wrong": 1}


def test_one_judge_judges_again_and_again(settled):
    judge = settled()
    for _ in range(3):
        assert states(items(3, 2), judge.verdicts(items(3, 2))) == {"correct": 3, "wrong": 2}
    assert list(judge.verdicts([])) == []
    assert judge.pace() == ""


def test_the_pace_tells_what_is_in_flight(server, settled):
    judge = settled(concurrency=3)
    server.faults = {item(0).candidate: [answer_json({}, status=429)]}
    paces = [judge.pace() for _ in judge.verdicts([item(0), *items(10, 10)])]
    assert all("in flight" in pace for pace in paces)
    assert paces[-1].endswith("slowed 1x")


def test_a_loop_that_dies_is_no_silence(settled, monkeypatch):
    """Not a fault of a server or an item but of the engine itself: it is raised, and nobody waits for ever."""

    async def broken(flight):
        raise RuntimeError("the loop is broken")

    judge = settled(concurrency=2)
    monkeypatch.setattr("judges.flight.Flight.end", broken)
    monkeypatch.setattr("judges.flight.Flight.begin", lambda flight, one: thread_ends())
    loops = []

    def thread_ends():
        loops[0]._closing.set()

    entered = engine._LoopThread.__enter__
    monkeypatch.setattr(engine._LoopThread, "__enter__", lambda thread: loops.append(thread) or entered(thread))
    with pytest.raises(RuntimeError, match="the loop is broken"):
        list(judge.verdicts(items(2, 2)))


def test_a_client_that_cannot_be_made_is_told(settled, monkeypatch):
    judge = settled()
    monkeypatch.setattr("judges.transport.AsyncOpenAI", lambda **given: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        list(judge.verdicts(items(2, 2)))
    assert not [one for one in threading.enumerate() if one.name == "judge"]
