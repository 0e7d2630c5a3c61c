"""SUR, section C.2: SUR and BM25 over its units against eight policies that read attention or states."""

from __future__ import annotations

from kvrelay.report.given import Given, Layout
from kvrelay.report.names import PRIOR_WORK
from kvrelay.report.sweep import Sweep
from kvrelay.report.sweep import render as render_sweep
from kvrelay.stats.arms import REPAIR

MAIN = "signals"
BASELINE = "shift"
ARMS = REPAIR
ALLOCATORS = ("sur", "bm25_units", *PRIOR_WORK)
OWNS = ("signals.*", "signals_*")
SWEEP = Sweep(name=MAIN, title="Cheap relevance against attention and states")


def render(given: Given) -> Layout:
    """The sweep's tables, its figure, checks and numbers."""
    return render_sweep(SWEEP, given)
