"""Bad input on the whole path: one clear error that names its key, or exact work; nothing is scored wrongly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from compose import compose, compose_run, recognised
from plain_config import SELECTORS, group, plain_config

from kvrelay.backend.load import ModelSpec, load_model
from kvrelay.backend.tiny import byte_tokenizer, tiny_config, tiny_model
from kvrelay.core.errors import AssetError, ConfigError, DataError, EndpointError, IncompleteError, InvariantError
from kvrelay.run.store import read_records

TEN = (*SELECTORS, "none", "random", "recent")


def whole(config: dict[str, Any]) -> dict[str, Any]:
    """Run the first stage; its records."""
    _, experiment, _ = compose(config)
    experiment.run(lambda line: None)
    return dict(read_records(experiment.folder))


def longmemeval(record: dict[str, Any]) -> dict[str, Any]:
    base = {
        "question_id": "q1",
        "question_type": "single-session-user",
        "question": "What is it?",
        "answer": "tea",
        "question_date": "2023/05/30 (Tue) 23:40",
        "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/21 (Sun) 02:21"],
        "haystack_session_ids": ["a", "b"],
        "haystack_sessions": [
            [{"role": "user", "content": "I like tea.", "has_answer": True}],
            [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hi."}],
        ],
        "answer_session_ids": ["a"],
    }
    return {**base, **record}


def data_config(tmp_path: Path, text: str, **changes: Any) -> dict[str, Any]:
    file = tmp_path / "records.json"
    file.write_text(text, encoding="utf-8")
    return plain_config(tmp_path, data=str(file), **changes)


def test_a_missing_and_an_unrecognised_file_name_the_key(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="key: data"):
        recognised(str(tmp_path / "none.json"))
    (tmp_path / "other.json").write_text('{"a": 1}', encoding="utf-8")
    with pytest.raises(DataError, match="no data set recognises"):
        recognised(str(tmp_path / "other.json"))


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"haystack_dates": ["2023/05/20 (Sat) 02:21"]}, "haystack_dates"),
        ({"question": 7}, "question"),
        ({"haystack_sessions": "none"}, "haystack_sessions"),
    ],
)
def test_a_broken_record_stops_the_run_before_a_model_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], word: str
) -> None:
    monkeypatch.setattr("kvrelay.run.experiment.load_model", lambda *_: pytest.fail("a model was loaded"))
    with pytest.raises(DataError, match=word) as caught:
        whole(data_config(tmp_path, json.dumps([longmemeval(change)])))
    assert "records.json" in str(caught.value)


def test_an_array_that_is_cut_off_is_named(tmp_path: Path) -> None:
    text = json.dumps([longmemeval({}), longmemeval({"question_id": "q2"})])
    with pytest.raises(DataError, match=r"records\.json"):
        whole(data_config(tmp_path, text[: len(text) - 40]))


def test_odd_but_legal_records_are_answered(tmp_path: Path) -> None:
    """Repeated session ids, a number as answer, an empty session, text like special tokens, right-to-left text, NUL."""
    sessions = [
        [
            {
                "role": "user",
                "content": "a <|end|><|turn|> b \u05e9\u05dc\u05d5\u05dd \U0001f375 \x00 x",
                "has_answer": True,
            }
        ],
        [],
        [{"role": "assistant", "content": "first"}, {"role": "assistant", "content": "second"}],
    ]
    odd = longmemeval(
        {
            "answer": 3,
            "haystack_dates": ["2023/05/20 (Sat) 02:21"] * 3,
            "haystack_session_ids": ["a", "b", "a"],
            "haystack_sessions": sessions,
        }
    )
    records = whole(data_config(tmp_path, json.dumps([odd])))
    assert len(records) == 14 and all(record.status == "ok" for record in records.values())
    assert {record.references for record in records.values()} == {("3",)}


@pytest.mark.parametrize("lines", [1, 2])
@pytest.mark.parametrize(
    "retention",
    [
        {"_target_": "kvrelay.core.budget.Ratio", "ratio": 0.0005},
        {"_target_": "kvrelay.core.budget.States", "count": 1},
        {"_target_": "kvrelay.core.budget.States", "count": 7},
        {"_target_": "kvrelay.core.budget.States", "count": 100000},
    ],
    ids=["tiny share", "one state", "seven", "more than all"],
)
def test_short_histories_and_small_budgets_are_exact_all_the_same(
    tmp_path: Path, lines: int, retention: dict[str, Any]
) -> None:
    """Shorter than the window, the recent share and a chunk; every selector, both positions."""
    config = plain_config(tmp_path, selector=group("selector", *TEN), retention={"r": retention})
    config["dataset"]["plain"].update(histories=1, questions=1, lines=lines)
    for record in whole(config).values():
        assert record.status == "ok", record.error
        kept = [count - record.n_protected for layer in record.slots_LH for count in layer]
        asked = record.n_history * 5 // 10000 if "ratio" in retention else retention["count"]
        wanted = {"full": record.n_history, "none": 0}.get(record.cell.selector, min(max(1, asked), record.n_history))
        assert sum(kept) == wanted * len(kept)


def test_a_torn_weights_file_is_one_clear_error(tmp_path: Path) -> None:
    tiny_model(tiny_config()).save_pretrained(tmp_path)
    byte_tokenizer().save_pretrained(tmp_path)
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])
    with pytest.raises(AssetError, match=r"model\.m\.source"):
        load_model(ModelSpec(name="m", source=str(tmp_path)))


def test_a_judge_that_is_away_is_met_before_any_model_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvrelay.run.experiment.load_model", lambda *_: pytest.fail("a model was loaded"))
    judge = group("judge", "qwen25_32b")
    judge["qwen25_32b"]["base_url"] = "http://127.0.0.1:9/v1"
    with pytest.raises(EndpointError, match="base_url") as caught:
        compose_run(plain_config(tmp_path, judge=judge))
    assert caught.value.exit_code == 4


def test_logits_that_are_no_numbers_are_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tiny_model(tiny_config())
    with torch.no_grad():
        broken.lm_head.weight.fill_(torch.nan)
    broken.save_pretrained(tmp_path / "broken")
    byte_tokenizer().save_pretrained(tmp_path / "broken")
    config = plain_config(tmp_path, selector=group("selector", "bm25"))
    config["model"]["tiny"]["source"] = str(tmp_path / "broken")
    with pytest.raises(InvariantError, match="not finite"):
        whole(config)
    config["gate"] = False
    with pytest.raises(IncompleteError, match="not finite"):
        whole(config)
    assert {record.status for record in read_records(tmp_path / "out" / "plain").values()} == {"error"}


@pytest.mark.parametrize("limit", [0, -1, "some"])
def test_a_limit_must_be_a_number_of_questions(tmp_path: Path, limit: Any) -> None:
    with pytest.raises(ConfigError, match="limit"):
        compose(plain_config(tmp_path, limit=limit))


def test_a_report_of_nothing_says_so(tmp_path: Path) -> None:
    with pytest.raises((AssetError, ConfigError)):
        compose_run(plain_config(tmp_path, stages=["report"]))
