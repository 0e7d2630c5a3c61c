"""What summary.json, written beside the tables, says of the number that is explained."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kvrelay.core.errors import InvariantError
from kvrelay.report.explain.cell import Asked
from kvrelay.report.explain.pairs import Explained
from kvrelay.report.text import precise
from kvrelay.stats.arms import POSITION

MISSING = object()
SEVERAL_JUDGES = "table12"
"""The view that prints a number under each judge."""


def printed(found: Explained, folder: Path, view: str, content_sha256: str) -> str:
    """A sentence on it. Raises `InvariantError` where a report of these very answers has another number."""
    path = folder / "report" / "summary.json"
    try:
        summary = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return "no report is written yet"
    except ValueError:
        return "report/summary.json is damaged; make the report again"
    if summary.get("content_sha256") != content_sha256:
        return "report/ was made from other answers or verdicts; make it again"
    there = _number(summary, found.asked, view)
    if there is MISSING:
        return f"report/summary.json holds no such number of the view {view}"
    here = precise(found.number)
    if not _same(here, there):
        raise InvariantError(f"explain: the records give {here}, {path} says {there}; make the report again")
    return f"report/summary.json: {there}, equal"


def _same(here: float | None, there: float | None) -> bool:
    """Twelve digits are printed, and a sum in another order may differ in the last."""
    if here is None or there is None:
        return here is there
    return abs(here - there) <= 2e-11 * max(1.0, abs(here))


def _number(summary: Mapping[str, Any], asked: Asked, view: str) -> Any:
    if asked.judge:
        rows = summary.get("views", {}).get(SEVERAL_JUDGES, {}).get("gains", [])
        field = "difference" if asked.base is not None and asked.metric.name == "accuracy" else ""
        wanted = {**asked.names, "judge_id": asked.judge, "baseline": asked.baseline}
    elif asked.arms == POSITION:
        rows = summary.get("cells" if asked.base is None else "comparisons", [])
        wanted = {**asked.names, **({} if asked.base is None else {"metric": asked.metric.name})}
        if asked.base is not None:
            wanted["baseline"] = asked.baseline
        field = asked.metric.name if asked.base is None else "difference"
    else:
        rows = summary.get("views", {}).get(view, {}).get("cells", [])
        wanted = dict(asked.names)
        stem = asked.metric.name
        field = stem if asked.base is None else f"{stem}_minus_{asked.baseline}_difference"
    for row in rows:
        if all(row.get(name, "") == value for name, value in wanted.items() if name in row or value) and field in row:
            return row[field]
    return MISSING
