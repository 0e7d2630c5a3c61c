"""SUR, section C.3: regions against isolated tokens at equal numbers of tokens, by support and context length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from kvrelay.report import recovered, reported, verify
from kvrelay.report.columns import (
    MOVES,
    PLACE,
    below,
    by_place,
    counted,
    differences,
    fixed,
    measured,
    moves,
    place,
    plain,
)
from kvrelay.report.given import Given, Layout
from kvrelay.report.names import kind_label, kind_size, label, memory, rank
from kvrelay.report.plots import Panel, Series, figure
from kvrelay.report.recovered import Row
from kvrelay.report.tables import Column, Section, Table
from kvrelay.stats.arms import CELL, REPAIR

MAIN = "holdout"
BASELINE = "shift"
ARMS = REPAIR
ALLOCATORS = None
OWNS = ("holdout.*", "holdout_*")
TITLE = "Regions against isolated tokens"
REGIONS, TOKENS = "sur", "token"
ALL = "all lengths"
METRICS = ("em", "kl")
FIELDS = (
    *(*CELL, "question_type", "em", f"em_{TOKENS}", "kl", f"kl_{TOKENS}"),
    *recovered.gap_fields(TOKENS, METRICS),
    "paper",
)
PAPER = "Paper: SUR, Table 14: 599 cases, exact match of regions less that of tokens over all lengths."


def render(given: Given) -> Layout:
    """Paired differences at equal budgets for all cases and by length, and a figure over length."""
    table = recovered.methods(given.results.table)
    rows = _rows(table, given)
    whole = recovered.rows(table, given)
    checks = verify.verify(given.results, table, whole, compared=rows)
    stamps = (*given.results.stamps, *verify.stamps(checks))
    papers = [PAPER] if any(row["paper"] is not None for row in rows) else []
    foot = below(given, whole, MOVES, papers=papers)
    heading = f"{TITLE} at the same number of tokens: experiment {given.results.experiment}"
    main = Table(name=MAIN, title=heading, fields=FIELDS, sections=_sections(rows), stamps=stamps, footer=foot)
    part = {"verify": verify.as_plain(checks), "differences": rows, "cells": list(whole)}
    return Layout(tables=(main,), figures=_figure(rows, given, [*stamps, *foot]), part=part, stamps=stamps)


def _rows(table: pd.DataFrame, given: Given) -> list[Row]:
    """All cases first, then each length, by budget."""
    pair = table[table["allocator"].isin([REGIONS, TOKENS])]
    kinds = sorted(set(pair["question_type"]) - {""}, key=kind_size)
    parts = [(ALL, pair), *((kind, pair[pair["question_type"] == kind]) for kind in kinds)]
    found: list[dict[str, Any]] = []
    for kind, part in parts if len(pair) else ():
        for row in recovered.beside(part, given, TOKENS, METRICS):
            found.append({**row, "question_type": kind, "n_em": row[f"em_minus_{TOKENS}_n"], "paper": None})
            if kind == ALL:
                found[-1]["paper"] = _paper(row, given)
    order = [kind for kind, _ in parts]
    names = (*PLACE, "budget", "executor")
    return sorted(found, key=lambda r: (*(rank(n, r[n]) for n in names), order.index(r["question_type"])))


def _paper(row: Row, given: Given) -> float | None:
    names = {name: row[name] for name in CELL}
    if memory(row) or reported.altered(given.results.changed, names) or f"allocator.{TOKENS}" in given.results.changed:
        return None
    return reported.load().holdout(model=row["model"], dataset=row["dataset"], budget=row["budget"])


def _sections(rows: Sequence[Row]) -> tuple[Section, ...]:
    return tuple(Section(heading=place(key), columns=_columns(part), rows=tuple(part)) for key, part in by_place(rows))


def _columns(rows: Sequence[Row]) -> tuple[Column, ...]:
    columns = [
        Column(head="Support", text=lambda row: label("budget", row["budget"]), align="l"),
        Column(head="Length", text=lambda row: kind_label(row["question_type"]), align="l"),
    ]
    if len({row["executor"] for row in rows}) > 1:
        columns.insert(1, Column(head="Executor", text=lambda row: label("executor", row["executor"]), align="l"))
    for metric in measured(rows, METRICS):
        columns += _pair(metric)
    columns += [*moves(TOKENS, ""), Column(head="n", text=counted(f"em_minus_{TOKENS}_n"))]
    if any(row["paper"] is not None for row in rows):
        columns.append(Column(head="Paper Δ EM", text=fixed("paper", 2, signed=True)))
    return tuple(columns)


def _pair(metric: str) -> list[Column]:
    over = {"em": "Exact match, %", "kl": "KL, nats a token"}[metric]
    return [
        Column(head="tokens", text=lambda row: plain(row, f"{metric}_{TOKENS}", metric), over=over),
        Column(head="regions", text=lambda row: plain(row, metric, metric), over=over),
        *differences(TOKENS, metric, over),
    ]


def _figure(rows: Sequence[Row], given: Given, told: Sequence[str]) -> dict[str, bytes]:
    """Exact match of both over the context's length, a panel a support size."""
    panels = []
    by_length = [row for row in rows if kind_size(row["question_type"])[1] and row["em"] is not None]
    for key, part in by_place(by_length):
        for budget in dict.fromkeys(row["budget"] for row in part):
            shown = [row for row in part if row["budget"] == budget]
            sizes = sorted({kind_size(row["question_type"])[1] for row in shown})
            series = tuple(
                Series(name=name, points=tuple((float(kind_size(r["question_type"])[1]), r[field]) for r in shown))
                for name, field in (("Regions (SUR)", "em"), ("Isolated tokens", f"em_{TOKENS}"))
            )
            ticks = tuple((float(size), kind_label(str(size))) for size in sizes)
            title = f"{place(key)}: {label('budget', budget)}"
            panels.append(Panel(title=title, x="Context", y="Exact match, %", series=series, ticks=ticks, log=True))
    caption = f"{TITLE}: exact match over context length, experiment {given.results.experiment}. {' '.join(told)}"
    return figure(f"{MAIN}_lengths", panels, rows, FIELDS, caption)
