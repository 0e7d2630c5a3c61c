"""RoPERelay's Tables 1 and 8: every position against the baseline, with a forest plot a measure."""

from __future__ import annotations

from kvrelay.report.figures import forest
from kvrelay.report.given import Given, Layout
from kvrelay.report.names import MEASURES
from kvrelay.report.study import make
from kvrelay.report.summary import table1_part
from kvrelay.report.table1 import table1
from kvrelay.report.table8 import table8
from kvrelay.stats.arms import POSITION

MAIN = "table1"
BASELINE = "original"
ARMS = POSITION
ALLOCATORS = None
OWNS = ("forest_*",)


def render(given: Given) -> Layout:
    """Tables of accuracy and of its differences, and a figure for each measure that can be drawn."""
    study = make(
        given.results, baseline=given.baseline, seed=given.seed, resamples=given.resamples, commits=given.commits
    )
    figures: dict[str, bytes] = {}
    for metric in MEASURES:
        figures |= forest(study, metric)
    return Layout(
        tables=(table8(study), table1(study)),
        figures=figures,
        part=table1_part(study),
        stamps=given.results.stamps,
    )
