"""Rows of answers that a checklist was held to, as plain values with the paper's numbers beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kvrelay.report import reported
from kvrelay.report.given import Given
from kvrelay.report.names import label, rank
from kvrelay.report.rows import ORDER, compared
from kvrelay.report.tables import Row
from kvrelay.report.text import precise
from kvrelay.stats.checklist import Arm, Entry
from kvrelay.stats.compare import Comparison

HEADS = {
    "quality": "Quality",
    "factuality": "Factuality",
    "coverage": "Coverage",
    "helloeval": "HelloEval",
    "helloeval_rescaled": "rescaled",
}
NAMES = ("dataset", "model", "selector", "retention", "position")


def published_mean(metric: str, names: Mapping[str, str]) -> float | None:
    """The paper's mean of one arm: of a checklist's ``quality`` or ``coverage``, or of ``answer_tokens``; or None.

    ``names`` are those of `NAMES`. A full cache matches whatever its retention is called.
    """
    facts = reported.load().facts["roperelay"]["checklists"]
    values = facts["values"].get(metric, {})
    if (names["model"], names["dataset"]) != (facts["model"], facts["dataset"]):
        return None
    if names["selector"] == "full":
        return values.get("full") if names["position"] == "original" else None
    same = (names["selector"], names["retention"]) == (facts["selector"], facts["retention"])
    return values.get(names["position"]) if same else None


def published_gain(category: str, names: Mapping[str, str], baseline: str) -> float | None:
    """The paper's gain in quality within one category, or None."""
    facts = reported.load().facts["roperelay"]["checklists"]
    same = all(names[name] == facts[name] for name in ("model", "dataset", "selector", "retention"))
    moved = (baseline, names["position"]) == ("original", "roperelay")
    return facts["gains"].get(category) if same and moved else None


def arm_row(arm: Arm, given: Given) -> dict[str, Any]:
    """One cell: means of its grades, how many replies could be read, and what its answers are like."""
    cell = arm.cell
    place = {name: getattr(cell, name) for name in NAMES}
    as_named = not reported.altered(given.results.changed, place)
    printed = ("quality", "coverage", "answer_tokens")
    papers = {name: published_mean(name, place) if as_named else None for name in printed}
    row = {
        "row": "arm",
        **place,
        **cell.means,
        "parse_rate": arm.parsed,
        "unsure": arm.unsure,
        "answer_words": arm.words,
        "answer_tokens": cell.answer_tokens,
        "eos": arm.eos,
        "n": cell.counted["quality"],
        "n_clusters": cell.n_clusters,
        "n_expected": cell.n,
        "n_unscored": cell.counts["unscored"],
        "n_missing": sum(cell.counts[status] for status in ("unjudged", "failed", "missing")),
        "judge": given.results.judges.get(cell.dataset),
        **{f"paper_{name}": value for name, value in papers.items()},
    }
    return {name: precise(value) for name, value in row.items()}


def gap_row(c: Comparison, given: Given, category: str | None = None) -> dict[str, Any]:
    """A comparison's row; the paper's numbers where it ran as its names say."""
    row = dict(compared(c, given.results))
    names = {name: row[name] for name in ("model", "dataset", "selector", "retention")}
    ends = (row["baseline"], row["position"])
    found: list[float | None] = [None, None, None]
    if not any(reported.altered(given.results.changed, {**names, "position": end}) for end in ends):
        if category is None:
            found[:2] = (published_mean(row["metric"], {**names, "position": end}) for end in ends)
            found[2] = None if None in found[:2] else round(found[1] - found[0], 6)  # type: ignore[operator]
        else:
            found[2] = published_gain(category, {**names, "position": ends[1]}, ends[0])
    papers = dict(zip(("paper_baseline", "paper_position", "paper_difference"), found, strict=True))
    kind = {"row": "difference"} if category is None else {"row": "category", "category": category}
    return {**row, **kind, **papers, "judge": given.results.judges.get(row["dataset"])}


def entry_row(entry: Entry, given: Given) -> dict[str, Any]:
    """One entry of a category's checklist in two arms."""
    row = {
        "row": "entry",
        **{name: entry.names[name] for name in NAMES},
        "baseline": given.baseline,
        "category": entry.category,
        "entry": entry.number,
        "metric": "quality",
        "baseline_value": entry.baseline_value,
        "position_value": entry.value,
        "difference": entry.difference,
        "n": entry.n,
    }
    return {name: precise(value) for name, value in row.items()}


def warnings(arms: Sequence[Row]) -> list[str]:
    """What a reader must know of arms whose judge too often gave no grades."""
    return [
        f"{', '.join(label(kind, row[kind]) for kind in ('dataset', 'model', 'selector', 'position'))}: only "
        f"{100 * row['parse_rate']:.1f} % of the judge's replies gave grades; the means are over those alone"
        for row in arms
        if row["unsure"]
    ]


def row_rank(row: Row) -> tuple[Any, ...]:
    """Sort key: data set, model, selector, retention; then category, entry, measure; then position."""
    metric = list(HEADS).index(row["metric"]) if row.get("metric") in HEADS else -1
    place = tuple(rank(kind, row[kind]) for kind in ORDER)
    return (*place[:-1], row.get("category") or "", row.get("entry") or 0, metric, place[-1])
