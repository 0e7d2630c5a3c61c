"""The judging stage: every distinct answer once, verdicts handed on as they come, safe to interrupt and resume."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, as_completed, wait
from contextlib import closing
from dataclasses import dataclass
from itertools import islice

from kvrelay.core.errors import EndpointError
from kvrelay.judging.blind import blind_sheet
from kvrelay.judging.protocol import BlindItem, Judge
from kvrelay.run.record import RunRecord, Verdict

GIVE_UP_AFTER = 50
"""Failed exchanges in a row after which the server is taken for dead."""

AHEAD = 2
"""Items handed out for each worker: one in work, one ready for when it is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What a pass over the records did. ``answers`` minus ``items`` is how many verdicts are shared."""

    answers: int
    unanswered: int
    items: int
    known: int
    """Items that already had a final verdict."""
    correct: int
    wrong: int
    unscored: dict[str, int]
    """Items judged in this pass without a verdict, by reason."""

    @property
    def judged(self) -> int:
        """Items that were given true or false in this pass."""
        return self.correct + self.wrong


def judge_records(
    records: Iterable[RunRecord],
    judge: Judge,
    known: Container[str],
    sink: Callable[[Verdict], None],
    progress: Callable[[int, int], None] | None = None,
    *,
    give_up_after: int = GIVE_UP_AFTER,
) -> Counts:
    """Judge every distinct answer whose key is not in ``known``.

    ``sink`` and ``progress(done, total)`` are called from this thread alone, once a verdict. An interrupt cancels what
    has not begun, hands on what is in flight, and is raised again; a second one drops that too.
    Raises `EndpointError` where the judge does, and after ``give_up_after`` failed exchanges in a row.
    """
    sheet = blind_sheet(records, judge.id)
    todo = [item for item in sheet.items if item.key not in known]
    outcomes: Counter[str] = Counter()
    failures = 0
    with closing(_verdicts(judge, todo)) as verdicts:
        for done, verdict in enumerate(verdicts, start=1):
            sink(verdict)
            outcomes[_outcome(verdict)] += 1
            if progress is not None:
                progress(done, len(todo))
            failures = 0 if verdict.is_final else failures + 1
            if failures >= give_up_after:
                raise EndpointError(_dead_server(failures, done, len(todo), verdict))
    return Counts(
        answers=sheet.answers,
        unanswered=sheet.unanswered,
        items=len(sheet.items),
        known=len(sheet.items) - len(todo),
        correct=outcomes.pop("correct", 0),
        wrong=outcomes.pop("wrong", 0),
        unscored=dict(sorted(outcomes.items())),
    )


def _verdicts(judge: Judge, items: Sequence[BlindItem]) -> Generator[Verdict, None, None]:
    """Verdicts in the order in which they come; closing the generator cancels the items that have not begun.

    Items are handed out `AHEAD` times the judge's concurrency at a time: a judge that fails is not asked for the
    rest, and a slow sink holds the judge back.
    """
    waiting = iter(items)
    pending: set[Future[Verdict]] = set()
    with ThreadPoolExecutor(max_workers=judge.concurrency, thread_name_prefix="judge") as pool:
        try:
            while True:
                room = AHEAD * judge.concurrency - len(pending)
                pending.update(pool.submit(judge.judge, item) for item in islice(waiting, room))
                if not pending:
                    return
                for future in wait(pending, return_when=FIRST_COMPLETED).done:
                    pending.discard(future)
                    yield future.result()
        except (KeyboardInterrupt, EndpointError):
            pool.shutdown(wait=False, cancel_futures=True)
            yield from _in_flight(pending)
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _in_flight(pending: Iterable[Future[Verdict]]) -> Iterator[Verdict]:
    """Results of the calls that had begun when the rest were cancelled; their own failures have been told already."""
    # as_completed never reports a future that was cancelled before it ran, so those are taken out first
    for future in as_completed([future for future in pending if not future.cancelled()]):
        if future.exception() is None:
            yield future.result()


def _outcome(verdict: Verdict) -> str:
    if verdict.correct is None:
        return verdict.reason or "unscored"
    return "correct" if verdict.correct else "wrong"


def _dead_server(failures: int, done: int, total: int, last: Verdict) -> str:
    return (
        f"{failures} exchanges with the judge's server failed in a row, after {done} of {total} items; "
        f"the last one: {last.reason}: {last.raw[:200]}. What was judged is kept: mend the server "
        f"(judge.*.base_url) or lower judge.*.concurrency, and run the same command again to judge the rest"
    )
