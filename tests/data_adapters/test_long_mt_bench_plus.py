"""Long-MT-Bench+ on the genuine conversation and on small ones made by hand."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest

from data_adapters.long_mt_bench_plus import LongMTBenchPlus
from kvrelay.core.errors import AssetError, ConfigError, DataError
from kvrelay.core.example import Example

GENUINE = "long_mt_bench_plus_1conversation_REAL_sessions_NO_gold_answers.jsonl"


def read(path: Path, **settings: Any) -> list[Example]:
    return list(LongMTBenchPlus(path=str(path), **settings).examples(len))


def conversation(id_: object = 4, n_questions: int = 2, **changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "conversation_id": id_,
        "sessions": [
            ["<Turn 0>: [human]: Hi.\n[bot]: Hello.", "<Turn 1>: [human]: What is 2+2?\n[bot]: 4\n[bot]: is a label"],
            ["[human]: Bye."],
        ],
        "turns": [["not read"]],
        "questions": [f"Q{i}?" for i in range(n_questions)],
        "answers": [f"A{i}." for i in range(n_questions)],
    }
    return {**base, **changes}


def write(folder: Path, *rows: dict[str, Any], name: str = "test.jsonl") -> Path:
    file = folder / name
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file


def test_the_genuine_conversation(samples: Path) -> None:
    file = samples / "long_mt_bench_plus" / GENUINE
    raw = json.loads(file.read_text(encoding="utf-8"))
    examples = read(file)
    assert [example.id for example in examples] == [f"{raw['conversation_id']}_{i}" for i in range(5)]
    assert {example.cluster_id for example in examples} == {str(raw["conversation_id"])}
    assert [example.question for example in examples] == raw["questions"]
    assert len({example.history_id for example in examples}) == 1
    assert all(example.references == () and example.notes["no_reference"] is True for example in examples)
    sizes = [sum(unit.id.startswith(f"{i}:") for unit in examples[0].units) for i in range(5)]
    assert sizes == [14, 14, 13, 13, 15] and len(examples[0].units) == 69
    for unit in examples[0].units:
        assert (
            re.match(r"\[human\]: \S", unit.text) and unit.text.endswith("\n\n") and unit.text.count("\n[bot]: ") == 1
        )
        assert "[bot]" not in unit.index_text and "[human]" not in unit.index_text and unit.index_text
    bare = "".join(
        re.sub(r"^<Turn \d+>: ", "", exchange) + "\n\n" for session in raw["sessions"] for exchange in session
    )
    assert "".join(unit.text for unit in examples[0].units) == bare


def test_exchanges_and_sessions_give_one_history(samples: Path) -> None:
    file = samples / "long_mt_bench_plus" / GENUINE
    by_exchange, by_session = read(file)[0].units, read(file, unit="session")[0].units
    assert [unit.id for unit in by_session] == ["0", "1", "2", "3", "4"]
    assert "".join(unit.text for unit in by_exchange) == "".join(unit.text for unit in by_session)
    assert " ".join(unit.index_text for unit in by_exchange) == " ".join(unit.index_text for unit in by_session)


def test_source_dialogues_are_another_schema(samples: Path) -> None:
    with pytest.raises(DataError, match=r"mtbenchplus_source_5\.json: record 0: field 'conversation_id' is missing"):
        read(samples / "long_mt_bench_plus" / "mtbenchplus_source_5.json")


def test_a_small_conversation_word_for_word(tmp_path: Path) -> None:
    first, second = read(write(tmp_path, conversation()))
    assert [(unit.id, unit.text, unit.index_text) for unit in first.units] == [
        ("0:0", "[human]: Hi.\n[bot]: Hello.\n\n", "Hi. Hello."),
        ("0:1", "[human]: What is 2+2?\n[bot]: 4\n[bot]: is a label\n\n", "What is 2+2? 4\n[bot]: is a label"),
        ("1:0", "[human]: Bye.\n\n", "Bye."),
    ]
    assert (first.id, first.references, first.notes) == ("4_0", ("A0.",), {})
    assert first.question_prompt == "Question: Q0?\nAnswer:" and first.preamble.endswith("\n\n")
    assert (second.id, second.units) == ("4_1", first.units) and second.units is first.units


@pytest.mark.parametrize("answers", [None, [None, "A1."], ["", "A1."], ["  ", "A1."]])
def test_missing_gold_is_no_reference(tmp_path: Path, answers: object) -> None:
    first, second = read(write(tmp_path, conversation(answers=answers)))
    assert first.references == () and first.notes == {"no_reference": True}
    assert second.references == (("A1.",) if answers else ())


def test_a_file_without_gold_at_all(tmp_path: Path) -> None:
    row = conversation()
    del row["answers"]
    assert [example.references for example in read(write(tmp_path, row))] == [(), ()]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"answers": ["only one"]}, r"field 'answers' has 1 entries for 2 questions"),
        ({"answers": [1, "A1."]}, r"field 'answers\[0\]' is int, wanted a str or null"),
        ({"questions": "Q?"}, r"field 'questions' is str, wanted a list"),
        ({"questions": ["Q?", ""]}, r"field 'questions\[1\]' is empty"),
        ({"sessions": [["a"], "b"]}, r"field 'sessions\[1\]' is str, wanted a list"),
        ({"sessions": [["a", {}]]}, r"field 'sessions\[0\]\[1\]' is dict, wanted a str"),
        ({"sessions": [[], []]}, r"field 'sessions' holds no exchange"),
        ({"sessions": None}, r"field 'sessions' is null, wanted a list"),
    ],
)
def test_bad_conversations_name_file_record_and_field(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    file = write(tmp_path, conversation(3), conversation(**changes))
    with pytest.raises(DataError, match=rf"test\.jsonl: line 2 \(conversation_id 4\): {message}"):
        read(file)


def test_missing_fields_repeated_ids_and_empty_files(tmp_path: Path) -> None:
    for key in ("conversation_id", "sessions", "questions"):
        row = conversation()
        del row[key]
        with pytest.raises(DataError, match=f"line 1.*field '{key}' is missing"):
            read(write(tmp_path, row))
    with pytest.raises(DataError, match=r"line 2: the id '4' stands twice in the file"):
        read(write(tmp_path, conversation(4), conversation("4")))
    with pytest.raises(DataError, match=r"test\.jsonl: the file is empty"):
        read(write(tmp_path))
    with pytest.raises(DataError, match="holds no conversations"):
        (tmp_path / "test.jsonl").write_text("[]")
        read(tmp_path)


def test_an_empty_session_adds_nothing(tmp_path: Path) -> None:
    rows = conversation(sessions=[[], ["[human]: a\n[bot]: b"]])
    assert [unit.id for unit in read(write(tmp_path, rows))[0].units] == ["1:0"]
    assert [unit.text for unit in read(tmp_path, unit="session")[0].units] == ["", "[human]: a\n[bot]: b\n\n"]


def test_subsets_of_questions(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = write(tmp_path, *(conversation(i, 9) for i in range(4)))
    with caplog.at_level(logging.INFO, logger="data_adapters"):
        equal = read(file, per_conversation=3, shuffle_seed=1)
    assert "12 of 36 questions about 4 conversations" in caplog.text
    assert [example.cluster_id for example in equal] == [str(i) for i in range(4) for _ in range(3)]
    assert [e.id for e in read(file, per_conversation=2)] == [f"{i}_{j}" for i in range(4) for j in range(2)]
    sample = [example.id for example in read(file, limit=10, shuffle_seed=1)]
    assert len(sample) == 10 and sample != [e.id for e in read(file, limit=10)] == [f"0_{j}" for j in range(9)] + [
        "1_0"
    ]
    assert {e.id for e in read(file, per_conversation=3, limit=5, shuffle_seed=1)} < {e.id for e in equal}


@pytest.mark.parametrize("name", ["long_mt_bench_plus.jsonl", "Long-MT-Bench-Plus.json", "mtbp.jsonl", "test.json"])
def test_a_folder_gives_the_file_under_any_of_its_names(tmp_path: Path, name: str) -> None:
    file = write(tmp_path, conversation(), name=name)
    if name.endswith(".json"):
        file.write_text(json.dumps([conversation()], indent=1))
    assert len(read(tmp_path)) == 2
    assert LongMTBenchPlus(path=str(tmp_path)).fingerprint() == hashlib.sha256(file.read_bytes()).hexdigest()


def test_parquet_from_a_copy_of_the_repository(tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    (tmp_path / "data").mkdir()
    rows = pyarrow.Table.from_pylist([conversation()])
    parquet.write_table(rows, tmp_path / "data" / "test-00000-of-00001.parquet")
    assert read(tmp_path) == read(write(tmp_path, conversation()))


def test_the_hub_gives_the_same_examples_as_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(hub_id: str, *, split: str, revision: str | None) -> list[dict[str, Any]]:
        assert (hub_id, split, revision) == ("panzs19/Long-MT-Bench-Plus", "test", "abc")
        return [conversation()]

    monkeypatch.setattr("datasets.load_dataset", load)
    adapter = LongMTBenchPlus(revision="abc")
    assert list(adapter.examples(len)) == read(write(tmp_path, conversation()))
    assert adapter.fingerprint() == adapter.fingerprint() and len(adapter.fingerprint()) == 64
    monkeypatch.setattr("datasets.load_dataset", lambda *args, **kwargs: [conversation(answers=["A0.", ""])])
    assert LongMTBenchPlus().fingerprint() != LongMTBenchPlus(path=str(tmp_path)).fingerprint()


def test_bad_settings_and_paths_name_their_key(tmp_path: Path) -> None:
    for settings in ({"unit": "turn"}, {"limit": 0}, {"per_conversation": -1}):
        (key,) = settings
        with pytest.raises(ConfigError, match=rf"dataset\.long_mt_bench_plus\.{key}="):
            LongMTBenchPlus(**settings)
    with pytest.raises(AssetError, match=r"dataset\.long_mt_bench_plus\.path=.*long_mt_bench_plus\.jsonl"):
        read(tmp_path)
