"""H2O (Zhang et al., 2023, arXiv 2306.14048): heavy hitters of accumulated attention, and the recent tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from kvrelay.core import checks
from kvrelay.core.budget import BASIS_POINTS
from kvrelay.core.history import ColumnMass, Need, PrefilledHistory, Question
from kvrelay.core.selection import LayerSelection, Selection, pack, top_states
from kvrelay.selection.scores import Grouping, group_heads, last_tokens, recorded

Normalise = Literal["none", "visible_queries"]


@dataclass(frozen=True, slots=True, kw_only=True)
class H2O:
    """Each KV head keeps its heaviest tokens by attention summed over all N queries, and the history's last tokens.

    ``heavy_share`` of the budget (rounded down) goes to heavy hitters and the rest to recent tokens: half and half is
    the paper's split. ``recent_states`` replaces the share by a fixed number of recent tokens (8 in KVCache-Factory).
    Raw column sums favour early tokens, which more queries see; the paper keeps that bias, and
    ``normalise="visible_queries"`` takes it away by dividing by the number of queries that see the token.
    """

    heavy_share: float = 0.5
    recent_states: int | None = None
    group: Grouping = "mean"
    normalise: Normalise = "none"

    def __post_init__(self) -> None:
        checks.basis_points("selector.h2o.heavy_share", self.heavy_share)
        if self.recent_states is not None:
            checks.whole_number("selector.h2o.recent_states", self.recent_states, 0)
        checks.one_of("selector.h2o.group", self.group, get_args(Grouping))
        checks.one_of("selector.h2o.normalise", self.normalise, get_args(Normalise))

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset({ColumnMass()})

    @property
    def question_aware(self) -> bool:
        return False

    def select(self, prefilled: PrefilledHistory, question: Question, budget: int) -> Selection:
        budget = min(budget, prefilled.text.n_history)
        layers = tuple(self._layer(prefilled, layer, budget) for layer in range(prefilled.n_layers))
        return Selection(layers=layers, protected=prefilled.text.protected, budget=budget)

    def recent(self, budget: int) -> int:
        """How many of ``budget`` states are the history's last tokens."""
        if self.recent_states is not None:
            return min(self.recent_states, budget)
        points = checks.basis_points("selector.h2o.heavy_share", self.heavy_share)
        return budget - budget * points // BASIS_POINTS

    def scores_HT(self, prefilled: PrefilledHistory, layer: int) -> Tensor:
        """Float32 scores (H, T) of one layer: column sums, divided by T - t for token t if normalised."""
        mass_QT = recorded(prefilled, ColumnMass(), layer)[:, prefilled.text.protected :]
        scores = group_heads(mass_QT, prefilled.n_kv_heads, self.group)
        if self.normalise == "none":
            return scores
        return scores / torch.arange(scores.shape[-1], 0, -1, device=scores.device)

    def _layer(self, prefilled: PrefilledHistory, layer: int, budget: int) -> LayerSelection:
        scores = self.scores_HT(prefilled, layer)
        recent_T = last_tokens(prefilled.text.n_history, self.recent(budget), scores.device)
        return pack(top_states(scores, budget, recent_T), scores, prefilled.text.protected)
