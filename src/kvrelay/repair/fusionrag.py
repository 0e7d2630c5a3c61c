"""FusionRAG-derived: the question's attention in the last layer (arXiv 2601.12904), under our operator."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from kvrelay.core.history import Question
from kvrelay.core.repair import Allocation, EditedContext, Probe
from kvrelay.repair.attention import suffix_mass, total
from kvrelay.repair.ranking import settled, top_slots


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionRAG:
    """Refreshes the tokens with the highest attention in the last layer, summed over heads and question tokens.

    The softmax is over context and question. Its offline part (neighbours at prefill) has no place after a deletion.
    """

    def scores(self, context: EditedContext, question: Question, probe: Probe) -> Tensor:
        """(S,) float32."""
        return suffix_mass(context, question, probe, [probe.n_layers - 1], total)

    def allocate(self, context: EditedContext, question: Question, budget: int, probe: Probe) -> Allocation:
        if (done := settled(context, budget)) is not None:
            return done
        return top_slots(context, self.scores(context, question, probe), budget)
