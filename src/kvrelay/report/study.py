"""Everything that the tables, figures and the summary print, computed once: rows of plain values, stamps, footer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kvrelay.report import reported
from kvrelay.report.names import cluster_unit, label, rank
from kvrelay.report.text import DAGGER, DOUBLE, precise
from kvrelay.stats.bootstrap import DAGGER_BELOW
from kvrelay.stats.compare import METRICS, CellSummary, Comparison, compare, summarise_cells
from kvrelay.stats.frame import Results
from kvrelay.stats.paired import detectable

Row = Mapping[str, Any]
ORDER = ("dataset", "model", "selector", "retention", "position")


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """One experiment, ready to print. ``rows`` hold each comparison, and each cell that is compared with nothing."""

    results: Results
    cells: tuple[CellSummary, ...]
    comparisons: tuple[Comparison, ...]
    rows: tuple[Row, ...]
    baseline: str
    seed: int
    resamples: int
    commits: tuple[str, ...] = ()

    @property
    def headline(self) -> str:
        """The position of the main columns: ``roperelay`` where it was measured, else the first in the usual order."""
        positions = sorted({c.position for c in self.comparisons}, key=lambda name: rank("position", name))
        return "roperelay" if "roperelay" in positions or not positions else positions[0]

    @property
    def datasets(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row["dataset"] for row in self.rows))

    def of(self, metric: str, dataset: str | None = None) -> tuple[Row, ...]:
        """Rows of one measure, of one data set or of all."""
        return tuple(r for r in self.rows if r["metric"] == metric and dataset in (None, r["dataset"]))

    def footer(self, rows: Iterable[Row]) -> tuple[str, ...]:
        """What every table says below: what n is, the intervals, judges, clusters, inputs, and the marks that it uses."""
        shown = list(rows)
        return tuple(line for line in (*_method(self), *_marks(shown), _inputs(self)) if line)


def make(
    results: Results, *, baseline: str = "original", seed: int = 0, resamples: int = 10_000, commits: Sequence[str] = ()
) -> Study:
    """Compute all cells and comparisons of an experiment."""
    cells = summarise_cells(results.table)
    found = compare(results.table, baseline=baseline, seed=seed, resamples=resamples)
    compared = {(*_group(c), c.metric.name, p) for c in found for p in (c.baseline, c.position)}
    rows = [_compared(c, results) for c in found]
    rows += [
        _alone(cell, metric.name, results, baseline)
        for cell in cells
        for metric in METRICS
        if (*_group(cell), metric.name, cell.position) not in compared
        and (metric.name == "accuracy" or cell.counted[metric.name])
    ]
    return Study(
        results=results,
        cells=tuple(sorted(cells, key=lambda cell: _sort_key(cell, cell.position))),
        comparisons=found,
        rows=tuple(sorted(rows, key=lambda row: _row_key(row))),
        baseline=baseline,
        seed=seed,
        resamples=resamples,
        commits=tuple(commits),
    )


def _group(item: CellSummary | Comparison) -> tuple[str, str, str, str]:
    return item.model, item.dataset, item.selector, item.retention


def _sort_key(item: CellSummary | Comparison, position: str) -> tuple[Any, ...]:
    names = (item.dataset, item.model, item.selector, item.retention, position)
    return tuple(rank(kind, name) for kind, name in zip(ORDER, names, strict=True))


def _row_key(row: Row) -> tuple[Any, ...]:
    metrics = [metric.name for metric in METRICS]
    return (metrics.index(row["metric"]), *(rank(kind, row[kind] or "") for kind in ORDER))


def _compared(c: Comparison, results: Results) -> Row:
    e = c.estimate
    row = {
        **_names(c, c.metric.name, results),
        "baseline": c.baseline,
        "position": c.position,
        "baseline_value": c.baseline_value,
        "position_value": c.position_value,
        "difference": e.point if e else None,
        "low": e.low if e else None,
        "high": e.high if e else None,
        "low_t": e.low_t if e else None,
        "high_t": e.high_t if e else None,
        "n": e.n if e else 0,
        "n_clusters": e.n_clusters if e else 0,
        "n_expected": c.n_expected,
        "n_unscored": c.n_unscored,
        "n_missing": c.n_missing,
        "note": e.note if e else "not estimable: no pair with this measure",
        "dagger": e.dagger if e else False,
        "degenerate": e.degenerate if e else False,
        "gains": c.moves.gains if c.moves else None,
        "losses": c.moves.losses if c.moves else None,
        "ties": c.moves.ties if c.moves else None,
        "mcnemar_p": c.mcnemar_p,
        "signflip_p": c.signflip_p,
        "holm_p": c.holm_p,
        "detectable": detectable(e.standard_error, e.n_clusters) if e and e.standard_error is not None else None,
        "difference_if_worst": c.worst,
        "difference_if_best": c.best,
    }
    return _finished(row, c.baseline, c.position)


def _alone(cell: CellSummary, metric: str, results: Results, baseline: str) -> Row:
    base = cell.position == baseline
    absent = cell.n - cell.counted[metric]
    missing = min(absent, cell.counts["failed"] + cell.counts["missing"])
    row = {
        **_names(cell, metric, results),
        "baseline": baseline,
        "position": None if base else cell.position,
        "baseline_value": cell.means[metric] if base else None,
        "position_value": None if base else cell.means[metric],
        "n": cell.counted[metric],
        "n_clusters": cell.n_clusters,
        "n_expected": cell.n,
        "n_unscored": absent - missing,
        "n_missing": missing,
        "note": "compared with nothing",
        "dagger": False,
        "degenerate": False,
    }
    return _finished(row, baseline, None if base else cell.position)


def _names(item: CellSummary | Comparison, metric: str, results: Results) -> dict[str, Any]:
    return {
        "dataset": item.dataset,
        "model": item.model,
        "selector": item.selector,
        "retention": item.retention,
        "metric": metric,
        "unit": next(m.unit for m in METRICS if m.name == metric),
        "judge": results.judges.get(item.dataset) if metric == "accuracy" else None,
    }


_BLANK = dict.fromkeys(
    ["difference", "low", "high", "low_t", "high_t", "gains", "losses", "ties", "mcnemar_p", "signflip_p", "holm_p"]
    + ["detectable", "difference_if_worst", "difference_if_best"]
)


def _finished(row: dict[str, Any], baseline: str, position: str | None) -> Row:
    names = {kind: row[kind] for kind in ("model", "selector", "dataset", "retention")}
    asked = row["metric"] == "accuracy"
    paper = reported.load().accuracy(**names, baseline=baseline, position=position) if asked else None
    published = {
        "paper_baseline": paper.baseline if paper else None,
        "paper_position": paper.position if paper else None,
        "paper_difference": paper.difference if paper else None,
        "paper_source": paper.source if paper else None,
    }
    return {name: precise(value) for name, value in (_BLANK | row | published).items()}


def _method(study: Study) -> list[str]:
    results, table = study.results, study.results.table
    judges = "; ".join(f"{label('dataset', data)}: {judge}" for data, judge in results.judges.items())
    clusters = table[table["cluster"] != ""].groupby("dataset")["cluster"].nunique()
    units = "; ".join(f"{label('dataset', d)}: {clusters.get(d, 0)} ({cluster_unit(d)})" for d in study.datasets)
    cut = int((table["stop"] == "length").sum())
    return [
        "n counts the pairs whose two answers both have the measure; values and differences are over these pairs.",
        f"Intervals: 95 %, paired cluster bootstrap, percentile, {study.resamples} resamples, seed {study.seed}; "
        "beside it cluster-t with one degree of freedom less than clusters. Pointwise, not adjusted for their number.",
        f"Clusters: {units}.",
        f"Judge: {judges or 'none'}.",
        f"Answers that ended at the token limit: {cut} of {len(table)}.",
    ]


def _marks(rows: Sequence[Row]) -> list[str]:
    sources = sorted({row["paper_source"] for row in rows if row["paper_source"]})
    lines = [f"Paper: RoPERelay, {', '.join(sources)}, same model, selector, data set and budget."] if sources else []
    if any(row["dagger"] for row in rows):
        lines.append(f"{DAGGER} fewer than {DAGGER_BELOW} clusters: read the cluster-t interval, not the percentile one.")
    if any(row["degenerate"] for row in rows):
        lines.append(f"{DOUBLE} degenerate: all resamples are equal, so that the width says nothing about precision.")
    return lines


def _inputs(study: Study) -> str:
    commits = f"commit {', '.join(study.commits)}; " if study.commits else ""
    return f"Inputs: {commits}answers and verdicts {study.results.content_sha256[:16]} (files: sources.json)."
