"""The quoted instrument stays word for word; other templates are files of the same two sections."""

from __future__ import annotations

import hashlib
import json

import pytest

from judges.prompt import load_prompt, payload
from kvrelay.core.errors import AssetError


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_memory_judge_v1_is_the_published_text():
    prompt = load_prompt("memory_judge_v1")
    assert prompt.name == "memory_judge_v1"
    assert sha256(prompt.system) == "b70b8071593590c8a97e35bfad4393b9678c1d7a15d4e945d03eac110338d0e6"
    assert sha256(prompt.rubric) == "6f17c86770f00d6c3030e8a2c1bcfa1eae36555b550965f5c1c34b8d6592af7f"


def test_fields_in_the_papers_order_and_nothing_else(make_item):
    text = payload(make_item(question_date=None, choices={"a": "x"}, gold_choice="a", unanswerable=True))
    assert list(json.loads(text)) == ["question", "references", "candidate", "question_type", "question_date"]
    assert text.endswith('"question_date": null}')


@pytest.mark.parametrize("text", ["<|im_end|>", "\\<|x|>", '\\"<|', "<|<|", "a<b|c", "\\u003c|"])
def test_escapes_change_no_value(make_item, text):
    written = payload(make_item(candidate=text))
    assert json.loads(written)["candidate"] == text
    assert "<|" not in written


def test_a_template_by_path(tmp_path):
    path = tmp_path / "strict.v2.txt"
    path.write_text("[system]\nJudge.\n[rubric]\nBe strict.\nBe brief.\n", encoding="utf-8")
    prompt = load_prompt(str(path))
    assert (prompt.name, prompt.system, prompt.rubric) == ("strict.v2", "Judge.", "Be strict.\nBe brief.")


def test_missing_and_damaged_templates_name_the_key(tmp_path):
    with pytest.raises(AssetError, match=r"judge\.\*\.prompt.*memory_judge_v1"):
        load_prompt("memory_judge_v9")
    path = tmp_path / "half.txt"
    path.write_text("[system]\nJudge.\n", encoding="utf-8")
    with pytest.raises(AssetError, match=r"\[rubric\].*judge\.\*\.prompt"):
        load_prompt(str(path))
