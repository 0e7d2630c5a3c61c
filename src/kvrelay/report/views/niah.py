"""SUR, Figure 3 and Tables 2 and 4: exact match, leak rate and KL by allocator and budget, and by context length."""

from __future__ import annotations

from kvrelay.report.given import Given, Layout
from kvrelay.report.sweep import Sweep
from kvrelay.report.sweep import render as render_sweep
from kvrelay.stats.arms import REPAIR

MAIN = "niah"
BASELINE = "shift"
ARMS = REPAIR
ALLOCATORS = None
OWNS = ("niah.*", "niah_*")
SWEEP = Sweep(name=MAIN, title="Exact match after same-key deletions")


def render(given: Given) -> Layout:
    """The sweep's tables, its figure, checks and numbers."""
    return render_sweep(SWEEP, given)
