"""The adapter: what it writes once, what the published sets' adapters read from it, and what it refuses."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from data_adapters.memory_lab.adapter import MemoryLab, _install
from data_adapters.memory_lab.columns import SCHEMAS, files
from kvrelay.core.errors import ConfigError
from kvrelay.core.example import Example

ROOT = Path(__file__).parents[2]


def words(text: str) -> int:
    return len(text.split())


def quarters(text: str) -> int:
    return len(text) // 4


def lab(folder: Path, schema: Any, **changes: Any) -> MemoryLab:
    given = {"histories": 4, "history_tokens": 600, "questions_per_history": 3, "seed": 5, **changes}
    return MemoryLab(schema=schema, folder=str(folder), **given)


def content(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


@pytest.mark.parametrize("schema", SCHEMAS)
def test_the_published_adapters_read_what_is_written(tmp_path: Path, schema: str) -> None:
    examples = list(lab(tmp_path, schema).examples(words))
    assert len(examples) == 12 and len({example.id for example in examples}) == 12
    assert [len(list(group)) for _, group in groupby(examples, key=lambda e: e.history_id)] == [3] * 4
    assert all(example.cluster_id == example.history_id and example.references for example in examples)
    assert all(example.question in example.question_prompt for example in examples)


def test_longmemeval_evidence_reaches_the_units(tmp_path: Path) -> None:
    for example in lab(tmp_path, "longmemeval", histories=8).examples(words):
        marked = [unit for unit in example.units if unit.evidence]
        assert any(example.references[0] in unit.text for unit in marked)
        assert not any(example.references[0] in unit.text for unit in example.units if not unit.evidence)


def test_unanswerable_questions_are_known_as_such(tmp_path: Path) -> None:
    examples = list(lab(tmp_path, "longmemeval", histories=10, unanswerable_every=10).examples(words))
    assert [example.unanswerable for example in examples] == [number % 10 == 0 for number in range(1, 31)]


def test_rubrics_are_absent_unless_asked_for(tmp_path: Path) -> None:
    def rubrics(**changes: int) -> int:
        examples = lab(tmp_path, "longmemeval", histories=10, **changes).examples(words)
        return Counter(example.question_type for example in examples)["single-session-preference"]

    assert rubrics() == 0
    assert rubrics(preference_every=6) == 5


def test_choices_carry_the_right_letter(tmp_path: Path) -> None:
    examples = list(lab(tmp_path, "personamem").examples(words))
    assert Counter(example.gold_choice for example in examples) == {"a": 3, "b": 3, "c": 3, "d": 3}
    for example in examples:
        assert {choice.label: choice.text for choice in example.choices}[
            example.gold_choice or ""
        ] in example.references
        assert "options_shown" not in example.notes


@pytest.mark.parametrize("schema", SCHEMAS)
def test_the_same_settings_give_the_same_bytes_in_any_process(tmp_path: Path, schema: str) -> None:
    script = (
        "import sys; from data_adapters.memory_lab.adapter import MemoryLab; "
        "lab = MemoryLab(schema=sys.argv[1], folder=sys.argv[2], histories=4, history_tokens=600, "
        "questions_per_history=3, seed=5); print(lab.fingerprint(), lab.write(lambda text: len(text.split())))"
    )
    said = []
    for hash_seed in ("1", "2"):
        folder = tmp_path / hash_seed
        env = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
        out = subprocess.run(
            [sys.executable, "-c", script, schema, str(folder)], env=env, capture_output=True, text=True, check=True
        )
        fingerprint, target = out.stdout.split()
        said.append((fingerprint, Path(target).name, content(Path(target))))
    here = lab(tmp_path / "here", schema)
    assert said == [(here.fingerprint(), here.write(words).name, content(here.write(words)))] * 2


@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize(
    "change", [{"seed": 6}, {"histories": 5}, {"history_tokens": 640}, {"questions_per_history": 2}], ids=str
)
def test_other_settings_give_other_data_in_another_folder(tmp_path: Path, schema: str, change: dict[str, int]) -> None:
    one, other = lab(tmp_path, schema), lab(tmp_path, schema, **change)
    assert one.fingerprint() != other.fingerprint()
    assert one.write(words) != other.write(words)
    assert content(one.write(words)) != content(other.write(words))


def test_another_tokenizer_has_its_own_files(tmp_path: Path) -> None:
    made = lab(tmp_path, "longmemeval", history_tokens=800)
    assert made.write(words) != made.write(quarters)
    assert len(list(tmp_path.iterdir())) == 2


def test_more_histories_leave_the_first_ones_as_they_were(tmp_path: Path) -> None:
    few = [example.history_id for example in lab(tmp_path, "longmemeval", histories=3).examples(words)]
    many = [example.history_id for example in lab(tmp_path, "longmemeval", histories=6).examples(words)]
    assert many[: len(few)] == few


def test_files_are_written_once_and_nothing_else_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = lab(tmp_path, "personamem")
    target = made.write(words)
    assert sorted(path.name for path in target.iterdir()) == ["questions_32k.csv", "shared_contexts_32k.jsonl"]
    before = content(target)
    monkeypatch.setattr("data_adapters.memory_lab.adapter.files", lambda *_: pytest.fail("written twice"))
    assert made.write(words) == target
    assert content(target) == before
    assert list(tmp_path.iterdir()) == [target]


def test_a_broken_writer_leaves_no_half_made_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> dict[str, bytes]:
        raise OSError("disk full")

    monkeypatch.setattr("data_adapters.memory_lab.adapter.files", broken)
    with pytest.raises(OSError, match="disk full"):
        lab(tmp_path, "personamem").write(words)
    assert list(tmp_path.iterdir()) == []


def test_the_second_of_two_writers_keeps_the_first_ones_files(tmp_path: Path) -> None:
    fresh, target = tmp_path / "fresh", tmp_path / "target"
    for folder, text in ((fresh, "second"), (target, "first")):
        folder.mkdir()
        (folder / "file").write_text(text)
    _install(fresh, target)
    assert (target / "file").read_text() == "first"
    with pytest.raises(OSError):
        _install(tmp_path / "absent", tmp_path / "nowhere")


def test_the_prompt_replaces_what_follows_the_history_and_nothing_else(tmp_path: Path) -> None:
    plain = list(lab(tmp_path, "longmemeval").examples(words))
    asked = list(lab(tmp_path, "longmemeval", prompt="On {date}: {question} Be brief.").examples(words))
    for before, after in zip(plain, asked, strict=True):
        assert after.question_prompt == f"On {before.question_date}: {before.question} Be brief."
        assert _but_prompt(before) == _but_prompt(after)


@pytest.mark.parametrize(("prompt", "shown"), [("{question}", False), ("{question}\n{options}\nLetter:", True)])
def test_a_prompt_says_whether_it_shows_the_options(tmp_path: Path, prompt: str, shown: bool) -> None:
    for example in lab(tmp_path, "personamem", prompt=prompt).examples(words):
        assert example.notes["options_shown"] is shown
        assert all((f"({c.label}) {c.text}" in example.question_prompt) is shown for c in example.choices)


def _but_prompt(example: Example) -> tuple[object, ...]:
    return (example.id, example.history_id, example.question, example.references, example.units, example.notes)


@pytest.mark.parametrize(
    ("schema", "change", "named"),
    [
        ("longmemevil", {}, "schema"),
        ("longmemeval", {"histories": 0}, "dataset.lab_longmemeval.histories=0"),
        ("personamem", {"history_tokens": -1}, "dataset.lab_personamem.history_tokens=-1"),
        ("personamem", {"questions_per_history": 0}, "questions_per_history=0"),
        ("personamem", {"unanswerable_every": 10}, "unanswerable_every=10"),
        ("long_mt_bench_plus", {"preference_every": 3}, "preference_every=3"),
        ("longmemeval", {"unanswerable_every": -1}, "unanswerable_every=-1"),
        ("longmemeval", {"prompt": "{queston}"}, "dataset.lab_longmemeval.prompt"),
        ("longmemeval", {"prompt": "Answer."}, "dataset.lab_longmemeval.prompt"),
    ],
)
def test_wrong_settings_are_named(tmp_path: Path, schema: str, change: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        lab(tmp_path, schema, **change)


def test_token_counts_change_only_the_small_talk(tmp_path: Path) -> None:
    """Another tokenizer's files ask the same questions: fingerprints need no tokenizer."""
    made = lab(tmp_path, "long_mt_bench_plus", history_tokens=900)
    one, other = (list(made.examples(count)) for count in (words, quarters))
    assert [(e.question, e.references) for e in one] == [(e.question, e.references) for e in other]
    assert {e.history_id for e in one}.isdisjoint(e.history_id for e in other)
    assert set(files(made._recipe, words)) == {"long_mt_bench_plus.jsonl"}
