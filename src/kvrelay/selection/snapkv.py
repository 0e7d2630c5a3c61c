"""SnapKV (Li et al., 2024, arXiv 2404.14469): what an observation window attends to, stays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kvrelay.core.history import PrefilledHistory, Question
from kvrelay.core.selection import Selection
from kvrelay.selection.window import WindowScored


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapKV(WindowScored):
    """Each KV head keeps the window and its own best tokens: ``budget`` states in every layer and head."""

    name: ClassVar[str] = "snapkv"

    def select(self, prefilled: PrefilledHistory, question: Question, budget: int) -> Selection:
        protected, budget = prefilled.text.protected, min(budget, prefilled.text.n_history)
        layers = tuple(
            self.kept(self.scores_HT(prefilled, layer), budget, protected) for layer in range(prefilled.n_layers)
        )
        return Selection(layers=layers, protected=protected, budget=budget)
