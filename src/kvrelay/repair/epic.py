"""EPIC-derived: the first tokens of every unit (EPIC, ICML 2025), under our operator."""

from __future__ import annotations

from dataclasses import dataclass

from kvrelay.core.history import Question
from kvrelay.core.repair import Allocation, EditedContext, Probe
from kvrelay.repair.ranking import settled
from kvrelay.repair.units import segment


@dataclass(frozen=True, slots=True, kw_only=True)
class Epic:
    """Refreshes the first token of every unit, then every second one, and so on; in text order where these do not fit.

    The authors take a fixed number of tokens at the head of every chunk; this is the same rule at an exact budget.
    """

    def allocate(self, context: EditedContext, question: Question, budget: int, probe: Probe) -> Allocation:
        if (done := settled(context, budget)) is not None:
            return done
        units = segment(context.suffix_pieces, context.suffix_special)
        places = sorted((at - start, at) for start, end in units for at in range(start, end))
        notes = {"units": len(units)}
        return Allocation.of_suffix(context, (at for _, at in places[:budget]), notes).checked(context, budget)
