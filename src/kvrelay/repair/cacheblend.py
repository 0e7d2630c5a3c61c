"""CacheBlend-derived: tokens whose states in an early layer deviate most (EuroSys 2025), under our operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from torch import Tensor

from kvrelay.core import checks
from kvrelay.core.deviation import squared
from kvrelay.core.history import Question
from kvrelay.core.repair import Allocation, EditedContext, Probe
from kvrelay.repair.deviation import relative_sum
from kvrelay.repair.ranking import settled, top_slots

Deviation = Literal["value", "key", "both"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheBlend:
    """Refreshes the tokens with the largest squared deviation of fresh from shifted states at ``layer``.

    ``deviation``: "value" as in the authors' code, "key" as in LMCache, "both": the relative deviations' sum. The layer
    is at least 1, because in layer 0 nothing deviates but by rounding. The fresh states are not kept.
    """

    deviation: Deviation = "value"
    layer: int = 1

    def __post_init__(self) -> None:
        checks.one_of("allocator.cacheblend.deviation", self.deviation, get_args(Deviation))
        checks.whole_number("allocator.cacheblend.layer", self.layer, 1)

    def scores(self, context: EditedContext, question: Question, probe: Probe) -> Tensor:
        """(S,) float32."""
        states = probe.fresh_states(checks.layer_of("allocator.cacheblend.layer", self.layer, probe.n_layers))
        if self.deviation == "both":
            return relative_sum(states)
        if self.deviation == "key":
            return squared(states.key_HSD, states.stale_key_HSD)
        return squared(states.value_HSD, states.stale_value_HSD)

    def allocate(self, context: EditedContext, question: Question, budget: int, probe: Probe) -> Allocation:
        if (done := settled(context, budget)) is not None:
            return done
        return top_slots(context, self.scores(context, question, probe), budget)
