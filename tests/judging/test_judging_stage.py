"""The stage: once an item, known ones skipped, verdicts kept when it is interrupted, and resumed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

import pytest

from kvrelay.core.errors import EndpointError
from kvrelay.judging.protocol import BlindItem
from kvrelay.judging.stage import judge_records
from kvrelay.run.record import Cell, RunRecord, Verdict


@dataclass
class ScriptedJudge:
    """Gives what ``decide`` says and counts its calls."""

    decide: Callable[[BlindItem], bool | str | None]
    concurrency: int = 1
    id: str = "scripted"
    asked: list[str] = field(default_factory=list)

    def check(self) -> None: ...

    def judge(self, item: BlindItem) -> Verdict:
        self.asked.append(item.candidate)
        said = self.decide(item)
        reason = said if isinstance(said, str) else ""
        correct = said if isinstance(said, bool) else None
        return Verdict(judge_id=self.id, item_key=item.key, correct=correct, reason=reason)


def records(n: int, selector: str = "snapkv") -> list[RunRecord]:
    cell = Cell(model="m", dataset="d", selector=selector, retention="r", position="original")
    return [
        RunRecord(
            key=f"{selector}{i}",
            pair_key=f"{i}",
            cell=cell,
            run_id="run",
            worker="w",
            example_id=f"e{i}",
            cluster_id="c",
            history_id="h",
            question="?",
            question_type="t",
            status="ok",
            answer=str(i),
        )
        for i in range(n)
    ]


@pytest.mark.parametrize("concurrency", [1, 4])
def test_each_distinct_answer_once_with_counts_and_progress(concurrency):
    judge = ScriptedJudge(lambda item: [True, False, "malformed"][int(item.candidate) % 3], concurrency)
    verdicts: list[Verdict] = []
    ticks: list[tuple[int, int]] = []
    threads: set[int] = set()

    def sink(verdict: Verdict) -> None:
        threads.add(threading.get_ident())
        verdicts.append(verdict)

    error = records(1)[0].model_copy(update={"status": "error", "answer": None})
    given = [*records(10), *records(10, "h2o"), error]
    counts = judge_records(given, judge, set(), sink, lambda done, total: ticks.append((done, total)))
    assert sorted(judge.asked) == sorted(map(str, range(10)))
    assert len({verdict.item_key for verdict in verdicts}) == 10
    assert (counts.answers, counts.unanswered, counts.items, counts.known) == (20, 1, 10, 0)
    assert (counts.correct, counts.wrong, counts.judged, counts.unscored) == (4, 3, 7, {"malformed": 3})
    assert ticks == [(done, 10) for done in range(1, 11)]
    assert threads == {threading.get_ident()}


def test_known_items_are_skipped_and_unfinal_ones_come_again():
    first = ScriptedJudge(
        lambda item: {"0": "transport_error", "1": "malformed", "2": "rejected"}.get(item.candidate, True)
    )
    verdicts: list[Verdict] = []
    judge_records(records(5), first, set(), verdicts.append)
    known = {verdict.item_key for verdict in verdicts if verdict.is_final}
    second = ScriptedJudge(lambda item: False)
    counts = judge_records(records(5), second, known, verdicts.append)
    assert sorted(second.asked) == ["0", "2"]
    assert (counts.items, counts.known, counts.wrong, counts.unscored) == (5, 3, 2, {})


@pytest.mark.parametrize(
    ("correct", "reason", "final"),
    [
        (True, "", True),
        (False, "", True),
        (None, "truncated", True),
        (None, "no_reference", True),
        (None, "transport_error", False),
        (None, "rejected", False),
    ],
)
def test_is_final(correct, reason, final):
    assert Verdict(judge_id="j", item_key="k", correct=correct, reason=reason).is_final is final


def test_nothing_to_do_asks_nothing():
    judge = ScriptedJudge(lambda item: True)
    counts = judge_records([], judge, set(), pytest.fail)
    assert (counts.answers, counts.items, counts.judged, judge.asked) == (0, 0, 0, [])


def test_an_interrupt_keeps_what_is_in_flight_and_begins_nothing_more():
    """The second call signals the main thread while the first one is still under way; both end after the signal."""
    interrupted = threading.Event()
    calls = count()

    def decide(item: BlindItem) -> bool:
        if next(calls) == 1:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        return interrupted.wait(timeout=30)

    def on_interrupt(number: int, frame: object) -> None:
        interrupted.set()
        raise KeyboardInterrupt

    judge = ScriptedJudge(decide, concurrency=2)
    verdicts: list[Verdict] = []
    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            judge_records(records(40), judge, set(), verdicts.append)
    finally:
        signal.signal(signal.SIGINT, before)
    # the signal may fall into the very call that hands out the second item: then that one is for the next run
    assert 2 <= len(judge.asked) <= 4
    assert len(judge.asked) - 1 <= len(verdicts) <= len(judge.asked)


def test_an_error_of_the_judge_ends_the_stage_and_keeps_what_was_judged():
    def decide(item: BlindItem) -> bool:
        if len(judge.asked) == 4:
            raise EndpointError("the key is refused")
        return True

    judge = ScriptedJudge(decide)
    verdicts: list[Verdict] = []
    with pytest.raises(EndpointError, match="the key is refused"):
        judge_records(records(200), judge, set(), verdicts.append)
    assert 4 <= len(judge.asked) <= 5
    assert len(verdicts) == len(judge.asked) - 1


def test_an_error_of_the_sink_ends_the_stage():
    def full(verdict: Verdict) -> None:
        raise OSError("no space left")

    judge = ScriptedJudge(lambda item: True)
    with pytest.raises(OSError, match="no space left"):
        judge_records(records(200), judge, set(), full)
    assert len(judge.asked) <= 2


def test_a_dead_server_is_given_up_with_a_hint():
    judge = ScriptedJudge(lambda item: "transport_error")
    verdicts: list[Verdict] = []
    with pytest.raises(EndpointError, match=r"3 exchanges .* after 3 of 500 items.*judge\.\*\.base_url"):
        judge_records(records(500), judge, set(), verdicts.append, give_up_after=3)
    assert len(verdicts) == 3


def test_failures_apart_from_each_other_do_not_end_the_stage():
    """Two failures stand between successes; two verdicts that come together may swap, which makes four in a row."""
    judge = ScriptedJudge(lambda item: "transport_error" if len(judge.asked) % 3 else True)
    counts = judge_records(records(30), judge, set(), lambda verdict: None, give_up_after=5)
    assert (counts.correct, counts.unscored) == (10, {"transport_error": 20})
