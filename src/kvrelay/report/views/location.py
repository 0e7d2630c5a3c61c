"""SUR, appendix D: does a repair's effect depend on the evidence's side of the deletion, or on the tail's length?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pandas as pd

from kvrelay.report import caveats, recovered, reported, verify
from kvrelay.report.columns import (
    PLACE,
    Place,
    below,
    by_place,
    counted,
    measured,
    place,
    place_of,
    several,
    value,
    who,
)
from kvrelay.report.given import Given, Layout
from kvrelay.report.names import cell_rank, label, memory
from kvrelay.report.plots import Panel, Series, figure
from kvrelay.report.recovered import Row
from kvrelay.report.tables import Column, Section, Table
from kvrelay.report.text import decimals_of, interval, number, precise
from kvrelay.stats.arms import CELL, REPAIR, group_of, partner, split
from kvrelay.stats.compare import REPAIR_METRICS
from kvrelay.stats.contrast import SIDES, TAILS, Contrast, contrasts
from kvrelay.stats.pool import POOL, POOLED, Pooled, pooled, pooled_sets

MAIN = "location"
BASELINE = "shift"
ARMS = REPAIR
ALLOCATORS = None
OWNS = ("location.*", "location_*")
TITLE = "Effects by the evidence's place"
MEASURES = ("nll", "em")
FIELDS = (
    *(*CELL, "metric", "unit", "contrast", "difference", "low", "high", "low_t", "high_t"),
    *("n", "n_clusters", "n_incomplete", "paper", "paper_low", "paper_high"),
)
ESTIMAND = (
    "Effect: an arm's score less Shift's, case by case. Side contrast: its mean where the evidence stands after the "
    "deletion less that where it stands before; tail contrast: with the long tail less with the short one. Each within "
    "a source question first; a question that lacks a case is left out and counted."
)


def render(given: Given) -> Layout:
    """Contrasts of every arm with intervals, cells by kind of case, and the side contrasts as a figure."""
    table = recovered.methods(given.results.table)
    sets = pooled_sets(table)
    rows = [row for part in (pooled(table), table) for row in _contrasts(part, given, sets)]
    kinds = [
        {**row, "question_type": kind}
        for kind in sorted(set(table["question_type"]) - {""}, key=_kind_rank)
        for row in recovered.means(table[table["question_type"] == kind])
    ]
    checks = verify.verify(given.results, table, recovered.rows(table, given))
    stamps = (*given.results.stamps, *verify.stamps(checks))
    foot = below(given, kinds, *_said(rows))
    heading = f"{TITLE}: experiment {given.results.experiment}"
    main = Table(name=MAIN, title=heading, fields=FIELDS, sections=_sections(rows), stamps=stamps, footer=foot)
    by_kind = Table(
        name=f"{MAIN}_cells",
        title=f"{heading}, every cell",
        fields=("question_type", *CELL, "n_expected", "nll", "em", "n_em", "right", "f1", "kl", "n_kl", "n_suffix"),
        sections=tuple(_cells(key, part) for key, part in by_place(sorted(kinds, key=cell_rank))),
        stamps=stamps,
        footer=foot,
    )
    part = {"verify": verify.as_plain(checks), "contrasts": rows, "cells": kinds}
    return Layout(tables=(main, by_kind), figures=_figure(rows, given, [*stamps, *foot]), part=part, stamps=stamps)


def _kind_rank(kind: str) -> tuple[int, str]:
    """The evidence in the suffix before the prefix, short tails before long ones."""
    listed = [f"{side}-{tail}" for tail in TAILS for side in SIDES]
    return (listed.index(kind) if kind in listed else len(listed), kind)


def _contrasts(table: pd.DataFrame, given: Given, sets: Pooled) -> Iterator[Row]:
    found: list[dict[str, Any]] = []
    for names, group in split(table, group_of(REPAIR)).items():
        arms = split(group, REPAIR)
        for arm, rows in arms.items():
            base = partner(arm, arms, given.baseline)
            if base is None or arm[0] == given.baseline:
                continue
            cell = dict(zip((*group_of(REPAIR), *REPAIR), (*names, *arm), strict=True))
            for metric in (metric for name in MEASURES for metric in REPAIR_METRICS if metric.name == name):
                drawn = {"seed": given.seed, "resamples": given.resamples}
                for contrast in contrasts(rows, arms[base], metric, **drawn):
                    found.append(cell | {"metric": metric.name, "unit": metric.unit} | _estimate(contrast))
    for row in sorted(found, key=lambda row: (MEASURES.index(row["metric"]), cell_rank(row))):
        paper = _paper(row, given, sets[tuple(row[name] for name in POOL)])
        yield {name: precise(value) for name, value in (row | paper).items()}


def _estimate(contrast: Contrast) -> dict[str, Any]:
    e = contrast.estimate
    named = ("low", "high", "low_t", "high_t", "n", "n_clusters", "dagger", "degenerate")
    return {
        "contrast": contrast.name,
        "difference": e.point if e else None,
        **{name: getattr(e, name) if e else None for name in named},
        "n_incomplete": contrast.n_incomplete,
    }


def _paper(row: Row, given: Given, sets: frozenset[str]) -> dict[str, float | None]:
    """The published contrast between sides in likelihood: of replay by data set, of the localized refresh over all."""
    blank: dict[str, float | None] = dict.fromkeys(("paper", "paper_low", "paper_high"))
    shown = sets if row["dataset"] == POOLED else {row["dataset"]}
    said = [{**{name: row[name] for name in CELL}, "dataset": dataset} for dataset in shown]
    changed = f"allocator.{given.baseline}" in given.results.changed
    changed = changed or bool(memory(row)) or any(reported.altered(given.results.changed, one) for one in said)
    if changed or (row["metric"], row["contrast"], given.baseline) != ("nll", "side, both tails", "shift"):
        return blank
    same = {name: row[name] for name in ("model", "dataset", "allocator")}
    numbers = reported.load()
    if row["dataset"] == POOLED and row["allocator"] == "localized":
        found = numbers.localized_contrast(model=row["model"], datasets=sets)
        return blank | dict(zip(blank, found, strict=True)) if found else blank
    return blank | {"paper": numbers.side_contrast(**same)}


def _said(rows: Sequence[Row]) -> list[str]:
    point, low, high = reported.load().localized
    lines = [ESTIMAND, caveats.SIDE_SWAP, caveats.NO_LIKELIHOOD]
    if any(row["allocator"] == "localized" for row in rows):
        lines.append(caveats.NO_EQUIVALENCE)
        lines.append(
            f"Paper, localized refresh: side contrast {point:+.3f} nats [{low:+.3f}, {high:+.3f}], section D.3."
        )
    if any(row["paper"] is not None for row in rows):
        lines.append("Paper: SUR, Table 15, side contrast in likelihood; its text does not say of which model and arm.")
    return lines


def _sections(rows: Sequence[Row]) -> tuple[Section, ...]:
    found = []
    for metric in MEASURES:
        for kind in ("side", "tail"):
            shown = [r for r in rows if r["metric"] == metric and r["contrast"].startswith(kind)]
            for key, part in by_place(sorted(shown, key=cell_rank)):
                heading = f"{place(key)}: {kind} contrast of {metric.upper()} effects, {part[0]['unit']}"
                found.append(Section(heading=heading, columns=_columns(part), rows=tuple(part)))
    return tuple(found)


def _columns(rows: Sequence[Row]) -> tuple[Column, ...]:
    columns = [
        *who(rows),
        Column(head="Contrast", text=lambda row: row["contrast"], align="l"),
        Column(head="Difference", text=lambda row: number(row["difference"], decimals=decimals_of(row), signed=True)),
        Column(head="95 % percentile", text=partial(interval, low="low", high="high")),
        Column(head="95 % cluster-t", text=partial(interval, low="low_t", high="high_t", marks=False)),
        Column(head="questions", text=counted("n")),
        Column(head="incomplete", text=counted("n_incomplete")),
    ]
    if any(row["paper"] is not None for row in rows):
        columns.append(Column(head="Paper", text=_published))
    return tuple(columns)


def _published(row: Row) -> str:
    point = number(row["paper"], decimals=3, signed=True)
    if row["paper_low"] is None:
        return point
    return f"{point} [{', '.join(number(row[f'paper_{end}'], decimals=3, signed=True) for end in ('low', 'high'))}]"


def _cells(key: Place, rows: Sequence[Row]) -> Section:
    kind = Column(head="Evidence and tail", text=lambda row: row["question_type"], align="l")
    values = [value(metric) for metric in measured(rows, ("nll", "em", "f1", "kl"))]
    columns = (*who(rows), kind, *values, Column(head="n", text=counted("n_em")))
    return Section(heading=f"{place(key)}: by kind of case", columns=columns, rows=tuple(rows))


def _figure(rows: Sequence[Row], given: Given, told: Sequence[str]) -> dict[str, bytes]:
    shown = [row for row in rows if row["difference"] is not None]
    panels = []
    for metric, unit in (("nll", "nats a token"), ("em", "percentage points")):
        for kind in ("side", "tail"):
            part = [row for row in shown if row["metric"] == metric and row["contrast"].startswith(kind)]
            if part:
                panels.append(_panel(part, f"{kind.capitalize()} contrast, {metric.upper()}", unit))
    caption = f"{TITLE}: contrasts with their 95 % percentile intervals, experiment {given.results.experiment}."
    return figure(f"{MAIN}_contrasts", panels, shown, FIELDS, " ".join([caption, *told]))


def _panel(rows: Sequence[Row], title: str, unit: str) -> Panel:
    lines = list(dict.fromkeys((place_of(row), row["contrast"]) for row in rows))
    models = several(rows, "model")
    ticks = []
    for at, (key, contrast) in enumerate(lines):
        names = dict(zip(PLACE, key, strict=True))
        told = (label("dataset", names["dataset"]), label("model", names["model"]) if models else "", memory(names))
        ticks.append((float(at), ", ".join([*filter(None, told), contrast.partition(", ")[2]])))
    arms = list(dict.fromkeys((row["allocator"], row["executor"]) for row in rows))
    executors = several(rows, "executor")
    series = []
    for i, (allocator, executor) in enumerate(arms):
        part = [row for row in rows if (row["allocator"], row["executor"]) == (allocator, executor)]
        aside = 0.5 * (i - (len(arms) - 1) / 2) / max(1, len(arms))
        heights = [lines.index((place_of(row), row["contrast"])) + aside for row in part]
        name = label("allocator", allocator) + (f", {label('executor', executor)}" if executors and executor else "")
        points = tuple((row["difference"], height) for row, height in zip(part, heights, strict=True))
        bars = tuple(None if row["low"] is None else (row["low"], row["high"]) for row in part)
        series.append(Series(name=name, points=points, bars=bars, joined=False))
    return Panel(title=title, x=f"Contrast, {unit}", y="", series=tuple(series), ticks=tuple(ticks), sideways=True)
