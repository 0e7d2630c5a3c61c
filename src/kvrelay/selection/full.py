"""Everything stays: the reference that compressed caches are measured against (FullKV)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from kvrelay.core.history import Need, PrefilledHistory, Question
from kvrelay.core.selection import Selection
from kvrelay.selection.scores import no_scores, one_set


@dataclass(frozen=True, slots=True, kw_only=True)
class Full:
    """Keeps the whole history whatever the budget, and records T as the budget that it used."""

    fixed_retention: ClassVar[str] = "all"
    """Its cells' retention, since no budget changes what it keeps."""

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset()

    @property
    def question_aware(self) -> bool:
        return False

    def select(self, prefilled: PrefilledHistory, question: Question, budget: int) -> Selection:
        n_history = prefilled.text.n_history
        layers = one_set(prefilled, torch.ones(n_history, dtype=torch.bool), no_scores(n_history))
        return Selection(layers=layers, protected=prefilled.text.protected, budget=n_history)
