"""Matched control: SUR's scores and one contiguous window, the best of its width (SUR, A.4 and C.1)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kvrelay.core.history import Question
from kvrelay.core.repair import Allocation, EditedContext, Probe
from kvrelay.repair.ranking import finite, settled
from kvrelay.repair.relevance import Relevance

STEP = 2.0**-32
"""Scores are summed in multiples of this, far below float32's own rounding of a cosine: sums are then exact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BestWindow(Relevance):
    """Refreshes the window of B tokens with the largest sum of scores, the earliest of equal ones.

    Template tokens add nothing.
    """

    def allocate(self, context: EditedContext, question: Question, budget: int, probe: Probe) -> Allocation:
        if (done := settled(context, budget)) is not None:
            return done
        found = self.token_scores(context, question, probe)
        score_S = finite(found.score_S).masked_fill(torch.tensor(context.suffix_special), 0)
        start = best_window(score_S, budget)
        notes = {"degenerate_query": found.degenerate}
        return Allocation.of_suffix(context, range(start, start + budget), notes).checked(context, budget)


def best_window(score_S: Tensor, width: int) -> int:
    """Where the window of ``width`` with the largest sum starts, the earliest of equal ones.

    Differences of prefix sums round, so that equal windows would not tie; sums of multiples of `STEP` do not round in
    float64 (below 2^21).
    """
    steps = (score_S.double() / STEP).round() * STEP
    sums = torch.cat([steps.new_zeros(1), steps.cumsum(0)])
    return int((sums[width:] - sums[:-width]).argmax())
