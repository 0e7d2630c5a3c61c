"""LongMemEval: what a bad record and a bad setting say."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from data_adapters.longmemeval import LongMemEval
from kvrelay.core.errors import ConfigError, DataError


def record(**changes: Any) -> dict[str, Any]:
    """Two sessions, the second with the evidence."""
    base: dict[str, Any] = {
        "question_id": "q1",
        "question_type": "multi-session",
        "question": "How many plants do I have?",
        "answer": "three",
        "question_date": "2024/03/01 (Fri) 10:00",
        "haystack_dates": ["2024/02/01 (Thu) 09:00", "2024/02/02 (Fri) 21:30"],
        "haystack_session_ids": ["filler", "answer_1"],
        "haystack_sessions": [
            [{"role": "user", "content": "Hello."}],
            [{"role": "user", "content": f"Turn {i}.", "has_answer": i == 0} for i in range(3)],
        ],
        "answer_session_ids": ["answer_1"],
    }
    return {**base, **changes}


def write(folder: Path, *records: dict[str, Any]) -> Path:
    file = folder / "longmemeval_s.json"
    file.write_text(json.dumps(list(records)), encoding="utf-8")
    return file


def without(key: str) -> Callable[[dict[str, Any]], None]:
    return lambda entry: entry.pop(key)


def put(value: object, *path: Any) -> Callable[[dict[str, Any]], None]:
    def change(entry: Any) -> None:
        for key in path[:-1]:
            entry = entry[key]
        entry[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without("question_id"), r"record 1: field 'question_id' is missing"),
        (put("", "question_id"), r"record 1: field 'question_id' is empty"),
        *(
            (without(key), rf"record 1 \(question_id q2\): field '{key}' is missing")
            for key in record()
            if key[-2:] != "id"
        ),
        (put(None, "answer"), r"\(question_id q2\): field 'answer' is None, wanted a str or a number"),
        (put(["a"], "answer"), r"field 'answer' is \['a'\], wanted a str or a number"),
        (put("tomorrow", "question_date"), r"field 'question_date' is 'tomorrow', wanted a date like"),
        (put("2024/13/01 (Mon) 10:00", "haystack_dates", 1), r"field 'haystack_dates\[1\]' is '2024/13/01"),
        (
            put(["answer_1"], "haystack_session_ids"),
            r"has 2 entries, but there are 1 haystack_session_ids and 2 haystack_d",
        ),
        (put("x", "haystack_sessions", 0), r"field 'haystack_sessions\[0\]' is str, wanted a list"),
        (put("x", "haystack_sessions", 1, 0), r"field 'haystack_sessions\[1\]\[0\]' is str, wanted an object"),
        (
            put("system", "haystack_sessions", 1, 2, "role"),
            r"haystack_sessions\[1\]\[2\]: field 'role' is 'system', wanted",
        ),
        (
            put(5, "haystack_sessions", 1, 2, "content"),
            r"haystack_sessions\[1\]\[2\]: field 'content' is int, wanted a str",
        ),
        (put("yes", "haystack_sessions", 1, 0, "has_answer"), r"field 'has_answer' is 'yes', wanted true or false"),
        (put([1], "answer_session_ids"), r"field 'answer_session_ids\[0\]' is int, wanted a str"),
        (put("q1", "question_id"), r"record 1: the id 'q1' stands twice in the file"),
    ],
)
def test_bad_records_name_file_record_and_field(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], message: str
) -> None:
    bad = copy.deepcopy(record(question_id="q2"))
    change(bad)
    examples = LongMemEval(path=str(write(tmp_path, record(), bad))).examples(len)
    assert next(examples).id == "q1"
    with pytest.raises(DataError, match=rf"longmemeval_s\.json: .*{message}"):
        next(examples)


def test_a_file_without_records_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"longmemeval_s\.json: the file holds no records"):
        list(LongMemEval(path=str(write(tmp_path))).examples(len))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"variant": "xl"}, r"variant='xl': wanted one of s, m, oracle"),
        ({"unit": "turn"}, r"dataset\.longmemeval_s\.unit='turn'"),
        ({"index_roles": "assistant"}, r"dataset\.longmemeval_s\.index_roles="),
        ({"session_format": "xml"}, r"dataset\.longmemeval_s\.session_format="),
        ({"limit": 0}, r"dataset\.longmemeval_s\.limit=0"),
    ],
)
def test_bad_settings_name_their_key(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        LongMemEval(**settings)
