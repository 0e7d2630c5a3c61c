"""One pass: once an item, known ones skipped, verdicts handed on as they come, exact counts of every state."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator

import pytest
from scripted_judge import ScriptedJudge

from kvrelay.core.errors import EndpointError
from kvrelay.judging.blind import blind_sheet
from kvrelay.judging.protocol import BlindItem
from kvrelay.judging.stage import Tally, judge_records, states
from kvrelay.run.record import Cell, RunRecord, Verdict

OUTCOMES = ("malformed", "truncated", "refused", "empty", "too_long", "transport_error", "rejected")


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


def by_number(item: BlindItem) -> bool | str:
    """0 is right, 1 is wrong, 2 … 8 are the seven reasons; and so on."""
    said = (True, False, *OUTCOMES)[int(item.candidate) % 9]
    return said


def test_each_distinct_answer_once_with_counts_of_every_state_and_progress():
    judge = ScriptedJudge(decide=by_number, usage={"prompt_tokens": 200, "completion_tokens": 7})
    verdicts: list[Verdict] = []
    ticks: list[tuple[int, int]] = []
    threads: set[int] = set()

    def sink(verdict: Verdict) -> None:
        threads.add(threading.get_ident())
        verdicts.append(verdict)

    error = records(1)[0].model_copy(update={"status": "error", "answer": None})
    given = [*records(20), *records(20, "h2o"), error]
    counts = judge_records(given, judge, set(), sink, lambda done, total: ticks.append((done, total)))
    assert sorted(item.candidate for item in judge.asked) == sorted(map(str, range(20)))
    assert len({verdict.item_key for verdict in verdicts}) == 20
    assert (counts.answers, counts.unanswered, counts.items, counts.known) == (40, 1, 20, 0)
    # 20 items: 18 are two of each of the nine states, the last two are right and wrong
    assert (counts.correct, counts.wrong, counts.judged) == (3, 3, 6)
    assert counts.unscored == dict.fromkeys(sorted(OUTCOMES), 2)
    assert (counts.tokens_in, counts.tokens_out) == (4000, 140)
    assert ticks == [(done, 20) for done in range(1, 21)]
    assert threads == {threading.get_ident()}
    sheet = blind_sheet(given, judge.id)
    on_file = {verdict.item_key: verdict for verdict in verdicts[:-1]}
    found = states(sheet.items, on_file)
    assert sum(found.values()) == 20 and found["unjudged"] == 1


def test_known_items_are_skipped_and_unfinal_ones_come_again():
    first = ScriptedJudge(
        decide=lambda item: {"0": "transport_error", "1": "malformed", "2": "rejected"}.get(item.candidate, True)
    )
    verdicts: list[Verdict] = []
    judge_records(records(5), first, set(), verdicts.append)
    known = {verdict.item_key for verdict in verdicts if verdict.is_final}
    second = ScriptedJudge(decide=lambda item: False)
    counts = judge_records(records(5), second, known, verdicts.append)
    assert sorted(item.candidate for item in second.asked) == ["0", "2"]
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
    judge = ScriptedJudge(decide=lambda item: True)
    counts = judge_records([], judge, set(), pytest.fail)
    assert (counts.answers, counts.items, counts.judged, judge.asked) == (0, 0, 0, [])


def test_usage_that_is_no_number_costs_nothing():
    tally = Tally()
    for usage in ({}, {"prompt_tokens": "many", "completion_tokens": None}, {"prompt_tokens": 5}):
        tally.add(Verdict(judge_id="j", item_key="k", correct=True, usage=usage))
    assert (tally.tokens_in, tally.tokens_out, tally.verdicts) == (5, 0, 3)


def test_an_error_of_the_judge_ends_the_pass_and_keeps_what_was_judged():
    judge = ScriptedJudge(decide=lambda item: True, gives_out_after=4)
    verdicts: list[Verdict] = []
    tally = Tally()
    with pytest.raises(EndpointError, match="the server stays away"):
        judge_records(records(200), judge, set(), verdicts.append, tally=tally)
    assert len(verdicts) == tally.states["correct"] == 4


class Closing(ScriptedJudge):
    """Tells whether its iterator was closed, and how many items it had taken up by then."""

    closed: int | None = None

    def verdicts(self, items: Iterable[BlindItem]) -> Iterator[Verdict]:
        try:
            yield from super().verdicts(items)
        finally:
            self.closed = len(self.asked)


@pytest.mark.parametrize("error", [OSError("no space left"), KeyboardInterrupt()])
def test_an_error_of_the_sink_gives_up_what_has_not_begun(error):
    def full(verdict: Verdict) -> None:
        raise error

    judge = Closing(decide=lambda item: True)
    with pytest.raises(type(error)):
        judge_records(records(200), judge, set(), full)
    assert judge.closed == 1
