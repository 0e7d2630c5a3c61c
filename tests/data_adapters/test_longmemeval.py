"""LongMemEval on genuine records and on small ones made by hand."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from data_adapters.longmemeval import PREAMBLE, LongMemEval
from kvrelay.core.errors import AssetError, DataError
from kvrelay.core.example import Example

GENUINE = "longmemeval_s_1record.json"
ORACLE = "longmemeval_oracle_12records_reconstructed.json"
ASSEMBLED = "longmemeval_s_small_assembled_6records.json"


def read(path: Path, **settings: Any) -> list[Example]:
    return list(LongMemEval(path=str(path), **settings).examples(len))


def history(example: Example) -> str:
    return "".join(unit.text for unit in example.units)


def turn(role: str, content: str, **marks: bool) -> dict[str, Any]:
    return {"role": role, "content": content, **marks}


def record(**changes: Any) -> dict[str, Any]:
    """Two sessions against their order in time; the later one in the list holds the evidence."""
    base: dict[str, Any] = {
        "question_id": "q1",
        "question_type": "multi-session",
        "question": "How many plants do I have?",
        "answer": "three",
        "question_date": "2024/03/01 (Fri) 10:00",
        "haystack_dates": ["2024/02/02 (Fri) 09:00", "2024/02/01 (Thu) 21:30"],
        "haystack_session_ids": ["filler", "answer_1"],
        "haystack_sessions": [
            [turn("user", " Hello. "), turn("assistant", "Hi!\n\nHow are you?")],
            [
                turn("user", "I bought a fern.", has_answer=True),
                turn("assistant", "Nice.", has_answer=False),
                turn("user", "And what is lichen?", has_answer=False),
                turn("assistant", "A pair of beings.", has_answer=False),
            ],
        ],
        "answer_session_ids": ["answer_1"],
    }
    return {**base, **changes}


def write(folder: Path, *records: dict[str, Any], name: str = "longmemeval_s.json") -> Path:
    file = folder / name
    file.write_text(json.dumps(list(records)), encoding="utf-8")
    return file


def one(folder: Path, settings: dict[str, Any] | None = None, **changes: Any) -> Example:
    (example,) = read(write(folder, record(**changes)), **(settings or {}))
    return example


def published_history(raw: dict[str, Any], as_json: bool) -> str:
    """The benchmark's layout, written out plainly: sessions by date string, numbered from 1."""
    rows = sorted(zip(raw["haystack_dates"], raw["haystack_sessions"], strict=True), key=lambda row: row[0])
    text = ""
    for number, (date, turns) in enumerate(rows, start=1):
        text += f"\n### Session {number}:\nSession Date: {date}\nSession Content:\n"
        if as_json:
            text += "\n" + json.dumps([{"role": t["role"], "content": t["content"]} for t in turns])
        else:
            for t in turns:
                text += "\n\n" + t["role"] + ": " + t["content"].strip()
        text += "\n"
    return text


def test_the_genuine_record(samples: Path) -> None:
    (example,) = read(samples / "longmemeval" / GENUINE)
    (raw,) = json.loads((samples / "longmemeval" / GENUINE).read_text(encoding="utf-8"))
    assert (example.id, example.cluster_id, example.question_type) == ("e47becba", "e47becba", "single-session-user")
    assert example.references == (raw["answer"],) and not example.unanswerable
    assert len(example.units) == len({unit.id for unit in example.units}) == 53
    assert [unit.id for unit in example.units if unit.evidence] == ["51:answer_280352e9"]
    assert sum(unit.text.count("\n\nuser: ") + unit.text.count("\n\nassistant: ") for unit in example.units) >= 550
    dates = [datetime.strptime(unit.timestamp or "", "%Y/%m/%d (%a) %H:%M") for unit in example.units]
    assert dates == sorted(dates)
    assert history(example) == published_history(raw, as_json=False)
    assert example.preamble == PREAMBLE
    assert example.question_prompt == f"\n\nCurrent Date: 2023/05/30 (Tue) 23:40\nQuestion: {raw['question']}\nAnswer:"
    assert example.question_date == "2023/05/30 (Tue) 23:40"


def test_special_token_text_stays_as_it_is(samples: Path) -> None:
    (example,) = read(samples / "longmemeval" / GENUINE)
    (unit,) = [unit for unit in example.units if unit.id.endswith(":3b3a77d9")]
    assert "assistant<|end_header_id|>" in unit.text and "assistant<|end_header_id|>" in unit.index_text


@pytest.mark.parametrize(("name", "count"), [(GENUINE, 1), (ORACLE, 12), (ASSEMBLED, 6)])
@pytest.mark.parametrize("session_format", ["paragraphs", "json"])
def test_rounds_and_sessions_give_one_published_history(
    samples: Path, name: str, count: int, session_format: str
) -> None:
    file = samples / "longmemeval" / name
    raw = json.loads(file.read_text(encoding="utf-8"))
    by_session = read(file, session_format=session_format)
    by_round = read(file, session_format=session_format, unit="round")
    assert len(by_session) == len(by_round) == len(raw) == count
    for whole, cut, source in zip(by_session, by_round, raw, strict=True):
        assert history(whole) == history(cut) == published_history(source, session_format == "json")
        assert "has_answer" not in history(whole) + whole.question_prompt
        assert sum(unit.evidence for unit in whole.units) == len(source["answer_session_ids"])


@pytest.mark.parametrize("name", [GENUINE, ORACLE, ASSEMBLED])
def test_rounds_with_a_marked_turn_are_the_evidence(samples: Path, name: str) -> None:
    file = samples / "longmemeval" / name
    raw = json.loads(file.read_text(encoding="utf-8"))
    for example, source in zip(read(file, unit="round"), raw, strict=True):
        for unit in example.units:
            position, session_id, _ = unit.id.split(":")
            turns = source["haystack_sessions"][int(position)]
            marked = [t["content"].strip() for t in turns if t.get("has_answer")]
            in_answer = session_id in source["answer_session_ids"]
            assert unit.evidence == (any(text in unit.text for text in marked) if marked else in_answer)


def test_oracle_records(samples: Path) -> None:
    file = samples / "longmemeval" / ORACLE
    examples = {example.id: example for example in read(file)}
    raw = {entry["question_id"]: entry for entry in json.loads(file.read_text(encoding="utf-8"))}
    assert [len(example.units) for example in examples.values()] == [2, 2, 2, 2, 3, 2, 2, 2, 2, 1, 1, 1]
    assert examples["bf659f65"].references == ("3",) and examples["bf659f65"].notes["answer_raw"] == 3
    assert "answer_raw" not in examples["157a136e"].notes and examples["157a136e"].references == ("43",)
    flagged = {id_ for id_, example in examples.items() if "after_question" in example.notes}
    assert flagged == {id_ for id_, r in raw.items() if max(r["haystack_dates"]) > r["question_date"]} != set()
    assert examples["gpt4_2c50253f"].notes["after_question"] == ["0:answer_23244a73_1"]
    assert [unit.id for unit in examples["gpt4_2c50253f"].units] == ["1:answer_23244a73_2", "0:answer_23244a73_1"]


def test_assembled_records(samples: Path) -> None:
    file = samples / "longmemeval" / ASSEMBLED
    examples = read(file)
    assert [len(example.units) for example in examples] == [10, 10, 10, 11, 10, 9]
    assert [example.id for example in examples if example.unanswerable] == ["gpt4_70e84552_abs"]
    assert examples[1].references == (json.loads(file.read_text(encoding="utf-8"))[1]["answer"],)


def test_a_small_record_word_for_word(tmp_path: Path) -> None:
    example = one(tmp_path)
    first = (
        "\n### Session 1:\nSession Date: 2024/02/01 (Thu) 21:30\nSession Content:\n\n\nuser: I bought a fern."
        "\n\nassistant: Nice.\n\nuser: And what is lichen?\n\nassistant: A pair of beings.\n"
    )
    second = (
        "\n### Session 2:\nSession Date: 2024/02/02 (Fri) 09:00\nSession Content:\n\n\nuser: Hello."
        "\n\nassistant: Hi!\n\nHow are you?\n"
    )
    assert [(u.id, u.text, u.evidence) for u in example.units] == [
        ("1:answer_1", first, True),
        ("0:filler", second, False),
    ]
    assert example.units[1].index_text == "Hello. Hi!\n\nHow are you?"
    assert example.layout == "document" and example.units[0].turns == () and example.notes == {}


def test_rounds_of_a_small_record(tmp_path: Path) -> None:
    example = one(tmp_path, {"unit": "round"})
    assert [(u.id, u.evidence) for u in example.units] == [
        ("1:answer_1:0", True),
        ("1:answer_1:1", False),
        ("0:filler:0", False),
    ]
    assert example.units[1].text == "\n\nuser: And what is lichen?\n\nassistant: A pair of beings.\n"
    assert example.units[1].timestamp == "2024/02/01 (Thu) 21:30"


def test_retrievers_may_be_limited_to_the_users_words(tmp_path: Path) -> None:
    example = one(tmp_path, {"index_roles": "user"})
    assert [unit.index_text for unit in example.units] == ["I bought a fern. And what is lichen?", "Hello."]
    assert "Nice." in example.units[0].text


def test_sessions_of_one_minute_keep_their_order(tmp_path: Path) -> None:
    date = "2024/02/01 (Thu) 21:30"
    sessions = [[turn("user", str(i))] for i in range(4)]
    dates = [date, "2024/01/31 (Wed) 23:59", date, date]
    example = one(tmp_path, haystack_sessions=sessions, haystack_dates=dates, haystack_session_ids=["a", "b", "c", "d"])
    assert [unit.id for unit in example.units] == ["1:b", "0:a", "2:c", "3:d"]


def test_repeated_session_ids_are_kept_apart_by_their_place(tmp_path: Path) -> None:
    example = one(tmp_path, haystack_session_ids=["answer_1", "answer_1"])
    assert [(unit.id, unit.evidence) for unit in example.units] == [("1:answer_1", True), ("0:answer_1", True)]
    assert example.units[0].text != example.units[1].text


def test_an_answer_session_without_marks_is_evidence_in_all_its_rounds(tmp_path: Path) -> None:
    unmarked = [[turn("user", "a"), turn("assistant", "b"), turn("user", "c")], [turn("user", "d")]]
    example = one(tmp_path, {"unit": "round"}, haystack_sessions=unmarked, answer_session_ids=["filler"])
    assert [(unit.id, unit.evidence) for unit in example.units] == [
        ("1:answer_1:0", False),
        ("0:filler:0", True),
        ("0:filler:1", True),
    ]


def test_an_empty_session_keeps_its_heading(tmp_path: Path) -> None:
    sessions = [[], record()["haystack_sessions"][1]]
    for unit in ("session", "round"):
        example = one(tmp_path, {"unit": unit}, haystack_sessions=sessions)
        assert example.units[-1].text == "\n### Session 2:\nSession Date: 2024/02/02 (Fri) 09:00\nSession Content:\n\n"
        assert example.units[-1].index_text == ""
    (example,) = read(write(tmp_path, record(haystack_sessions=sessions)), session_format="json")
    assert example.units[-1].text.endswith("Session Content:\n\n[]\n")


def test_odd_turn_orders_make_rounds_at_each_user_turn(tmp_path: Path) -> None:
    roles = ["assistant", "user", "user", "assistant", "assistant"]
    sessions = [[turn(role, str(i)) for i, role in enumerate(roles)], [turn("user", "")]]
    example = one(tmp_path, {"unit": "round", "index_roles": "user"}, haystack_sessions=sessions)
    assert [(unit.id, unit.index_text) for unit in example.units] == [
        ("1:answer_1:0", ""),
        ("0:filler:0", ""),
        ("0:filler:1", "1"),
        ("0:filler:2", "2"),
    ]
    assert example.units[3].text == "\n\nuser: 2\n\nassistant: 3\n\nassistant: 4\n"
    assert example.units[0].text.endswith("\n\nuser: \n")


@pytest.mark.parametrize(("answer", "text"), [(3, "3"), (2.5, "2.5"), (0, "0"), ("7", "7")])
def test_answers_may_be_numbers(tmp_path: Path, answer: object, text: str) -> None:
    example = one(tmp_path, answer=answer)
    assert example.references == (text,)
    assert example.notes == ({} if isinstance(answer, str) else {"answer_raw": answer})


def test_a_preference_answer_is_a_rubric(tmp_path: Path) -> None:
    assert one(tmp_path, question_type="single-session-preference").notes == {"rubric": True}


def test_an_empty_answer_is_no_reference(tmp_path: Path) -> None:
    example = one(tmp_path, answer=" ")
    assert example.references == () and example.notes == {"no_reference": True}


def test_the_first_questions_are_read_without_the_rest_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "longmemeval_s.json"
    file.write_text(json.dumps([record(), record(question_id="q2")])[:-400])
    (example,) = read(file, limit=1)
    assert example.id == "q1"
    with pytest.raises(DataError, match="record 1: not valid JSON"):
        read(file)


def test_a_limit_with_a_seed_is_a_sample_in_file_order(tmp_path: Path) -> None:
    file = write(tmp_path, *(record(question_id=f"q{i:02}") for i in range(20)))
    ids = [example.id for example in read(file, limit=6, shuffle_seed=3)]
    assert len(ids) == 6 and ids == sorted(ids) and ids != [f"q{i:02}" for i in range(6)]
    assert set(ids) < {example.id for example in read(file, limit=12, shuffle_seed=3)}
    assert ids != [example.id for example in read(file, limit=6, shuffle_seed=4)]
    assert [example.id for example in read(file, limit=6)] == [f"q{i:02}" for i in range(6)]
    assert len(read(file, limit=99, shuffle_seed=3)) == len(read(file, shuffle_seed=3)) == 20


@pytest.mark.parametrize("variant", ["s", "m", "oracle"])
def test_a_folder_gives_the_variants_file_and_prefers_the_cleaned_one(tmp_path: Path, variant: str) -> None:
    for other in {"s", "m", "oracle"} - {variant}:
        write(tmp_path, record(question_id=other), name=f"longmemeval_{other}.json")
    with pytest.raises(
        AssetError, match=rf"dataset\.longmemeval_{variant}\.path=.*longmemeval_{variant}_cleaned\.json"
    ):
        read(tmp_path, variant=variant)
    for name in (f"longmemeval_{variant}", f"longmemeval_{variant}.json", f"longmemeval_{variant}_cleaned.json"):
        write(tmp_path, record(question_id=name), name=name)
        assert [example.id for example in read(tmp_path, variant=variant)] == [name]


def test_the_fingerprint_is_of_the_file_in_use(tmp_path: Path) -> None:
    file = write(tmp_path, record())
    before = LongMemEval(path=str(tmp_path)).fingerprint()
    assert before == LongMemEval(path=str(file), unit="round").fingerprint() and len(before) == 64
    write(tmp_path, record(), name="longmemeval_s_cleaned.json")
    assert LongMemEval(path=str(tmp_path)).fingerprint() == before
    write(tmp_path, record(answer="four"), name="longmemeval_s_cleaned.json")
    assert LongMemEval(path=str(tmp_path)).fingerprint() != before
