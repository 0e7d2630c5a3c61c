"""Who judged, in the lines below a table: identity, template, who answered and in what form, and how it went."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from kvrelay.report.names import label
from kvrelay.run.record import JudgeFacts
from kvrelay.stats.frame import Results

SHORT = 12
"""Digits of a template's hash that are printed."""


def who(results: Results, datasets: Sequence[str]) -> list[str]:
    """Which judge scored which data set, and a line for each judge that is on file."""
    by_data = {data: results.judges[data] for data in datasets if data in results.judges}
    named = "; ".join(f"{label('dataset', data)}: {judge}" for data, judge in by_data.items())
    lines = [f"Judge: {named or 'none'}."]
    for judge in dict.fromkeys(by_data.values()):
        if judge in results.facts:
            scored = [data for data, one in by_data.items() if one == judge]
            lines.append(_line(results.facts[judge], results.table[results.table["dataset"].isin(scored)]))
    return lines


def _line(facts: JudgeFacts, rows: pd.DataFrame) -> str:
    parts = [*(_template(facts) if facts.template_sha256 else ["rules, no template"]), _states(rows)]
    if facts.template_sha256:
        parts.append(_parsed(rows))
    if facts.gold is not None:
        parts.append(f"gold items {facts.gold.right}/{facts.gold.asked}")
    return f"{facts.name} ({facts.id}): {'; '.join(part for part in parts if part)}."


def _template(facts: JudgeFacts) -> list[str]:
    said = facts.identity
    answered, constraint = said.get("model_answered") or said.get("model_asked"), said.get("constraint")
    return [
        f"template {facts.template}, sha256 {facts.template_sha256[:SHORT]}",
        f"{answered} answered" if answered else "",
        f"form held to by the server: {constraint}" if constraint else "",
    ]


def _states(rows: pd.DataFrame) -> str:
    """Answers by what became of them, as ``1,190 judged, 14 truncated``."""
    states = rows["reason"].where(rows["status"] == "unscored", "judged")
    found = states[rows["status"].isin(["scored", "unscored"])].value_counts()
    order = sorted(found.index, key=lambda name: (name != "judged", name))
    lacking = int((rows["status"] == "unjudged").sum())
    told = [f"{found[name]:,} {name}" for name in order] + ([f"{lacking:,} unjudged"] if lacking else [])
    return f"answers: {', '.join(told) or 'none'}"


def _parsed(rows: pd.DataFrame) -> str:
    """How many verdicts were read to the letter."""
    scored = rows[rows["status"] == "scored"]
    if not len(scored):
        return ""
    strict = int((scored["parse"] == "strict").sum())
    return f"parsed strictly {strict:,} of {len(scored):,} ({100.0 * strict / len(scored):.1f} %)"
