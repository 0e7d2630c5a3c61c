"""What every table says below itself: what n is, the intervals, judges, clusters and inputs."""

from __future__ import annotations

from collections.abc import Sequence

from kvrelay.report import judged
from kvrelay.report.names import cluster_unit, label
from kvrelay.report.text import DAGGER, DOUBLE
from kvrelay.stats.bootstrap import DAGGER_BELOW
from kvrelay.stats.frame import Results

PAIRED = "n counts the pairs whose two answers both have the measure; values and differences are over these pairs."
BESIDE = "beside it cluster-t with one degree of freedom less than clusters"


def method(
    results: Results, datasets: Sequence[str], *, seed: int, resamples: int, counted: str = PAIRED, beside: str = BESIDE
) -> list[str]:
    """What is counted and how sure it is."""
    table = results.table
    clusters = table[table["cluster"] != ""].groupby("dataset")["cluster"].nunique()
    units = "; ".join(f"{label('dataset', d)}: {clusters.get(d, 0)} ({cluster_unit(d)})" for d in datasets)
    cut = int((table["stop"] == "length").sum())
    return [
        counted,
        f"Intervals: 95 %, paired cluster bootstrap, percentile, {resamples} resamples, seed {seed}; "
        f"{beside}. Pointwise, not adjusted for their number.",
        f"Clusters: {units}.",
        *judged.who(results, datasets),
        f"Answers that ended at the token limit: {cut} of {len(table)}.",
    ]


def marks(*, dagger: bool, degenerate: bool) -> list[str]:
    """What the marks beside an interval mean, those in use."""
    lines = []
    if dagger:
        lines.append(
            f"{DAGGER} fewer than {DAGGER_BELOW} clusters: read the cluster-t interval, not the percentile one."
        )
    if degenerate:
        lines.append(f"{DOUBLE} degenerate: all resamples are equal, so that the width says nothing about precision.")
    return lines


def inputs(results: Results, commits: Sequence[str]) -> str:
    """Which code and which answers."""
    made = f"commit {', '.join(commits)}; " if commits else ""
    return f"Inputs: {made}answers and verdicts {results.content_sha256[:16]} (files: sources.json)."
