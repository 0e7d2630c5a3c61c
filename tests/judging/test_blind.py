"""Items hold what a judge may see; their keys and order know nothing of methods or of the run's order."""

from __future__ import annotations

import random
from typing import Any

from kvrelay.judging.blind import blind_item, blind_sheet
from kvrelay.run.record import Cell, RunRecord, item_key

METHODS = ("snapkv", "h2o", "cam", "chunkkv")


def record(method: str = "snapkv", position: str = "original", **fields: Any) -> RunRecord:
    defaults: dict[str, Any] = {
        "key": f"{method}-{position}",
        "pair_key": method,
        "cell": Cell(model="m", dataset="d", selector=method, retention="r", position=position),
        "run_id": "run",
        "worker": "w",
        "example_id": "e",
        "cluster_id": "c",
        "history_id": "h",
        "question": "Which tea?",
        "question_type": "single-session-user",
        "references": ("Oolong",),
        "status": "ok",
        "answer": "Oolong.",
    }
    return RunRecord(**(defaults | fields))


def failed() -> RunRecord:
    return record(status="error", answer=None, error={"kind": "OutOfMemory", "message": "no room"})


def many(methods: tuple[str, ...]) -> list[RunRecord]:
    return [record(method, question=f"Which tea, on day {day}?") for day in range(12) for method in methods]


def test_an_item_holds_the_fields_and_the_key_that_records_join_by():
    given = record(choices={"b": "two", "a": "one"}, gold_choice="b", unanswerable=True, question_date="2024/01/05")
    item = blind_item(given, "judge-1")
    assert (item.question, item.references, item.candidate) == ("Which tea?", ("Oolong",), "Oolong.")
    assert (item.question_type, item.question_date) == ("single-session-user", "2024/01/05")
    assert (item.gold_choice, item.unanswerable) == ("b", True)
    assert item.key == item_key("judge-1", given.item_fields())
    assert item.key != blind_item(given, "judge-2").key
    assert item.key != blind_item(given.model_copy(update={"answer": "Assam."}), "judge-1").key


def test_relabelling_and_reordering_change_nothing():
    sheet = blind_sheet(many(METHODS), "j")
    assert (sheet.answers, len(sheet.items)) == (48, 12)
    assert blind_sheet(many(METHODS[::-1]), "j") == sheet
    shuffled = many(METHODS)
    random.Random(3).shuffle(shuffled)
    assert blind_sheet(shuffled, "j").items == sheet.items


def test_the_order_is_not_the_runs_and_another_judge_has_another():
    questions = [item.question for item in blind_sheet(many(METHODS), "j").items]
    run_order = [f"Which tea, on day {day}?" for day in range(12)]
    assert sorted(questions) == sorted(run_order)
    assert questions != run_order
    assert questions != [item.question for item in blind_sheet(many(METHODS), "k").items]


def test_options_in_any_order_are_the_same_item():
    one, two = record(choices={"a": "x", "b": "y"}), record("h2o", choices={"b": "y", "a": "x"})
    (first,), (second,) = blind_sheet([one, two], "j").items, blind_sheet([two, one], "j").items
    assert list(first.choices) == list(second.choices) == ["a", "b"]


def test_failed_records_are_counted_apart_and_empty_answers_are_judged():
    sheet = blind_sheet([failed(), record(answer=""), record(answer=None), record()], "j")
    assert (sheet.answers, sheet.unanswered) == (2, 2)
    assert {item.candidate for item in sheet.items} == {"", "Oolong."}
