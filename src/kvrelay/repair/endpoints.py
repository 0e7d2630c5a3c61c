"""What budgeted repair is measured against: nothing, all, a run afresh, and one place held fixed (SUR, 4.1, D.3).

Their number of states follows from the context, whatever the budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kvrelay.core.errors import EditError
from kvrelay.core.history import Question
from kvrelay.core.repair import Allocation, EditedContext, Probe


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """Refreshes nothing: positions are corrected, states stay stale (0 %)."""

    fixed_budget: ClassVar[str] = "0"
    refreshes: ClassVar[bool] = False

    def fixed_states(self, context: EditedContext) -> int:
        return 0

    def allocate(self, context: EditedContext, question: Question, budget: int, probe: Probe) -> Allocation:
        return Allocation(slots=()).checked(context, budget)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Refreshes the whole suffix over the exact prefix (100 %): Re-prefill's states, in exact arithmetic."""

    fixed_budget: ClassVar[str] = "suffix"

    def fixed_states(self, context: EditedContext) -> int:
        return context.n_suffix

    def allocate(self, context: EditedContext, question: Question, budget: int, probe: Probe) -> Allocation:
        return Allocation.of_suffix(context, range(context.n_suffix)).checked(context, budget)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reprefill:
    """Repairs nothing: the edited text is run afresh from its first token."""

    fixed_budget: ClassVar[str] = "all"
    refreshes: ClassVar[bool] = False
    afresh: ClassVar[bool] = True

    def fixed_states(self, context: EditedContext) -> int:
        return 0

    def allocate(self, context: EditedContext, question: Question, budget: int, probe: Probe) -> Allocation:
        return Allocation(slots=()).checked(context, budget)


@dataclass(frozen=True, slots=True, kw_only=True)
class Localized:
    """Refreshes the one place that the experiment's design holds fixed, and nothing else."""

    fixed_budget: ClassVar[str] = "slot"

    def fixed_states(self, context: EditedContext) -> int:
        start, end = self._slot(context)
        return end - start

    def allocate(self, context: EditedContext, question: Question, budget: int, probe: Probe) -> Allocation:
        return Allocation(slots=tuple(range(*self._slot(context)))).checked(context, budget)

    @staticmethod
    def _slot(context: EditedContext) -> tuple[int, int]:
        """Raises `EditError` where the context has no such place, or not in the suffix."""
        if context.slot is None:
            raise EditError(
                f"case {context.case_id} has no fixed slot to refresh; use the localized allocator with a data set "
                "that names one (key: allocator, dataset)"
            )
        start, end = context.slot
        if not context.splice <= start < end <= len(context.token_ids):
            raise EditError(
                f"the fixed slot ({start}, {end}) of case {context.case_id} is no part of the suffix "
                f"{context.splice} … {len(context.token_ids) - 1} (key: dataset)"
            )
        return context.slot
