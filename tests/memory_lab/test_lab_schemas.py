"""The files as the published data sets write them, read here with the standard library alone."""

from __future__ import annotations

import ast
import csv
import json
import re
import uuid
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from data_adapters.memory_lab.adapter import MemoryLab

TYPES = {
    "single-session-user",
    "single-session-assistant",
    "single-session-preference",
    "multi-session",
    "knowledge-update",
    "temporal-reasoning",
}
COLUMNS = [
    *("persona_id", "question_id", "question_type", "topic", "context_length_in_tokens", "context_length_in_letters"),
    *("distance_to_ref_in_blocks", "distance_to_ref_in_tokens", "num_irrelevant_tokens"),
    *("distance_to_ref_proportion_in_context", "user_question_or_message", "correct_answer", "all_options"),
    *("shared_context_id", "end_index_in_shared_context"),
]


def words(text: str) -> int:
    return len(text.split())


def lab(folder: Path, schema: Any, **changes: Any) -> MemoryLab:
    given = {"histories": 12, "history_tokens": 700, "questions_per_history": 4, "seed": 1, **changes}
    return MemoryLab(schema=schema, folder=str(folder), **given)


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    made = lab(tmp_path_factory.mktemp("lab"), "longmemeval", unanswerable_every=10, preference_every=9)
    found: list[dict[str, Any]] = json.loads((made.write(words) / "longmemeval_s.json").read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module")
def conversations(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = lab(tmp_path_factory.mktemp("lab"), "long_mt_bench_plus").write(words)
    return [json.loads(line) for line in (folder / "long_mt_bench_plus.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def personas(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[dict[str, str]], dict[str, list[dict[str, str]]]]:
    folder = lab(tmp_path_factory.mktemp("lab"), "personamem").write(words)
    with (folder / "questions_32k.csv").open(encoding="utf-8", newline="") as stream:
        reader = csv.DictReader(stream)
        assert reader.fieldnames == COLUMNS
        rows = list(reader)
    lines = (folder / "shared_contexts_32k.jsonl").read_text(encoding="utf-8").splitlines()
    return rows, {key: value for line in lines for key, value in json.loads(line).items()}


def test_longmemeval_fields_and_their_types(records: list[dict[str, Any]]) -> None:
    assert len(records) == 48
    for record in records:
        assert set(record) == {
            *("question_id", "question_type", "question", "answer", "question_date"),
            *("haystack_dates", "haystack_session_ids", "haystack_sessions", "answer_session_ids"),
        }
        assert re.fullmatch(r"[0-9a-f]{8}(_abs)?", record["question_id"])
        assert record["question_type"] in TYPES
        assert all(isinstance(record[key], str) and record[key] for key in ("question", "answer"))
        n = len(record["haystack_sessions"])
        assert n == len(record["haystack_dates"]) == len(record["haystack_session_ids"]) > 3
        assert len(set(record["haystack_session_ids"])) == n
        assert 0 < len(record["answer_session_ids"]) <= 2
        assert set(record["answer_session_ids"]) <= set(record["haystack_session_ids"])
        for session in record["haystack_sessions"]:
            assert [turn["role"] for turn in session] == ["user", "assistant"] * (len(session) // 2)
            assert all(set(turn) <= {"role", "content", "has_answer"} and turn["content"] for turn in session)
    assert len({record["question_id"] for record in records}) == 48
    assert {record["question_type"] for record in records} == TYPES


def test_longmemeval_dates_are_real_days_in_order_before_the_question(records: list[dict[str, Any]]) -> None:
    days = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
    for record in records:
        times = []
        for text in [*record["haystack_dates"], record["question_date"]]:
            found = re.fullmatch(r"(\d{4}/\d\d/\d\d) \((\w{3})\) (\d\d:\d\d)", text)
            assert found
            when = datetime.strptime(f"{found[1]} {found[3]}", "%Y/%m/%d %H:%M")
            assert found[2] == days[when.weekday()]
            times.append(when)
        assert times == sorted(times)


def test_has_answer_marks_the_turn_that_tells_it(records: list[dict[str, Any]]) -> None:
    for record in records:
        missing = record["question_id"].endswith("_abs")
        told = []
        for id_, session in zip(record["haystack_session_ids"], record["haystack_sessions"], strict=True):
            flags = [turn.get("has_answer") for turn in session]
            if id_ in record["answer_session_ids"]:
                assert all(isinstance(flag, bool) for flag in flags)
                assert sum(map(bool, flags)) == (0 if missing else 1)
                told += [turn for turn in session if turn["has_answer"]]
            else:
                assert flags == [None] * len(session)
        if missing or record["question_type"] == "single-session-preference":
            continue
        assert any(record["answer"] in turn["content"] for turn in told)
        teller = "assistant" if record["question_type"] == "single-session-assistant" else "user"
        assert {turn["role"] for turn in told} == {teller}


def test_records_of_one_history_have_the_same_haystack(records: list[dict[str, Any]]) -> None:
    def haystack(record: dict[str, Any]) -> str:
        plain = [[(t["role"], t["content"]) for t in s] for s in record["haystack_sessions"]]
        return json.dumps([record["haystack_dates"], record["haystack_session_ids"], plain])

    groups = [records[i : i + 4] for i in range(0, 48, 4)]
    assert all(len({haystack(record) for record in group}) == 1 for group in groups)
    assert all(len({record["question_date"] for record in group}) == 1 for group in groups)
    assert len({haystack(record) for record in records}) == 12


def test_unanswerable_questions_are_a_tenth_and_keep_their_type(records: list[dict[str, Any]]) -> None:
    missing = [record for record in records if record["question_id"].endswith("_abs")]
    assert len(missing) == 4
    assert {record["question_type"] for record in missing} == {
        *("single-session-user", "multi-session", "knowledge-update", "temporal-reasoning")
    }
    assert all(record["answer"].startswith("This cannot be answered") for record in missing)


def test_long_mt_bench_plus_fields_and_their_types(conversations: list[dict[str, Any]]) -> None:
    assert [record["conversation_id"] for record in conversations] == list(range(12))
    for record in conversations:
        assert set(record) == {"conversation_id", "sessions", "turns", "questions", "answers"}
        assert len(record["sessions"]) == 5 or len(record["sessions"]) == 4
        exchanges = [exchange for session in record["sessions"] for exchange in session]
        assert record["turns"] == [[exchange] for exchange in exchanges]
        assert all(re.fullmatch(r"\[human\]: [^\n]+\n\[bot\]: [^\n]+", exchange) for exchange in exchanges)
        assert len(record["questions"]) == len(record["answers"]) == 4
        assert all(isinstance(text, str) and text for text in record["questions"] + record["answers"])
        assert len(set(record["questions"])) == 4
        for answer in record["answers"]:
            assert sum(answer in exchange for exchange in exchanges) == 1


def test_personamem_rows_and_their_types(personas: tuple[list[dict[str, str]], dict[str, Any]]) -> None:
    rows, contexts = personas
    assert len(rows) == 48 and len(contexts) == 12
    assert len({row["question_id"] for row in rows}) == 48
    for row in rows:
        assert str(uuid.UUID(row["question_id"])) == row["question_id"]
        assert re.fullmatch(r"[0-9a-f]{64}", row["shared_context_id"])
        messages = contexts[row["shared_context_id"]]
        assert int(row["end_index_in_shared_context"]) == len(messages)
        assert int(row["context_length_in_letters"]) == sum(len(message["content"]) for message in messages)
        n_tokens, distance = int(row["context_length_in_tokens"]), int(row["distance_to_ref_in_tokens"])
        assert abs(n_tokens - 700) < 60 and 0 < distance <= n_tokens
        assert 0 <= int(row["num_irrelevant_tokens"]) < n_tokens
        assert row["distance_to_ref_proportion_in_context"] == f"{100 * distance / n_tokens:.2f}%"
        blocks = sum(message["role"] == "system" for message in messages)
        assert 1 <= int(row["distance_to_ref_in_blocks"]) <= blocks
        assert row["topic"] and row["user_question_or_message"] and int(row["persona_id"]) in range(12)


def test_personamem_options_are_a_python_list_with_balanced_right_letters(
    personas: tuple[list[dict[str, str]], dict[str, Any]],
) -> None:
    rows, _ = personas
    for row in rows:
        options = ast.literal_eval(row["all_options"])
        assert [option[:4] for option in options] == ["(a) ", "(b) ", "(c) ", "(d) "]
        assert len({option[4:] for option in options}) == 4
    assert Counter(row["correct_answer"] for row in rows) == dict.fromkeys(["(a)", "(b)", "(c)", "(d)"], 12)
    runs = {tuple(row["correct_answer"] for row in rows[i : i + 4]) for i in range(0, 48, 4)}
    assert len(runs) > 4


def test_personamem_blocks_open_with_the_persona(personas: tuple[list[dict[str, str]], dict[str, Any]]) -> None:
    for messages in personas[1].values():
        assert messages[0]["role"] == "system"
        assert len({message["content"] for message in messages if message["role"] == "system"}) == 1
        assert messages[0]["content"].startswith("Current user persona: Name: ")
        for message in messages:
            if message["role"] != "system":
                assert message["content"].startswith(f"{message['role'].capitalize()}: ")


def test_the_distance_reaches_back_to_the_first_evidence(
    personas: tuple[list[dict[str, str]], dict[str, Any]],
) -> None:
    rows, contexts = personas
    for row in rows:
        if row["question_type"] != "recalling_facts_mentioned_by_the_user":
            continue
        messages = contexts[row["shared_context_id"]]
        at = next(i for i, message in enumerate(messages) if "At the flea stalls I bought" in message["content"])
        later = sum(message["role"] == "system" for message in messages[at:])
        assert int(row["distance_to_ref_in_blocks"]) == later + 1
