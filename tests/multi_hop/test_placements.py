"""Which passage is deleted and where it stood; after the deletion the context is the same wherever that was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import multi_hop_records as made
import pytest

from data_adapters.multi_hop.hotpotqa import HotpotQA
from data_adapters.multi_hop.iirc import IIRC
from data_adapters.multi_hop.musique import MuSiQue
from data_adapters.multi_hop.passages import SEPARATOR, Passage, SourceQuestion
from data_adapters.multi_hop.placements import (
    NOTHING_SUPPORTS,
    NOTHING_TO_DELETE,
    PLACEMENTS,
    TOO_FEW,
    Deletion,
    deletable,
    place,
    plan_deletion,
)
from data_adapters.multi_hop.twowikimultihopqa import TwoWikiMultiHopQA
from kvrelay.backend.prompt import PromptRenderer
from kvrelay.core.edit import Edit
from kvrelay.core.errors import ConfigError, DataError
from kvrelay.core.example import Example

SAMPLES: dict[str, tuple[type, dict[str, str]]] = {
    "hotpotqa": (HotpotQA, {"path": "hotpotqa/hotpot_train_v1.1_sample.json"}),
    "twowiki": (TwoWikiMultiHopQA, {"path": "2wikimultihopqa/2wiki_data_ids_sample.json"}),
    "twowiki_ircot": (TwoWikiMultiHopQA, {"path": "2wikimultihopqa/2wiki_ircot_train12_processed.jsonl"}),
    "musique": (MuSiQue, {"path": "musique/musique_ans_v1.0_train_sample.jsonl"}),
    "iirc_ircot": (IIRC, {"path": "iirc/iirc_ircot_train12_processed.jsonl"}),
    "iirc": (
        IIRC,
        {
            "path": "iirc/iirc_dev_schema_RECONSTRUCTED_20passages.json",
            "articles_path": "iirc/context_articles_RECONSTRUCTED.json",
        },
    ),
}


def asked(marks: str, texts: Sequence[str] = (), **changes: Any) -> SourceQuestion:
    """A question with a passage a mark: ``s`` supports, ``a`` contains the answer, ``t`` has a support's title."""
    passages = []
    for index, mark in enumerate(marks):
        said = texts[index] if texts else "a Velmora fact" if mark == "a" else f"fact {index}"
        title = "Support" if mark in "st" else f"Title {index}"
        passages.append(Passage(title=title if mark != "t" else "SUPPORT ", text=said, supporting=mark == "s"))
    fields = {"dataset": "d", "id": "q", "question": "Which?", "references": ("Velmora",), "type": "bridge"}
    return SourceQuestion(**{**fields, "passages": tuple(passages), **changes})  # type: ignore[arg-type]


def planned(question: SourceQuestion, seed: int = 0, **settings: Any) -> Deletion:
    plan = plan_deletion(question, seed, **settings)
    assert isinstance(plan, Deletion)
    return plan


@pytest.mark.parametrize(
    ("marks", "spare"), [("s.a.t", [1, 3]), ("ss..", [2, 3]), ("sat", []), ("s" * 4, []), (".s", [0])]
)
def test_what_can_be_deleted(marks: str, spare: list[int]) -> None:
    assert deletable(asked(marks)) == spare


@pytest.mark.parametrize(
    ("marks", "reason"), [("....", NOTHING_SUPPORTS), ("saat", NOTHING_TO_DELETE), ("s..", TOO_FEW), ("ss.", TOO_FEW)]
)
def test_why_a_question_is_left_out(marks: str, reason: str) -> None:
    assert plan_deletion(asked(marks), 0) == reason


def test_the_deleted_passage_follows_from_seed_and_id() -> None:
    drawn = {seed: planned(asked("s........."), seed).deleted for seed in range(40)}
    assert drawn == {seed: planned(asked("s........."), seed).deleted for seed in range(40)}
    assert len(set(drawn.values())) > 4
    others = {planned(asked("s.........", id=f"q{i}")).deleted for i in range(40)}
    assert len(others) > 4


def test_similar_takes_the_passage_with_the_questions_rarer_words() -> None:
    """mill stands in four passages (1/4 each), built in two (1/2), bridge in one (1): passage 4 has 1 + 1/4."""
    texts = ("The mill was built.", "A mill.", "A mill, built twice.", "Nothing.", "A bridge by the mill.")
    question = asked("s....", texts, question="Who built the bridge and the mill?")
    assert {planned(question, seed, choice="similar").deleted for seed in range(10)} == {4}
    plain = asked("s....", ("x",) * 1 + ("mill",) * 4, question="Which mill?")
    assert len({planned(plain, seed, choice="similar").deleted for seed in range(30)}) > 1


@pytest.mark.parametrize(
    ("marks", "deleted", "depths"),
    [
        (".s.s", 2, (0, 1, 2)),  # three others: the last one supports
        ("s...", 3, (0, 1, 2)),  # 80 % of three is 2.4
        ("s.........", 9, (0, 4, 7)),  # nine others, the last support before the middle: 80 % is 7.2
        ("s....s....", 9, (0, 4, 5)),
        (".s......s.", 9, (0, 4, 8)),
        ("....s.....", 9, (0, 4, 7)),  # the support stands where middle is: late goes on to 80 %
    ],
)
def test_the_three_places(marks: str, deleted: int, depths: tuple[int, int, int]) -> None:
    kept = tuple(index for index in range(len(marks)) if index != deleted)
    assert Deletion(question=asked(marks), deleted=deleted, kept=kept).depths == dict(
        zip(PLACEMENTS, depths, strict=True)
    )


@pytest.mark.parametrize("n_others", range(3, 25))
def test_places_differ_and_leave_a_suffix(n_others: int) -> None:
    for support in range(n_others):
        marks = "." * support + "s" + "." * (n_others - support)
        plan = Deletion(question=asked(marks), deleted=n_others, kept=tuple(range(n_others)))
        front, middle, late = plan.depths.values()
        assert 0 == front < middle < late < n_others
        last = max(i for i in plan.kept if marks[i] == "s")
        assert late == last or last <= middle


@pytest.mark.parametrize(
    ("marks", "most", "kept"),
    [("s...s...", 5, "0,1,2,4"), ("s...s...", 4, "0,1,4"), ("ssss....", 4, "0,1,2,3"), ("s...", 9, "0,1,2")],
)
def test_max_passages_keeps_support_and_drops_the_last_others(marks: str, most: int, kept: str) -> None:
    """The deleted passage is the last one here, and counts."""
    for seed in range(60):
        full = planned(asked(marks), seed)
        plan = planned(asked(marks), seed, max_passages=most)
        assert plan.deleted == full.deleted
        if plan.deleted == len(marks) - 1:
            assert ",".join(map(str, plan.kept)) == kept
            return
    raise AssertionError("no seed deletes the last passage")


def test_examples_of_a_question() -> None:
    plan = planned(asked("s.s.....", notes={"layout": "x"}))
    front, middle, late = place(plan)
    assert [example.id for example in (front, middle, late)] == ["q:front", "q:middle", "q:late"]
    assert {example.cluster_id for example in (front, middle, late)} == {"d:q"}
    assert front.deleted == middle.deleted == late.deleted == (f"q#{plan.deleted}",)
    assert front.units[0].id == front.deleted[0] and front.slot is None
    assert front.question_prompt == "Q: Which?\nA:" and front.question_type == "bridge"
    assert front.notes["placement"] == "front" and front.notes["layout"] == "x"
    assert [unit.evidence for unit in front.units if unit.id in ("q#0", "q#2")] == [True, True]
    assert next(place(plan, prompt="{question} {}")).question_prompt == "Which? {}"


def test_every_passage_ends_in_one_separator() -> None:
    texts = ("plain", "one\n", "two\n\n", " three\n\n\n ", "a\n\nb")
    for example in place(planned(asked("s....", texts))):
        for unit in example.units:
            assert unit.text.endswith(SEPARATOR) and not unit.text.removesuffix(SEPARATOR).endswith("\n")
        whole = "".join(unit.text for unit in example.units)
        (deleted,) = (unit.text for unit in example.units if unit.id in example.deleted)
        without = "".join(unit.text for unit in example.units if unit.id not in example.deleted)
        assert whole.count(deleted) == 1 and whole.replace(deleted, "") == without
        assert whole.count(SEPARATOR) == without.count(SEPARATOR) + deleted.count(SEPARATOR)


def read(samples: Path, name: str, **settings: Any) -> list[Example]:
    adapter, paths = SAMPLES[name]
    places = {key: str(samples / place) for key, place in paths.items()}
    return list(adapter(**places, **settings).examples(lambda text: len(text.split())))


@pytest.mark.parametrize("name", SAMPLES)
def test_real_placements_share_all_but_a_place(samples: Path, name: str) -> None:
    examples = read(samples, name)
    assert [len(list(group)) for _, group in groupby(examples, lambda e: e.cluster_id)] == [3] * (len(examples) // 3)
    for front, middle, late in zip(examples[::3], examples[1::3], examples[2::3], strict=True):
        assert [e.id.rpartition(":")[2] for e in (front, middle, late)] == list(PLACEMENTS)
        assert front.deleted == middle.deleted == late.deleted and len(front.deleted) == 1
        places = [[unit.id for unit in e.units].index(front.deleted[0]) for e in (front, middle, late)]
        assert places == sorted(set(places)) and places[-1] < len(front.units) - 1
        texts = ["".join(u.text for u in e.units if u.id not in e.deleted) for e in (front, middle, late)]
        assert texts[0] == texts[1] == texts[2]
        gone = next(unit for unit in front.units if unit.id == front.deleted[0])
        support = {unit.index_text.split("\n")[0].casefold() for unit in front.units if unit.evidence}
        assert not gone.evidence and gone.index_text.split("\n")[0].casefold() not in support


@pytest.mark.parametrize("name", SAMPLES)
def test_the_edited_tokens_are_the_same_in_all_three(samples: Path, name: str, renderer: PromptRenderer) -> None:
    """What stays after the deletion, in tokens of the real prompt: the invariant that lets Re-prefill be shared."""
    examples = read(samples, name, limit=4, shuffle_seed=1)
    assert len(examples) % 3 == 0 and examples
    for group in zip(examples[::3], examples[1::3], examples[2::3], strict=True):
        edited, whole = set(), set()
        for example in group:
            prompt = renderer.render(example)
            start = prompt.text.protected
            spans = dict(zip(prompt.text.unit_ids, prompt.text.unit_spans, strict=True))
            first, end = spans[example.deleted[0]]
            n = len(prompt.prefilled_ids)
            edit = Edit.of_tokens([(first + start, end + start)], n, protected=start)
            kept = edit.kept(n)
            edited.add((tuple(prompt.prefilled_ids[i] for i in kept), prompt.question.token_ids))
            whole.add(prompt.prefilled_ids)
            gone = next(unit for unit in example.units if unit.id == example.deleted[0])
            assert prompt.prefilled_ids[first + start : end + start] == renderer.data_ids(gone.text)
            assert first + start < n - 1 and end + start < n
        assert len(edited) == 1 and len(whole) == 3


def test_settings_out_of_range_are_named() -> None:
    for change, key in (
        ({"max_passages": 3}, "max_passages"),
        ({"limit": 0}, "limit"),
        ({"deletion": "worst"}, "deletion"),
    ):
        with pytest.raises(ConfigError, match=rf"dataset\.hotpotqa\.{key}="):
            HotpotQA(**change)  # type: ignore[arg-type]


def test_limit_counts_questions_that_can_be_asked(tmp_path: Path) -> None:
    hopeless = made.hotpot(_id="hopeless", supporting_facts=[])
    records = [hopeless, *(made.hotpot(_id=f"q{i}") for i in range(5))]
    path = made.write_array(tmp_path / "x.json", *records)
    ids = [example.id.split(":")[0] for example in HotpotQA(path=path, limit=2).examples(len)]
    assert ids == ["q0"] * 3 + ["q1"] * 3
    drawn = [[e.id for e in HotpotQA(path=path, limit=2, shuffle_seed=seed).examples(len)] for seed in range(20)]
    assert all(len(ids) == 6 and not any("hopeless" in id_ for id_ in ids) for ids in drawn)
    assert len({tuple(ids) for ids in drawn}) > 1


def test_a_file_without_any_such_question_says_why(tmp_path: Path) -> None:
    path = made.write_array(tmp_path / "x.json", made.hotpot(supporting_facts=[]))
    with pytest.raises(DataError, match=r"no question can be asked after a deletion: 1 with no supporting passage"):
        list(HotpotQA(path=path).examples(len))


def test_a_cluster_is_the_source_question() -> None:
    question = asked("s....")
    assert replace(question, dataset="iirc", id="q_1").cluster_id == "iirc:q_1"
