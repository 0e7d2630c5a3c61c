"""Answers and verdicts that exist twice and differ: what every table says of them."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from kvrelay.run.store import disagreements

SHOWN = 3
WORDS = {"records": "answer(s) given", "verdicts": "item(s) judged"}


def stamps(folder: Path, keys: Collection[str]) -> tuple[str, ...]:
    """One stamp a kind. ``keys`` are the answers that the tables are made of; others are nobody's concern here."""
    said = []
    found = [one for one in disagreements(folder) if one.part != "records" or one.key in keys]
    for part, what in WORDS.items():
        if named := [one.key[:12] for one in found if one.part == part]:
            more = f" and {len(named) - SHOWN} more" if len(named) > SHOWN else ""
            said.append(
                f"NOT DETERMINISTIC: {len(named)} {what} twice with different outcomes, of which one counts "
                f"({', '.join(named[:SHOWN])}{more})"
            )
    return tuple(said)
