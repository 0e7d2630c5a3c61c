"""SUR, section 4.3 and B.2-B.3: quality, transitions and post-edit latency on questions with one deleted passage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from kvrelay.report import caveats, latency, locality, recovered, verify
from kvrelay.report.columns import MOVES, below, by_place, fixed, place, several
from kvrelay.report.given import Given, Layout
from kvrelay.report.names import ENDPOINTS, cell_rank, label
from kvrelay.report.plots import Panel, Series, figure
from kvrelay.report.recovered import Row
from kvrelay.report.sweep import beside_section, cells, diagnostics_table
from kvrelay.report.tables import Column, Section, Table
from kvrelay.stats.arms import CELL, REPAIR, memory, split
from kvrelay.stats.pool import POOL, POOLED, Pooled, pooled, pooled_sets

MAIN = "qa"
BASELINE = "shift"
ARMS = REPAIR
ALLOCATORS = None
OWNS = ("qa.*", "qa_*")
TITLE = "Questions with one deleted passage"
PAPER = "Paper: SUR, section 4.3 and Table 9: the same model, all four data sets, SUR at 5 %."


def render(given: Given) -> Layout:
    """Quality by data set and over all, latency by stage, and quality against latency."""
    scope = given.results.table
    table = recovered.methods(scope)
    pool = pooled(table)
    sets = pooled_sets(table)
    rows = [*_pooled_rows(pool, sets, given), *recovered.rows(table, given)]
    others = [*recovered.beside(pool, given, "sur"), *recovered.beside(table, given, "sur")]
    times = [*latency.rows(pool, given, sets), *latency.rows(table, given, {})]
    checks = verify.verify(given.results, table, rows, compared=others, placements=True)
    stamps = (*given.results.stamps, *verify.stamps(checks), *_unpooled(table, pool))
    papers = [PAPER] if any(row["paper_minus_reprefill"] is not None for row in rows) else []
    untold = latency.untimed(table, times)
    foot = below(given, rows, MOVES, caveats.NO_LIKELIHOOD, *untold, papers=papers)
    heading = f"{TITLE}: experiment {given.results.experiment}"
    sections: list[Section] = []
    for key, part in by_place(rows):
        first, *rest = cells(key, part, given, recovered.COMPARED)
        sections += [first, *(_with_paper(section, part) for section in rest[:1]), *rest[1:]]
    sections += [beside_section(key, part) for key, part in by_place(others)]
    sections += [found] if (found := locality.section(rows)) else []
    main = Table(
        name=MAIN, title=heading, fields=recovered.fields(given), sections=tuple(sections), stamps=stamps, footer=foot
    )
    oracle = recovered.rows(recovered.no_methods(scope), given)
    tables = [main, *latency.tables(f"{MAIN}_latency", times, rows, given, stamps)]
    tables += [diagnostics_table(f"{MAIN}_diagnostics", heading, given, oracle, stamps)] if oracle else []
    told = {
        "verify": verify.as_plain(checks),
        "cells": rows,
        "beside_sur": others,
        "locality": locality.localities(rows),
        "latency": times,
        "diagnostics": list(oracle),
    }
    return Layout(tables=tuple(tables), figures=_figure(rows, times, given, [*stamps, *foot]), part=told, stamps=stamps)


def _pooled_rows(pool: pd.DataFrame, sets: Pooled, given: Given) -> list[Row]:
    found: list[Row] = []
    for names, part in split(pool, POOL).items():
        found += recovered.rows(part, given, sets[names])
    return sorted(found, key=cell_rank)


def _unpooled(table: pd.DataFrame, pool: pd.DataFrame) -> list[str]:
    """Arms of models with a pool that are not in it, because a data set lacks them."""
    arm = (*POOL, *REPAIR)
    pools, there = split(pool, POOL), split(pool, arm)
    left = [names for names in split(table, arm) if names[: len(POOL)] in pools and names not in there]
    if not left:
        return []
    told = (dict(zip(arm, names, strict=True)) for names in left)
    shown = [" · ".join(filter(None, (n["model"], *memory(n).values(), *(n[kind] for kind in REPAIR)))) for n in told]
    return [f"Not pooled, as a data set lacks them: {'; '.join(shown)}"]


def _with_paper(section: Section, rows: Sequence[Row]) -> Section:
    """The paper's columns, in the sections that have its numbers; moves are per cent of cases there."""
    heads = {
        "paper_minus_shift": "− Shift",
        "paper_minus_reprefill": "− Re-prefill",
        "paper_repaired": "repaired, %",
        "paper_regressed": "regressed, %",
    }
    printed = [name for name in heads if any(row[name] is not None for row in rows)]
    columns = tuple(
        Column(head=heads[name], text=fixed(name, 2, signed="minus" in name), over="Paper") for name in printed
    )
    return replace(section, columns=(*section.columns, *columns))


def _figure(rows: Sequence[Row], times: Sequence[Row], given: Given, told: Sequence[str]) -> dict[str, bytes]:
    """Exact match against mean post-edit latency: over all data sets where several were measured."""
    seconds = {tuple(row[name] for name in CELL): row["total_s"] for row in times}
    whole = {tuple(row[name] for name in POOL) for row in rows if row["dataset"] == POOLED}
    points = []
    for row in rows:
        taken = seconds.get(tuple(row[name] for name in CELL))
        alone = tuple(row[name] for name in POOL) not in whole
        if taken is not None and (row["dataset"] == POOLED or alone):
            points.append({**{name: row[name] for name in CELL}, "total_s": taken, "em": row["em"], "kl": row["kl"]})
    panels = [
        Panel(title=place(key), x="Mean post-edit latency, s", y=head, series=tuple(_clouds(part, metric)))
        for key, part in by_place(points)
        for metric, head in (("em", "Exact match, %"), ("kl", "KL from Re-prefill, nats a token"))
        if any(row[metric] is not None for row in part)
    ]
    caption = (
        f"{TITLE}: quality against post-edit latency, experiment {given.results.experiment}. Lines join the budgets of "
        f"one allocator. {caveats.POST_EDIT} {caveats.ONE_DEVICE} {' '.join(told)}"
    )
    return figure(f"{MAIN}_quality_latency", panels, points, (*CELL, "total_s", "em", "kl"), caption)


def _clouds(rows: Sequence[Row], metric: str) -> list[Series]:
    arms: dict[tuple[str, str], list[tuple[float, float]]] = {}
    named = several(rows, "executor")
    for row in rows:
        if row[metric] is not None:
            arms.setdefault((row["allocator"], row["executor"]), []).append((row["total_s"], row[metric]))
    found = []
    for (allocator, executor), points in arms.items():
        name = label("allocator", allocator) + (f", {label('executor', executor)}" if named and executor else "")
        found.append(Series(name=name, points=tuple(points), joined=allocator not in ENDPOINTS))
    return found
