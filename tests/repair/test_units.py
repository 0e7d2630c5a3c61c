"""Segmentation: units partition the suffix, and tokens fall to the unit that their first visible character is in."""

from __future__ import annotations

import random

import pytest

from kvrelay.repair.units import segment


def units(*pieces: str, special: tuple[int, ...] = ()) -> list[str]:
    """The units' texts."""
    spans = segment(pieces, [index in special for index in range(len(pieces))])
    return ["".join(pieces[start:end]) for start, end in spans]


def lengths(*pieces: str, special: tuple[int, ...] = ()) -> list[int]:
    return [end - start for start, end in segment(pieces, [index in special for index in range(len(pieces))])]


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (["One", " two", ".", " Three", "!"], ["One two.", " Three!"]),
        (["One", "?", " Two", ";", " three"], ["One?", " Two;", " three"]),
        (["One", ".\n\n", "Two"], ["One.\n\n", "Two"]),  # a token that joins full stop and line breaks closes
        (["One", "\n", "\n", "Two"], ["One\n\n", "Two"]),
        (["One", ".", "\n", "\n", "Two"], ["One.\n\n", "Two"]),
        (["One", "\n ", "  ", " two"], ["One\n ", "   two"]),  # a line's indent goes with the line
        (["One", ".", " ", " Two"], ["One.", "  Two"]),
        (["One", ".", " \n"], ["One. \n"]),
        (["One", "\nTwo", " three"], ["One", "\nTwo three"]),  # the first visible character decides
        (["Pi", " is", " 3", ".", "14", "."], ["Pi is 3.14."]),
        (["v", "1", ".", "2", ".", "3", " runs"], ["v1.2.3 runs"]),
        (["J", ".", " K", ".", " Rowling", " wrote", "."], ["J. K. Rowling wrote."]),
        (["Dr", ".", " Ames", " left", "."], ["Dr. Ames left."]),
        (["the", " U", ".S", ".", " senate"], ["the U.S. senate"]),
        (["Dr", ".\n", "Ames"], ["Dr.\n", "Ames"]),  # a line break closes whatever stands before it
        (['"', "Go", '."', " Then"], ['"Go."', " Then"]),
        (["(", "so", ".)", " Then"], ["(so.)", " Then"]),
        (["wait", "...", " Now"], ["wait...", " Now"]),
        (["看", "。", "好", "！", "走"], ["看。", "好！", "走"]),  # CJK marks need no space after them
        (["a", ".b", " c"], ["a.b c"]),
        (["no", " border", " at", " all"], ["no border at all"]),
        (["x"], ["x"]),
        ([], []),
    ],
)
def test_borders(pieces: list[str], expected: list[str]) -> None:
    assert units(*pieces) == expected


def test_a_unit_without_words_joins_the_one_before_or_the_next() -> None:
    assert units("One", ".", " *", "\n", "***", "\n", "Two", ".") == ["One. *\n***\n", "Two."]
    assert units("\n", "—", "\n", "One", ".", " Two") == ["\n—\nOne.", " Two"]
    assert units(".", "\n", "!") == [".\n!"]


def test_template_tokens_are_borders_and_part_of_a_unit() -> None:
    pieces = ("Hi", " there", "<|end|>", "\n", "<|start|>", "user", "\n", "Bye", ".")
    assert units(*pieces, special=(2, 3, 4, 5, 6)) == ["Hi there<|end|>\n<|start|>user\n", "Bye."]
    assert units("<|end|>", "\n", "Bye", special=(0, 1)) == ["<|end|>\nBye"]
    assert units("<|end|>", "<|start|>", special=(0, 1)) == ["<|end|><|start|>"]


def test_separator_tokens_inside_text_are_text() -> None:
    # LMCache#2026, #2029: a separator's tokens inside a passage misaligned the chunks
    pieces = ("The", " mark", " <|end|>", " is", " text", ".", " Next")
    assert units(*pieces) == ["The mark <|end|> is text.", " Next"]


def test_parts_of_a_character_go_with_it() -> None:
    """Byte-level tokens: the last part has the character's text; the others have none, at whatever offset."""
    assert lengths("One", "\n", "", "", "好", " two", ".", " Three") == [2, 5, 1]
    assert lengths("看", "", "", "。", "", "好") == [4, 2]
    assert lengths("One", ".", "", "", "") == [5]
    assert lengths("", "", "好") == [3]


def test_a_sentence_that_the_deletion_cut_starts_at_the_splice() -> None:
    assert units(" the", " rest", ".", " Whole", " one", ".") == [" the rest.", " Whole one."]


def test_units_partition_any_suffix() -> None:
    draw = random.Random(0)
    alphabet = ["a", " b", ".", "\n", " ", "", "。", ".\n\n", "!?", " Dr", "1", '"', "<|x|>", "é", "\r\n", "\t"]
    for _ in range(500):
        pieces = [draw.choice(alphabet) for _ in range(draw.randrange(1, 30))]
        special = [piece == "<|x|>" for piece in pieces]
        spans = segment(pieces, special)
        assert [index for start, end in spans for index in range(start, end)] == list(range(len(pieces)))
        wordless = [not any(c.isalnum() for i in range(*span) if not special[i] for c in pieces[i]) for span in spans]
        assert not any(wordless) or len(spans) == 1
