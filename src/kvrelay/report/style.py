"""How figures look: sizes of a paper's column and page, one palette, no ornaments."""

from __future__ import annotations

from typing import Any

COLUMN_IN, PAGE_IN = 3.35, 6.9
INK, MUTED, RULE, BAND = "#222222", "#6b6b6b", "#b8b8b8", "#f4f4f2"
OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Colours that stay apart for colour-blind readers; the yellow is left out, it is lost on paper."""
MARKERS = ("o", "s", "D", "^", "v", "P", "X")
"""A second channel beside colour, for print in grey."""

PAPER: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 7.0,
    "axes.titlesize": 8.0,
    "axes.titleweight": "bold",
    "axes.labelsize": 7.0,
    "axes.labelcolor": INK,
    "axes.edgecolor": RULE,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.unicode_minus": True,
    "text.color": INK,
    "xtick.color": MUTED,
    "xtick.labelsize": 6.5,
    "xtick.major.size": 2.5,
    "xtick.major.width": 0.6,
    "ytick.color": INK,
    "ytick.labelsize": 7.0,
    "ytick.major.size": 0.0,
    "legend.frameon": False,
    "legend.fontsize": 6.5,
    "figure.dpi": 100.0,
    "savefig.dpi": 300.0,
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "svg.hashsalt": "kvrelay",
}
NO_DATES = {
    "pdf": {"CreationDate": None, "ModDate": None, "Producer": None, "Creator": None},
    "png": {"Software": None},
}
"""Without times and versions in its metadata, the same figure is the same file."""
