"""RoPERelay, section on long answers (Tables 10 and 11): checklists, every position against the baseline."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from kvrelay.report import footer
from kvrelay.report.checklists import HEADS, NAMES, arm_row, entry_row, gap_row, row_rank, warnings
from kvrelay.report.given import Given, Layout
from kvrelay.report.names import label
from kvrelay.report.table1 import counted, names, signed, weak
from kvrelay.report.tables import Column, Row, Section, Table
from kvrelay.report.text import decimals_of, interval, number, p_value
from kvrelay.stats import checklist
from kvrelay.stats.arms import POSITION

MAIN = "helloeval"
BASELINE = "original"
ARMS = POSITION
ALLOCATORS = None
OWNS = ("helloeval.*", "helloeval_*")

FIELDS = (
    *("row", *NAMES, "baseline", "category", "entry", "metric", "unit", *HEADS),
    *("parse_rate", "answer_words", "answer_tokens", "eos", "baseline_value", "position_value", "difference"),
    *("low", "high", "low_t", "high_t", "n", "n_clusters", "n_expected", "n_unscored", "n_missing"),
    *("signflip_p", "holm_p", "note", "judge", "paper_quality", "paper_coverage", "paper_answer_tokens"),
    *("paper_baseline", "paper_position", "paper_difference"),
)
SCALES = (
    "Quality: the plain mean of an answer's grades; factuality and coverage: one entry of the checklist each; 0 to 1. "
    "HelloEval: grades times the category's weights, 0 to 100; rescaled: (score - 75) x 4. Means are over the answers "
    "whose reply could be read."
)
PARSED = (
    "Parsed: replies of the judge that gave grades, of all its replies. A reply that cannot be read is no grade of 0."
)
WORDING = "The judge's template is this project's own wording, so that grades may differ from those of the benchmark's."
LENGTHS = "Words, tokens and the share that ended by themselves (EOS) are over all answers, graded or not."


def render(given: Given) -> Layout:
    """Means of every arm, differences with intervals, and both by category and by entry of the checklist."""
    table = given.results.table
    drawn: dict[str, Any] = {"baseline": given.baseline, "seed": given.seed, "resamples": given.resamples}
    arms = [arm_row(arm, given) for arm in checklist.arms(table)]
    gaps = [gap_row(c, given) for c in checklist.differences(table, **drawn)]
    kinds = [gap_row(c, given, category) for category, c in checklist.by_category(table, **drawn)]
    entries = [entry_row(entry, given) for entry in checklist.by_entry(table, baseline=given.baseline)]
    for rows in (arms, gaps, kinds, entries):
        rows.sort(key=row_rank)
    stamps = (*given.results.stamps, *warnings(arms))
    sections = [*_arm_sections(arms), *_gap_sections(gaps, given), *_kind_sections(kinds, given)]
    main = Table(
        name=MAIN,
        title=f"Checklists of long answers: experiment {given.results.experiment}",
        fields=FIELDS,
        sections=(*sections, *_entry_sections(entries, given)),
        stamps=stamps,
        footer=_footer(given, [*arms, *gaps, *kinds]),
    )
    part = {"arms": arms, "comparisons": gaps, "categories": kinds, "entries": entries}
    return Layout(tables=(main,), part=part, stamps=stamps)


def _by_place(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """Rows of one data set and model under their heading."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(f"{label('dataset', row['dataset'])}, {label('model', row['model'])}", []).append(row)
    return list(found.items())


def _who(rows: Sequence[Row], *, position: bool = True) -> list[Column]:
    return [column for column in names(rows, position=position) if column.head != "Model"]


def _decimal(name: str, decimals: int, row: Row) -> str:
    return number(row[name], decimals=decimals)


def _percent(name: str, row: Row) -> str:
    return number(None if row[name] is None else 100 * row[name])


def _arm_sections(arms: Sequence[Row]) -> list[Section]:
    found = []
    for heading, rows in _by_place(arms):
        shown = [name for name in HEADS if any(row[name] is not None for row in rows)]
        columns = [
            *_who(rows),
            *(Column(head=HEADS[m], text=partial(_decimal, m, decimals_of({"metric": m}))) for m in shown),
            Column(head="parsed, %", text=partial(_percent, "parse_rate")),
            Column(head="n", text=counted("n")),
            Column(head="words", text=partial(_decimal, "answer_words", 1)),
            Column(head="tokens", text=partial(_decimal, "answer_tokens", 1)),
            Column(head="EOS, %", text=partial(_percent, "eos")),
        ]
        papers = (
            ("paper_quality", "Quality", 4),
            ("paper_coverage", "Coverage", 4),
            ("paper_answer_tokens", "tokens", 1),
        )
        columns += [
            Column(head=head, text=partial(_decimal, name, decimals), over="Paper")
            for name, head, decimals in papers
            if any(row[name] is not None for row in rows)
        ]
        found.append(Section(heading=heading, columns=tuple(columns), rows=tuple(rows)))
    return found


def _gap_sections(gaps: Sequence[Row], given: Given) -> list[Section]:
    found = []
    for heading, rows in _by_place(gaps):
        columns = [
            Column(head="Measure", text=lambda row: HEADS[row["metric"]], align="l"),
            *_who(rows),
            *_values(given),
            Column(head="95 % percentile", text=partial(interval, low="low", high="high")),
            Column(head="95 % cluster-t", text=partial(interval, low="low_t", high="high_t", marks=False)),
            Column(head="n", text=counted("n")),
            Column(head="clusters", text=counted("n_clusters")),
            Column(head="sign-flip", text=lambda row: p_value(row["signflip_p"]), over="p"),
            Column(head="Holm", text=lambda row: p_value(row["holm_p"]), over="p"),
            *_paper(rows),
        ]
        title = f"{heading}: difference from {label('position', given.baseline)}"
        found.append(Section(heading=title, columns=tuple(columns), rows=tuple(rows), note=weak(rows)))
    return found


def _kind_sections(kinds: Sequence[Row], given: Given) -> list[Section]:
    found = []
    for heading, rows in _by_place(kinds):
        columns = [
            Column(head="Category", text=lambda row: row["category"], align="l"),
            *_who(rows),
            *_values(given),
            Column(head="95 % percentile", text=partial(interval, low="low", high="high")),
            Column(head="n", text=counted("n")),
            *_paper(rows),
        ]
        found.append(
            Section(
                heading=f"{heading}: quality by category", columns=tuple(columns), rows=tuple(rows), note=weak(rows)
            )
        )
    return found


def _entry_sections(entries: Sequence[Row], given: Given) -> list[Section]:
    found = []
    for heading, rows in _by_place(entries):
        columns = [
            Column(head="Category", text=lambda row: row["category"], align="l"),
            Column(head="Entry", text=counted("entry")),
            *_who(rows),
            *_values(given),
            Column(head="n", text=counted("n")),
        ]
        title = f"{heading}: mean grade by entry of the checklist"
        found.append(Section(heading=title, columns=tuple(columns), rows=tuple(rows)))
    return found


def _values(given: Given) -> list[Column]:
    def plain(name: str, row: Row) -> str:
        return number(row[name], decimals=decimals_of(row))

    return [
        Column(head=label("position", given.baseline), text=partial(plain, "baseline_value")),
        Column(head="Here", text=partial(plain, "position_value")),
        Column(head="Δ", text=signed("difference")),
    ]


def _paper(rows: Sequence[Row]) -> list[Column]:
    if all(row["paper_difference"] is None for row in rows):
        return []
    return [Column(head="Paper Δ", text=signed("paper_difference"))]


def _footer(given: Given, rows: Sequence[Row]) -> tuple[str, ...]:
    datasets = list(dict.fromkeys(row["dataset"] for row in rows))
    marks = {mark: any(row.get(mark) for row in rows) for mark in ("dagger", "degenerate")}
    published = any(value is not None for row in rows for name, value in row.items() if name.startswith("paper_"))
    papers = ["Paper: RoPERelay, Tables 10 and 11, same model, selector, data set and budget."] if published else []
    return (
        *(SCALES, PARSED, WORDING, LENGTHS),
        *footer.method(given.results, datasets, seed=given.seed, resamples=given.resamples),
        *papers,
        *footer.marks(**marks),
        footer.inputs(given.results, given.commits),
    )
