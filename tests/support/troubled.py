"""A data set and a selector to which things happen: in the SLURM job whose number a file of their folder names.

``raise-N`` and ``kill-N`` happen once and take their file away; ``fail-N`` happens to all cells of one question, whose
name the file then holds; as long as ``slow-N`` is there, a question takes some seconds. Outside of SLURM nothing
happens, so that one undisturbed process gives what must come out.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from plain_data import PlainData

from kvrelay.core.example import CountTokens, Example
from kvrelay.core.history import Need, PrefilledHistory, Question
from kvrelay.core.selection import Selection
from kvrelay.selection.recent import Recent

SLOW_S = 15.0


def happens(folder: str, what: str) -> bool:
    """Whether it is this job's turn, once."""
    file = Path(folder) / f"{what}-{os.environ.get('SLURM_ARRAY_TASK_ID')}"
    if not file.exists():
        return False
    file.unlink()
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class TroubledData:
    """Twelve short histories of three questions; in a job with ``raise-N`` an error that nobody expects."""

    folder: str

    def examples(self, count_tokens: CountTokens) -> Iterator[Example]:
        if happens(self.folder, "raise"):
            raise RuntimeError("nobody expects this")
        yield from PlainData(histories=12, questions=3, lines=10).examples(count_tokens)

    def fingerprint(self) -> str:
        return repr(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class TroubledSelector:
    """Keeps the last tokens; chosen anew for each question, so that each question has its trouble."""

    folder: str

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset()

    @property
    def question_aware(self) -> bool:
        return True

    def select(self, prefilled: PrefilledHistory, question: Question, budget: int) -> Selection:
        if happens(self.folder, "kill"):
            os.kill(os.getpid(), signal.SIGKILL)
        broken = Path(self.folder) / f"fail-{os.environ.get('SLURM_ARRAY_TASK_ID')}"
        if broken.exists():
            named = broken.read_text() or question.example_id
            broken.write_text(named)
            if named == question.example_id:
                raise ValueError("this example is broken for 1 day")
        slow = Path(self.folder) / f"slow-{os.environ.get('SLURM_ARRAY_TASK_ID')}"
        until = time.monotonic() + SLOW_S
        while slow.exists() and time.monotonic() < until:
            time.sleep(0.1)
        return Recent().select(prefilled, question, budget)
