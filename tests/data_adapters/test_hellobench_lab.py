"""The made records: in the published schema, the same in every process, and small."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from data_adapters.hellobench.lab import HelloLab


def words(text: str) -> int:
    return len(text.split())


def test_the_file_has_the_published_fields(tmp_path: Path, samples: Path) -> None:
    lab = HelloLab(records=6, folder=str(tmp_path))
    rows = [json.loads(line) for line in lab.write().read_text(encoding="utf-8").splitlines()]
    published = json.loads((samples / "hellobench" / "text_completion.jsonl").read_text().splitlines()[0])
    for row in rows:
        assert list(row) == list(published)
        entries = json.loads(row["formatted_checklists"])
        assert [entry["checklist_content"] for entry in entries] == row["checklists"]
        assert row["num_checklist"] == len(row["checklists"])
        assert row["instruction"].count(row["raw_text"]) == 1
    assert Counter(row["category"] for row in rows) == {"report": 2, "news": 2, "long_dialogue": 2}


def test_examples_are_the_adapters_own_with_another_closing(tmp_path: Path) -> None:
    plain = list(HelloLab(records=3, paragraphs=7, folder=str(tmp_path)).examples(words))
    asked = list(HelloLab(records=3, paragraphs=7, prompt="Sum it up.", folder=str(tmp_path)).examples(words))
    for one, other in zip(plain, asked, strict=True):
        assert len(one.units) == 7 and one.units == other.units and one.checklist == other.checklist
        assert "[Requirements]" in one.question_prompt
        assert (other.question, other.question_prompt) == ("Sum it up.", "\n[Text End]\nSum it up.")
        assert len(one.checklist) == (7 if one.question_type == "long_dialogue" else 6)
    assert len({one.history_id for one in plain}) == 3


def test_settings_and_seed_decide_every_byte(tmp_path: Path) -> None:
    def content(**settings: int) -> bytes:
        return HelloLab(folder=str(tmp_path / "a"), **settings).write().read_bytes()  # type: ignore[arg-type]

    assert content(seed=0) == HelloLab(seed=0, folder=str(tmp_path / "b")).write().read_bytes()
    assert len({content(seed=0), content(seed=1), content(paragraphs=9), content(records=2)}) == 4
    lab = HelloLab(folder=str(tmp_path / "a"))
    assert lab.write().name == f"summarization-{lab.fingerprint()[:16]}.jsonl"
    assert content(records=40).startswith(content(records=2))
