"""Multiple choice: the published rule literally, faults included, beside the sound one."""

from __future__ import annotations

import ast
import csv
import re

import pytest

from judges.choices import is_gold, official_choice, sound_choice, without_echoes
from judges.lexical import LexicalJudge

OPTIONS = {"a": "swim at dawn", "b": "run in the park", "c": "climb indoors", "d": "row on the lake"}
ECHO = "(a) swim at dawn (b) run in the park (c) climb indoors (d) row on the lake"
LISTED = "A. swim at dawn\nB. run in the park\nC. climb indoors\nD. row on the lake"

CASES = [
    # answer, gold, official rule, sound rule
    ("<final_answer>(c)", "c", True, True),
    ("<final_answer>(c)</final_answer>", "(C)", True, True),
    ("<final_answer>(b)", "c", False, False),
    ("I weighed (a) and (b). <final_answer> (C) climb indoors", "c", True, True),
    ("<final_answer>(a) <final_answer>(c)", "c", True, True),
    ("<final_answer> c", "c", True, True),
    ("<final_answer> c)", "c", True, True),
    ("**B.** run in the park", "b", True, True),
    ("b", "b", True, True),
    ("a", "a", True, True),
    ("a) swim at dawn", "a", True, True),
    ("The answer is (d).", "d", True, True),
    # the published rule's faults: the article, a rejected option beside the chosen one, the fall-back to all the text
    ("<final_answer> a nice swim", "a", True, False),
    ("I would suggest a swim.", "a", True, False),
    ("Not (a) but (c)", "c", False, True),
    ("(c) is best. <final_answer>", "c", True, False),
    # echoes settle nothing, whatever the gold option is
    (ECHO, "d", False, False),
    (f"<final_answer> {ECHO}", "d", False, False),
    (f"{ECHO} {ECHO}", "d", False, False),
    ("(a) swim at dawn (b) run in the park (c) climb", "c", False, False),
    (LISTED, "a", False, False),
    ("A. swim B. run C. climb D. row", "a", False, False),
    # an echo beside a decision
    (f"{ECHO}. I choose (b).", "b", False, True),
    (f"(b). The options were {ECHO}", "b", False, True),
    # what is no option
    ("D.C. is the capital", "d", False, False),
    ("b because it is near", "b", True, False),
    ("It depends.", "a", False, False),
    ("", "a", False, False),
    ("(e)", "a", False, False),
]


@pytest.mark.parametrize(("answer", "gold", "official", "sound"), CASES)
def test_both_rules_side_by_side(make_item, answer, gold, official, sound):
    assert official_choice(answer, gold) is official
    assert is_gold(sound_choice(answer, OPTIONS), gold, OPTIONS) is sound
    item = make_item(choices=OPTIONS, gold_choice=gold, candidate=answer)
    verdict = LexicalJudge().decide(item)
    assert (verdict.correct, verdict.scores) == (sound, {"official": float(official), "sound": float(sound)})
    assert LexicalJudge(choice_rule="official").decide(item).correct is official


def test_options_with_the_same_text_are_the_same_option():
    twice = {**OPTIONS, "d": "(d)  Run in the PARK", "b": "(b) run in the park"}
    assert is_gold("d", "b", twice)
    assert is_gold("b", "(b)", twice)
    assert not is_gold("a", "b", twice)
    assert not is_gold(None, "b", twice)
    assert not is_gold("a", "b", {})


def test_labels_come_from_the_options():
    five = {**OPTIONS, "e": "rest"}
    assert sound_choice("<final_answer>(e)", five) == "e"
    assert sound_choice("<final_answer>(e)", OPTIONS) is None
    assert sound_choice("(b)", {"a": "yes", "b": "no"}) == "b"
    assert sound_choice("(a) yes (b) no", {"a": "yes", "b": "no"}) is None
    assert sound_choice("(c)", {}) == "c"


@pytest.mark.parametrize(
    ("letters", "kept"),
    [
        ("", ""),
        ("ab", "ab"),
        ("abc", ""),
        ("abcd", ""),
        ("abcdb", "b"),
        ("babcd", "b"),
        ("aabcd", "a"),
        ("abcdabcd", ""),
        ("dcba", "dcba"),
        ("bcd", "bcd"),
        ("abd", "abd"),
    ],
)
def test_without_echoes(letters, kept):
    assert without_echoes(list(letters), "abcd") == list(kept)


def test_real_rows(samples, make_item):
    """On the published rows: the gold letter is right, every other one wrong, and repeating the options is nothing."""
    with (samples / "personamem" / "questions_32k_sample.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows
    for row in rows:
        options = [option.strip() for option in ast.literal_eval(row["all_options"])]
        choices = {re.match(r"\(([a-d])\)", option)[1]: option[3:].strip() for option in options}
        gold = row["correct_answer"].strip("()")
        same = {label for label, text in choices.items() if text == choices[gold]}
        right = {
            label
            for label in choices
            if LexicalJudge()
            .decide(make_item(choices=choices, gold_choice=gold, candidate=f"<final_answer>({label})"))
            .correct
        }
        assert right == same
        echo = make_item(choices=choices, gold_choice=gold, candidate="\n".join(options))
        assert LexicalJudge().decide(echo).scores == {"official": 0.0, "sound": 0.0}
