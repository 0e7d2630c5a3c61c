"""What a judge sees and gives. Judges are blind by type: no field of an item can name a method."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from kvrelay.run.record import Verdict


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


class Judge(Protocol):
    """Scores answers. A frozen dataclass that Hydra builds."""

    @property
    def id(self) -> str:
        """Name and hash of everything that can change a verdict: template, model, sampling, parser."""
        ...

    @property
    def concurrency(self) -> int:
        """How many items may be judged at once; 1 for judges that compute here."""
        ...

    def check(self) -> None:
        """Fail early, before any item: `EndpointError` for a server that is away or does not serve the model."""
        ...

    def judge(self, item: BlindItem) -> Verdict:
        """Never raises for a bad reply: that is an unscored verdict with its reason."""
        ...
