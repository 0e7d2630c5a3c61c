"""The cases: what is deleted and asked for, how long they are, where the records stand, and that chance is seeded."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from data_adapters.erasing_niah import vocabulary
from data_adapters.erasing_niah.adapter import ErasingNIAH
from data_adapters.erasing_niah.constructions import CONSTRUCTIONS, NAMES
from data_adapters.erasing_niah.filler import STOCK, Filler, stock
from kvrelay.core.errors import ConfigError
from kvrelay.core.example import Example

ROOT = Path(__file__).parents[2]
SHORTEST = min(len(sentence.split()) for sentence in vocabulary.SHORT)


def words(text: str) -> int:
    return len(text.split())


def cases(construction: Any = "explicit", **changes: Any) -> list[Example]:
    given = {"lengths": (200, 400), "cases_per_length": 4, "seed": 3, **changes}
    return list(ErasingNIAH(construction=construction, **given).examples(words))


def kept_text(example: Example) -> str:
    """The edited history."""
    return "".join(unit.text for unit in example.units if unit.id not in example.deleted)


def place(example: Example, name: str) -> int:
    return [unit.id for unit in example.units].index(name)


def test_every_construction_has_an_entry() -> None:
    assert set(CONSTRUCTIONS) == set(NAMES)


@pytest.mark.parametrize("construction", NAMES)
@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("gap", ["near", "far"])
def test_one_value_is_deleted_and_the_other_is_asked_for(construction: str, mirrored: bool, gap: str) -> None:
    for example in cases(construction, mirrored=mirrored, gap=gap):
        (kept,), erased = example.references, str(example.notes["erased_value"])
        assert example.deleted == ("erased",) and example.cluster_id == example.id
        assert example.question in example.question_prompt and kept not in example.question_prompt
        assert kept_text(example).count(kept) == 1
        if construction == "alias":
            assert erased in kept_text(example), "both rows of its table stay"
        else:
            assert erased in example.units[place(example, "erased")].text and erased not in kept_text(example)
        assert (place(example, "kept") < place(example, "erased")) is mirrored


@pytest.mark.parametrize("construction", sorted(set(NAMES) - {"alias"}))
def test_after_the_deletion_the_record_that_is_asked_for_stands_there_once(construction: str) -> None:
    """The question goes on as exactly one record of the edited text does, and as the deleted one did before."""
    for example in cases(construction):
        (kept,) = example.references
        whole = "".join(unit.text for unit in example.units)
        if construction != "update":
            assert kept_text(example).count(f"{example.question} {kept}") == 1
        assert whole.count(f"{example.question} {example.notes['erased_value']}") == 1


def test_an_alias_chooses_the_row_with_the_reference() -> None:
    for example in cases("alias"):
        hook = re.search(r"the (\w+) hook", example.units[place(example, "kept")].text)
        assert hook and f"The {hook[1]} hook holds pass number {example.references[0]}." in kept_text(example)
        gone = re.search(r"the (\w+) hook", example.units[place(example, "erased")].text)
        assert gone and f"The {gone[1]} hook holds pass number {example.notes['erased_value']}." in kept_text(example)


@pytest.mark.parametrize("construction", NAMES)
@pytest.mark.parametrize("count", [words, lambda text: -(-len(text) // 4)], ids=["words", "quarters"])
def test_lengths_are_those_of_the_edited_history(construction: Any, count: Any) -> None:
    data = ErasingNIAH(construction=construction, lengths=(200, 400, 800), cases_per_length=6)
    for example in data.examples(count):
        length = int(example.question_type.removeprefix("niah-"))
        edited = sum(count(unit.text) for unit in example.units if unit.id != "erased")
        assert edited == example.notes["edited_tokens"]
        assert length - 6 < edited <= length


@pytest.mark.parametrize("gap", ["near", "far"])
def test_records_stand_at_their_depths(gap: str) -> None:
    data = {"erase_depths": (0.0, 0.2, 0.5), "keep_depths": (0.4, 0.6, 1.0), "gap": gap, "distractors": 0}
    found = cases(lengths=(3000,), cases_per_length=6, **data)
    for number, example in enumerate(found):
        texts = [unit.id for unit in example.units if unit.id.startswith("text")]
        before = [sum(place(example, text) < place(example, name) for text in texts) for name in ("erased", "kept")]
        erase, keep = data["erase_depths"][number % 3], data["keep_depths"][number % 3]  # type: ignore[index]
        assert example.notes["erase_depth"] == erase
        assert before[0] == round(erase * len(texts))
        assert before[1] == round((erase if gap == "near" else keep) * len(texts))
        assert len(texts) > 20


def test_near_records_touch() -> None:
    for example in cases("list"):
        assert [unit.id for unit in example.units][place(example, "lead") :][:3] == ["lead", "erased", "kept"]
    for example in cases("list", mirrored=True):
        assert [unit.id for unit in example.units][place(example, "lead") :][:3] == ["lead", "kept", "erased"]


@pytest.mark.parametrize("value", ["number", "word"])
def test_names_and_values_are_unique_and_share_no_prefix(value: Any) -> None:
    for example in cases(value=value, distractors=7, cases_per_length=20):
        records = re.findall(r"for (\w+) is (\w+)\.", "".join(unit.text for unit in example.units))
        assert len(records) == 9
        assert len({key for key, _ in records}) == 8, "one key has two values"
        assert len({found[0] for _, found in records}) == 9, "all values begin differently"
        assert all(len(found) == 4 and found.isdigit() for _, found in records) or value == "word"
        assert [key for key, n in Counter(key for key, _ in records).items() if n == 2] == [
            example.question.split()[-2]
        ]


def test_filler_is_varied_and_holds_nothing_of_a_record() -> None:
    sentences = [*stock(0), *vocabulary.SHORT]
    assert len(set(sentences)) == STOCK + len(vocabulary.SHORT)
    own = {word for sentence in sentences for word in re.findall(r"\w+", sentence.lower())}
    names = {(start + end).lower() for start in vocabulary.NAME_STARTS for end in vocabulary.NAME_ENDS}
    records = {"pass", "number", "word", "hook", "holds", "key", "hangs", "once"}
    assert own.isdisjoint(names | set(vocabulary.VALUE_WORDS) | set(vocabulary.HOOKS) | records)
    assert not any(character.isdigit() for sentence in sentences for character in sentence)
    assert stock(0) != stock(1) and stock(0) == stock(0)


def test_no_name_or_value_is_the_beginning_of_another() -> None:
    values = sorted(vocabulary.VALUE_WORDS)
    assert len({value[0] for value in values}) == len(values)
    names = sorted(start + end for start in vocabulary.NAME_STARTS for end in vocabulary.NAME_ENDS)
    assert not any(later.startswith(name) for name, later in pairwise(names))


def test_passages_fill_up_to_less_than_a_short_sentence() -> None:

    filler = Filler(seed=0, sentences=6, count_tokens=words)
    for n_tokens in range(120):
        passages = filler.passages(n_tokens, random.Random(n_tokens))
        total = sum(map(words, passages))
        assert n_tokens - SHORTEST < total <= n_tokens
        assert all(passage.endswith("\n") and passage.strip() for passage in passages)


def test_constructions_differ_in_wording_alone() -> None:
    one, *others = ([(e.references, e.notes["erased_value"]) for e in cases(name)] for name in NAMES)
    assert all(other == one for other in others)


def test_more_cases_leave_the_first_ones_as_they_were() -> None:
    few, many = cases(cases_per_length=2, lengths=(200,)), cases(cases_per_length=5, lengths=(200,))
    assert many[:2] == few and len({example.history_id for example in many}) == 5


@pytest.mark.parametrize(
    "change",
    [{"seed": 4}, {"distractors": 3}, {"gap": "far"}, {"mirrored": True}, {"value": "word"}, {"digits": 5}],
    ids=str,
)
def test_other_settings_give_other_cases_and_another_fingerprint(change: dict[str, Any]) -> None:
    one = ErasingNIAH(construction="explicit", lengths=(200,), cases_per_length=4)
    other = replace(one, **change)
    assert one.fingerprint() != other.fingerprint()
    assert [e.history_id for e in one.examples(words)] != [e.history_id for e in other.examples(words)]


def test_the_same_settings_give_the_same_cases_in_any_process() -> None:
    script = (
        "from data_adapters.erasing_niah.adapter import ErasingNIAH as A\n"
        "a = A(construction='list', lengths=(200, 400), cases_per_length=4, seed=3)\n"
        "print(a.fingerprint(), *(e.history_id for e in a.examples(lambda text: len(text.split()))))"
    )
    wanted = [
        ErasingNIAH(construction="list", lengths=(200, 400), cases_per_length=4, seed=3).fingerprint(),
        *(example.history_id for example in cases("list")),
    ]
    for hash_seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
        out = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True)
        assert out.stdout.split() == wanted


def config(name: str) -> dict[str, Any]:
    text = (ROOT / "conf" / "dataset" / f"{name}.yaml").read_text(encoding="utf-8")
    fields = dict(yaml.safe_load(text)[name])
    fields.pop("_target_")
    return {key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()}


@pytest.mark.parametrize(("name", "cases_in_all"), [("erasing_niah", 96), ("holdout_erasing_niah", 600)])
def test_the_published_numbers_of_cases(name: str, cases_in_all: int) -> None:
    data = ErasingNIAH(**config(name))
    assert data.lengths == (1024, 2048, 4096, 8192, 16384, 32768)
    assert len(data.lengths) * data.cases_per_length == cases_in_all
    assert data.cases_per_length % len(data.erase_depths) == 0


@pytest.mark.parametrize("prefix", ["", "lab_"])
def test_the_holdout_shares_nothing_with_the_main_set(prefix: str) -> None:
    few = {"lengths": (512,), "cases_per_length": 8}
    main, other = (
        list(ErasingNIAH(**{**config(f"{prefix}{name}"), **few}).examples(words))
        for name in ("erasing_niah", "holdout_erasing_niah")
    )
    assert {e.history_id for e in main}.isdisjoint(e.history_id for e in other)
    assert {(e.question, e.references) for e in main}.isdisjoint((e.question, e.references) for e in other)
    settings = [config(f"{prefix}erasing_niah"), config(f"{prefix}holdout_erasing_niah")]
    for one in settings:
        one.pop("seed")
        one.pop("cases_per_length")
    assert settings[0] == settings[1], "the holdout differs in seed and size alone"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"construction": "lists"}, "construction='lists'"),
        ({"gap": "middle"}, "gap='middle'"),
        ({"value": "uuid"}, "value='uuid'"),
        ({"lengths": ()}, r"lengths=\(\)"),
        ({"lengths": (512, 512)}, "lengths=.*different"),
        ({"cases_per_length": 0}, "cases_per_length=0"),
        ({"sentences_per_unit": 0}, "sentences_per_unit=0"),
        ({"digits": 2}, "digits=2"),
        ({"distractors": 8}, "distractors=8"),
        ({"erase_depths": (0.1,)}, "erase_depths"),
        ({"erase_depths": (0.5,), "keep_depths": (0.4,)}, "ascending"),
        ({"erase_depths": (), "keep_depths": ()}, "erase_depths"),
        ({"keep_depths": (0.35, 0.55, 0.75, 1.2)}, "keep_depths"),
        ({"prompt": "{queston}"}, "prompt"),
        ({"prompt": "Answer."}, "prompt"),
    ],
)
def test_wrong_settings_are_named(change: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        ErasingNIAH(**change)


def test_records_that_do_not_fit_are_named() -> None:
    with pytest.raises(ConfigError, match=r"do not fit in 20.*lengths"):
        cases(lengths=(20,))
