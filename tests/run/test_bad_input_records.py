"""Records that are damaged, odd or empty, from the file to the report."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from compose import compose_run
from given_data import given
from plain_config import group, plain_config

from kvrelay.core.errors import AssetError, ConfigError, DataError, KVRelayError
from kvrelay.run.record import RunRecord
from kvrelay.run.store import read_records, read_verdicts

CONVERSATION = {
    "conversation_id": "c0",
    "sessions": [["[human]: My cup is blue.\n[bot]: Noted."], ["[human]: Hello.\n[bot]: Hi."]],
    "questions": ["What colour?"],
    "answers": ["blue"],
}
ROW = {
    "persona_id": "1",
    "question_id": "q1",
    "question_type": "recall",
    "topic": "food",
    "user_question_or_message": "What do I like?",
    "correct_answer": "(a)",
    "all_options": str(["(a) tea", "(b) milk", "(c) wine", "(d) beer"]),
    "shared_context_id": "x",
    "end_index_in_shared_context": "2",
}
CONTEXT = {"x": [{"role": "system", "content": "A persona."}, {"role": "user", "content": "I like tea."}]}


def config_of(tmp_path: Path, data: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """Two selectors; ``data`` takes the place of the data set."""
    config = plain_config(tmp_path, **{"selector": group("selector", "bm25", "snapkv"), **changes})
    if data is not None:
        config["dataset"] = {"g": data, "max_history_tokens": None}
    return config


def answered(config: dict[str, Any]) -> tuple[int, list[RunRecord]]:
    """The exit status of all stages, and the records."""
    status = compose_run(config)
    return status, list(read_records(Path(config["out"]) / "plain").values())


def refusal(config: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> KVRelayError:
    """The one error that stops a run before a model is loaded; no answer is on disk then."""
    monkeypatch.setattr("kvrelay.run.experiment.load_model", lambda *_: pytest.fail("a model was loaded"))
    with pytest.raises(KVRelayError) as caught:
        compose_run(config)
    assert read_records(Path(config["out"]) / "plain") == {}
    return caught.value


BROKEN = {
    "may be cut off": b'[{"haystack_sessions": [], "question_id": "q0", "ans',
    "NaN is no number of JSON": b'[{"haystack_sessions": NaN}]',
    "value has 6000 digits": b'[{"haystack_sessions": ' + b"9" * 6000 + b"}]",
    "brackets within brackets": b'[{"haystack_sessions": ' + b"[" * 100_000,
    "not UTF-8": b'[{"haystack_sessions": "caf\xe9"}]',
    "'question_id' is missing": b'{"haystack_sessions": []}',
    "is list, wanted an object": b'[[], "haystack_sessions"]',
}


@pytest.mark.parametrize("words", BROKEN)
def test_a_damaged_file_is_one_error_that_names_it(words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mine.json"
    file.write_bytes(BROKEN[words])
    error = refusal(config_of(tmp_path) | {"data": str(file)}, monkeypatch)
    assert isinstance(error, DataError) and error.exit_code == 3
    assert str(file) in str(error) and words in str(error)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", bytes(range(256))])
def test_a_file_that_holds_nothing_known_names_the_key(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mine.json"
    file.write_bytes(content)
    said = str(refusal(config_of(tmp_path) | {"data": str(file)}, monkeypatch))
    assert "no data set recognises it" in said and "dataset.NAME.path" in said


def test_a_missing_path_of_a_data_set_names_its_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = group("dataset", "longmemeval_s")["longmemeval_s"] | {"path": str(tmp_path / "gone.json")}
    config = config_of(tmp_path)
    config["dataset"] = {"longmemeval_s": part, "max_history_tokens": None}
    error = refusal(config, monkeypatch)
    assert isinstance(error, AssetError) and "dataset.longmemeval_s.path=" in str(error)


@pytest.mark.parametrize("data", ["", "  ", 3])
def test_data_that_is_no_path_names_the_key(data: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = refusal(config_of(tmp_path) | {"data": data}, monkeypatch)
    assert isinstance(error, ConfigError) and "data" in str(error)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"answers": []}, "'answers' has 0 entries for 1 questions"),
        ({"answers": [3]}, r"'answers\[0\]' is int"),
        ({"sessions": []}, "'sessions' holds no exchange"),
        ({"sessions": ["text"]}, r"'sessions\[0\]' is str, wanted a list"),
        ({"questions": [" "]}, r"'questions\[0\]' is empty"),
        ({"questions": [], "answers": []}, "gives no questions.*key: dataset.long_mt_bench_plus"),
    ],
)
def test_a_broken_conversation_names_file_record_and_field(
    change: dict[str, Any], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_text(json.dumps(CONVERSATION | change), encoding="utf-8")
    with pytest.raises(DataError, match=words):
        raise refusal(config_of(tmp_path) | {"data": str(file)}, monkeypatch)


def personas(folder: Path, row: dict[str, str], contexts: dict[str, Any] | None = None) -> str:
    with (folder / "questions_32k.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(ROW))
        writer.writeheader()
        writer.writerow(ROW | row)
    if contexts is not None:
        (folder / "shared_contexts_32k.jsonl").write_text(json.dumps(contexts), encoding="utf-8")
    return str(folder)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"shared_context_id": "y"}, "'shared_context_id' is 'y', which is not in"),
        ({"end_index_in_shared_context": "0"}, "no message of the context is left"),
        ({"end_index_in_shared_context": "--3"}, "'--3'.*wanted an int"),
        ({"end_index_in_shared_context": "9" * 5000}, "wanted an int"),
        ({"correct_answer": "(e)"}, "'correct_answer' is '\\(e\\)'"),
        ({"all_options": "['(a) tea'"}, "'all_options' is not a Python list"),
    ],
)
def test_a_broken_row_names_file_question_and_field(
    row: dict[str, str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "personas"
    folder.mkdir()
    with pytest.raises(DataError, match=words) as caught:
        raise refusal(config_of(tmp_path) | {"data": personas(folder, row, CONTEXT)}, monkeypatch)
    assert "row 1 (question_id q1)" in str(caught.value)


def test_questions_without_their_contexts_name_the_file_that_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "personas"
    folder.mkdir()
    error = refusal(config_of(tmp_path) | {"data": personas(folder, {})}, monkeypatch)
    assert isinstance(error, AssetError)
    assert "shared_contexts_32k.jsonl" in str(error) and "contexts_path" in str(error)


def test_a_reply_without_text_is_an_error_and_never_the_likeliest(tmp_path: Path) -> None:
    """The mean over the tokens of nothing would be 0: more likely than any reply."""
    config = config_of(tmp_path, given(replies=["blue", " "]), choice_by="texts")
    status, records = answered(config)
    assert status == 5 and records
    assert all(record.error and "reply without text" in record.error.message for record in records)
    status, records = answered(config | {"choice_by": "answer", "out": str(tmp_path / "letters")})
    assert status == 0 and {record.status for record in records} == {"ok"}


def test_an_empty_history_is_an_error_of_its_examples_alone(tmp_path: Path) -> None:
    config = config_of(tmp_path, given(texts=["", ""]))
    config["dataset"]["h"] = given()
    status, records = answered(config)
    failed = {record.cell.dataset for record in records if record.status == "error"}
    assert status == 5 and failed == {"g"}
    assert {record.status for record in records if record.cell.dataset == "h"} == {"ok"}


@pytest.mark.parametrize("reference", ["", "   ", "?!"])
def test_a_reference_of_nothing_is_unscored_and_never_false(reference: str, tmp_path: Path) -> None:
    status, records = answered(config_of(tmp_path, given(reference=reference)))
    assert status == 0 and {record.status for record in records} == {"ok"}
    verdicts = read_verdicts(tmp_path / "out" / "plain").values()
    assert {(verdict.correct, verdict.reason) for verdict in verdicts} == {(None, "no_reference")}
    if not reference:
        assert {record.reference_nll for record in records} == {None}


@pytest.mark.parametrize(
    "text",
    [
        "half \ud83d pair",
        "nul \x00 in it",
        "\u202e\u05e9\u05dc\u05d5\u05dd \U0001f469\u200d\U0001f467",
        "\ue0000\ue001",
    ],
    ids=["lone surrogate", "nul", "right to left", "marks"],
)
def test_any_characters_come_through_to_the_report(text: str, tmp_path: Path) -> None:
    data = given(texts=[text, text], questions=[f"{text}?", "plain?"], reference=text, prefix=text)
    status, records = answered(config_of(tmp_path, data))
    assert status == 0 and {record.status for record in records} == {"ok"}
    assert {record.question for record in records} == {f"{text}?", "plain?"}
    shown = json.loads((tmp_path / "out" / "plain" / "report" / "summary.json").read_text(encoding="utf-8"))
    assert {cell["n"] for cell in shown["cells"]} == {2}


def test_ids_may_repeat_between_data_sets_and_not_within_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of(tmp_path, given())
    config["dataset"]["h"] = given(texts=["My cup is red.\n"], reference="red")
    status, records = answered(config)
    assert status == 0
    assert len({record.key for record in records}) == len(records) == 2 * 5
    twice = config_of(tmp_path, given(questions=["a?", "b?"], numbered=False), out=str(tmp_path / "twice"))
    with pytest.raises(DataError, match=r"data set g: the example id 'e' comes twice"):
        raise refusal(twice, monkeypatch)
    nameless = config_of(tmp_path, given(cluster=""), out=str(tmp_path / "nameless"))
    with pytest.raises(DataError, match="no cluster_id"):
        raise refusal(nameless, monkeypatch)
