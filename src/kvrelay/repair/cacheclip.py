"""CacheClip-derived: last-layer attention in small windows (CacheClip, 2025), under our operator."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kvrelay.core import checks
from kvrelay.core.history import Question
from kvrelay.core.repair import Allocation, EditedContext, Probe
from kvrelay.repair.admission import admit
from kvrelay.repair.attention import suffix_mass, total
from kvrelay.repair.ranking import best_first, settled


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheClip:
    """Refreshes whole windows of ``window`` tokens by their mean attention, the last admitted one cut to its first.

    Windows are counted from the splice and do not overlap; the last may be shorter. The authors take the attention of
    a small tuned sibling model; here the model's own last layer on the shifted cache stands for it.
    """

    window: int = 8

    def __post_init__(self) -> None:
        checks.whole_number("allocator.cacheclip.window", self.window, 1)

    def scores(self, context: EditedContext, question: Question, probe: Probe) -> Tensor:
        """(windows,) float32: means over windows of the last layer's attention, summed over heads and question."""
        mass_S = suffix_mass(context, question, probe, [probe.n_layers - 1], total)
        return torch.stack([part.mean() for part in mass_S.double().split(self.window)]).float()

    def allocate(self, context: EditedContext, question: Question, budget: int, probe: Probe) -> Allocation:
        if (done := settled(context, budget)) is not None:
            return done
        starts = range(0, context.n_suffix, self.window)
        windows = [(start, min(start + self.window, context.n_suffix)) for start in starts]
        ranking = best_first(self.scores(context, question, probe))
        offsets = admit(windows, ranking, budget, lambda span: span[0])
        return Allocation.of_suffix(context, offsets).checked(context, budget)
