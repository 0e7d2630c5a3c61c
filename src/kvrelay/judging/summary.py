"""What a judging stage says: how many answers there are to judge, and what became of them."""

from __future__ import annotations

from collections.abc import Mapping

from kvrelay.judging.blind import BlindSheet
from kvrelay.judging.stage import UNJUDGED, Tally

ALIKE = ("correct", "wrong")


def before(sheet: BlindSheet, known: int) -> str:
    """``1,204 answers, 951 distinct items: 21 % shared; 51 judged before, 900 to judge``"""
    without = f" ({sheet.unanswered:,} more have no answer)" if sheet.unanswered else ""
    left = len(sheet.items) - known
    return f"{sheet.answers:,} answers{without}, {distinct(sheet)}; {known:,} judged before, {left:,} to judge"


def distinct(sheet: BlindSheet) -> str:
    """How many items there are, and the share of answers that an item of another answer stands for."""
    items = len(sheet.items)
    share = 100.0 * (sheet.answers - items) / sheet.answers if sheet.answers else 0.0
    return f"{items:,} distinct items: {share:.0f} % shared"


def after(states: Mapping[str, int], tally: Tally, elapsed_s: float) -> str:
    """All items by state, then what this pass gave, how fast and for how many tokens."""
    named = [*ALIKE, *sorted(states.keys() - {*ALIKE, UNJUDGED}), UNJUDGED]
    told = ", ".join(f"{states[name]:,} {name}" for name in named if states.get(name)) or "nothing"
    pace = f", {tally.verdicts / elapsed_s:.1f} a second" if tally.verdicts and elapsed_s > 0 else ""
    tokens = f", {tally.tokens_in:,} tokens in, {tally.tokens_out:,} out" if tally.tokens_in or tally.tokens_out else ""
    return f"of {sum(states.values()):,} items {told}; {tally.verdicts:,} verdicts now{pace}{tokens}"
