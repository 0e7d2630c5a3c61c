"""Cells of a spreadsheet: nothing is computed, guessed or dropped, and every text comes back."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

from kvrelay.judging.cells import GUARD, read, same, shown

NASTY = [
    "",
    "plain words",
    "=1+1",
    "+49 30",
    "-7",
    "@sum",
    "'tis",
    "''",
    "\ttab",
    "\rcarriage",
    "two\nlines\r\nthree",
    "007",
    "3.50",
    "May 7",
    "2023-05-07",
    "TRUE",
    "no",
    "1E5",
    '="quoted","cells"',
    "a\x00b\x1b[31mred",
    "\ud800 alone, and \udfff",
    "\u202egnirts desrever",
    "\u2028 and \u2029 and \x85",
    "\ufeffmark",
    "back\\slash \\n \\u202e \\\\",
    "émoji 🙂 and \U000e0041",
    " leading and trailing ",
    "tab;semi,comma\t",
    "abc;=1+1",
    "abc\t=1+1",
    "a list\n- one\n+ two\n@three",
    "x\n=cmd|' /C calc'!A0",
    'l;"=1"',
    """l; "" '=1""",
    ";';'';' '=1;\n=2",
    "wide;\uff1d1",
]


@pytest.mark.parametrize("text", NASTY)
def test_every_text_comes_back(text: str) -> None:
    assert read(shown(text)) == text


def test_random_texts_come_back() -> None:
    rng = np.random.default_rng(0)
    odd = [ord(c) for c in "=+-@'\\\t\r\n\x00\u202eut"] + [0xD800, 0x1F642, 0x41]
    for _ in range(2000):
        text = "".join(chr(code) for code in rng.choice(odd, rng.integers(0, 12)))
        assert read(shown(text)) == text, repr(text)


@pytest.mark.parametrize("text", [text for text in NASTY if text])
def test_no_cell_is_a_formula_a_number_a_date_or_a_control(text: str) -> None:
    cell = shown(text)
    assert cell[0] == GUARD or cell[0].isalpha()
    assert cell.casefold() not in ("true", "false", "yes", "no")
    assert all(character.isprintable() or character == "\n" for character in cell)
    cell.encode()


def test_prose_is_left_as_it_is() -> None:
    for text in ("The cup is blue.", "They moved on 7 May 2023, and she said so again a week later.", "Zürich"):
        assert shown(text) == text


@pytest.mark.parametrize("text", NASTY)
def test_line_breaks_of_another_program_and_a_lost_apostrophe_change_nothing(text: str) -> None:
    cell = shown(text)
    assert same(cell.replace("\n", "\r\n"), cell)
    assert same(cell.removeprefix(GUARD), cell)


def test_another_text_is_another() -> None:
    assert not same(shown("=1+1"), shown("=1+2"))
    assert not same("", shown("blue"))
    assert not same(shown("blue "), shown("blue"))


@pytest.mark.parametrize(
    ("separator", "quoting"),
    [(",", csv.QUOTE_MINIMAL), *((sign, how) for sign in ";\t" for how in (csv.QUOTE_MINIMAL, csv.QUOTE_NONE))],
)
def test_no_cell_of_another_separator_begins_a_formula(separator: str, quoting: int) -> None:
    """A sheet is opened by programs that part cells elsewhere, with a comma's quotes in the middle of them."""
    rng = np.random.default_rng(1)
    odd = list("=+-@;\"' \t\n,a1\u00a0\uff1d")
    texts = [*NASTY, *("".join(rng.choice(odd, rng.integers(1, 10))) for _ in range(600))]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerows(["r1", *map(shown, texts[place : place + 4]), "", ""] for place in range(0, len(texts), 4))
    rows = csv.reader(io.StringIO(out.getvalue(), newline=""), delimiter=separator, quoting=quoting)
    assert [cell for row in rows for cell in row if cell.lstrip(' \u00a0"')[:1] in tuple("=+-@\uff1d")] == []


def test_random_separators_come_back() -> None:
    rng = np.random.default_rng(2)
    for _ in range(2000):
        text = "".join(rng.choice(list(";\n'\"=- a"), rng.integers(0, 10)))
        assert read(shown(text)) == text and same(shown(text).removeprefix(GUARD), shown(text)), repr(text)


def test_cells_pass_through_csv() -> None:
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerow([shown(text) for text in NASTY])
    (back,) = csv.reader(io.StringIO(out.getvalue(), newline=""))
    assert [read(cell) for cell in back] == NASTY
