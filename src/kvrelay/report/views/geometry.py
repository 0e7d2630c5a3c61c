"""SUR, section C.1: isolated tokens, the best window, random units and SUR at one relevance score."""

from __future__ import annotations

from kvrelay.report.given import Given, Layout
from kvrelay.report.sweep import Sweep
from kvrelay.report.sweep import render as render_sweep
from kvrelay.stats.arms import REPAIR

MAIN = "geometry"
BASELINE = "shift"
ARMS = REPAIR
ALLOCATORS = ("token", "window", "random_units", "sur")
OWNS = ("geometry.*", "geometry_*")
SWEEP = Sweep(name=MAIN, title="Where to refresh at one relevance score")


def render(given: Given) -> Layout:
    """The sweep's tables, its figure, checks and numbers."""
    return render_sweep(SWEEP, given)
