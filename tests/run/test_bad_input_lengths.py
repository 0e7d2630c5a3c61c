"""Histories, questions, answers and budgets that are far too long or far too short."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compose import compose, compose_run
from given_data import given
from plain_config import SELECTORS, group, plain_config

from kvrelay.core.errors import IncompleteError
from kvrelay.run.record import RunRecord
from kvrelay.run.store import read_records

TEN = (*SELECTORS, "none", "random", "recent")
POSITIONS = ("original", "roperelay", "half_gap", "random", "score")


def answers(tmp_path: Path, data: dict[str, Any], **changes: Any) -> list[RunRecord]:
    """Records of one history under the tiny model, whose tokens are bytes."""
    config = plain_config(tmp_path, only_positions={}, only_selectors={}, **changes)
    config["dataset"] = {"g": data, "max_history_tokens": None}
    _, experiment, _ = compose(config)
    experiment.run(lambda line: None)
    return list(read_records(experiment.folder).values())


def kept(record: RunRecord) -> list[int]:
    """History states per layer and head."""
    return [count - record.n_protected for layer in record.slots_LH for count in layer]


@pytest.mark.parametrize("n_tokens", [1, 3, 9, 40])
@pytest.mark.parametrize(
    "retention",
    [
        {"_target_": "kvrelay.core.budget.Ratio", "ratio": 0.0001},
        {"_target_": "kvrelay.core.budget.States", "count": 1},
        {"_target_": "kvrelay.core.budget.States", "count": 1000},
    ],
    ids=["0.0001", "one", "thousand"],
)
def test_every_selector_is_exact_on_histories_of_a_few_tokens(
    n_tokens: int, retention: dict[str, Any], tmp_path: Path
) -> None:
    """Shorter than window, chunk and kernel; and at 40 tokens longer than the window, with one state to keep."""
    records = answers(
        tmp_path,
        given(texts=["x" * n_tokens]),
        selector=group("selector", *TEN),
        position=group("position", *POSITIONS),
        retention={"r": retention},
    )
    assert len(records) == len(TEN) * len(POSITIONS)
    for record in records:
        assert record.status == "ok", record.error
        assert record.n_history == n_tokens
        budget = n_tokens if retention.get("count") == 1000 else 1
        wanted = {"full": n_tokens, "none": 0}.get(record.cell.selector, budget)
        assert sum(kept(record)) == wanted * len(kept(record))


@pytest.mark.parametrize("text", ["   ", " ", "\n\n"])
def test_a_history_of_white_space_is_a_history(text: str, tmp_path: Path) -> None:
    records = answers(tmp_path, given(texts=[text, text]), selector=group("selector", *TEN))
    assert {record.status for record in records} == {"ok"}


def test_units_of_one_token_are_kept_one_by_one(tmp_path: Path) -> None:
    records = answers(tmp_path, given(texts=list("abcdefghij")), selector=group("selector", "bm25"))
    assert {record.notes["units"][0] for record in records} == {"0"}
    assert {tuple(kept(record)) for record in records} == {(1,) * 6}


def test_a_budget_below_the_window_keeps_the_windows_latest_states(tmp_path: Path) -> None:
    """So window selectors keep then what `recent` keeps, to the hash."""
    selectors = ("recent", "snapkv", "chunkkv", "cam")
    records = answers(
        tmp_path,
        given(texts=["any text that is longer than the window of thirty-two tokens"]),
        selector=group("selector", *selectors),
        retention={"r": {"_target_": "kvrelay.core.budget.States", "count": 5}},
    )
    assert {record.cell.selector for record in records} == set(selectors)
    assert len({record.kept_sha256 for record in records}) == 1
    assert {tuple(kept(record)) for record in records} == {(5,) * 6}


LONG = "why " * 1250
"""A question of 5,000 characters."""


def test_a_question_of_five_thousand_characters_is_answered(tmp_path: Path) -> None:
    records = answers(tmp_path, given(questions=[LONG]), selector=group("selector", "bm25"))
    assert {record.status for record in records} == {"ok"}
    assert all(record.n_question > 5000 for record in records)


@pytest.mark.parametrize("questions", [[LONG, "short?"], ["short?", LONG]], ids=["first", "last"])
def test_a_question_beyond_the_range_fails_alone_among_those_of_its_history(
    questions: list[str], tmp_path: Path
) -> None:
    model = group("model", "tiny")
    model["tiny"].update(cache_folder=str(tmp_path / "models"), position_range=600)
    with pytest.raises(IncompleteError):
        answers(tmp_path, given(questions=questions), model=model)
    records = list(read_records(tmp_path / "out" / "plain").values())
    assert {record.status for record in records if record.question == "short?"} == {"ok"}
    assert {record.status for record in records if record.question == LONG} == {"error"}
    (message,) = {record.error.message for record in records if record.error}
    assert "has 600" in message and "no history would fit" in message
    assert "max_new_tokens" in message and "max_history_tokens" not in message


def test_the_length_that_an_error_advises_fits(tmp_path: Path) -> None:
    model = group("model", "tiny")
    model["tiny"].update(cache_folder=str(tmp_path / "models"), position_range=600)
    config = plain_config(tmp_path, model=model, selector=group("selector", "bm25"))
    config["dataset"] = {"g": given(texts=["line of text\n\n"] * 100), "max_history_tokens": None}
    assert compose_run(config) == 5
    (message,) = {record.error.message for record in read_records(tmp_path / "out" / "plain").values() if record.error}
    advised = int(message.partition("dataset.max_history_tokens=")[2].split()[0])
    config["dataset"]["max_history_tokens"] = advised
    assert compose_run(config | {"out": str(tmp_path / "trimmed")}) == 0
    config["dataset"]["max_history_tokens"] = 1
    assert compose_run(config | {"out": str(tmp_path / "nothing")}) == 5
    records = read_records(tmp_path / "nothing" / "plain").values()
    assert all(record.error and "max_history_tokens=1 is too small" in record.error.message for record in records)
