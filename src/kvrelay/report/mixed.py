"""Inside repaired caches, where it was recorded: what refreshed states read from stale ones, and where they end.

A diagnostic (SUR, appendix H): it explains answers, and large attention to stale states need not mean a large error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from kvrelay.report.names import label, memory, rank
from kvrelay.report.plots import Panel, Series, figure
from kvrelay.report.tables import Column, Section, Table
from kvrelay.report.text import number, precise
from kvrelay.run.record import RunRecord
from kvrelay.stats.arms import MEMORY

NAME = "mixed"
ARM = ("dataset", "model", *MEMORY, "allocator", "budget", "executor")
VALUES = ("stale_key_deviation", "key_deviation", "stale_value_deviation", "value_deviation", "stale_mass")
HEADS = {
    "stale_key_deviation": "Keys, stale",
    "key_deviation": "Keys, refreshed",
    "stale_value_deviation": "Values, stale",
    "value_deviation": "Values, refreshed",
    "stale_mass": "Attention to stale states",
}
TOLD = (
    "Deviation: squared distance from the states of the edited text run afresh, relative to their squared size, over "
    "the refreshed slots, before and after the refresh; mean over examples.",
    "Attention to stale states: share of the refreshed tokens' attention, mean over tokens and query heads; the last "
    "layer's attention is not run by a refresh.",
    "A diagnostic that reads the clean cache. Large attention to stale states need not mean a large error.",
)
Row = Mapping[str, Any]


def files(records: Iterable[RunRecord]) -> dict[str, bytes | str]:
    """``mixed`` as md, csv, tex and a figure over layers; nothing where no record looked inside."""
    rows = _rows(records)
    if not rows:
        return {}
    arms = list(dict.fromkeys(tuple(row[name] for name in ARM) for row in rows))
    means = [_mean(arm, [row for row in rows if tuple(row[name] for name in ARM) == arm]) for arm in arms]
    section = Section(heading="Mean over layers", columns=tuple(_columns(means)), rows=tuple(means))
    title = "Inside repaired caches"
    table = Table(name=NAME, title=title, fields=_fields(rows), sections=(section,), footer=TOLD, data=tuple(rows))
    return {**table.files(), **_figure(arms, rows)}


def _rows(records: Iterable[RunRecord]) -> list[Row]:
    """One row an arm and layer: means over its examples, and how many they are."""
    seen: dict[tuple[Any, ...], list[Mapping[str, float | None]]] = {}
    for record in records:
        for layer, values in enumerate(record.repair.mixed if record.repair else []):
            arm = tuple(getattr(record.cell, name) for name in ARM)
            seen.setdefault((*arm, layer), []).append(values)
    rows: list[Row] = []
    for key, looked in seen.items():
        found = {name: _average([one.get(name) for one in looked]) for name in VALUES}
        rows.append({**dict(zip((*ARM, "layer"), key, strict=True)), **found, "n": len(looked)})
    return sorted(rows, key=lambda row: (*(rank(name, row[name]) for name in ARM), row["layer"]))


def _mean(arm: tuple[str, ...], rows: Sequence[Row]) -> Row:
    found = {name: _average([row[name] for row in rows]) for name in VALUES}
    return {**dict(zip(ARM, arm, strict=True)), **found, "n": max(row["n"] for row in rows)}


def _average(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return precise(sum(known) / len(known)) if known else None


def _fields(rows: Sequence[Row]) -> tuple[str, ...]:
    """The CSV's columns; which cache was edited only where it is not a whole one in every row."""
    told = any(memory(row) for row in rows)
    return (*(name for name in ARM if told or name not in MEMORY), "layer", *VALUES, "n")


def _columns(rows: Sequence[Row]) -> list[Column]:
    heads = {"dataset": "Data set", "model": "Model", "allocator": "Allocator", "budget": "Budget"}
    shown = [name for name in ARM if name not in MEMORY]
    named = [Column(head=heads.get(n, "Executor"), text=partial(_label, n), align="l") for n in shown]
    if any(memory(row) for row in rows):
        named.insert(2, Column(head="Cache", text=_cache, align="l"))
    values = [Column(head=head, text=partial(_number, name)) for name, head in HEADS.items()]
    return [*named, *values, Column(head="n", text=lambda row: str(row["n"]))]


def _label(name: str, row: Row) -> str:
    return label(name, row[name])


def _cache(row: Row) -> str:
    return memory(row) or label("selector", "full")


def _number(name: str, row: Row) -> str:
    return number(row[name], decimals=4)


def _series_name(arm: tuple[str, ...], arms: Sequence[tuple[str, ...]]) -> str:
    """Allocator and budget, then what else tells this arm from the others."""
    names = dict(zip(ARM, arm, strict=True))
    differ = {name for name, values in zip(ARM, zip(*arms, strict=True), strict=True) if len(set(values) - {""}) > 1}
    kinds = ["allocator", "budget", *(name for name in ("executor", "dataset", "model") if name in differ)]
    return ", ".join(part for part in (*(label(kind, names[kind]) for kind in kinds), memory(names)) if part)


def _figure(arms: Sequence[tuple[str, ...]], rows: Sequence[Row]) -> dict[str, bytes]:
    panels = []
    for value, axis in (("key_deviation", "deviation of refreshed keys"), ("stale_mass", "attention to stale states")):
        series = []
        for arm in arms:
            mine = [row for row in rows if tuple(row[name] for name in ARM) == arm and row[value] is not None]
            name = _series_name(arm, arms)
            series.append(Series(name=name, points=tuple((float(row["layer"]), row[value]) for row in mine)))
        panels.append(Panel(title="", x="layer", y=axis, series=tuple(series)))
    return figure("mixed_layers", panels, rows, _fields(rows), " ".join(TOLD))
