"""Judges without a server: facts from settings, one verdict an item as it is read."""

from __future__ import annotations

from kvrelay.judging.local import Ruling, judge_facts, settled_here
from kvrelay.judging.protocol import BlindItem
from kvrelay.run.record import digest


def item(key: str, candidate: str) -> BlindItem:
    return BlindItem(key=key, question="q", references=("r",), candidate=candidate, question_type="t")


def decide(one: BlindItem) -> Ruling:
    if not one.candidate:
        return Ruling(correct=None, reason="rubric")
    return Ruling(correct=one.candidate == "r", scores={"em": float(one.candidate == "r")})


def test_rulings_become_verdicts_of_this_judge():
    judge = settled_here("rules", {"version": 1}, decide)
    found = list(judge.verdicts([item("a", "r"), item("b", "x"), item("c", "")]))
    assert [(one.item_key, one.correct, one.reason, one.scores) for one in found] == [
        ("a", True, "", {"em": 1.0}),
        ("b", False, "", {"em": 0.0}),
        ("c", None, "rubric", {}),
    ]
    assert {one.judge_id for one in found} == {judge.facts.id}
    assert judge.pace() == ""


def test_items_are_read_as_they_are_judged():
    read = []

    def reading():
        for key in "abc":
            read.append(key)
            yield item(key, "r")

    verdicts = settled_here("rules", {}, decide).verdicts(reading())
    assert read == []
    next(verdicts)
    assert read == ["a"]


def test_the_id_is_the_name_and_a_hash_of_the_identity():
    facts = judge_facts("rules", {"version": 1}, caveats=["small"])
    assert facts.id == f"rules-{digest({'version': 1})[:16]}"
    assert facts.id == judge_facts("rules", {"version": 1}).id
    assert len({facts.id, judge_facts("rules", {"version": 2}).id, judge_facts("others", {"version": 1}).id}) == 3
    assert (facts.name, facts.identity, facts.caveats, facts.template_sha256) == (
        "rules",
        {"version": 1},
        ["small"],
        "",
    )
