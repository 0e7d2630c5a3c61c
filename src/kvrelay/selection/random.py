"""Tokens drawn by chance: what a budget alone is worth."""

from __future__ import annotations

from dataclasses import dataclass

from kvrelay.core import checks
from kvrelay.core.history import Need, PrefilledHistory, Question
from kvrelay.core.selection import Selection, top_states
from kvrelay.selection.draws import uniform
from kvrelay.selection.scores import one_set


@dataclass(frozen=True, slots=True, kw_only=True)
class Random:
    """Keeps ``budget`` history tokens drawn without replacement, the same in every layer and head.

    Each token's score is one draw from [0, 1), seeded by (history id, ``seed``), and the highest stay: smaller budgets
    are subsets of larger ones.
    """

    seed: int = 0

    def __post_init__(self) -> None:
        checks.whole_number("selector.random.seed", self.seed, 0)

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset()

    @property
    def question_aware(self) -> bool:
        return False

    def select(self, prefilled: PrefilledHistory, question: Question, budget: int) -> Selection:
        n_history = prefilled.text.n_history
        budget = min(budget, n_history)
        scores_T = uniform((n_history,), "selector.random", prefilled.history_id, self.seed)
        layers = one_set(prefilled, top_states(scores_T[None], budget)[0], scores_T)
        return Selection(layers=layers, protected=prefilled.text.protected, budget=budget)
