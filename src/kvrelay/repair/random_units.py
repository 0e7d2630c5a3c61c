"""Matched control: SUR's units in an order drawn by chance (SUR, A.4 and C.1)."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from kvrelay.core import checks
from kvrelay.core.history import Question
from kvrelay.core.repair import Allocation, EditedContext, Probe
from kvrelay.repair.admission import admit
from kvrelay.repair.ranking import settled
from kvrelay.repair.units import segment


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomUnits:
    """Refreshes whole units as they are drawn, then the first tokens of the unit that does not fit.

    A unit's place in the order is a hash of (case id, ``seed``, unit): one draw a case, the same for every budget,
    model and machine, and no generator is read or moved.
    """

    seed: int = 0

    def __post_init__(self) -> None:
        checks.whole_number("allocator.random_units.seed", self.seed, 0)

    def allocate(self, context: EditedContext, question: Question, budget: int, probe: Probe) -> Allocation:
        if (done := settled(context, budget)) is not None:
            return done
        units = segment(context.suffix_pieces, context.suffix_special)
        ranking = sorted(range(len(units)), key=lambda unit: self._draw(context.case_id, unit))
        offsets = admit(units, ranking, budget, lambda unit: unit[0])
        return Allocation.of_suffix(context, offsets, {"units": len(units)}).checked(context, budget)

    def _draw(self, case_id: str, unit: int) -> bytes:
        text = json.dumps(["allocator.random_units", case_id, self.seed, unit], ensure_ascii=False)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
