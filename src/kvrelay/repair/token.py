"""Matched control: SUR's scores without units, the best tokens one by one (SUR, A.4 and C.1)."""

from __future__ import annotations

from dataclasses import dataclass

from kvrelay.core.history import Question
from kvrelay.core.repair import Allocation, EditedContext, Probe
from kvrelay.repair.ranking import best_first, settled
from kvrelay.repair.relevance import Relevance


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenTop(Relevance):
    """Refreshes the tokens with the highest scores, the earlier of equal ones; template tokens last.

    All occurrences of a token tie, so the order decides much: ``boundary_ties`` in the notes counts the tokens that
    share the last admitted score, and ``boundary_admitted`` those of them that were admitted.
    """

    def allocate(self, context: EditedContext, question: Question, budget: int, probe: Probe) -> Allocation:
        if (done := settled(context, budget)) is not None:
            return done
        found = self.token_scores(context, question, probe)
        order = best_first(found.score_S, last=context.suffix_special)
        score = found.score_S.tolist()
        border = (score[order[budget - 1]], context.suffix_special[order[budget - 1]])
        tied = [place for place, at in enumerate(order) if (score[at], context.suffix_special[at]) == border]
        notes = {
            "degenerate_query": found.degenerate,
            "boundary_ties": len(tied),
            "boundary_admitted": sum(place < budget for place in tied),
        }
        return Allocation.of_suffix(context, order[:budget], notes).checked(context, budget)
