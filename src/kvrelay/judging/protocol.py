"""What a judge sees and gives. Judges are blind by type: no field of an item can name a method."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from kvrelay.run.record import JudgeFacts, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class BlindItem:
    """Everything that a judge may know. ``key`` is opaque: a hash of these fields and of the judge's identity."""

    key: str
    question: str
    references: tuple[str, ...]
    candidate: str
    question_type: str
    question_date: str | None = None
    choices: dict[str, str] = field(default_factory=dict)
    gold_choice: str | None = None
    unanswerable: bool = False
    checklist: tuple[str, ...] = ()


class Judge(Protocol):
    """Scores answers. A frozen dataclass that Hydra builds; ``name`` below is the key of its config."""

    def settled(self, name: str) -> SettledJudge:
        """Find out, before any item, who answers and to which form the server holds its replies.

        Raises `EndpointError` for a server that is away, refuses the key or does not serve the model. A judge that
        computes here has nothing to find out.
        """
        ...


class SettledJudge(Protocol):
    """A judge whose identity is complete, and stays the same for as long as this object judges."""

    @property
    def facts(self) -> JudgeFacts: ...

    def verdicts(self, items: Iterable[BlindItem]) -> Iterator[Verdict]:
        """One verdict an item, in the order in which they come; ``items`` is read as they are taken up.

        A bad reply is an unscored verdict with its reason and raises nothing. Raises `EndpointError` where going on is
        useless (the key is refused, another model answers, the server stays dead), after the verdicts of what was in
        flight. Closing the iterator gives up what has not begun.
        """
        ...

    def pace(self) -> str:
        """How it goes, in a few words for the progress line (items in flight, how often slowed); may be empty."""
        ...
