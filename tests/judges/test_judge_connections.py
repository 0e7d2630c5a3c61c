"""Connections are kept and shared: one that breaks costs its own request a repetition, and its neighbours nothing."""

from __future__ import annotations

from collections import Counter

from judge_server import Answer, answer_json, items, states


def test_500_and_200_on_one_connection_with_16_in_flight(server, settled):
    """All sixteen connections stay open, and each has carried a failure."""
    given = items(16, 16)
    server.faults = {one.candidate: [answer_json({}, status=500)] for one in given[:16]}
    assert states(given, settled(breaker_after=99).verdicts(given)) == {"correct": 16, "wrong": 16}
    assert len({asked.client for asked in server.asked}) <= 16
    assert len(server.asked) == 32 + 16


def test_a_connection_that_broke_after_a_500_hits_no_neighbour(server, settled):
    """With 16 in flight. A server that hangs up without saying so breaks the next request on its connection."""
    given = items(32, 32)
    server.faults = {one.candidate: [answer_json({}, status=500), Answer(drop=True)] for one in given[::4]}
    found = list(settled(retries=4, breaker_after=99).verdicts(given))
    assert states(given, found) == {"correct": 32, "wrong": 32}
    shared = Counter(asked.client for asked in server.asked)
    assert max(shared.values()) > 1
    assert len(server.asked) == 64 + 2 * 16


def test_one_connection_serves_many_items(server, settled):
    assert states(items(20, 0), settled(concurrency=1).verdicts(items(20, 0))) == {"correct": 20}
    assert len({asked.client for asked in server.asked}) == 1
