"""Table 1: answer quality at the baseline's positions and at others, by data set, model and selector."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from kvrelay.report.bounds import FIELDS as BOUNDS
from kvrelay.report.bounds import bounded
from kvrelay.report.names import MEASURES, label
from kvrelay.report.rows import Row
from kvrelay.report.study import Study
from kvrelay.report.tables import Column, Section, Table
from kvrelay.report.text import NOTHING, count, decimals_of, interval, number
from kvrelay.stats.bootstrap import WARN_BELOW

FIELDS = (
    *("metric", "unit", "dataset", "model", "selector", "retention", "baseline", "position"),
    *("baseline_value", "position_value", "difference", "low", "high", "low_t", "high_t"),
    *("n", "n_clusters", "n_expected", "n_unscored", "n_missing", *BOUNDS, "note"),
    *("paper_baseline", "paper_position", "paper_difference", "paper_source", "judge"),
)


def table1(study: Study) -> Table:
    """Accuracy first: an overview where there are several data sets, then each in full; other measures below."""
    accuracy = study.of("accuracy")
    main = [row for row in accuracy if _is_main(row, study.headline)]
    sections = [*_overview(study, main)]
    for dataset in study.datasets:
        rows = study.of("accuracy", dataset)
        sections += _sections(study, dataset, rows)
    sections += [_measure(study, metric) for metric in MEASURES if metric != "accuracy" and study.of(metric)]
    return Table(
        name="table1",
        title=f"{label('position', study.headline)} against {label('position', study.baseline)}: "
        f"experiment {study.results.experiment}",
        fields=FIELDS,
        sections=tuple(sections),
        stamps=study.results.stamps,
        footer=study.footer(study.rows),
    )


def names(rows: Sequence[Row], *, dataset: bool = False, position: bool = False) -> list[Column]:
    """Columns that say whose row it is; the retention only where rows differ in it."""
    budgets = {row["retention"] for row in rows if row["selector"] != "full"}
    shown = {"dataset": dataset, "model": True, "selector": True, "retention": len(budgets) > 1, "position": position}
    heads = {"dataset": "Data set", "model": "Model", "selector": "Selector", "retention": "Retention"}
    return [
        Column(head=heads.get(kind, "Position"), text=partial(_name, kind), align="l")
        for kind, wanted in shown.items()
        if wanted
    ]


def weak(rows: Iterable[Row]) -> str:
    """A warning where the percentile interval covers too little."""
    few = sorted(
        {row["n_clusters"] for row in rows if row["difference"] is not None and row["n_clusters"] < WARN_BELOW}
    )
    if not few:
        return ""
    counts = ", ".join(map(str, few))
    return (
        f"Fewer than {WARN_BELOW} clusters ({counts}): percentile intervals are too narrow, cluster-t holds its level."
    )


def signed(name: str) -> Callable[[Row], str]:
    """A difference with its sign."""
    return lambda row: number(row[name], decimals=decimals_of(row), signed=True)


def counted(name: str) -> Callable[[Row], str]:
    """A whole number."""
    return lambda row: count(row[name])


def _sections(study: Study, dataset: str, rows: Sequence[Row]) -> list[Section]:
    main = [row for row in rows if _is_main(row, study.headline)]
    other = [row for row in rows if not _is_main(row, study.headline)]
    heading = f"{label('dataset', dataset)}: accuracy, %"
    found = []
    if main:
        columns = [*names(main), *_numbers(study, label("position", study.headline), main)]
        found.append(Section(heading=heading, columns=tuple(columns), rows=tuple(main), note=weak(main)))
    if other:
        columns = [*names(other, position=True), *_numbers(study, "Here", other)]
        title = f"{heading}, other positions"
        found.append(Section(heading=title, columns=tuple(columns), rows=tuple(other), note=weak(other)))
    return found


def _measure(study: Study, metric: str) -> Section:
    rows = study.of(metric)
    several = any(row["position"] not in (None, study.headline) for row in rows)
    value = "Here" if several else label("position", study.headline)
    columns = [*names(rows, dataset=True, position=several), *_numbers(study, value, rows)]
    return Section(heading=MEASURES[metric], columns=tuple(columns), rows=rows, note=weak(rows))


def _numbers(study: Study, position: str, rows: Sequence[Row]) -> list[Column]:
    columns = [
        *_pair(study, position, ""),
        Column(head="95 % percentile", text=partial(interval, low="low", high="high")),
        Column(head="95 % cluster-t", text=partial(interval, low="low_t", high="high_t", marks=False)),
        Column(head="n", text=counted("n")),
        Column(head="clusters", text=counted("n_clusters")),
        Column(head="unscored", text=counted("n_unscored")),
    ]
    if any(row["n_missing"] for row in rows):
        columns.append(Column(head="missing", text=counted("n_missing")))
    if any(row["paper_source"] for row in rows):
        columns += _pair(study, position, "Paper", fields=("paper_baseline", "paper_position", "paper_difference"))
    return columns


def _pair(
    study: Study, position: str, over: str, fields: Sequence[str] = ("baseline_value", "position_value", "difference")
) -> list[Column]:
    before, after, difference = fields
    return [
        Column(head=label("position", study.baseline), text=bounded(before), over=over),
        Column(head=position, text=bounded(after), over=over),
        Column(head="Δ", text=bounded(difference, signed=True), over=over),
    ]


def _overview(study: Study, main: Sequence[Row]) -> list[Section]:
    """The paper's own layout: a row a (model, selector), three columns a data set."""
    datasets = [name for name in study.datasets if any(row["dataset"] == name for row in main)]
    if len(datasets) < 2:
        return []
    merged: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in sorted(main, key=lambda row: [r["model"] for r in main].index(row["model"])):
        key = (row["model"], row["selector"], row["retention"])
        merged.setdefault(key, {name: row[name] for name in ("model", "selector", "retention")})[row["dataset"]] = row
    rows = tuple(merged.values())
    heads = (
        (label("position", study.baseline), bounded("baseline_value")),
        (label("position", study.headline), bounded("position_value")),
        ("Δ", bounded("difference", signed=True)),
    )
    columns = [
        Column(head=head, text=partial(_inside, dataset, text), over=label("dataset", dataset))
        for dataset in datasets
        for head, text in heads
    ]
    heading = "Overview: accuracy, %"
    return [Section(heading=heading, columns=(*names(rows), *columns), rows=rows, repeats=True)]


def _is_main(row: Row, headline: str) -> bool:
    return row["position"] in (None, headline)


def _inside(dataset: str, text: Callable[[Row], str], row: Mapping[str, Any]) -> str:
    return text(row[dataset]) if dataset in row else NOTHING


def _name(kind: str, row: Row) -> str:
    if kind == "position":
        return label(kind, row[kind] or row["baseline"])
    return label(kind, row[kind])
