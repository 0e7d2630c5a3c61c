"""One table, three files: Markdown to read, CSV with every digit, LaTeX (booktabs) to print. All from the same rows."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Literal

from kvrelay.core.errors import visible

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A printed column: its head, how a row becomes its text, and the heading that it may share with its neighbours."""

    head: str
    text: Callable[[Row], str]
    align: Literal["l", "r", "c"] = "r"
    over: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Rows under one heading. ``repeats`` marks a view of rows that the CSV holds already."""

    heading: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    note: str = ""
    repeats: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A named table of sections. ``fields`` are the CSV's columns; stamps stand above, the footer below."""

    name: str
    title: str
    fields: tuple[str, ...]
    sections: tuple[Section, ...]
    stamps: tuple[str, ...] = ()
    footer: tuple[str, ...] = field(default=())
    data: tuple[Row, ...] | None = None
    """The CSV's rows, where the sections show them in another arrangement."""

    def files(self) -> dict[str, str]:
        """File name to content, for the three formats."""
        return {f"{self.name}.md": markdown(self), f"{self.name}.csv": as_csv(self), f"{self.name}.tex": latex(self)}


def markdown(table: Table) -> str:
    """GitHub-flavoured Markdown, columns padded so that it reads as plain text too."""
    parts = [f"# {md_escape(table.title)}"]
    if table.stamps:
        parts.append("\n".join(f"> - {md_escape(stamp)}" for stamp in table.stamps))
    for section in table.sections:
        parts.append(f"## {md_escape(section.heading)}")
        parts.append(_md_grid(section))
        if section.note:
            parts.append(md_escape(section.note))
    if table.footer:
        parts.append("---\n\n" + "\n".join(f"- {md_escape(line)}" for line in table.footer))
    return "\n\n".join(parts) + "\n"


def _md_grid(section: Section) -> str:
    heads = [md_escape(f"{c.over} {c.head}".strip()) for c in section.columns]
    body = [[md_escape(c.text(row)) for c in section.columns] for row in section.rows]
    widths = [max(3, *(len(line[i]) for line in [heads, *body])) for i in range(len(heads))]
    rules = {"l": lambda w: "-" * w, "r": lambda w: "-" * (w - 1) + ":", "c": lambda w: ":" + "-" * (w - 2) + ":"}
    rule = [rules[c.align](width) for c, width in zip(section.columns, widths, strict=True)]
    lines = [_md_line(heads, section.columns, widths), "| " + " | ".join(rule) + " |"]
    return "\n".join([*lines, *(_md_line(line, section.columns, widths) for line in body)])


def _md_line(texts: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    padded = [
        text.ljust(width) if column.align == "l" else text.rjust(width)
        for text, column, width in zip(texts, columns, widths, strict=True)
    ]
    return "| " + " | ".join(padded) + " |"


def md_escape(text: str) -> str:
    """Text that Markdown shows as it is: no cell ends early, no emphasis, no link, no tag."""
    flat = visible(re.sub(r"[\r\n\u2028\u2029]+", " ", text))
    flat = re.sub(r"([\\|*`])", r"\\\1", flat).replace("](", "]\\(")
    flat = re.sub(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\_", flat)
    return re.sub(r"<(?=[A-Za-z!/?])", "&lt;", flat)


def as_csv(table: Table) -> str:
    """``data``, or all rows of all sections: floats as Python writes them, nothing for None, ``true`` and ``false``."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table.fields)
    rows = table.data
    if rows is None:
        rows = tuple(row for section in table.sections if not section.repeats for row in section.rows)
    writer.writerows([_plain(row.get(name)) for name in table.fields] for row in rows)
    return out.getvalue()


def _plain(value: Any) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def latex(table: Table) -> str:
    """One ``table`` environment a section, stamps and footer in each; needs the package booktabs and no other."""
    lines = ["% Made by kvrelay from recorded answers; wants \\usepackage{booktabs}."]
    for i, section in enumerate(table.sections, start=1):
        lines += ["", *_tex_section(table, section, f"tab:{table.name}-{i}")]
    return "\n".join(lines) + "\n"


def _tex_section(table: Table, section: Section, label: str) -> list[str]:
    spec = "".join(column.align for column in section.columns)
    body = [_tex_row([column.text(row) for column in section.columns]) for row in section.rows]
    over = _tex_over(section.columns)
    heads = _tex_row([column.head for column in section.columns])
    wide = "*" if len(section.columns) > 8 else ""
    notes = [line for line in (section.note, *table.footer) if line]
    stamps = [rf"\textbf{{{tex_escape(stamp)}}}\\" for stamp in table.stamps]
    return [
        rf"\begin{{table{wide}}}[t]",
        r"\centering\footnotesize",
        rf"\caption{{{tex_escape(table.title)}. {tex_escape(section.heading)}.}}",
        rf"\label{{{label}}}",
        *stamps,
        rf"\begin{{tabular}}{{@{{}}{spec}@{{}}}}",
        r"\toprule",
        *over,
        heads,
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
        *(rf"\par\smallskip\raggedright\scriptsize {tex_escape(note)}" for note in notes),
        rf"\end{{table{wide}}}",
    ]


def _tex_row(texts: Sequence[str]) -> str:
    """Cells of a row. Braces stand before a leading bracket or star, which the row break above would swallow."""
    line = " & ".join(tex_escape(text) for text in texts)
    return ("{}" if line.startswith(("[", "*")) else "") + line + r" \\"


def _tex_over(columns: Sequence[Column]) -> list[str]:
    if not any(column.over for column in columns):
        return []
    cells, rules, start = [], [], 1
    for over, group in groupby(columns, key=lambda column: column.over):
        width = len(list(group))
        cells.append(rf"\multicolumn{{{width}}}{{c}}{{{tex_escape(over)}}}" if over else " & ".join([""] * width))
        rules += [rf"\cmidrule(lr){{{start}-{start + width - 1}}}"] if over else []
        start += width
    return [" & ".join(cells) + r" \\", " ".join(rules)]


_TEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "†": r"\textdagger{}",
    "‡": r"\textdaggerdbl{}",
    "–": "--",
    "—": "---",
    "−": "$-$",
    "Δ": r"$\Delta$",
    "α": r"$\alpha$",
    "κ": r"$\kappa$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "…": r"\ldots{}",
}
_TEX_PATTERN = re.compile("|".join(map(re.escape, _TEX)))


def tex_escape(text: str) -> str:
    """Text that LaTeX sets as it is; a hyphen before a number becomes a minus sign."""
    flat = visible(re.sub(r"\s+", " ", text))
    escaped = _TEX_PATTERN.sub(lambda match: _TEX[match.group()], flat)
    return re.sub(r"(?<![\w-])-(?=\d)", "$-$", escaped)
