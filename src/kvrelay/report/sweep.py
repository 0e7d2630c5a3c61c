"""Allocators over budgets on one kind of case: what the views of Erasing-NIAH, of geometry and of signals print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from kvrelay.report import caveats, kinds, locality, recovered, verify
from kvrelay.report.columns import (
    MOVES,
    Place,
    below,
    by_place,
    compared,
    counted,
    differences,
    fixed,
    inside,
    kl_interval,
    measured,
    moves,
    place,
    several,
    value,
    weak,
    who,
)
from kvrelay.report.given import Given, Layout
from kvrelay.report.names import ENDPOINTS, label, rank
from kvrelay.report.plots import Panel, Series, figure
from kvrelay.report.recovered import SHOWN, Row
from kvrelay.report.tables import Column, Section, Table
from kvrelay.stats.arms import CELL

REFERENCE = "sur"
"""The allocator that others are set beside at equal budget."""
PAPER = "Paper: SUR, Figure 3, Tables 2, 12 and 13: same model, data, allocator and budget."


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What one view is called, and what it is about."""

    name: str
    title: str


def render(sweep: Sweep, given: Given) -> Layout:
    """Tables, figure, checks and numbers of one sweep."""
    scope = given.results.table
    table = recovered.methods(scope)
    rows = recovered.rows(table, given)
    others = recovered.beside(table, given, REFERENCE)
    lengths = kinds.by_kind(table)
    checks = verify.verify(given.results, table, rows, compared=others)
    stamps = (*given.results.stamps, *verify.stamps(checks))
    foot = below(given, rows, MOVES, papers=[PAPER] if any(row["paper_em"] is not None for row in rows) else [])
    heading = f"{sweep.title}: experiment {given.results.experiment}"
    made = {"stamps": stamps, "footer": foot}
    tables = [_main(sweep.name, heading, given, rows, others, made)]
    if lengths:
        tables.append(kinds.table(f"{sweep.name}_lengths", f"{heading}, by kind of case", lengths, made))
    oracle = recovered.rows(recovered.no_methods(scope), given)
    if oracle:
        tables.append(diagnostics_table(f"{sweep.name}_diagnostics", heading, given, oracle, stamps))
    told = [*stamps, *foot]
    return Layout(
        tables=tuple(tables),
        figures=_figure(sweep, rows, told, given),
        part={
            "verify": verify.as_plain(checks),
            "cells": list(rows),
            "beside_sur": list(others),
            "locality": locality.localities(rows),
            "by_kind": list(lengths),
            "diagnostics": list(oracle),
        },
        stamps=stamps,
    )


def _main(
    name: str, heading: str, given: Given, rows: Sequence[Row], others: Sequence[Row], made: dict[str, Any]
) -> Table:
    sections: list[Section] = []
    for key, part in by_place(rows):
        sections += _pivots(key, part)
    if found := locality.section(rows):
        sections.append(found)
    sections += [beside_section(key, part) for key, part in by_place(others)]
    for key, part in by_place(rows):
        sections += cells(key, part, given, ("em", "kl"))
    return Table(name=name, title=heading, fields=recovered.fields(given), sections=tuple(sections), **made)


def _pivots(key: Place, rows: Sequence[Row]) -> list[Section]:
    """A row an allocator, budgets beside each other: exact match with the leak rate, then KL."""
    ends = [row for row in rows if row["allocator"] in ENDPOINTS]
    others = [row for row in rows if row["allocator"] not in ENDPOINTS]
    budgets = sorted({row["budget"] for row in others}, key=lambda name: rank("budget", name))
    arms: dict[tuple[str, str], dict[str, Any]] = {}
    for row in others:
        names = {"allocator": row["allocator"], "executor": row["executor"]}
        arms.setdefault((row["allocator"], row["executor"]), names)[row["budget"]] = row
    pivoted, sections = tuple(arms.values()), []
    if ends:
        columns = (
            *who(ends),
            *(value(metric) for metric in measured(ends, SHOWN)),
            Column(head="n", text=counted("n_em")),
        )
        sections.append(Section(heading=f"{place(key)}: endpoints", columns=columns, rows=tuple(ends), repeats=True))
    for title, metrics in (("exact match, %", ("em", "leak")), ("KL from Re-prefill, nats a token", ("kl",))):
        shown = measured(rows, metrics)
        if pivoted and shown:
            columns = (*_arm(pivoted), *_budgets(budgets, shown), *(_papers(budgets, rows) if "em" in metrics else []))
            sections.append(Section(heading=f"{place(key)}: {title}", columns=columns, rows=pivoted, repeats=True))
    return sections


def _arm(rows: Sequence[Row]) -> list[Column]:
    kinds = ["allocator", *(["executor"] if several(rows, "executor") else [])]
    return [Column(head=kind.capitalize(), text=partial(_label, kind), align="l") for kind in kinds]


def _budgets(budgets: Sequence[str], metrics: Sequence[str]) -> list[Column]:
    return [
        Column(
            head="Leak" if metric == "leak" else metric.upper(),
            text=partial(inside, budget, metric),
            over=label("budget", budget),
        )
        for budget in budgets
        for metric in metrics
    ]


def _papers(budgets: Sequence[str], rows: Sequence[Row]) -> list[Column]:
    """The paper's exact match at the budgets at which it prints one of these."""
    printed = [name for name in budgets if any(r["paper_em"] is not None and r["budget"] == name for r in rows)]
    return [
        Column(head=label("budget", name), text=partial(inside, name, "paper_em"), over="Paper EM") for name in printed
    ]


def _label(kind: str, row: Row) -> str:
    return label(kind, row[kind])


def beside_section(key: Place, rows: Sequence[Row]) -> Section:
    columns = [*who(rows)]
    for metric in measured(rows, ("em", "kl")):
        columns += differences(REFERENCE, metric, f"minus {label('allocator', REFERENCE)}")
    columns += [*moves(REFERENCE, ""), Column(head="n", text=counted(f"em_minus_{REFERENCE}_n"))]
    heading = f"{place(key)}: each allocator less {label('allocator', REFERENCE)} at the same budget"
    return Section(heading=heading, columns=tuple(columns), rows=tuple(rows), repeats=True)


def cells(key: Place, rows: Sequence[Row], given: Given, metrics: Sequence[str]) -> list[Section]:
    """Every cell: its measures and costs, then its differences in each of ``metrics``. Their rows are the CSV's."""
    columns = [*who(rows), *(value(metric) for metric in measured(rows, SHOWN))]
    if measured(rows, ("kl",)):
        columns.append(Column(head="KL 95 %", text=kl_interval))
    columns += [
        Column(head="n", text=counted("n_em")),
        Column(head="states", text=fixed("refreshed_percent", 1), over="% of Replay"),
        Column(head="updates", text=fixed("updates_percent", 1), over="% of Replay"),
        Column(head="pairs", text=fixed("pairs_percent", 1), over="% of Replay"),
        Column(head="intervals", text=fixed("n_intervals", 1)),
    ]
    note = " ".join(part for part in (weak(rows), COUNTS) if part)
    found = [Section(heading=f"{place(key)}: every cell", columns=tuple(columns), rows=tuple(rows), note=note)]
    for metric in measured(rows, metrics):
        heads = (*who(rows), *compared(recovered.against(given), metric))
        title = f"{place(key)}: differences in {MEASURED[metric]}"
        found.append(Section(heading=title, columns=heads, rows=tuple(rows), note=weak(rows), repeats=True))
    return found


MEASURED = {"em": "exact match, pp", "f1": "token F1, pp", "nll": "NLL, nats a token", "kl": "KL, nats a token"}
COUNTS = (
    "States, token-layer updates and causal query-key pairs within the suffix, as shares of Replay's: architectural "
    "counts, no times. Pairs are at most twice the states' share."
)


def diagnostics_table(name: str, heading: str, given: Given, rows: Sequence[Row], stamps: tuple[str, ...]) -> Table:
    sections = tuple(
        Section(heading=place(key), columns=(*who(part), *(value(m) for m in measured(part, SHOWN))), rows=tuple(part))
        for key, part in by_place(rows)
    )
    foot = below(given, rows, caveats.ORACLE)
    title = f"DIAGNOSTIC, no method. {heading}"
    return Table(
        name=name,
        title=title,
        fields=recovered.fields(given),
        sections=sections,
        stamps=(caveats.ORACLE, *stamps),
        footer=foot,
    )


def _figure(sweep: Sweep, rows: Sequence[Row], told: Sequence[str], given: Given) -> dict[str, bytes]:
    """Exact match and KL against the budget, a line an allocator; endpoints are level lines."""
    panels = [
        Panel(
            title=place(key),
            x="Refreshed, % of the suffix",
            y=head,
            series=tuple(_lines(part, metric)),
            ticks=tuple((float(b[1:]), str(int(b[1:]))) for b in _shares(part)),
            log=True,
        )
        for key, part in by_place(rows)
        for metric, head in (("em", "Exact match, %"), ("kl", "KL from Re-prefill, nats a token"))
        if measured(part, (metric,)) and _shares(part)
    ]
    caption = (
        f"{sweep.title}: exact match and KL from Re-prefill against the budget, experiment "
        f"{given.results.experiment}. Dashed levels: endpoints. {' '.join(told)}"
    )
    fields = (*CELL, "em", "n_em", "leak", "kl", "kl_low", "kl_high", "n_kl", "paper_em")
    return figure(f"{sweep.name}_budget", panels, rows, fields, caption)


def _shares(rows: Sequence[Row]) -> list[str]:
    return sorted({row["budget"] for row in rows if row["budget"][:1] == "p" and row["budget"][1:].isdigit()})


def _lines(rows: Sequence[Row], metric: str) -> list[Series]:
    arms: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row[metric] is not None:
            arms.setdefault((row["allocator"], row["executor"]), []).append(row)
    named = several(rows, "executor")
    found = []
    for (allocator, executor), part in arms.items():
        name = label("allocator", allocator) + (f", {label('executor', executor)}" if named and executor else "")
        if allocator in ENDPOINTS:
            found.append(Series(name=name, points=((0.0, part[0][metric]),), level=True))
            continue
        shares = [row for row in part if row["budget"] in _shares(rows)]
        points = tuple((float(row["budget"][1:]), row[metric]) for row in shares)
        found.append(Series(name=name, points=points))
    return found
