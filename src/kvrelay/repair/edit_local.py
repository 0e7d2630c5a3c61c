"""Our control: the window at the splice, which is the one place where refreshed states are exact."""

from __future__ import annotations

from dataclasses import dataclass

from kvrelay.core.history import Question
from kvrelay.core.repair import Allocation, EditedContext, Probe


@dataclass(frozen=True, slots=True, kw_only=True)
class EditLocal:
    """Refreshes the first B tokens after the deletion. They read only exact predecessors, so they become clean."""

    def allocate(self, context: EditedContext, question: Question, budget: int, probe: Probe) -> Allocation:
        return Allocation.of_suffix(context, range(min(budget, context.n_suffix))).checked(context, budget)
