"""A judge that a configuration can name and that writes down when it was met, and what it was asked."""

from __future__ import annotations

from dataclasses import dataclass

from scripted_judge import ScriptedJudge, gold_says

from kvrelay.judging.protocol import BlindItem

EVENTS: list[str] = []
"""What happened, in its order; a test empties it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyJudge:
    """``right``: whether it knows the gold items."""

    right: bool = True

    def settled(self, name: str) -> ScriptedJudge:
        EVENTS.append("settled")
        return ScriptedJudge(decide=self._decide, reads_a_template=True, name=name)

    def _decide(self, item: BlindItem) -> bool:
        known = gold_says(item)
        EVENTS.append("answer" if known is None else "gold")
        return known is not False if self.right else known is False
