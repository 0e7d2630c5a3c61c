"""Histories cut to a length that the model can read, evidence last. Pure Python: text in, text out."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate
from typing import Literal

from kvrelay.core.errors import ConfigError, DataError
from kvrelay.core.example import CountTokens, Example, Turn, Unit

REMEMBERED_UNITS = 8192
"""Unit texts whose token counts are kept: more than any history has, and many histories share theirs."""


class Trimmer:
    """Fits the histories of a run into ``max_history_tokens``, the sum of their units' token counts.

    Units without evidence are dropped first, from the middle outward, until the rest fits; the last unit always
    stays. If that is not enough, the longest of the rest are cut from their ends to one common length: at the end of
    a turn (layout ``chat``) or paragraph (``document``), or at a character where that would waste over half of it.
    Units that are to be deleted from the cache count as evidence.
    Only units and their evidence flags decide, never the question, so examples that share both still share a prefill.
    ``notes["trimmed"]`` says what was lost. One object serves a whole run: it counts each unit's text once.
    """

    def __init__(self, max_history_tokens: int, count_tokens: CountTokens) -> None:
        if max_history_tokens < 1:
            raise ConfigError(f"dataset.max_history_tokens={max_history_tokens}: wanted at least 1")
        self._limit = max_history_tokens
        self._count = count_tokens
        self._size = lru_cache(maxsize=REMEMBERED_UNITS)(count_tokens)

    def __call__(self, example: Example) -> Example:
        """The same example if it fits. Raises `DataError` where not one character of a unit fits."""
        sizes = [self._size(unit.text) for unit in example.units]
        if sum(sizes) <= self._limit:
            return example
        named = {*example.deleted, example.slot}
        kept = _survivors([unit.evidence or unit.id in named for unit in example.units], sizes, self._limit)
        level = _water_level([sizes[i] for i in kept], self._limit)
        cut = {i: self._cut(example.units[i], level, example.layout) for i in kept if sizes[i] > level}
        units = {i: cut.get(i, example.units[i]) for i in kept}
        left = {i: unit for i, unit in units.items() if unit is not None}
        if not left:
            raise DataError(
                f"example {example.id}: dataset.max_history_tokens={self._limit} is too small for any part of its "
                f"{len(kept)} remaining units; raise it"
            )
        notes = {**example.notes, "trimmed": self._record(example, sizes, left, cut)}
        return replace(example, units=tuple(left.values()), notes=notes)

    def _cut(self, unit: Unit, budget: int, layout: Literal["document", "chat"]) -> Unit | None:
        """The longest beginning of a unit within ``budget`` tokens; None if it would say nothing."""
        if layout == "chat":
            stops = list(accumulate(len(turn.content) for turn in unit.turns))
            return self._longest(stops, lambda end: _chat_beginning(unit, end), budget)
        stops = [match.end() for match in re.finditer(r"\n\n", unit.text)]
        return self._longest([*stops, len(unit.text)], lambda end: _document_beginning(unit, end), budget)

    def _longest(self, stops: Sequence[int], beginning: Callable[[int], Unit], budget: int) -> Unit | None:
        def fits(end: int) -> bool:
            return self._count(beginning(end).text) <= budget

        end = _last_that(fits, stops)
        if end == 0 or 2 * self._count(beginning(end).text) < budget:
            end = max(end, _last_that(fits, range(1, stops[-1] + 1)) if stops else 0)
        unit = beginning(end) if end else None
        return unit if unit and unit.text.strip() else None

    def _record(
        self, example: Example, sizes: Sequence[int], left: dict[int, Unit], cut: dict[int, Unit | None]
    ) -> dict[str, object]:
        after = {i: self._count(unit.text) if i in cut else sizes[i] for i, unit in left.items()}
        record: dict[str, object] = {
            "units_before": len(sizes),
            "units_after": len(left),
            "tokens_before": sum(sizes),
            "tokens_after": sum(after.values()),
            "dropped": [unit.id for i, unit in enumerate(example.units) if i not in left],
        }
        shortened = {example.units[i].id: [sizes[i], after[i]] for i in cut if i in left}
        return {**record, "cut": shortened} if shortened else record


def trim(example: Example, max_history_tokens: int, count_tokens: CountTokens) -> Example:
    """One example through a `Trimmer` of its own. Many examples should share one `Trimmer`."""
    return Trimmer(max_history_tokens, count_tokens)(example)


def chat_unit(id_: str, turns: Sequence[Turn]) -> Unit:
    """A unit of messages. Its text, which counts its length, is ``role: content`` paragraphs.

    Retrievers see what was said, without the system's words unless there are no others: a data set repeats those in
    every block, where they tell nothing apart.
    """
    spoken = [turn.content for turn in turns if turn.role != "system"] or [turn.content for turn in turns]
    return Unit(
        id=id_,
        text="".join(f"{turn.role}: {turn.content}\n\n" for turn in turns),
        index_text=" ".join(content for content in spoken if content),
        turns=tuple(turns),
    )


def _survivors(evidence: Sequence[bool], sizes: Sequence[int], limit: int) -> list[int]:
    """Indices that stay. Of the units without evidence, the nearer to their middle goes first, ties the earlier."""
    others = [i for i, flag in enumerate(evidence) if not flag]
    centre = (len(others) - 1) / 2
    left, total = set(range(len(sizes))), sum(sizes)
    for rank in sorted(range(len(others)), key=lambda rank: abs(rank - centre)):
        if total <= limit or len(left) == 1:
            break
        left.remove(others[rank])
        total -= sizes[others[rank]]
    return sorted(left)


def _water_level(sizes: Sequence[int], limit: int) -> int:
    """The largest length to which the longest may be cut so that all sum to at most ``limit``."""
    room = limit
    for rank, size in enumerate(sorted(sizes)):
        share = room // (len(sizes) - rank)
        if size > share:
            return share
        room -= size
    return max(sizes)


def _last_that(fits: Callable[[int], bool], ends: Sequence[int]) -> int:
    """The largest of the ascending ``ends`` that fits, by bisection; 0 if none. What it returns has been tried."""
    low, high = 0, len(ends)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(ends[middle - 1]) else (low, middle - 1)
    return ends[low - 1] if low else 0


def _chat_beginning(unit: Unit, end: int) -> Unit:
    """The turns up to ``end`` characters of content, the last of them cut."""
    turns: list[Turn] = []
    for turn in unit.turns:
        if end <= 0:
            break
        turns.append(replace(turn, content=turn.content[:end]))
        end -= len(turn.content)
    return replace(chat_unit(unit.id, turns), timestamp=unit.timestamp, evidence=unit.evidence)


def _document_beginning(unit: Unit, end: int) -> Unit:
    """The first ``end`` characters, closed by the space that separates the whole unit from the next one."""
    gap = unit.text[len(unit.text.rstrip()) :]
    text = unit.text[:end].rstrip()
    return replace(unit, text=text + gap, index_text=text, turns=())
