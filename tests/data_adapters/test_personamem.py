"""PersonaMem v1 on genuine questions (with stand-in contexts) and on small files made by hand."""

from __future__ import annotations

import ast
import csv
import hashlib
import json
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from data_adapters.personamem import COLUMNS, PersonaMem
from kvrelay.core.errors import AssetError, ConfigError, DataError
from kvrelay.core.example import Example, Turn

OPTIONS = ["(a) Tea.", "(b) It's coffee.", "(c) Water,\nno gas.", "(d) Milk."]


def genuine(samples: Path, **settings: Any) -> list[Example]:
    folder = samples / "personamem"
    adapter = PersonaMem(
        path=str(folder / "questions_32k_sample.csv"),
        contexts_path=str(folder / "shared_contexts_32k_FIXTURE.jsonl"),
        size="32k",
        **settings,
    )
    return list(adapter.examples(len))


def row(**changes: str) -> dict[str, str]:
    base = {
        "persona_id": "7",
        "question_id": "q1",
        "question_type": "suggest_new_ideas",
        "topic": "food",
        "user_question_or_message": "User: What should I drink?",
        "correct_answer": "(b)",
        "all_options": repr(OPTIONS),
        "shared_context_id": "ctx",
        "end_index_in_shared_context": "5",
        "distance_to_ref_proportion_in_context": "92.67%",
    }
    return {**base, **changes}


def message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


MESSAGES = [
    message("system", "Current user persona: Ada."),
    message("user", "User: I like coffee."),
    message("assistant", "Assistant: Noted."),
    message("system", "Current user persona: Ada, older."),
    message("user", "User: <|eot_id|> is a token."),
    message("user", "User: Again."),
]


def write(
    folder: Path, *rows: dict[str, str], contexts: list[dict[str, Any]] | None = None, size: str = "128k"
) -> Path:
    with (folder / f"questions_{size}.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    lines = [{"ctx": MESSAGES}] if contexts is None else contexts
    (folder / f"shared_contexts_{size}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def read(folder: Path, **settings: Any) -> list[Example]:
    return list(PersonaMem(path=str(folder), **settings).examples(len))


def test_the_genuine_questions(samples: Path) -> None:
    examples = genuine(samples)
    with (samples / "personamem" / "questions_32k_sample.csv").open(newline="", encoding="utf-8") as stream:
        raw = {entry["question_id"]: entry for entry in csv.DictReader(stream)}
    assert len(examples) == 17 and {example.id for example in examples} == set(raw)
    assert {example.cluster_id for example in examples} == {"0", "1", "7", "9"}
    assert len({example.question_type for example in examples}) == 7
    for example in examples:
        source = raw[example.id]
        texts = [text[4:] for text in ast.literal_eval(source["all_options"])]
        assert [(choice.label, choice.text) for choice in example.choices] == list(zip("abcd", texts, strict=True))
        assert f"({example.gold_choice})" == source["correct_answer"]
        assert example.references == (texts["abcd".index(example.gold_choice or "")],)
        assert example.question == source["user_question_or_message"]
        assert example.question_prompt.startswith(example.question + "\n\n")
        assert example.question_prompt.endswith("\n\n" + source["all_options"])
        assert "<final_answer>" in example.question_prompt
        assert example.notes["end_index_clamped"] == [int(source["end_index_in_shared_context"]), 13]
        assert example.layout == "chat" and example.system is None and example.preamble == ""


def test_blocks_of_genuine_messages(samples: Path) -> None:
    file = samples / "personamem" / "shared_contexts_32k_FIXTURE.jsonl"
    messages = next(iter(json.loads(file.read_text(encoding="utf-8").splitlines()[0]).values()))
    units = genuine(samples)[0].units
    assert [len(unit.turns) for unit in units] == [8, 5] and [unit.id for unit in units] == ["0", "1"]
    assert [(t.role, t.content) for unit in units for t in unit.turns] == [(m["role"], m["content"]) for m in messages]
    assert all(unit.turns[0].role == "system" and unit.turns[0].content not in unit.index_text for unit in units)
    assert all(unit.text == "".join(f"{t.role}: {t.content}\n\n" for t in unit.turns) for unit in units)


def test_a_small_question_word_for_word(tmp_path: Path) -> None:
    (example,) = read(write(tmp_path, row()))
    assert [(unit.id, unit.text) for unit in example.units] == [
        ("0", "system: Current user persona: Ada.\n\nuser: User: I like coffee.\n\nassistant: Assistant: Noted.\n\n"),
        ("1", "system: Current user persona: Ada, older.\n\nuser: User: <|eot_id|> is a token.\n\n"),
    ]
    assert example.units[1].turns == (
        Turn(role="system", content="Current user persona: Ada, older."),
        Turn(role="user", content="User: <|eot_id|> is a token."),
    )
    assert example.units[0].index_text == "User: I like coffee. Assistant: Noted."
    assert example.choices[2].text == "Water,\nno gas." and example.references == ("It's coffee.",)
    assert example.notes == {"topic": "food"} and example.question == "User: What should I drink?"


def test_messages_before_any_system_message_are_a_block_of_their_own(tmp_path: Path) -> None:
    contexts = [{"ctx": MESSAGES[1:4]}]
    (example,) = read(write(tmp_path, row(), contexts=contexts))
    assert [[turn.role for turn in unit.turns] for unit in example.units] == [["user", "assistant"], ["system"]]
    assert example.units[1].index_text == "Current user persona: Ada, older."
    assert example.notes["end_index_clamped"] == [5, 3]


def test_questions_of_one_history_stand_together(tmp_path: Path) -> None:
    ends = ["5", "3", "9", "5", "6", "3"]
    rows = [row(question_id=f"q{i}", end_index_in_shared_context=end) for i, end in enumerate(ends)]
    rows.insert(1, row(question_id="other", shared_context_id="ctx2"))
    contexts: list[dict[str, Any]] = [{"ctx": MESSAGES}, {"ctx2": MESSAGES[:4]}, {"unused": "never parsed"}]
    examples = read(write(tmp_path, *rows, contexts=contexts))
    assert [example.id for example in examples] == ["q0", "q3", "other", "q1", "q5", "q2", "q4"]
    histories = [key for key, _ in groupby(example.history_id for example in examples)]
    assert len(histories) == len(set(histories)) == 4
    assert examples[0].units is examples[1].units and examples[5].units is examples[6].units


def test_a_second_option_with_the_gold_text_is_noted(tmp_path: Path) -> None:
    options = ["(a) Tea.", "(b) Coffee.", "(c) Coffee.", "(d) coffee."]
    (example,) = read(write(tmp_path, row(all_options=repr(options))))
    assert example.gold_choice == "b" and example.notes["equivalent_choices"] == ["c"]


def test_options_may_be_dealt_anew(tmp_path: Path) -> None:
    folder = write(tmp_path, *(row(question_id=f"q{i}") for i in range(30)))
    published, dealt = read(folder), read(folder, shuffle_options=5)
    assert dealt == read(folder, shuffle_options=5) != read(folder, shuffle_options=6)
    assert {example.gold_choice for example in dealt} == set("abcd")
    for before, after in zip(published, dealt, strict=True):
        assert after.references == before.references == ("It's coffee.",)
        assert [choice.label for choice in after.choices] == list("abcd")
        assert {choice.text for choice in after.choices} == {choice.text for choice in before.choices}
        assert {c.label: c.text for c in after.choices}[after.gold_choice or ""] == "It's coffee."
        shown = ast.literal_eval(after.question_prompt.split("\n\n")[-1])
        assert shown == [f"({choice.label}) {choice.text}" for choice in after.choices]


def test_a_limit_is_a_seeded_sample(tmp_path: Path) -> None:
    folder = write(tmp_path, *(row(question_id=f"q{i:02}") for i in range(30)))
    sample = [example.id for example in read(folder, limit=8, shuffle_seed=0)]
    assert len(sample) == 8 and sample != [example.id for example in read(folder, limit=8)]
    assert [example.id for example in read(folder, limit=8)] == [f"q{i:02}" for i in range(8)]
    assert set(sample) < {example.id for example in read(folder, limit=16, shuffle_seed=0)}


def test_contexts_of_questions_left_out_are_not_needed(tmp_path: Path) -> None:
    folder = write(tmp_path, row(), row(question_id="q2", shared_context_id="gone"))
    assert len(read(folder, limit=1)) == 1
    with pytest.raises(
        DataError, match=r"row 2 \(question_id q2\): field 'shared_context_id' is 'gone', which is not in"
    ):
        read(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"question_id": ""}, r"row 2: field 'question_id' is empty"),
        ({"question_id": "q1"}, r"row 2: the id 'q1' stands twice"),
        ({"correct_answer": "b"}, r"row 2 \(question_id q2\): field 'correct_answer' is 'b', wanted \(a\)"),
        ({"correct_answer": "(e)"}, r"field 'correct_answer' is '\(e\)'"),
        ({"all_options": "not python"}, r"field 'all_options' is not a Python list of str"),
        ({"all_options": "'(a) x'"}, r"field 'all_options' is not a list of four replies"),
        ({"all_options": repr(OPTIONS[:3])}, r"field 'all_options' is not a list of four replies \(a\) to \(d\)"),
        ({"all_options": repr(OPTIONS[::-1])}, r"field 'all_options' is not a list of four replies"),
        ({"all_options": repr([*OPTIONS[:3], 4])}, r"field 'all_options' is not a list of four replies"),
        ({"end_index_in_shared_context": "0"}, r"field 'end_index_in_shared_context' is 0: no message"),
        (
            {"end_index_in_shared_context": "all"},
            r"field 'end_index_in_shared_context' is 'all' \(str\), wanted an int",
        ),
        ({"shared_context_id": ""}, r"field 'shared_context_id' is empty"),
        ({"persona_id": ""}, r"field 'persona_id' is empty"),
        ({"user_question_or_message": " "}, r"field 'user_question_or_message' is empty"),
    ],
)
def test_bad_rows_name_file_row_and_field(tmp_path: Path, changes: dict[str, str], message: str) -> None:
    with pytest.raises(DataError, match=rf"questions_128k\.csv: .*{message}"):
        read(write(tmp_path, row(), row(**{"question_id": "q2", **changes})))


@pytest.mark.parametrize("column", COLUMNS)
def test_a_missing_column_is_named(tmp_path: Path, column: str) -> None:
    rows = row()
    del rows[column]
    with pytest.raises(DataError, match=rf"questions_128k\.csv: row 1: columns missing: {column}; found: "):
        read(write(tmp_path, rows))


def test_version_2_is_refused_by_its_columns(tmp_path: Path) -> None:
    v2 = {"persona_id": "0", "chat_history_32k_link": "x", "user_query": "{}", "incorrect_answers": "[]"}
    with pytest.raises(DataError, match=r"this is PersonaMem v2 \(column chat_history_32k_link\).*wanted v1"):
        read(write(tmp_path, v2))


@pytest.mark.parametrize(
    ("contexts", "message"),
    [
        ([{"ctx": "text"}], r"line 1: field 'ctx' is str, wanted a list"),
        ([{"ctx": ["text"]}], r"line 1: field 'ctx\[0\]' is str, wanted an object"),
        ([{"ctx": [message("tool", "x")]}], r"line 1, ctx\[0\]: field 'role' is 'tool', wanted one of system"),
        ([{"ctx": [{"role": "user"}]}], r"line 1, ctx\[0\]: field 'content' is missing"),
        ([{"ctx": MESSAGES}, {"ctx": MESSAGES}], r"line 2: the context 'ctx' stands twice"),
    ],
)
def test_bad_contexts_name_file_line_and_message(tmp_path: Path, contexts: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(DataError, match=rf"shared_contexts_128k\.jsonl: {message}"):
        read(write(tmp_path, row(), contexts=contexts))


def test_a_context_without_messages_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"field 'end_index_in_shared_context' is 5: no message of the context is left"):
        read(write(tmp_path, row(), contexts=[{"ctx": []}]))


def test_files_are_found_by_size_and_beside_each_other(tmp_path: Path) -> None:
    write(tmp_path, row(), size="32k")
    assert len(read(tmp_path, size="32k")) == len(read(tmp_path / "questions_32k.csv", size="32k")) == 1
    with pytest.raises(AssetError, match=r"dataset\.personamem_128k\.path=.*none of questions_128k\.csv"):
        read(tmp_path)
    (tmp_path / "shared_contexts_32k.jsonl").rename(tmp_path / "elsewhere.jsonl")
    with pytest.raises(
        AssetError, match=r"dataset\.personamem_32k\.contexts_path=.*none of shared_contexts_32k\.jsonl"
    ):
        read(tmp_path, size="32k")
    assert len(read(tmp_path, size="32k", contexts_path=str(tmp_path / "elsewhere.jsonl"))) == 1


def test_both_files_come_from_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, row())
    asked = []

    def download(hub_id: str, *, filename: str, **kwargs: object) -> str:
        asked.append((hub_id, filename))
        return str(tmp_path / filename)

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    assert list(PersonaMem().examples(len)) == read(tmp_path)
    names = ["questions_128k.csv", "shared_contexts_128k.jsonl"]
    assert asked == [("bowen-upenn/PersonaMem-v1", name) for name in names]


def test_the_fingerprint_is_of_both_files(tmp_path: Path) -> None:
    folder = write(tmp_path, row())
    digests = [
        hashlib.sha256((folder / f).read_bytes()).hexdigest()
        for f in ("questions_128k.csv", "shared_contexts_128k.jsonl")
    ]
    before = PersonaMem(path=str(folder)).fingerprint()
    assert before == hashlib.sha256("\n".join(digests).encode()).hexdigest()
    write(tmp_path, row(), contexts=[{"ctx": MESSAGES[:4]}])
    assert PersonaMem(path=str(folder)).fingerprint() != before


def test_bad_settings_name_their_key() -> None:
    with pytest.raises(ConfigError, match=r"size='64k': wanted one of 32k, 128k, 1M"):
        PersonaMem(size="64k")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"dataset\.personamem_128k\.limit=0"):
        PersonaMem(limit=0)
