"""Exact match and F1 by a question's type; what counts of an answer; what stays unscored."""

from __future__ import annotations

import pytest

from judges.short_answer import ShortAnswer
from kvrelay.core.errors import ConfigError


def item_of(make_item, question_type, candidate, *references, **fields):
    return make_item(question_type=question_type, candidate=candidate, references=references, **fields)


@pytest.mark.parametrize(
    ("question_type", "candidate", "references", "em", "f1"),
    [
        ("bridge", "The Red Kite.", ("red kite",), 1.0, 1.0),
        ("bridge", "red", ("red kite",), 0.0, 2 / 3),
        ("comparison", "yes.", ("yes",), 1.0, 1.0),
        ("comparison", "yes, both", ("yes",), 0.0, 0.0),
        ("bridge_comparison", "1990-91", ("199091",), 1.0, 1.0),
        ("bridge", "a", ("The",), 1.0, 0.0),
        ("2hop", "a", ("The",), 1.0, 1.0),
        ("2hop", "yes, both", ("yes",), 0.0, 2 / 3),
        ("2hop", "no", ("Norway", "NO", "NOR"), 1.0, 1.0),
        ("3hop", "Stanley Hall", ("G. Stanley Hall", "Stanley Hall"), 1.0, 1.0),
        ("value", "53", ("53", "53 years"), 1.0, 1.0),
        ("value", "53.0 years", ("53", "53 years"), 1.0, 1.0),
        ("value", "54 years", ("53", "53 years"), 0.0, 0.0),
        ("span", "Anna and Ben", ("Anna, Ben", "Anna and Ben"), 1.0, 1.0),
        ("span", "twenty-one", ("twenty one",), 1.0, 1.0),
        ("binary", "No.", ("no",), 1.0, 1.0),
        ("binary", "no, never", ("no",), 0.0, 0.67),
    ],
)
def test_the_type_tells_the_rule(make_item, question_type, candidate, references, em, f1):
    ruling = ShortAnswer().decide(item_of(make_item, question_type, candidate, *references))
    assert ruling.scores == {"em": em, "f1": pytest.approx(f1, abs=1e-12)}
    assert ruling.correct is (em == 1.0) and ruling.reason == ""


@pytest.mark.parametrize(
    ("candidate", "em", "lenient"),
    [
        ("8231942", 1.0, 1.0),
        (" 8,231,942. ", 1.0, 1.0),
        ("The value is 8231942.", 0.0, 1.0),
        ("82319421", 0.0, 0.0),
        ("1234567 or 8231942", 0.0, 0.0),
        ("", 0.0, 0.0),
        ("unknown", 0.0, 0.0),
    ],
)
def test_an_erased_needle_is_asked_for_by_value(make_item, candidate, em, lenient):
    ruling = ShortAnswer().decide(item_of(make_item, "niah-1024", candidate, "8231942"))
    assert (ruling.scores["em"], ruling.scores["em_lenient"]) == (em, lenient)
    assert ruling.correct is (em == 1.0)


def test_a_value_without_digits_has_no_lenient_match(make_item):
    ruling = ShortAnswer().decide(item_of(make_item, "niah-2048", "heron", "heron"))
    assert ruling.correct is True
    assert ruling.scores == {"em": 1.0, "f1": 1.0, "em_lenient": 0.0}


@pytest.mark.parametrize(
    ("question_type", "candidate", "first_line", "correct"),
    [
        ("bridge", "\n red kite \nQ: And then?", True, True),
        ("bridge", "red kite\nQ: And then?", False, False),
        ("bridge", "red kite", False, True),
        ("bridge", "I think\nred kite", True, False),
        ("niah-1024", "8231942\nThat is the value.", True, True),
        ("niah-1024", "8231942\nThat is the value.", False, False),
    ],
)
def test_how_much_of_an_answer_counts(make_item, question_type, candidate, first_line, correct):
    item = item_of(make_item, question_type, candidate, "red kite", "8231942")
    assert ShortAnswer(first_line=first_line).decide(item).correct is correct


def test_what_is_no_short_answer_stays_unscored(make_item):
    judge = ShortAnswer()
    reasons = [
        judge.decide(item_of(make_item, "bridge", "red")),
        judge.decide(item_of(make_item, "bridge", "red", "  ")),
        judge.decide(item_of(make_item, "chosen", "a", "red", choices={"a": "red", "b": "blue"}, gold_choice="a")),
    ]
    assert [(ruling.correct, ruling.reason) for ruling in reasons] == [
        (None, "no_reference"),
        (None, "no_reference"),
        (None, "choice"),
    ]


@pytest.mark.parametrize(
    ("candidate", "abstained"),
    [("None.", 1.0), ("The passages do not mention it.", 1.0), ("Paris", 0.0), ("none of them", 0.0)],
)
def test_the_unanswerable_are_a_measure_of_their_own(make_item, candidate, abstained):
    ruling = ShortAnswer().decide(item_of(make_item, "none", candidate, unanswerable=True))
    assert (ruling.correct, ruling.reason, ruling.scores) == (None, "unanswerable", {"abstained": abstained})


def test_the_id_follows_the_settings_and_not_their_order():
    changes = [{"first_line": False}, {"drop_types": ("span",)}, {"musique_types": ()}, {"value_prefix": "needle"}]
    reordered = {"drop_types": ("binary", "value", "span")}
    ids = [ShortAnswer(**change).settled("short_answer").facts.id for change in ({}, *changes, reordered)]
    assert ids[0] == ids[-1]
    assert len(set(ids)) == 1 + len(changes)


def test_a_prefix_for_everything_is_refused():
    with pytest.raises(ConfigError, match=r"judge\.\*\.value_prefix"):
        ShortAnswer(value_prefix="")
