"""Normalisation, EM, F1 and containment by hand; what a lexical judge must leave unscored."""

from __future__ import annotations

import pytest

from judges.lexical import LexicalJudge, contains, normalised, token_f1
from kvrelay.core.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("The  Quick, brown fox!", ["quick", "brown", "fox"]),
        ("An apple a day", ["apple", "day"]),
        ("theatre of anatomy", ["theatre", "of", "anatomy"]),
        ("well-known $5 U.S.", ["wellknown", "5", "us"]),
        ("1,000 km", ["1000", "km"]),
        ("Zoë’s naïve Straße", ["zoës", "naïve", "strasse"]),
        ("Paris—the capital… «oui»", ["paris", "capital", "oui"]),
        ("Ｆｕｌｌ ﬁne\u00a0text\tof\u2003spaces", ["full", "fine", "text", "of", "spaces"]),
        ("ÉCOLE", ["école"]),
        ("the a an ... !", []),
        ("", []),
    ],
)
def test_normalised(text, tokens):
    assert normalised(text) == tokens


@pytest.mark.parametrize(
    ("candidate", "reference", "f1"),
    [
        ("red kite", "red kite", 1.0),
        ("big red kite", "red kite", 0.8),
        ("red red", "red", 2 / 3),
        ("green", "red kite", 0.0),
        ("", "red", 0.0),
    ],
)
def test_token_f1(candidate, reference, f1):
    assert token_f1(candidate.split(), reference.split()) == pytest.approx(f1, abs=1e-12)


def test_contains_wants_neighbours_in_order():
    answer = ["he", "moved", "to", "new", "york", "in", "may"]
    assert contains(answer, ["new", "york"])
    assert contains(answer, ["may"])
    assert not contains(answer, ["york", "new"])
    assert not contains(answer, ["new", "in"])
    assert not contains(["york"], ["new", "york"])
    assert not contains(["13", "of", "them"], ["3"])


def test_the_best_reference_counts(make_item):
    item = make_item(references=("a red kite", "kite"), candidate="The red kite.")
    ruling = LexicalJudge().decide(item)
    assert ruling.correct is True
    assert ruling.scores == {"em": 1.0, "f1": 1.0, "contains": 1.0}


@pytest.mark.parametrize(
    ("settings", "candidate", "correct"),
    [
        ({}, "I think it was the Blue Kayak, yes.", True),
        ({}, "the blue one", False),
        ({}, "", False),
        ({"rule": "exact"}, "A blue kayak!", True),
        ({"rule": "exact"}, "It was a blue kayak", False),
        ({"rule": "f1_at_least"}, "kayak that was blue it seems to me", False),
        ({"rule": "f1_at_least"}, "kayak blue", True),
        ({"rule": "f1_at_least", "f1_threshold": 0.4}, "kayak that was blue it seems to me", True),
        ({"max_candidate_tokens": 3}, "was the blue kayak", False),
        ({"max_candidate_tokens": 4}, "was the blue kayak", True),
    ],
)
def test_rules(make_item, settings, candidate, correct):
    """F1 of eight tokens against two, both found: 2 * 2 / (8 + 2) = 0.4."""
    assert (
        LexicalJudge(**settings).decide(make_item(references=("blue kayak",), candidate=candidate)).correct is correct
    )


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"question_type": "single-session-preference"}, "rubric"),
        ({"references": ()}, "no_reference"),
        ({"references": ("", "the", "?!")}, "no_reference"),
    ],
)
def test_unscored_is_not_false(make_item, fields, reason):
    ruling = LexicalJudge().decide(make_item(**fields))
    assert (ruling.correct, ruling.reason, ruling.scores) == (None, reason, {})


@pytest.mark.parametrize(
    "candidate",
    [
        "You did not mention the name of your hamster.",
        "You haven't mentioned a hamster, only a cat.",
        "That isn’t explicitly stated in our conversations.",
        "There is no information about a hamster in the history.",
        "There's no mention of it.",
        "I have no record of that.",
        "The provided context does not specify the date.",
        "I don't know.",
        "I do not actually know that.",
        "It cannot be determined from the conversation.",
        "I'm unable to answer this question.",
        "There is not enough information to answer.",
        "Insufficient information.",
        "I could not find any information about that.",
        "I don't have that information.",
        "The information is not available.",
        "That detail isn't available.",
        "The name is unknown.",
        "Unanswerable",
        "N/A",
        "You never told me which one.",
        "I have no memory of a hamster.",
    ],
)
def test_an_unanswerable_question_wants_the_statement(make_item, candidate):
    item = make_item(unanswerable=True, references=("You mentioned a cat, not a hamster.",), candidate=candidate)
    assert LexicalJudge().decide(item).correct is True


@pytest.mark.parametrize(
    "candidate",
    [
        "",
        "Your hamster is called Biscuit.",
        "Biscuit",
        "You mentioned that it is called Biscuit.",
        "The information is available: it is Biscuit.",
        "It was not Biscuit but Waffle.",
        "He did not leave the state until May.",
        "You not only mentioned Biscuit but also Waffle.",
        "You could not find your keys on Monday.",
        "No, it was Tuesday.",
        "The doctor said no sugar.",
        "You know him from school.",
        "The reference says the information was provided in March.",
    ],
)
def test_a_plain_wrong_answer_to_an_unanswerable_question_is_false(make_item, candidate):
    item = make_item(unanswerable=True, references=(), candidate=candidate)
    assert LexicalJudge().decide(item).correct is False


def test_a_confession_is_no_answer_where_there_is_one(make_item):
    assert LexicalJudge().decide(make_item(candidate="I don't know.")).correct is False


def test_the_id_follows_the_settings():
    changes = [
        {"rule": "exact"},
        {"f1_threshold": 0.6},
        {"choice_rule": "official"},
        {"max_candidate_tokens": 12},
        {"rubric_types": ()},
    ]
    ids = [LexicalJudge(**change).settled("lexical").facts.id for change in ({}, *changes, {"rule": "contains"})]
    assert ids[0] == ids[-1]
    assert len(set(ids)) == 1 + len(changes)


@pytest.mark.parametrize(
    "change", [{"rule": "near"}, {"choice_rule": "kind"}, {"f1_threshold": 0.0}, {"max_candidate_tokens": 0}]
)
def test_settings_out_of_range_are_named(change):
    with pytest.raises(ConfigError, match=rf"judge\.\*\.{next(iter(change))}"):
        LexicalJudge(**change)
