"""KVShare-derived: deviation of a token's states, weighted by the attention it gets (2025), under our operator."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from kvrelay.core import checks
from kvrelay.core.history import Question
from kvrelay.core.repair import Allocation, EditedContext, Probe
from kvrelay.repair.attention import suffix_mass
from kvrelay.repair.deviation import relative_sum
from kvrelay.repair.ranking import settled, top_slots

KEY = "allocator.kvshare.layer"


@dataclass(frozen=True, slots=True, kw_only=True)
class KVShare:
    """Refreshes the tokens with the highest mean_(h,q) A_l[h, q, k] sqrt(relative deviation of K_l plus of V_l).

    At ``layer`` l = 1. Its second stage, while decoding, has no place in one repair before the question.
    """

    layer: int = 1

    def __post_init__(self) -> None:
        checks.whole_number(KEY, self.layer, 1)

    def scores(self, context: EditedContext, question: Question, probe: Probe) -> Tensor:
        """(S,) float32."""
        layer = checks.layer_of(KEY, self.layer, probe.n_layers)
        mass_S = suffix_mass(context, question, probe, [layer], lambda attention: attention.mean((0, 1)))
        return mass_S * relative_sum(probe.fresh_states(layer)).sqrt().cpu()

    def allocate(self, context: EditedContext, question: Question, budget: int, probe: Probe) -> Allocation:
        if (done := settled(context, budget)) is not None:
            return done
        return top_slots(context, self.scores(context, question, probe), budget)
