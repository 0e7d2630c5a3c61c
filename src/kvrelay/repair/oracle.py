"""Clean-state oracle: a diagnostic that has seen the edited text run afresh (SUR, A.4); no method and no bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, cast, get_args

from torch import Tensor

from kvrelay.core import checks
from kvrelay.core.errors import EditError
from kvrelay.core.history import Question
from kvrelay.core.repair import Allocation, CleanProbe, EditedContext, Probe
from kvrelay.repair.admission import Support, supported
from kvrelay.repair.ranking import settled


@dataclass(frozen=True, slots=True, kw_only=True)
class Oracle:
    """Refreshes the tokens, or the units by their sums, whose shifted states are furthest from the clean ones.

    s_i = 1 / L sum_l (||K - K*||^2 / ||K*||^2 + the same of V). It costs a full run, and what it points at is still
    recomputed over stale predecessors: it locates damage and bounds nothing.
    """

    reads_clean: ClassVar[bool] = True

    support: Support = "tokens"

    def __post_init__(self) -> None:
        checks.one_of("allocator.oracle.support", self.support, get_args(Support))

    def scores(self, context: EditedContext, question: Question, probe: Probe) -> Tensor:
        """(S,) float32. Raises `EditError` for a probe that has no clean states."""
        if not hasattr(probe, "deviation"):
            raise EditError("the oracle needs the states of the edited text run afresh; this probe has none")
        return cast(CleanProbe, probe).deviation().mean(0)

    def allocate(self, context: EditedContext, question: Question, budget: int, probe: Probe) -> Allocation:
        if (done := settled(context, budget)) is not None:
            return done
        return supported(context, self.scores(context, question, probe), budget, self.support)
