"""How far a table's verdicts may be trusted: answers that lack one, and what its judges have on record."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from kvrelay.run.record import JudgeFacts

BEYOND = frozenset({"rubric", "no_reference", "no_checklist", "choice", "unanswerable"})
"""Reasons of answers that their judge is not made for: no verdict is missing, as none was to be had."""
ANSWERED = ("scored", "unscored", "unjudged")


def unjudged(table: pd.DataFrame) -> pd.DataFrame:
    """Answers without a verdict that a judge of their kind gives: not judged, malformed, truncated, refused …"""
    unscored = (table["status"] == "unscored") & ~table["reason"].isin(BEYOND)
    return table[unscored | (table["status"] == "unjudged")]


def bounded_stamp(table: pd.DataFrame) -> str:
    """What every table says when more verdicts are lacking than it may bear."""
    lacking = unjudged(table)
    why = lacking["reason"].value_counts().sort_index()
    reasons = ", ".join(f"{reason} {n}" for reason, n in why.items())
    answers = int(table["status"].isin(ANSWERED).sum())
    return f"UNJUDGED: {len(lacking)} of {answers} answers have no verdict ({reasons}): accuracy is only bounded"


def caveats(judges: Iterable[JudgeFacts]) -> list[str]:
    """What every table of these judges must say: their own caveats, gold items that held them to nothing, and a server
    that was not the same throughout."""
    found = []
    for facts in judges:
        found += [f"Judge {facts.name}: {caveat}" for caveat in facts.caveats]
        gold = facts.gold
        if gold is not None and not gold.threshold:
            found.append(f"Judge {facts.name}: {gold.right} of {gold.asked} gold items right, held to no threshold")
        if (several := len(facts.fingerprints)) > 1:
            found.append(
                f"Judge {facts.name}: answered under {several} system fingerprints ({', '.join(facts.fingerprints)}): "
                "the server changed between commands"
            )
    return found
