"""summary.json: every number that the tables and figures print, by name, timings apart."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pandas as pd

from kvrelay.report import reported
from kvrelay.report.rows import ALONE, Row
from kvrelay.report.study import Study
from kvrelay.report.text import precise
from kvrelay.stats.compare import CellSummary
from kvrelay.stats.frame import CELL, GROUP, STAGES

_PRIVATE = {"dagger", "paper_baseline", "paper_position", "paper_difference", "paper_source"}


def summary(study: Study, sources: Mapping[str, Any]) -> dict[str, Any]:
    """The whole study as plain values. Two runs that measured the same agree in all but ``sources`` and ``timings``."""
    results = study.results
    return {
        "experiment": results.experiment,
        "baseline": study.baseline,
        "seed": study.seed,
        "resamples": study.resamples,
        "judges": dict(results.judges),
        "content_sha256": results.content_sha256,
        "stamps": list(results.stamps),
        "cells": [_cell(cell, study.baseline) for cell in study.cells],
        "comparisons": [_comparison(row) for row in study.rows if row["note"] != ALONE],
        "failed": _listed(results.incomplete),
        "unscored": _listed(results.table[results.table["status"] == "unscored"]),
        "sources": dict(sources),
        "timings": _timings(study),
    }


def as_json(value: Mapping[str, Any]) -> str:
    """Indented JSON; a number that is not finite is an error."""
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _cell(cell: CellSummary, baseline: str) -> dict[str, Any]:
    names = {name: getattr(cell, name) for name in CELL}
    paper = reported.load().value(**names, baseline=baseline)
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
    return [
        {name: row[name] for name in (*CELL, "example_id", "key", "status", "reason")} for _, row in rows.iterrows()
    ]


def _timings(study: Study) -> dict[str, Any]:
    """What the machine and the order of work decide: medians by stage in seconds, peak memory, shared batches."""
    table = study.results.table
    answered = table[table["batch"] != ""]
    pairs = answered.groupby([*GROUP, "example_id"])["batch"].agg(["size", "nunique"])
    pairs = pairs[pairs["size"] > 1]
    return {
        "cells": [_times(cell, rows) for cell, rows in table.groupby(CELL, sort=True) if rows[STAGES[0]].notna().any()],
        "pairs": len(pairs),
        "pairs_decoded_apart": int((pairs["nunique"] > 1).sum()),
    }


def _times(cell: Any, rows: pd.DataFrame) -> dict[str, Any]:
    timed = rows.dropna(subset=STAGES)
    return {
        **dict(zip(CELL, cell, strict=True)),
        "n": len(timed),
        "in_shared_batch": int((timed["batch_rows"] > 1).sum()),
        **{f"median_{stage}": float(timed[stage].median()) for stage in STAGES},
        "peak_memory_bytes": int(timed["peak_memory_bytes"].max()),
    }
