"""Units by rank into a budget, exactly: whole ones until one does not fit, then a window in it (SUR, A.3)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from torch import Tensor

from kvrelay.core.edit import Span
from kvrelay.core.repair import Allocation, EditedContext
from kvrelay.repair.ranking import finite, top_slots
from kvrelay.repair.units import segment

OnOverflow = Literal["stop", "continue"]
Support = Literal["tokens", "units"]
"""What a signal from prior work ranks: tokens by themselves, or SUR's units by the sum of their tokens' scores."""


def admit(
    units: Sequence[Span],
    ranking: Iterable[int],
    budget: int,
    peak: Callable[[Span], int],
    *,
    on_overflow: OnOverflow = "stop",
    lookback: int = 0,
) -> list[int]:
    """Exactly ``budget`` offsets, where the units hold as many: units in the order of ``ranking``, whole.

    The first unit that does not fit gets one window of what remains of the budget and ends the walk ("stop"), or later
    units that fit are admitted before it ("continue"). ``peak`` gives the token at which a unit's window should start.
    """
    chosen: list[int] = []
    overflow: Span | None = None
    for start, end in (units[index] for index in ranking):
        if end - start <= budget - len(chosen):
            chosen.extend(range(start, end))
        elif overflow is None:
            overflow = (start, end)
            if on_overflow == "stop":
                break
    if overflow is not None and len(chosen) < budget:
        chosen.extend(range(*window(overflow, peak(overflow) - lookback, budget - len(chosen))))
    return chosen


def window(unit: Span, start: int, width: int) -> Span:
    """``width`` tokens of the unit from ``start`` forward, moved left where they would cross its end; never outside."""
    first = max(unit[0], min(start, unit[1] - width))
    return first, first + width


def by_sum(units: Sequence[Span], scores_S: Tensor, budget: int) -> list[int]:
    """Units by the sum of their scores, the earlier of equal ones first; windows start at the best token.

    Sums are correctly rounded, so that units with the same scores tie in whatever order these come.
    """
    scores = finite(scores_S).tolist()
    sums = [math.fsum(scores[start:end]) for start, end in units]
    ranking = sorted(range(len(units)), key=lambda index: -sums[index])
    return admit(units, ranking, budget, lambda unit: best_token(unit, scores))


def supported(context: EditedContext, scores_S: Tensor, budget: int, support: Support) -> Allocation:
    """What a signal's scores (S,) admit: the best tokens, or SUR's units by their sums."""
    if support == "tokens":
        return top_slots(context, scores_S, budget)
    units = segment(context.suffix_pieces, context.suffix_special)
    return Allocation.of_suffix(context, by_sum(units, scores_S, budget)).checked(context, budget)


def best_token(unit: Span, scores: Sequence[float]) -> int:
    """The unit's token with the highest score, the earliest of equal ones."""
    return max(range(*unit), key=scores.__getitem__)
