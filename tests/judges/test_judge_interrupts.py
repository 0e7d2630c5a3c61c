"""An interrupt at any moment: the judging ends, what came is handed over once, and a second one ends it at once."""

from __future__ import annotations

import dis
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from judge_server import Answer, answer_json, items, states

from judges import engine

ROOT = Path(__file__).resolve().parents[2]
THREAD = engine._LoopThread
CODES = {function.__code__ for function in (engine.Engine.run, THREAD.news, THREAD._wait, THREAD.begin, THREAD.stop)}
LOOKED_AFTER = {dis.opmap[name] for name in ("RESUME", "CALL", "JUMP_BACKWARD")}
"""Python looks for signals when it has executed one of these, and never between others."""


def interrupting(nth: int) -> Callable[..., Any]:
    """A trace function that raises KeyboardInterrupt at the nth moment at which a signal could do so in the client."""
    left, last = [nth], dict[FrameType, int]()

    def trace(frame: FrameType, event: str, told: Any) -> Any:
        if frame.f_code not in CODES:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            left[0] -= last.get(frame, -1) in LOOKED_AFTER
            last[frame] = frame.f_code.co_code[frame.f_lasti]
            if not left[0]:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    return trace


@pytest.mark.parametrize("moment", [*range(1, 41), *range(43, 150, 4)])
def test_an_interrupt_at_any_moment_ends_the_run(server, settled, moment, alarm):
    """The first forty, and then every fourth: items being begun, news that come, news that are handed over."""
    judged_until_interrupted(server, settled(concurrency=3), interrupting(moment))


def test_an_interrupt_that_takes_the_news_with_it_ends_the_run(server, settled, alarm, monkeypatch):
    """It hits between the fifth news and their reader, who never sees them come back."""
    news, calls = THREAD.news, iter(range(1000))

    def interrupted_news(thread):
        told = news(thread)
        if next(calls) == 4:
            raise KeyboardInterrupt
        return told

    monkeypatch.setattr(THREAD, "news", interrupted_news)
    judged_until_interrupted(server, settled(concurrency=4), None)


def judged_until_interrupted(server: Any, judge: Any, trace: Callable[..., Any] | None) -> None:
    """Every reply of the server has become a verdict, once: nothing that came is lost, nothing handed over twice."""
    given, found = items(10, 10), []
    verdicts = judge.verdicts(given)
    with pytest.raises(KeyboardInterrupt):
        try:
            sys.settrace(trace)
            for verdict in verdicts:
                found.append(verdict)
        finally:
            sys.settrace(None)
    states(given, found, unbegun=20 - len(found))
    assert len(found) == len(server.asked) < 20
    assert [thread for thread in threading.enumerate() if thread.name == "judge"] == []


@pytest.fixture
def alarm() -> Iterator[None]:
    """What hangs fails: half a minute is a thousand times what a run here takes."""

    def hung(*_: Any) -> None:
        raise AssertionError("the run hangs")

    before = signal.signal(signal.SIGALRM, hung)
    signal.alarm(30)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def test_signals_at_random_moments_end_the_run(server, settled, alarm):
    judge = settled(concurrency=8)
    for i in range(12):
        given, found = items(2000, 2000), []
        timer = threading.Timer(0.02 + 0.013 * i, os.kill, (os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            timer.start()
            for verdict in judge.verdicts(given):
                found.append(verdict)
        states(given, found, unbegun=4000 - len(found))


def test_a_second_interrupt_does_not_wait_for_what_is_in_flight(server, settled, alarm):
    """The server takes twenty seconds over each; only the second interrupt leaves without it."""
    asked_at: list[float] = []

    def interrupt_twice() -> None:
        asked_at.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)
        threading.Timer(2.0, os.kill, (os.getpid(), signal.SIGINT)).start()

    together = threading.Barrier(2, action=interrupt_twice)

    def judge(asked):
        together.wait(20)
        return Answer(body=server.verdict(asked).body, after_s=20.0)

    server.judge = judge
    with pytest.raises(KeyboardInterrupt):
        next(settled(concurrency=2, timeout_s=60.0).verdicts(items(2, 2)))
    assert 1.9 < time.monotonic() - asked_at[0] < 15.0


def test_an_interrupt_ends_a_pause_of_the_breaker(server, settled, alarm):
    """A quarter of an hour of patience, and nothing in flight to wait for."""
    broken = answer_json({}, status=503)
    judge = settled(concurrency=2, breaker_after=2, breaker_wait_s=600.0, breaker_patience_s=900.0)
    server.models, found = broken, []
    server.judge = lambda asked: broken

    def once_away() -> None:
        while not judge.pace().endswith("server away"):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    watch = threading.Thread(target=once_away)
    watch.start()
    with pytest.raises(KeyboardInterrupt):
        for verdict in judge.verdicts(items(3, 3)):
            found.append(verdict)
    watch.join()
    assert len(server.asked) == 2 and found == []


TWICE = """
import os, signal, time
import command

class Last:
    def __del__(self, kill=os.kill, pid=os.getpid(), number=signal.{name}):
        kill(pid, number)

def again():
    os.kill(os.getpid(), signal.{name})

if {late}:
    signal.last = Last()
else:
    leave = command._leave
    command._leave = lambda words, status: (again(), leave(words, status))
with command.told():
    again()
    time.sleep(20)
"""


@pytest.mark.parametrize(
    "late", [False, True], ids=["as soon as the first was caught", "when Python is being taken down"]
)
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_second_signal_on_the_way_out_is_status_130_too(name, late):
    """It hits where nothing would catch it."""
    paths = os.pathsep.join(str(ROOT / folder) for folder in ("scripts", "src"))
    process = subprocess.run(
        [sys.executable, "-c", TWICE.format(name=name, late=late)],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (process.returncode, "Traceback" in process.stderr) == (130, False)
