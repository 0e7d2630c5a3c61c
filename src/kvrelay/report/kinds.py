"""Repaired cells by the cases' kind: on Erasing-NIAH their context length."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pandas as pd

from kvrelay.report import recovered
from kvrelay.report.columns import by_place, inside, measured, place, who
from kvrelay.report.names import cell_rank, kind_label, kind_size
from kvrelay.report.recovered import Row
from kvrelay.report.tables import Column, Section, Table
from kvrelay.stats.arms import CELL


def by_kind(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Means by the cases' kind (their context length), where there are several."""
    kinds = sorted(set(table["question_type"]) - {""}, key=kind_size)
    if len(kinds) < 2:
        return []
    return [
        {"question_type": kind, **{name: row[name] for name in BY_KIND}}
        for kind in kinds
        for row in recovered.means(table[table["question_type"] == kind])
    ]


BY_KIND = (*CELL, "n_expected", "em", "n_em", "right", "leak", "n_leak", "kl", "n_kl", "n_suffix")


def table(name: str, title: str, rows: Sequence[Row], made: dict[str, Any]) -> Table:
    """Allocators and budgets downwards, kinds of case beside each other, one section a measure."""
    kinds = list(dict.fromkeys(row["question_type"] for row in rows))
    sections = []
    for metric, head in (("em", "exact match, %"), ("leak", "leak rate, %"), ("kl", "KL, nats a token")):
        for key, part in by_place(sorted(rows, key=cell_rank)):
            if measured(part, (metric,)):
                sections.append(_length_section(f"{place(key)}: {head}", metric, kinds, part))
    fields = ("question_type", *BY_KIND)
    return Table(name=name, title=title, fields=fields, sections=tuple(sections), data=tuple(rows), **made)


def _length_section(heading: str, metric: str, kinds: Sequence[str], rows: Sequence[Row]) -> Section:
    arms: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in rows:
        names = {kind: row[kind] for kind in ("allocator", "budget", "executor")}
        arms.setdefault(tuple(names.values()), names)[f"at {row['question_type']}"] = row
    pivoted = tuple(arms.values())
    columns = [*who(pivoted), *(Column(head=kind_label(k), text=partial(inside, f"at {k}", metric)) for k in kinds)]
    return Section(heading=heading, columns=tuple(columns), rows=pivoted, repeats=True)
