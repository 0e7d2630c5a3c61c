"""The made questions: real files of two schemas, a passage that misleads, and nothing that depends on chance."""

from __future__ import annotations

import hashlib
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from data_adapters.multi_hop.hotpotqa import HotpotQA
from data_adapters.multi_hop.lab.adapter import SCHEMAS, MultiHopLab
from data_adapters.multi_hop.lab.tales import tales
from data_adapters.multi_hop.lab.words import COUNTIES, INSTRUMENTS, TOWNS
from data_adapters.multi_hop.musique import MuSiQue
from data_adapters.multi_hop.passages import answer_teller
from data_adapters.multi_hop.recognise import dataset_of
from kvrelay.backend.prompt import PromptRenderer
from kvrelay.core.errors import ConfigError


def lab(folder: Path, schema: Any, **changes: Any) -> MultiHopLab:
    return MultiHopLab(schema=schema, folder=str(folder), **{"questions": 12, **changes})


@pytest.mark.parametrize("schema", SCHEMAS)
def test_the_real_adapters_read_the_files(tmp_path: Path, schema: str) -> None:
    made = lab(tmp_path, schema)
    examples = list(made.examples(len))
    assert dataset_of(made.write()) == schema
    assert len(examples) == 36 and len({example.cluster_id for example in examples}) == 12
    assert all(len(example.units) == 8 and len(example.references) == 1 for example in examples)
    kinds = {"hotpotqa": {"bridge", "comparison"}, "musique": {"2hop", "3hop"}}[schema]
    assert {example.question_type for example in examples} == kinds
    reader = (HotpotQA if schema == "hotpotqa" else MuSiQue)(path=str(made.write()), deletion="similar")
    assert list(reader.examples(len)) == examples


@pytest.mark.parametrize("schema", SCHEMAS)
def test_what_is_deleted_misleads(tmp_path: Path, schema: str) -> None:
    """It names what the question names, gives the question another answer of its kind, and not the right one."""
    for plan in lab(tmp_path, schema).reader().deletions():
        question, gone = plan.question, plan.question.passages[plan.deleted]
        assert not answer_teller(question.references)(gone)
        if question.type == "comparison":
            assert "was opened in" in gone.text
            continue
        work = question.passages[question.supporting[0]].title
        works = [p.title for p in question.passages if p.supporting]
        assert any(gone.title.startswith(f"{title} (") for title in [work, *works])
        assert "A local guide says" in gone.text


@pytest.mark.parametrize("schema", SCHEMAS)
def test_the_support_leads_from_question_to_answer(schema: str) -> None:
    for tale in tales(schema, 24, 8, seed=3):
        support = sorted((p for p in tale.paragraphs if p.step is not None), key=lambda p: p.step or 0)
        assert [p.step for p in support] == list(range(len(tale.steps)))
        for paragraph, (_, answer) in zip(support, tale.steps, strict=True):
            assert answer in " ".join(paragraph.sentences)
        if tale.type == "comparison":
            years = {p.title: int(tale.steps[p.step or 0][1]) for p in support}
            assert tale.answer == min(years, key=lambda title: years[title])
        else:
            assert tale.answer == tale.steps[-1][1] and support[0].title in tale.question
            assert all(a.title in " ".join(b.sentences) for a, b in zip(support[1:], support, strict=False))
        others = [p for p in tale.paragraphs if p.step is None]
        if tale.type == "bridge":
            assert not any(tale.answer in " ".join((p.title, *p.sentences)) for p in others)


def test_the_comparisons_misleading_third_was_opened_before_both() -> None:
    tale = next(tale for tale in tales("hotpotqa", 4, 8, seed=0) if tale.type == "comparison")
    years = [int(s.split()[-1].strip(".")) for p in tale.paragraphs for s in p.sentences if "was opened in" in s]
    assert len(years) == 3 and sorted(years)[1] == min(int(year) for _, year in tale.steps)


def test_no_value_stands_inside_another() -> None:
    for pool in (TOWNS, COUNTIES, INSTRUMENTS):
        assert not any(a in b or b in a for a, b in combinations(pool, 2))


@pytest.mark.parametrize("schema", SCHEMAS)
def test_bytes_follow_from_the_settings(tmp_path: Path, schema: str) -> None:
    first, again = lab(tmp_path / "a", schema), lab(tmp_path / "b", schema)
    assert first.write().read_bytes() == again.write().read_bytes() and first.fingerprint() == again.fingerprint()
    before = first.write().stat().st_mtime_ns
    list(first.examples(len))
    assert first.write().stat().st_mtime_ns == before and len(list((tmp_path / "a").iterdir())) == 1
    changes: list[dict[str, Any]] = [{"seed": 1}, {"questions": 13}, {"passages": 9}]
    marks = {lab(tmp_path, schema, **change).fingerprint() for change in changes}
    assert len(marks | {first.fingerprint()}) == 4
    assert all(len(mark) == len(hashlib.sha256().hexdigest()) for mark in marks)


def test_a_prompt_of_its_own(tmp_path: Path) -> None:
    shown = next(lab(tmp_path, "musique", prompt="Asked: {question} Short.").examples(len))
    assert shown.question_prompt == f"Asked: {shown.question} Short."


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"passages": 5}, "passages"),
        ({"passages": 13}, "passages"),
        ({"questions": 0}, "questions"),
        ({"prompt": "x"}, "prompt"),
    ],
)
def test_settings_out_of_range_are_named(tmp_path: Path, change: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError, match=rf"dataset\.lab_musique\.{key}="):
        lab(tmp_path, "musique", **change)


def test_passages_have_the_length_of_a_small_context(tmp_path: Path, renderer: PromptRenderer) -> None:
    sizes = [renderer.count(unit.text) for e in lab(tmp_path, "hotpotqa").examples(len) for unit in e.units]
    assert min(sizes) >= 25 and max(sizes) <= 90
