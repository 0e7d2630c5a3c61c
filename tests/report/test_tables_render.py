"""One table object, three files: escaping, alignment, and that the three say the same."""

from __future__ import annotations

import csv
import io

import pytest

from kvrelay.report.tables import Column, Section, Table, as_csv, latex, markdown, md_escape, tex_escape
from kvrelay.report.text import count, interval, number, p_value, precise


def _table(**options: object) -> Table:
    rows = ({"name": "a|b_c", "x": 1.25, "flag": True}, {"name": "[x]\n50 % & $", "x": None, "flag": False})
    columns = (
        Column(head="Name", text=lambda row: row["name"], align="l"),
        Column(head="x", text=lambda row: number(row["x"], decimals=2), over="All"),
    )
    sections = (
        Section(heading="First_one", columns=columns, rows=rows, note="A note."),
        Section(heading="Again", columns=columns[:1], rows=rows[:1], repeats=True),
    )
    given = {"stamps": ("PART: 1 < 2",), "footer": ("n = 2",)} | options
    return Table(name="t", title="A & B", fields=("name", "x", "flag"), sections=sections, **given)  # type: ignore[arg-type]


def test_markdown_whole() -> None:
    assert markdown(_table()) == (
        "# A & B\n\n> - PART: 1 < 2\n\n## First_one\n\n"
        "| Name         | All x |\n"
        "| ------------ | ----: |\n"
        "| a\\|b_c       |  1.25 |\n"
        "| [x] 50 % & $ |     – |\n\n"
        "A note.\n\n## Again\n\n"
        "| Name   |\n| ------ |\n| a\\|b_c |\n\n"
        "---\n\n- n = 2\n"
    )


def test_csv_whole() -> None:
    """Every digit, gaps empty, line breaks quoted, the repeated view left out."""
    text = as_csv(_table())
    assert text == 'name,x,flag\na|b_c,1.25,true\n"[x]\n50 % & $",,false\n'
    assert list(csv.reader(io.StringIO(text)))[2] == ["[x]\n50 % & $", "", "false"]


def test_latex_whole() -> None:
    text = latex(_table())
    assert text.count(r"\begin{table}[t]") == text.count(r"\end{table}") == 2
    assert r"\caption{A \& B. First\_one.}" in text and r"\label{tab:t-2}" in text
    assert "\\textbf{PART: 1 \\textless{} 2}\\\\\n\\begin{tabular}{@{}lr@{}}\n\\toprule\n" in text
    assert " & \\multicolumn{1}{c}{All} \\\\\n\\cmidrule(lr){2-2}\nName & x \\\\\n\\midrule\n" in text
    assert "a\\textbar{}b\\_c & 1.25 \\\\\n{}[x] 50 \\% \\& \\$ & -- \\\\\n\\bottomrule\n" in text
    assert text.count("n = 2") == 2


def test_wide_latex_tables_span_both_columns() -> None:
    column = Column(head="h", text=lambda row: "x")
    section = Section(heading="h", columns=(column,) * 9, rows=({},))
    assert r"\begin{table*}" in latex(Table(name="w", title="w", fields=(), sections=(section,)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("long_mt_bench", "long_mt_bench"),
        ("_x_", r"\_x\_"),
        ("*b* `c`", r"\*b\* \`c\`"),
        ("a\\b", r"a\\b"),
        ("<0.001 <b>", "<0.001 &lt;b>"),
        ("[a](b)", r"[a]\(b)"),
        ("[+1.0, -2.0]†", "[+1.0, -2.0]†"),
        ("a\r\nb\u2028c", "a b c"),
    ],
)
def test_markdown_escapes(text: str, expected: str) -> None:
    assert md_escape(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a_b & 5 % {x}", r"a\_b \& 5 \% \{x\}"),
        ("[-1.0, +2.0]†‡", r"[$-$1.0, +2.0]\textdagger{}\textdaggerdbl{}"),
        ("cluster-t, Qwen2-7B", "cluster-t, Qwen2-7B"),
        ("a \\ b ~ ^ #1", r"a \textbackslash{} b \textasciitilde{} \textasciicircum{} \#1"),
        ("<0.001", r"\textless{}0.001"),
        ("Δ · – ≥", r"$\Delta$ $\cdot$ -- $\geq$"),
    ],
)
def test_latex_escapes(text: str, expected: str) -> None:
    assert tex_escape(text) == expected


def test_numbers() -> None:
    assert [number(v, signed=True) for v in (11.84, -0.04, 0.04, -2.25, None)] == ["+11.8", "0.0", "0.0", "-2.2", "–"]
    assert number(-0.0004, decimals=3) == "0.000"
    assert [p_value(v) for v in (None, 0.0, 0.00049, 0.0005, 1.0)] == ["–", "<0.001", "<0.001", "0.001", "1.000"]
    assert [count(v) for v in (0, None)] == ["0", "–"]
    assert precise(100 / 3) == 33.3333333333 and precise("x") == "x" and precise(None) is None


def test_intervals() -> None:
    row = {"metric": "f1", "difference": 1.0, "low": -1.04, "high": 3.0, "dagger": True, "degenerate": True}
    assert interval(row, "low", "high") == "[-1.0, +3.0]†‡"
    assert interval(row, "low", "high", marks=False) == "[-1.0, +3.0]"
    assert interval({**row, "metric": "loglik", "dagger": False}, "low", "high") == "[-1.040, +3.000]‡"
    assert interval({**row, "low": None}, "low", "high") == "not estimable"
    assert interval({**row, "difference": None}, "low", "high") == "–"
