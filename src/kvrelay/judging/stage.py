"""One pass of a judge over records: every distinct answer once, verdicts handed on as they come, and the counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from kvrelay.judging.blind import BlindSheet, blind_sheet
from kvrelay.judging.protocol import BlindItem, SettledJudge
from kvrelay.run.record import RunRecord, Verdict

UNJUDGED = "unjudged"
"""State of an item that has no verdict on file."""
TOKENS = ("prompt_tokens", "completion_tokens")
"""What `Verdict.usage` may tell of an exchange: tokens read and tokens written."""


@dataclass(slots=True, kw_only=True)
class Tally:
    """What a judge gave in one pass, verdict by verdict."""

    states: Counter[str] = field(default_factory=Counter)
    tokens_in: int = 0
    tokens_out: int = 0

    @property
    def verdicts(self) -> int:
        return sum(self.states.values())

    def add(self, verdict: Verdict) -> None:
        """Count one verdict and the tokens that it cost, where the server told them."""
        self.states[state(verdict)] += 1
        read, written = (verdict.usage.get(name) for name in TOKENS)
        self.tokens_in += read if isinstance(read, int) else 0
        self.tokens_out += written if isinstance(written, int) else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What a pass over the records did. ``answers`` minus ``items`` is how many answers share another's verdict."""

    answers: int
    unanswered: int
    items: int
    known: int
    """Items that already had a final verdict."""
    correct: int
    wrong: int
    unscored: dict[str, int]
    """Items judged in this pass without a verdict, by reason."""
    tokens_in: int = 0
    tokens_out: int = 0

    @property
    def judged(self) -> int:
        """Items that were given true or false in this pass."""
        return self.correct + self.wrong


def judge_records(
    records: Iterable[RunRecord],
    judge: SettledJudge,
    known: Container[str],
    sink: Callable[[Verdict], None],
    progress: Callable[[int, int], None] | None = None,
    tally: Tally | None = None,
) -> Counts:
    """Judge every distinct answer whose key is not in ``known``.

    ``sink`` and ``progress(done, total)`` are called from this thread alone, once a verdict. However the pass ends,
    what the judge has not begun is given up, and ``tally`` holds what it gave. Raises `EndpointError` where the judge
    does.
    """
    sheet = blind_sheet(records, judge.facts.id)
    todo = [item for item in sheet.items if item.key not in known]
    tally = Tally() if tally is None else tally
    with begun(judge, todo) as verdicts:
        for verdict in verdicts:
            sink(verdict)
            tally.add(verdict)
            if progress is not None:
                progress(tally.verdicts, len(todo))
    return _counts(sheet, len(sheet.items) - len(todo), tally)


def _counts(sheet: BlindSheet, known: int, tally: Tally) -> Counts:
    """A pass in numbers."""
    unscored = {reason: n for reason, n in sorted(tally.states.items()) if reason not in ("correct", "wrong")}
    return Counts(
        answers=sheet.answers,
        unanswered=sheet.unanswered,
        items=len(sheet.items),
        known=known,
        correct=tally.states["correct"],
        wrong=tally.states["wrong"],
        unscored=unscored,
        tokens_in=tally.tokens_in,
        tokens_out=tally.tokens_out,
    )


@contextmanager
def begun(judge: SettledJudge, items: Iterable[BlindItem]) -> Iterator[Iterator[Verdict]]:
    """The judge's verdicts; leaving the block, by whatever way, gives up the items that have not begun."""
    verdicts = judge.verdicts(items)
    try:
        yield verdicts
    finally:
        if isinstance(verdicts, Generator):
            verdicts.close()


def state(verdict: Verdict | None) -> str:
    """``correct``, ``wrong``, the reason why there is neither, or ``unjudged`` where nobody judged."""
    if verdict is None:
        return UNJUDGED
    if verdict.correct is None:
        return verdict.reason or "unscored"
    return "correct" if verdict.correct else "wrong"


def states(items: Iterable[BlindItem], verdicts: Mapping[str, Verdict]) -> dict[str, int]:
    """Items by state, as the verdicts on file have it; the numbers add up to the items."""
    return dict(sorted(Counter(state(verdicts.get(item.key)) for item in items).items()))
