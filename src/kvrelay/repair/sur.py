"""Semantic-Unit Refresh: the text's units by their most relevant token (SUR, sections 3.2 and A.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

import torch
from torch import Tensor

from kvrelay.core import checks
from kvrelay.core.edit import Span
from kvrelay.core.history import Question
from kvrelay.core.repair import Allocation, EditedContext, Probe
from kvrelay.repair.admission import OnOverflow, admit, best_token
from kvrelay.repair.ranking import finite, settled
from kvrelay.repair.relevance import Relevance
from kvrelay.repair.units import segment


@dataclass(frozen=True, slots=True, kw_only=True)
class SUR(Relevance):
    """Refreshes whole units, the best first, and a window in the first that does not fit.

    A unit's score is its best token's (`Relevance` has the token's). Ties, which are common because every token of the
    question scores 1: the larger sum of the unit's best matches with the ``tie_terms`` terms of the question that it
    matches best, then the earlier unit; with 0, the earlier at once. The window starts ``lookback`` tokens before the
    unit's best token and runs forward. ``on_overflow="continue"`` admits later units that fit before it.

    Template tokens have no score: they are refreshed only with a unit. Where the question has no term left, units are
    taken from the splice on (``degenerate_query`` in the notes); ``tied_units`` there counts the units that share the
    best score.
    """

    on_overflow: OnOverflow = "stop"
    lookback: int = 0
    tie_terms: int = 3

    def __post_init__(self) -> None:
        Relevance.__post_init__(self)
        checks.one_of("allocator.sur.on_overflow", self.on_overflow, get_args(OnOverflow))
        checks.whole_number("allocator.sur.lookback", self.lookback, 0)
        checks.whole_number("allocator.sur.tie_terms", self.tie_terms, 0)

    def allocate(self, context: EditedContext, question: Question, budget: int, probe: Probe) -> Allocation:
        if (done := settled(context, budget)) is not None:
            return done
        units = segment(context.suffix_pieces, context.suffix_special)
        found = self.token_scores(context, question, probe)
        special_S = torch.tensor(context.suffix_special)
        score_S = finite(found.score_S).masked_fill(special_S, -torch.inf)
        best = _best(units, score_S[:, None])[:, 0].tolist()
        ties = _matched(units, found.similarity_SQ.masked_fill(special_S[:, None], -torch.inf), self.tie_terms)
        ranking = sorted(range(len(units)), key=lambda unit: (-best[unit], -ties[unit]))
        tokens = score_S.tolist()
        offsets = admit(
            units,
            ranking,
            budget,
            lambda unit: unit[0] if found.degenerate else best_token(unit, tokens),
            on_overflow=self.on_overflow,
            lookback=self.lookback,
        )
        notes = {"degenerate_query": found.degenerate, "units": len(units), "tied_units": best.count(max(best))}
        return Allocation.of_suffix(context, offsets, notes).checked(context, budget)


def _best(units: tuple[Span, ...], values_SQ: Tensor) -> Tensor:
    """(units, Q): each column's largest value in each unit."""
    index_S = torch.repeat_interleave(torch.tensor([end - start for start, end in units]))
    empty = values_SQ.new_full((len(units), values_SQ.shape[1]), -torch.inf)
    return empty.scatter_reduce(0, index_S[:, None].expand_as(values_SQ), values_SQ, "amax")


def _matched(units: tuple[Span, ...], similarity_SQ: Tensor, n_terms: int) -> list[float]:
    """For each unit, the sum of its best similarities to the ``n_terms`` terms that it matches best."""
    best = _best(units, similarity_SQ).double()
    sums: list[float] = best.topk(min(n_terms, best.shape[1]), dim=1).values.sum(1).tolist()
    return sums
