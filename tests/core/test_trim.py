"""Trimming, checked with one token a character, so that every length can be counted by hand."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from data_adapters.long_mt_bench_plus import LongMTBenchPlus
from data_adapters.longmemeval import LongMemEval
from data_adapters.personamem import PersonaMem
from kvrelay.core.errors import ConfigError, DataError
from kvrelay.core.example import DatasetAdapter, Example, Turn, Unit
from kvrelay.core.trim import Trimmer, chat_unit, trim


def example(*units: Unit, layout: str = "document", **changes: object) -> Example:
    base = Example(
        id="q",
        cluster_id="c",
        units=units,
        question="?",
        question_prompt="?",
        references=("r",),
        question_type="t",
        layout=layout,  # type: ignore[arg-type]
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def document(size: int, mark: str, evidence: bool = False) -> Unit:
    return Unit(id=mark, text=mark * size, index_text=mark, evidence=evidence)


def shown(trimmed: Example) -> str:
    return "".join(unit.id for unit in trimmed.units)


def test_what_fits_is_returned_untouched() -> None:
    fits = example(document(6, "a"), document(4, "b"))
    assert trim(fits, 10, len) is fits
    empty = example()
    assert trim(empty, 1, len) is empty


def test_units_go_from_the_middle_outward_ties_the_earlier_first() -> None:
    units = [document(10, mark) for mark in "abcdefg"]
    kept = {limit: shown(trim(example(*units), limit, len)) for limit in range(10, 71, 10)}
    assert kept == {70: "abcdefg", 60: "abcefg", 50: "abefg", 40: "abfg", 30: "afg", 20: "ag", 10: "g"}
    even = [document(10, mark) for mark in "abcd"]
    assert [shown(trim(example(*even), limit, len)) for limit in (30, 20, 10)] == ["acd", "ad", "d"]


def test_evidence_is_kept_and_the_middle_is_that_of_the_others() -> None:
    units = [document(10, mark, evidence=mark in "bcd") for mark in "abcdefg"]
    assert [shown(trim(example(*units), limit, len)) for limit in (60, 50, 40, 30)] == [
        "abcdfg",
        "abcdg",
        "bcdg",
        "bcd",
    ]


def test_what_was_lost_is_on_record_beside_the_other_notes() -> None:
    units = [document(10, mark) for mark in "abcde"]
    trimmed = trim(example(*units, notes={"topic": "x"}), 35, len)
    assert trimmed.notes == {
        "topic": "x",
        "trimmed": {
            "units_before": 5,
            "units_after": 3,
            "tokens_before": 50,
            "tokens_after": 30,
            "dropped": ["b", "c"],
        },
    }
    assert replace(trimmed, units=tuple(units), notes={"topic": "x"}) == example(*units, notes={"topic": "x"})


def test_evidence_that_does_not_fit_is_cut_to_one_common_length() -> None:
    units = [document(size, mark, evidence=mark != "x") for size, mark in ((4, "a"), (9, "x"), (30, "b"), (20, "c"))]
    trimmed = trim(example(*units), 25, len)
    # 25 tokens for three units: a keeps its 4, and b and c share the other 21 at 10 each.
    assert [unit.text for unit in trimmed.units] == ["aaaa", "b" * 10, "c" * 10]
    assert trimmed.notes["trimmed"] == {
        "units_before": 4,
        "units_after": 3,
        "tokens_before": 63,
        "tokens_after": 24,
        "dropped": ["x"],
        "cut": {"b": [30, 10], "c": [20, 10]},
    }


def test_without_evidence_the_last_unit_stays_and_is_cut() -> None:
    trimmed = trim(example(document(50, "a"), document(40, "b")), 15, len)
    assert [unit.text for unit in trimmed.units] == ["b" * 15]


def test_documents_are_cut_at_paragraphs_and_keep_their_separator() -> None:
    text = "head\n\nuser: one two\n\nassistant: three four five\n"
    unit = Unit(id="u", text=text, index_text="one two three four five", evidence=True, timestamp="now")
    (cut,) = trim(example(unit), 40, len).units
    assert cut.text == "head\n\nuser: one two\n" and cut.index_text == "head\n\nuser: one two"
    assert cut.evidence and cut.timestamp == "now"


def test_a_paragraph_cut_that_wastes_over_half_gives_way_to_characters() -> None:
    unit = Unit(id="u", text="head\n\nuser: " + "x" * 100 + "\n\n", index_text="", evidence=True)
    (cut,) = trim(example(unit), 50, len).units
    assert cut.text == "head\n\nuser: " + "x" * 36 + "\n\n" and len(cut.text) == 50
    (short,) = trim(example(unit), 13, len).units
    assert short.text == "head\n\nuser:\n\n"
    (half,) = trim(example(unit), 12, len).units
    assert half.text == "head\n\n"


def chat(*contents: str) -> Unit:
    roles = ["system", "user", "assistant"]
    return chat_unit("u", [Turn(role=roles[i % 3], content=content) for i, content in enumerate(contents)])


def test_a_chat_unit_shows_roles_and_hides_the_system_from_retrievers() -> None:
    unit = chat("persona", "hello", "")
    assert unit.text == "system: persona\n\nuser: hello\n\nassistant: \n\n" and unit.index_text == "hello"
    assert chat("persona").index_text == "persona"


def test_chats_are_cut_at_turns_and_text_follows_the_turns() -> None:
    unit = chat("persona", "hello", "a long reply")  # 17 + 13 + 25 characters of text
    (cut,) = trim(example(replace(unit, evidence=True, timestamp="now"), layout="chat"), 54, len).units
    assert [turn.content for turn in cut.turns] == ["persona", "hello"]
    assert cut.text == "system: persona\n\nuser: hello\n\n" and cut.index_text == "hello"
    assert cut.evidence and cut.timestamp == "now" and cut.id == "u"


def test_chats_are_cut_inside_a_turn_where_whole_turns_would_waste_over_half() -> None:
    unit = chat("persona", "hello " * 20)
    (cut,) = trim(example(unit, layout="chat"), 60, len).units
    assert [turn.content for turn in cut.turns] == ["persona", ("hello " * 20)[:35]]
    assert len(cut.text) == 60


def test_a_document_cut_drops_turns_that_no_longer_match() -> None:
    unit = replace(document(20, "a"), turns=(Turn(role="user", content="a" * 20),))
    assert trim(example(unit), 10, len).units[0].turns == ()


def test_a_unit_of_which_nothing_fits_is_dropped() -> None:
    def count(text: str) -> int:
        return sum(100 if letter == "z" else 1 for letter in text)

    units = [document(3, "a", evidence=True), document(3, "z", evidence=True)]
    trimmed = trim(example(*units), 50, count)
    assert shown(trimmed) == "a"
    assert trimmed.notes["trimmed"] == {
        "units_before": 2,
        "units_after": 1,
        "tokens_before": 303,
        "tokens_after": 3,
        "dropped": ["z"],
    }
    with pytest.raises(DataError, match=r"example q: dataset\.max_history_tokens=50 is too small"):
        trim(example(units[1]), 50, count)


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_one_is_refused(limit: int) -> None:
    with pytest.raises(ConfigError, match=rf"dataset\.max_history_tokens={limit}"):
        Trimmer(limit, len)


def literal_survivors(units: list[Unit], limit: int) -> list[str]:
    """Take away, one by one, the unit without evidence that is nearest to the middle of all such units."""
    others = [unit for unit in units if not unit.evidence]
    middle = (len(others) - 1) / 2
    left = list(units)
    waiting = list(enumerate(others))
    while waiting and len(left) > 1 and sum(len(unit.text) for unit in left) > limit:
        nearest = min(waiting, key=lambda entry: (abs(entry[0] - middle), entry[0]))
        waiting.remove(nearest)
        left.remove(nearest[1])
    return [unit.id for unit in left]


def bumpy(text: str) -> int:
    """A count that falls now and then as the text grows, as those of real tokenizers do."""
    return len(text) + 3 * (len(text) % 4 == 1)


@pytest.mark.parametrize("seed", range(60))
def test_random_histories_fit_keep_their_order_and_match_the_literal_rule(seed: int) -> None:
    draw = random.Random(seed)
    layout = draw.choice(["document", "chat"])
    units = []
    for i in range(draw.randint(1, 12)):
        contents = ["x" * draw.randint(0, 30) for _ in range(draw.randint(1, 4))]
        unit = replace(chat(*contents), id=str(i), evidence=draw.random() < 0.3)
        units.append(unit)
    limit = draw.randint(8 * len(units), 60 * len(units))
    trimmed = trim(example(*units, layout=layout), limit, len)
    ids = [unit.id for unit in trimmed.units]
    assert sum(len(unit.text) for unit in trimmed.units) <= limit
    wanted = literal_survivors(units, limit)
    assert ids == [id_ for id_ in wanted if id_ in ids] and set(wanted) - set(ids) <= {
        u.id for u in units if u.evidence
    }
    if sum(len(unit.text) for unit in units if unit.id in wanted) <= limit:
        assert list(trimmed.units) == [unit for unit in units if unit.id in wanted]
    rough = trim(example(*units, layout=layout), limit, bumpy)
    assert sum(bumpy(unit.text) for unit in rough.units) <= limit


def test_one_trimmer_counts_each_unit_once() -> None:
    counted: Counter[str] = Counter()

    def count(text: str) -> int:
        counted[text] += 1
        return len(text)

    units = [document(10, mark) for mark in "abcde"]
    trimmer = Trimmer(30, count)
    first, second = trimmer(example(*units)), trimmer(example(*units, id="other"))
    assert first.units == second.units and counted == {unit.text: 1 for unit in units}


@pytest.mark.parametrize("limit", [400, 3000])
def test_questions_that_shared_a_prefill_still_share_it(samples: Path, limit: int) -> None:
    chats = samples / "personamem"
    adapters: list[DatasetAdapter] = [
        LongMTBenchPlus(path=str(next((samples / "long_mt_bench_plus").glob("*.jsonl")))),
        PersonaMem(
            path=str(chats / "questions_32k_sample.csv"),
            contexts_path=str(chats / "shared_contexts_32k_FIXTURE.jsonl"),
            size="32k",
        ),
    ]
    for adapter in adapters:
        trimmer = Trimmer(limit, len)
        examples = list(adapter.examples(len))
        trimmed = [trimmer(one) for one in examples]
        assert len({one.history_id for one in examples}) == len({one.history_id for one in trimmed}) == 1
        assert all("trimmed" in one.notes for one in trimmed)
        assert sum(len(unit.text) for unit in trimmed[0].units) <= limit


def test_the_evidence_of_genuine_records_outlives_the_filler(samples: Path) -> None:
    for name in ("longmemeval_s_1record.json", "longmemeval_s_small_assembled_6records.json"):
        for one in LongMemEval(path=str(samples / "longmemeval" / name)).examples(len):
            evidence = [unit for unit in one.units if unit.evidence]
            size = sum(len(unit.text) for unit in evidence)
            assert list(trim(one, size, len).units) == evidence
            cut = trim(one, size // 2, len)
            assert [unit.id for unit in cut.units] == [unit.id for unit in evidence]
            assert all(full.text.startswith(part.text.rstrip()) for full, part in zip(evidence, cut.units, strict=True))
            assert size // 4 < sum(len(unit.text) for unit in cut.units) <= size // 2


def test_a_beginning_that_says_nothing_is_dropped() -> None:
    units = [Unit(id=mark, text="\n" + mark * 20 + "\n", index_text="", evidence=True) for mark in "ab"]
    with pytest.raises(DataError, match="too small for any part of its 2 remaining units"):
        trim(example(*units), 3, len)
    assert [unit.text for unit in trim(example(*units), 6, len).units] == ["\na\n", "\nb\n"]
