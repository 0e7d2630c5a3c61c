"""The last tokens stay: the baseline that needs no model."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kvrelay.core.history import Need, PrefilledHistory, Question
from kvrelay.core.selection import Selection
from kvrelay.selection.scores import last_tokens, one_set


@dataclass(frozen=True, slots=True, kw_only=True)
class Recent:
    """Keeps the last ``budget`` history tokens. A token's score is its index: the later, the more relevant."""

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset()

    @property
    def question_aware(self) -> bool:
        return False

    def select(self, prefilled: PrefilledHistory, question: Question, budget: int) -> Selection:
        n_history = prefilled.text.n_history
        budget = min(budget, n_history)
        keep_T = last_tokens(n_history, budget, torch.device("cpu"))
        layers = one_set(prefilled, keep_T, torch.arange(n_history, dtype=torch.float32))
        return Selection(layers=layers, protected=prefilled.text.protected, budget=budget)
