"""ProphetKV-derived: the question's attention in all layers (arXiv 2602.02579), under our operator."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from kvrelay.core.history import Question
from kvrelay.core.repair import Allocation, EditedContext, Probe
from kvrelay.repair.attention import among_context, suffix_mass, total
from kvrelay.repair.ranking import settled, top_slots


@dataclass(frozen=True, slots=True, kw_only=True)
class ProphetKV:
    """Refreshes the tokens with the highest mean over all layers of the attention summed over heads and question.

    The softmax is over the context's keys alone.
    """

    def scores(self, context: EditedContext, question: Question, probe: Probe) -> Tensor:
        """(S,) float32."""
        layers = range(probe.n_layers)
        return suffix_mass(context, question, probe, layers, lambda attention: total(among_context(attention)))

    def allocate(self, context: EditedContext, question: Question, budget: int, probe: Probe) -> Allocation:
        if (done := settled(context, budget)) is not None:
            return done
        return top_slots(context, self.scores(context, question, probe), budget)
