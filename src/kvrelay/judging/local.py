"""Judges that compute here: rules without a server, whose identity is complete as soon as they are configured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from kvrelay.judging.protocol import BlindItem
from kvrelay.run.record import JudgeFacts, Verdict, digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """What a rule says of one item: true, false, or None with a reason, and the numbers beside it."""

    correct: bool | None
    reason: str = ""
    scores: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalJudge:
    """A settled judge that is a function of the item alone; items are judged one after the other, as they are read."""

    facts: JudgeFacts
    decide: Callable[[BlindItem], Ruling]

    def verdicts(self, items: Iterable[BlindItem]) -> Iterator[Verdict]:
        for item in items:
            ruling = self.decide(item)
            yield Verdict(
                judge_id=self.facts.id,
                item_key=item.key,
                correct=ruling.correct,
                reason=ruling.reason,
                scores=ruling.scores,
            )

    def pace(self) -> str:
        """Nothing can slow it."""
        return ""


def settled_here(name: str, identity: Mapping[str, Any], decide: Callable[[BlindItem], Ruling]) -> LocalJudge:
    """The judge called ``name``; ``identity`` is every setting and version that can change one of its verdicts."""
    return LocalJudge(facts=judge_facts(name, identity), decide=decide)


def judge_facts(name: str, identity: Mapping[str, Any], **more: Any) -> JudgeFacts:
    """Facts whose id is the name and a hash of the identity; ``more`` are the fields that are not hashed."""
    return JudgeFacts(
        name=name,
        id=f"{name}-{digest(dict(identity))[:16]}",
        created=datetime.now(UTC).isoformat(timespec="microseconds"),
        identity=dict(identity),
        **more,
    )
