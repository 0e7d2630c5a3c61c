"""The evidence changes sides and nothing else moves: not the edit, not a length, not another passage."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

import multi_hop_records as made
import pytest

from data_adapters.multi_hop.lab.adapter import LocationLab
from data_adapters.multi_hop.lengths import MOST_PADDED, fitted, tokens_of
from data_adapters.multi_hop.location import EvidenceLocation
from data_adapters.multi_hop.passages import Passage
from kvrelay.backend.prompt import PromptRenderer
from kvrelay.core.errors import ConfigError, DataError
from kvrelay.core.example import CountTokens, Example

ORDER = ["prefix-short", "suffix-short", "prefix-long", "suffix-long"]
SAMPLES: dict[str, dict[str, str]] = {
    "hotpotqa": {"path": "hotpotqa/hotpot_train_v1.1_sample.json"},
    "twowikimultihopqa": {"path": "2wikimultihopqa/2wiki_ircot_train12_processed.jsonl"},
    "musique": {"path": "musique/musique_ans_v1.0_train_sample.jsonl"},
    "iirc": {
        "path": "iirc/iirc_dev_schema_RECONSTRUCTED_20passages.json",
        "articles_path": "iirc/context_articles_RECONSTRUCTED.json",
    },
}


def words(text: str) -> int:
    return len(text.split())


def chunks(text: str) -> int:
    """A tokenizer of sorts: words in pieces of three characters, a blank line of its own."""
    return sum((len(word) + 2) // 3 for word in text.split()) + text.count("\n\n")


def location(tmp_path: Path, *records: dict[str, Any], **settings: Any) -> EvidenceLocation:
    path = made.write_array(tmp_path / "x.json", *records)
    return EvidenceLocation(source="hotpotqa", path=path, **{"long_tail": 2, **settings})


def checked(examples: list[Example], count: CountTokens) -> None:
    """What the design promises of every question's four contexts."""
    for cluster, group in groupby(examples, lambda example: example.cluster_id):
        arms = {example.question_type: example for example in group}
        assert list(arms) == ORDER, cluster
        for tail in ("short", "long"):
            prefix, suffix = arms[f"prefix-{tail}"], arms[f"suffix-{tail}"]
            sizes = [[count(unit.text) for unit in example.units] for example in (prefix, suffix)]
            assert sizes[0] == sizes[1]
            gone = [[unit.id for unit in e.units].index(e.deleted[0]) for e in (prefix, suffix)]
            assert gone[0] == gone[1] and prefix.deleted == suffix.deleted
            at = gone[0]
            assert sizes[0][at - 1] == sizes[0][at + 1] == prefix.notes["slot_tokens"]
            assert [u.id for u in prefix.units[: at - 1]] == [u.id for u in suffix.units[: at - 1]]
            assert [u.id for u in prefix.units[at + 2 :]] == [u.id for u in suffix.units[at + 2 :]]
            assert (prefix.units[at - 1], prefix.units[at + 1]) == (suffix.units[at + 1], suffix.units[at - 1])
            assert prefix.units[at - 1].evidence and not prefix.units[at + 1].evidence
            assert (prefix.slot, suffix.slot) == (prefix.units[at + 1].id, suffix.units[at + 1].id)
            assert {u.evidence for u in prefix.units[: at - 1]} <= {True}
            assert not any(u.evidence for u in prefix.units[at + 2 :])
        short, long = arms["suffix-short"].units, arms["suffix-long"].units
        assert long[: len(short)] == short and len(long) > len(short)


def test_the_four_contexts_of_a_question(tmp_path: Path) -> None:
    """Passage 1 holds the answer and supports; 4 holds it and does not; 2, 3 and 5 can be deleted or exchanged."""
    other = made.hotpot(
        _id="b", question="?", answer="Nowhere", context=[["Far", ["Some words far away."]], *made.hotpot()["context"]]
    )
    examples = list(location(tmp_path, made.hotpot(), other).examples(words))
    first = examples[:4]
    assert [example.id for example in first] == [f"{made.HOTPOT_ID}:{name}" for name in ORDER]
    assert {example.cluster_id for example in first} == {f"hotpotqa:{made.HOTPOT_ID}"}
    assert [unit.id for unit in first[0].units][:2] == [f"{made.HOTPOT_ID}#0", f"{made.HOTPOT_ID}#1"]
    assert first[0].notes["source_type"] == "bridge" and first[0].notes["side"] == "prefix"
    assert not any("#4" in unit.id for example in first for unit in example.units)
    assert first[2].units[-1].text.startswith("Wikipedia Title: Far\n") and first[2].notes["borrowed_filler"] == 1
    checked(examples, words)


@pytest.mark.parametrize("count", [words, chunks])
@pytest.mark.parametrize("name", SAMPLES)
def test_real_questions_keep_the_design(samples: Path, name: str, count: CountTokens) -> None:
    paths = {key: str(samples / place) for key, place in SAMPLES[name].items()}
    examples = list(EvidenceLocation(source=name, **paths).examples(count))  # type: ignore[arg-type]
    assert len(examples) >= 4 * 10
    checked(examples, count)


@pytest.mark.parametrize("name", SAMPLES)
def test_sides_have_the_same_tokens_before_and_after_the_edit(
    samples: Path, name: str, renderer: PromptRenderer
) -> None:
    """In the real prompt: equal lengths, equal places of the deleted unit and of the fixed slot."""
    paths = {key: str(samples / place) for key, place in SAMPLES[name].items()}
    examples = list(EvidenceLocation(source=name, limit=3, shuffle_seed=0, **paths).examples(renderer.count))  # type: ignore[arg-type]
    assert len(examples) == 12
    for prefix, suffix in zip(examples[::2], examples[1::2], strict=True):
        seen = []
        for example in (prefix, suffix):
            prompt = renderer.render(example)
            spans = dict(zip(prompt.text.unit_ids, prompt.text.unit_spans, strict=True))
            assert example.slot is not None
            seen.append((len(prompt.prefilled_ids), spans[example.deleted[0]], spans[example.slot]))
        assert seen[0] == seen[1]
        (_, gone, slot) = seen[0]
        assert slot[0] == gone[1] and slot[1] - slot[0] == prefix.notes["slot_tokens"]


def test_the_made_questions_keep_the_design(tmp_path: Path) -> None:
    for source in ("hotpotqa", "musique"):
        lab = LocationLab(source=source, folder=str(tmp_path), questions=8, deletion="similar")  # type: ignore[arg-type]
        examples = list(lab.examples(chunks))
        assert len(examples) == 32
        checked(examples, chunks)


def test_limit_and_seed_choose_questions(tmp_path: Path) -> None:
    records = [made.hotpot(_id=f"q{i}") for i in range(6)]
    assert [e.id for e in location(tmp_path, *records, limit=1, long_tail=1).examples(words)] == [
        f"q0:{n}" for n in ORDER
    ]
    drawn = [
        [
            e.id.split(":")[0]
            for e in location(tmp_path, *records, limit=2, shuffle_seed=s, long_tail=1).examples(words)
        ][::4]
        for s in range(8)
    ]
    assert all(len(ids) == 2 and ids == sorted(ids) for ids in drawn) and len({tuple(ids) for ids in drawn}) > 2
    whole = [e.id for e in location(tmp_path, *records, long_tail=1).examples(words)]
    assert len(whole) == 24


def test_why_there_is_no_question(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"dataset\.location_hotpotqa: .*1 with too little filler"):
        list(location(tmp_path, made.hotpot(), long_tail=3).examples(words))
    with pytest.raises(DataError, match=r"no supporting passage"):
        list(location(tmp_path, made.hotpot(supporting_facts=[])).examples(words))
    with pytest.raises(DataError, match=r"fewer than two passages"):
        list(location(tmp_path, made.hotpot(context=made.hotpot()["context"][:3])).examples(words))


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"short_tail": 3}, "short_tail"),
        ({"limit": 0}, "limit"),
        ({"deletion": "x"}, "deletion"),
        ({"short_tail": -1}, "short_tail"),
    ],
)
def test_settings_out_of_range_are_named(change: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError, match=rf"dataset\.location_musique\.{key}="):
        EvidenceLocation(source="musique", **change)
    with pytest.raises(ConfigError, match=r"source='squad'"):
        EvidenceLocation(source="squad")  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [words, chunks, len])
@pytest.mark.parametrize("size", range(26, 60))
def test_a_passage_is_cut_to_any_size(count: CountTokens, size: int) -> None:
    passage = Passage(title="T", text="alpha be gamma " * 40, supporting=False)
    found = fitted(passage, size, count)
    assert found is not None and tokens_of(found, count) == size
    assert passage.text.startswith(found.text.removesuffix("."))


def test_a_short_passage_is_padded_a_little_and_not_much() -> None:
    passage = Passage(title="T", text="one two three")
    size = tokens_of(passage, words)
    padded = fitted(passage, size + MOST_PADDED, words)
    assert padded is not None and tokens_of(padded, words) == size + MOST_PADDED
    assert padded.text.startswith("one two three")
    assert fitted(passage, size + MOST_PADDED + 1, words) is None


def test_a_title_alone_may_be_too_long() -> None:
    assert fitted(Passage(title="a b c d e f g", text="one two"), 3, words) is None
