"""Waits that a server asks for, and the one deadline that holds over everything an item goes through."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import pairwise

import pytest
from judge_server import TRUE, Answer, answer_json, completion, item, items, states

from judges.failures import retry_after_s

WHOLE = completion(TRUE)


def asks_to_wait(text: str) -> Answer:
    return answer_json({"error": {"message": "quota"}}, status=429, Retry_After=text)


def waits(server) -> list[float]:
    """Seconds between the attempts at the item that was refused."""
    at = [asked.at_s for asked in server.asked if asked.payload["candidate"] == "right, but"]
    return [later - sooner for sooner, later in pairwise(at)]


def test_a_wait_of_a_second_is_obeyed(server, settled):
    given = [*items(2, 2), item(9, "right, but")]
    server.faults = {"right, but": [asks_to_wait("1")]}
    assert states(given, settled().verdicts(given)) == {"correct": 3, "wrong": 2}
    (waited,) = waits(server)
    assert waited >= 1.0


def test_a_date_is_obeyed(server, settled):
    """Dates have whole seconds, so one two seconds from now is more than one second away."""
    given = [*items(2, 2), item(9, "right, but")]
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)
    server.faults = {"right, but": [asks_to_wait(date)]}
    assert states(given, settled().verdicts(given)) == {"correct": 3, "wrong": 2}
    (waited,) = waits(server)
    assert waited >= 0.9


@pytest.mark.parametrize(
    ("asked", "limit_s"),
    [("600", 60.0), ("inf", 60.0), ("1e999", 60.0), ("0.5", 0.4), ("Fri, 01 Jan 2100 00:00:00 GMT", 60.0)],
)
def test_a_wait_beyond_the_limit_is_left_for_the_next_run(server, settled, asked, limit_s):
    given = [*items(2, 2), item(9, "right, but")]
    server.faults = {"right, but": [asks_to_wait(asked)]}
    judge = settled(retry_after_limit_s=limit_s)
    verdicts = list(judge.verdicts(given))
    assert states(given, verdicts) == {"correct": 2, "wrong": 2, "transport_error": 1}
    assert waits(server) == []
    (late,) = [verdict for verdict in verdicts if verdict.correct is None]
    assert "quota" in late.raw and "judge.*.retry_after_limit_s" in late.raw
    assert states([given[-1]], judge.verdicts([given[-1]])) == {"correct": 1}


@pytest.mark.parametrize(
    "text",
    [
        "Mon, 01 Jan 99999999999999999999 00:00:00 GMT",
        "Mon, 99999999999999999999 Jan 2026 00:00:00 GMT",
        "Mon, 01 Jan 2026 99:99:99 GMT",
        "Mon, 01 Jan 2026 00:00:00 +99999999999999999999",
        "Mon, 01 Jan 2026 00:00:00 +2400",
        "1 Jan",
        "Mon,",
        ",",
        "0x10",
        "1e",
        "--1",
        "nan",
        "\x00",
        "\ud800",
        "²",
        "a" * 10_000,
    ],
)
def test_what_cannot_be_read_as_a_wait_asks_for_none(text):
    assert retry_after_s({"retry-after": text}) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 7.0),
        (" 7.5 ", 7.5),
        ("-5", 0.0),
        ("Mon, 30 Nov 2026 12:00:09 GMT", 9.0),
        ("Mon, 30 Nov 2026 12:00:09 -0000", 9.0),
        ("Mon, 30 Nov 2026 13:00:09 +0100", 9.0),
        ("Mon, 30 Nov 2026 11:00:00 GMT", 0.0),
        ("Mon, 01 Jan 0000 00:00:00 GMT", 0.0),
        ("Sat, 01 Jan 0001 00:00:00 +2359", 0.0),
        ("9" * 400, math.inf),
        ("1e999", math.inf),
        ("inf", math.inf),
    ],
)
def test_a_wait_in_seconds_or_until_a_date(text, seconds):
    """What is beyond all numbers is beyond the limit too: left for the next run, as a wait of a year is."""
    assert retry_after_s({"retry-after": text}, datetime(2026, 11, 30, 12, tzinfo=UTC)) == seconds


@pytest.mark.parametrize("nonsense", ["", "soon", "nan", "-5", "0", "Mon, 01 Jan 99999999999999999999 00:00:00 GMT"])
def test_an_unreadable_wait_is_no_wait(server, settled, nonsense):
    given = [*items(2, 2), item(9, "right, but")]
    server.faults = {"right, but": [asks_to_wait(nonsense)]}
    assert states(given, settled().verdicts(given)) == {"correct": 3, "wrong": 2}


def test_a_wait_beyond_the_deadline_is_not_begun(server, settled):
    given = [*items(2, 2), item(9, "right, but")]
    server.faults = {"right, but": [asks_to_wait("30")]}
    verdicts = list(settled(timeout_s=10.0).verdicts(given))
    assert states(given, verdicts) == {"correct": 2, "wrong": 2, "transport_error": 1}
    assert next(v.raw for v in verdicts if v.correct is None).endswith("judge.*.timeout_s)")


def test_the_deadline_holds_against_a_drip(server, settled):
    """No pause reaches the timeout, and after four seconds the body would be a whole, good verdict."""
    drip = Answer(body=b" " * 40 + WHOLE.body, drip_s=4.0 / (40 + len(WHOLE.body)))
    given = [*items(2, 2), item(9, "right, but")]
    server.faults = {"right, but": [drip] * 9}
    verdicts = list(settled(timeout_s=1.5).verdicts(given))
    assert states(given, verdicts) == {"correct": 2, "wrong": 2, "transport_error": 1}
    assert [v.raw for v in verdicts if v.correct is None] == ["no whole reply within 1.5 s (judge.*.timeout_s)"]


def test_the_deadline_holds_against_a_server_that_hangs(server, settled):
    given = [*items(2, 2), item(9, "right, but")]
    server.faults = {"right, but": [Answer(after_s=30.0)]}
    judge = settled(timeout_s=1.5)
    told = [(verdict, judge.pace()) for verdict in judge.verdicts(given)]
    assert states(given, [verdict for verdict, _ in told]) == {"correct": 2, "wrong": 2, "transport_error": 1}
    assert told[-1][1] == "0 of 8 in flight, slowed 1x"


def test_the_deadline_is_over_all_attempts_together(server, settled):
    """Each attempt takes less than half of the time: the third would be beyond it."""
    slow = Answer(body=b"{}", status=500, after_s=0.4)
    server.faults = {"right, but": [slow] * 9}
    (verdict,) = settled(timeout_s=1.0, retries=8, breaker_after=99).verdicts([item(9, "right, but")])
    assert (verdict.correct, verdict.reason) == (None, "transport_error")
    assert 2 <= len(server.asked) <= 3
    assert verdict.usage["judge_s"] >= 0.8


def test_waiting_for_a_turn_is_not_the_items_time(server, settled):
    """One at a time, six of them take longer than the deadline of each."""
    given = items(3, 3)
    server.judge = lambda asked: Answer(body=server.verdict(asked).body, after_s=0.3)
    assert states(given, settled(timeout_s=1.5, concurrency=1).verdicts(given)) == {"correct": 3, "wrong": 3}
