"""One printed row as plain values: a comparison, or a cell that is compared with nothing, with the paper's numbers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from kvrelay.report import reported
from kvrelay.report.names import rank
from kvrelay.report.text import precise
from kvrelay.stats.bootstrap import Estimate
from kvrelay.stats.compare import METRICS, CellSummary, Comparison, Metric
from kvrelay.stats.frame import Results
from kvrelay.stats.paired import detectable

Row = Mapping[str, Any]
ORDER = ("dataset", "model", "selector", "retention", "position")
ALONE = "compared with nothing"
"""Note of a row that is no comparison."""
_BLANK = dict.fromkeys(
    (
        *("difference", "low", "high", "low_t", "high_t", "gains", "losses", "ties"),
        *("mcnemar_p", "signflip_p", "holm_p", "maxt_p", "detectable", "difference_if_worst", "difference_if_best"),
        *("baseline_if_wrong", "baseline_if_right", "position_if_wrong", "position_if_right"),
    )
)


def group(item: CellSummary | Comparison) -> tuple[str, str, str, str]:
    """The names that the arms of a pair share."""
    return item.model, item.dataset, item.selector, item.retention


def row_key(row: Row) -> tuple[Any, ...]:
    """Sort key: measure, data set, model, selector, retention, position, each in its printed order."""
    return ([metric.name for metric in METRICS].index(row["metric"]), *(rank(kind, row[kind] or "") for kind in ORDER))


def compared(c: Comparison, results: Results) -> Row:
    """The row of a comparison."""
    row = {
        **_names(c, c.metric, results),
        "baseline": c.baseline,
        "position": c.position,
        "baseline_value": c.baseline_value,
        "position_value": c.value,
        **_estimate(c.estimate),
        "n_expected": c.n_expected,
        "n_unscored": c.n_unscored,
        "n_missing": c.n_missing,
        "gains": c.moves.gains if c.moves else None,
        "losses": c.moves.losses if c.moves else None,
        "ties": c.moves.ties if c.moves else None,
        "mcnemar_p": c.mcnemar_p,
        "signflip_p": c.signflip_p,
        "holm_p": c.holm_p,
        "maxt_p": c.maxt_p,
        "difference_if_worst": c.worst,
        "difference_if_best": c.best,
        **_ends("baseline", c.baseline_ends),
        **_ends("position", c.ends),
    }
    return _finished(row, c.baseline, c.position, results.changed)


def _ends(arm: str, ends: tuple[float, float] | None) -> dict[str, float | None]:
    low, high = ends or (None, None)
    return {f"{arm}_if_wrong": low, f"{arm}_if_right": high}


def alone(cell: CellSummary, metric: Metric, results: Results, baseline: str) -> Row:
    """The row of a cell without a partner: its value stands in the baseline's column if it is at the baseline."""
    base = cell.position == baseline
    value = cell.means[metric.name]
    absent = cell.n - cell.counted[metric.name]
    gaps = ("failed", "missing", "unjudged") if metric.judged else ("failed", "missing")
    bounds = (cell.accuracy_bound(unknown_right=False), cell.accuracy_bound(unknown_right=True))
    missing = min(absent, sum(cell.counts[status] for status in gaps))
    row = {
        **_names(cell, metric, results),
        "baseline": baseline,
        "position": None if base else cell.position,
        "baseline_value": value if base else None,
        "position_value": None if base else value,
        **_estimate(None),
        **_ends("baseline" if base else "position", bounds),
        "n": cell.counted[metric.name],
        "n_clusters": cell.n_clusters,
        "n_expected": cell.n,
        "n_unscored": absent - missing,
        "n_missing": missing,
        "note": ALONE,
    }
    return _finished(row, baseline, None if base else cell.position, results.changed)


def _names(item: CellSummary | Comparison, metric: Metric, results: Results) -> dict[str, Any]:
    return {
        "dataset": item.dataset,
        "model": item.model,
        "selector": item.selector,
        "retention": item.retention,
        "metric": metric.name,
        "unit": metric.unit,
        "judge": results.judges.get(item.dataset) if metric.name == "accuracy" else None,
    }


def _estimate(e: Estimate | None) -> dict[str, Any]:
    if e is None:
        empty = {"n": 0, "n_clusters": 0, "dagger": False, "degenerate": False}
        return empty | {"note": "not estimable: no pair with this measure"}
    return {
        "difference": e.point,
        "low": e.low,
        "high": e.high,
        "low_t": e.low_t,
        "high_t": e.high_t,
        "n": e.n,
        "n_clusters": e.n_clusters,
        "note": e.note,
        "dagger": e.dagger,
        "degenerate": e.degenerate,
        "detectable": detectable(e.standard_error, e.n_clusters) if e.standard_error else None,
    }


def _finished(row: dict[str, Any], baseline: str, position: str | None, changed: Collection[str]) -> Row:
    names = {kind: row[kind] for kind in ("model", "selector", "dataset", "retention")}
    as_named = not any(reported.altered(changed, {**names, "position": place}) for place in (baseline, position))
    asked = row["metric"] == "accuracy" and as_named
    paper = reported.load().accuracy(**names, baseline=baseline, position=position) if asked else None
    published = {
        "paper_baseline": paper.baseline if paper else None,
        "paper_position": paper.position if paper else None,
        "paper_difference": paper.difference if paper else None,
        "paper_source": paper.source if paper else None,
    }
    return {name: precise(value) for name, value in (_BLANK | row | published).items()}
