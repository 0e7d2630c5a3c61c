"""A server that goes away: what is asked of it meanwhile, what is kept, and what the next run finds to do."""

from __future__ import annotations

import socket
import threading

import pytest
from judge_server import Answer, JudgeServer, answer_json, items, states

from kvrelay.core.errors import EndpointError

BROKEN = answer_json({"error": {"message": "loading"}}, status=503)


def gathered(verdicts, into: list):
    for verdict in verdicts:
        into.append(verdict)


def test_a_server_that_is_away_at_the_start_is_told_at_once(make_judge):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{holder.getsockname()[1]}/v1"
        with pytest.raises(EndpointError, match=r"start the server there or change judge\.\*\.base_url") as caught:
            make_judge(base_url=url).settled("judge")
    assert url in str(caught.value)


def test_a_pause_that_ends_loses_nothing(server, settled):
    """Four failures in a row; the list of models fails thrice, and then all is well."""
    given = items(20, 20)
    judge = settled(breaker_after=4, concurrency=4, breaker_wait_s=0.02)
    failures = iter([BROKEN] * 4)
    server.judge = lambda asked: next(failures, None) or server.verdict(asked)
    server.looks, server.looks_away = 0, [BROKEN] * 3
    assert states(given, judge.verdicts(given)) == {"correct": 20, "wrong": 20}
    assert server.looks == 4
    assert len(server.asked) == 40 + 4


def test_nothing_is_asked_during_a_pause_and_it_is_no_time_of_the_items(server, settled):
    """The pauses (0.2, 0.4, 0.8, 1.6 s) are longer than the deadline; the pace tells of them."""
    given = items(4, 4)
    judge = settled(breaker_after=4, retries=4, concurrency=1, breaker_wait_s=0.2, timeout_s=1.5)
    failures = iter([BROKEN] * 4)
    server.judge = lambda asked: next(failures, None) or server.verdict(asked)
    server.looks, server.looks_away = 0, [BROKEN] * 3
    paces: list[str] = []
    watch = threading.Timer(1.0, lambda: paces.append(judge.pace()))
    watch.start()
    assert states(given, judge.verdicts(given)) == {"correct": 4, "wrong": 4}
    watch.join()
    assert server.asked[4].at_s - server.asked[3].at_s >= 3.0
    assert paces[0].endswith("server away")


def test_a_server_that_stays_dead_is_given_up_with_a_way_to_resume(server, settled):
    """Killed after twelve items; a second run against one that lives judges exactly the rest."""
    given = items(30, 30)
    judge = settled(breaker_after=3, breaker_wait_s=0.02, breaker_patience_s=0.2, concurrency=4)
    died = threading.Event()

    def until_killed(asked):
        if len(server.asked) > 12:
            died.set()
            return Answer(drop=True)
        return server.verdict(asked)

    server.judge, found = until_killed, []
    killer = threading.Thread(target=lambda: (died.wait(20), server.close()))
    killer.start()
    with pytest.raises(EndpointError) as caught:
        gathered(judge.verdicts(given), found)
    killer.join()
    assert "same command judges the rest" in str(caught.value)
    assert "judge.*.breaker_patience_s" in str(caught.value)
    assert sum(states(given, found, unbegun=60 - len(found)).values()) == len(found) == 12
    assert all(verdict.is_final for verdict in found)
    rest = [one for one in given if one.key not in {verdict.item_key for verdict in found}]
    revived = JudgeServer(server.port)
    try:
        again = list(judge.verdicts(rest))
        assert states(given, [*found, *again]) == {"correct": 30, "wrong": 30}
        assert len(revived.asked) == 48
    finally:
        revived.close()


def test_a_server_that_lists_its_models_but_answers_nothing_is_given_up_too(server, settled):
    """Each look finds it healthy, so that it is asked again, and fails again."""
    server.says(BROKEN)
    found = []
    with pytest.raises(EndpointError, match="HTTP 503: loading"):
        gathered(
            settled(breaker_after=2, breaker_wait_s=0.02, breaker_patience_s=0.2, retries=0).verdicts(items(500, 500)),
            found,
        )
    assert 0 < len(found) < 1000
    assert states(items(500, 500), found, unbegun=1000 - len(found)) == {"transport_error": len(found)}


def test_a_page_instead_of_an_api_is_given_up_too(server, settled):
    judge = settled(breaker_after=2, breaker_wait_s=0.02, breaker_patience_s=0.2)
    page = Answer(body=b"<html>Sign in to the network</html>")
    server.models = page
    server.says(page)
    found = []
    with pytest.raises(EndpointError, match="Sign in"):
        gathered(judge.verdicts(items(50, 50)), found)
    assert set(states(items(50, 50), found, unbegun=100 - len(found))) <= {"transport_error"}


def test_what_is_in_flight_when_it_is_given_up_is_handed_over(server, settled):
    given = items(2, 6)
    slow = given[0].candidate

    def judge(asked):
        if asked.payload["candidate"] == slow:
            return Answer(body=server.verdict(asked).body, after_s=1.0)
        server.models = BROKEN
        return BROKEN

    server.judge, found = judge, []
    judge_of = settled(breaker_after=3, breaker_wait_s=0.02, breaker_patience_s=0.1, concurrency=4)
    with pytest.raises(EndpointError):
        gathered(judge_of.verdicts(given), found)
    assert states(given, found, unbegun=7) == {"correct": 1}


def test_one_bad_item_does_not_stop_the_others(server, settled):
    """Its failures are in a row with nothing between them, and the list of models says that the server lives."""
    given = items(5, 5)
    server.faults = {given[0].candidate: [BROKEN] * 9}
    judge = settled(concurrency=1, retries=8, breaker_after=4, breaker_wait_s=0.01)
    assert states(given, judge.verdicts(given)) == {"transport_error": 1, "correct": 4, "wrong": 5}
