"""summary.json: every number that the tables and figures print, by name, timings apart."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pandas as pd

from kvrelay.report import reported
from kvrelay.report.given import Given, Layout
from kvrelay.report.rows import ALONE, Row
from kvrelay.report.study import Study
from kvrelay.report.text import precise
from kvrelay.stats.arms import CELL, REPAIR, group_of
from kvrelay.stats.compare import CellSummary
from kvrelay.stats.frame import GROUP, Results
from kvrelay.stats.measures import STAGES, TIMES

TABLE1 = "table1"
_PRIVATE = {"dagger", "paper_baseline", "paper_position", "paper_difference", "paper_source"}


def summary(
    view: str, given: Given, layout: Layout, sources: Mapping[str, Any], kept: Mapping[str, Any]
) -> dict[str, Any]:
    """The whole report as plain values. Two runs that measured the same agree in all but ``sources`` and ``timings``.

    ``kept`` are the parts of other views of the same answers, made earlier. Table 1's part stands at the top.
    """
    results = given.results
    parts = layout.part if view == TABLE1 else {"views": {**kept, view: layout.part}}
    return {
        "experiment": results.experiment,
        "baseline": given.baseline,
        "seed": given.seed,
        "resamples": given.resamples,
        "judges": dict(results.judges),
        "content_sha256": results.content_sha256,
        "stamps": list(layout.stamps),
        **parts,
        "failed": _listed(results.incomplete),
        "unscored": _listed(results.table[results.table["status"] == "unscored"]),
        "sources": dict(sources),
        "timings": _timings(results),
    }


def kept_parts(written: str | None, given: Given) -> dict[str, Any]:
    """Parts of views in an earlier summary that are still true: of the same answers, drawn in the same way."""
    try:
        old = json.loads(written or "{}")
    except ValueError:
        return {}
    now: dict[str, Any] = {"content_sha256": given.results.content_sha256, "baseline": given.baseline}
    now |= {"seed": given.seed, "resamples": given.resamples}
    if not isinstance(old, dict) or any(old.get(name) != value for name, value in now.items()):
        return {}
    return dict(old.get("views", {}))


def table1_part(study: Study) -> dict[str, Any]:
    """All cells and comparisons of positions."""
    return {
        "cells": [_cell(cell, study) for cell in study.cells],
        "comparisons": [_comparison(row) for row in study.rows if row["note"] != ALONE],
    }


def as_json(value: Mapping[str, Any]) -> str:
    """Indented JSON; a number that is not finite is an error."""
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _cell(cell: CellSummary, study: Study) -> dict[str, Any]:
    names = {name: getattr(cell, name) for name in CELL if name not in REPAIR}
    as_named = not reported.altered(study.results.changed, names)
    paper = reported.load().value(**names, baseline=study.baseline) if as_named else None
    values = {
        **names,
        "n": cell.n,
        "n_clusters": cell.n_clusters,
        **{f"n_{status}": count for status, count in cell.counts.items()},
        "unscored_reasons": cell.unscored_reasons,
        "stop_length": cell.stop_length,
        "answer_tokens": cell.answer_tokens,
        **cell.means,
        "n_by_measure": cell.counted,
        "accuracy_if_unknown_wrong": cell.accuracy_bound(unknown_right=False),
        "accuracy_if_unknown_right": cell.accuracy_bound(unknown_right=True),
        "reported": paper,
    }
    return {name: precise(value) for name, value in values.items()}


def _comparison(row: Row) -> dict[str, Any]:
    """A row with both values also under their positions' names (``original``, ``roperelay``)."""
    paper = {
        "source": row["paper_source"],
        "baseline": row["paper_baseline"],
        "position": row["paper_position"],
        "difference": row["paper_difference"],
    }
    return {
        **{name: value for name, value in row.items() if name not in _PRIVATE},
        row["baseline"]: row["baseline_value"],
        row["position"]: row["position_value"],
        "reported": paper if row["paper_source"] else None,
    }


def _listed(rows: pd.DataFrame) -> list[dict[str, Any]]:
    told = ("example_id", "key", "status", "reason")
    return [{**cell_names(row), **{name: row[name] for name in told}} for _, row in rows.iterrows()]


def cell_names(row: Mapping[str, Any] | pd.Series) -> dict[str, str]:
    """The names of a row's cell; those of a repair only where there was one."""
    return {name: row[name] for name in CELL if row[name] or name not in REPAIR}


def _timings(results: Results) -> dict[str, Any]:
    """What the machine and the order of work decide: medians by stage in seconds, peak memory, shared batches."""
    table = results.table
    pairs = _batches(table)
    cells = [rows for _, rows in table.groupby(CELL, sort=True) if rows[STAGES[0]].notna().any()]
    return {
        "cells": [_times(rows) for rows in cells],
        "pairs": len(pairs),
        "pairs_decoded_apart": int((pairs["nunique"] > 1).sum()),
    }


def _batches(table: pd.DataFrame) -> pd.DataFrame:
    """How many answers there are to an example that stand beside each other, and in how many kinds of batch."""
    answered = table[(table["batch"] != "") & ~table["status"].isin(["missing", "failed"])]
    repairs = answered["allocator"] != ""
    kinds = ((answered[~repairs], GROUP), (answered[repairs], group_of(REPAIR)))
    found = [rows.groupby([*names, "example_id"])["batch"].agg(["size", "nunique"]) for rows, names in kinds]
    pairs = pd.concat([one.reset_index(drop=True) for one in found])
    return pairs[pairs["size"] > 1]


def _times(rows: pd.DataFrame) -> dict[str, Any]:
    names = cell_names(rows.iloc[0])
    stages = TIMES if "allocator" in names else STAGES
    timed = rows.dropna(subset=stages)
    return {
        **names,
        "n": len(timed),
        "in_shared_batch": int((timed["batch_rows"] > 1).sum()),
        **{f"median_{stage}": float(timed[stage].median()) for stage in stages},
        "peak_memory_bytes": int(timed["peak_memory_bytes"].max()),
    }
