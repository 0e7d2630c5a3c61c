"""What a selector kept of a history, remembered as long as that history is at hand."""

from __future__ import annotations

import time
from dataclasses import dataclass

from kvrelay.backend.prompt import Prompt
from kvrelay.core.cache import KVCache
from kvrelay.core.history import PrefilledHistory
from kvrelay.core.selection import Selection
from kvrelay.run.grid import GridCell
from kvrelay.run.keeping import CacheKeeper


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """One selection and its states, not yet moved; the arms of a pair are made from the same object."""

    selection: Selection
    cache: KVCache
    digests: tuple[str, str]
    select_s: float


class KeptStates:
    """Selections of one history by selector, retention and, where the selector reads it, question."""

    def __init__(self, keeper: CacheKeeper | None = None) -> None:
        self._keeper = keeper
        self._memo: dict[tuple[str, str, str], Kept] = {}

    def of(self, cell: GridCell, prefilled: PrefilledHistory, prompt: Prompt) -> Kept:
        """The selection of a cell's group: made once a history, or once a question where the selector reads it."""
        aware = cell.selector.question_aware
        slot = (*cell.group, prompt.question.example_id if aware else "")
        if slot not in self._memo:
            if aware:
                self._forget_other_questions(slot)
            started = time.perf_counter()
            budget = cell.retention.states(prefilled.text.n_history)
            selection = cell.selector.select(prefilled, prompt.question, budget)
            cache = prefilled.cache.restricted(selection)
            select_s = time.perf_counter() - started
            if self._keeper is not None:
                self._keeper.keep(cell, cache, prefilled, prompt)
            self._memo[slot] = Kept(selection=selection, cache=cache, digests=cache.content_digest(), select_s=select_s)
        return self._memo[slot]

    def _forget_other_questions(self, slot: tuple[str, ...]) -> None:
        """Selections of earlier questions are not met again; keeping them would grow with the number of questions."""
        for old in [old for old in self._memo if old[:2] == slot[:2]]:
            del self._memo[old]
