"""Scores from an observation window, shared by SnapKV, PyramidKV and ChunkKV (SnapKV, arXiv 2404.14469, section 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from kvrelay.core import checks
from kvrelay.core.history import Need, PrefilledHistory, WindowMass
from kvrelay.core.selection import LayerSelection, pack, top_states
from kvrelay.selection.scores import Edges, Grouping, Pooling, group_heads, last_tokens, pool, recorded

Observe = Literal["history", "question"]
Order = Literal["group_then_pool", "pool_then_group"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowScored:
    """Scores a history token by the attention that an observation window pays to it, smoothed over its neighbours.

    ``observe="history"``: the last ``window`` history tokens observe. They stay, inside the budget (only the latest of
    them where it is smaller), have no score of their own, and do not enter the pooling of the tokens before them.
    ``observe="question"``: the question's tokens observe; every history token is scored and none is forced.
    ``kernel``, ``pooling``, ``edges``: see `pool`. ``group``: how the query heads of a KV head are reduced.
    ``order`` matters for max-pooling alone: a maximum of means is not a mean of maxima.
    """

    name: ClassVar[str] = "window"

    window: int = 32
    kernel: int = 7
    pooling: Pooling = "max"
    edges: Edges = "padded"
    group: Grouping = "mean"
    order: Order = "group_then_pool"
    observe: Observe = "history"

    def __post_init__(self) -> None:
        key = f"selector.{self.name}"
        checks.whole_number(f"{key}.window", self.window, 1)
        checks.odd_number(f"{key}.kernel", self.kernel)
        checks.one_of(f"{key}.pooling", self.pooling, get_args(Pooling))
        checks.one_of(f"{key}.edges", self.edges, get_args(Edges))
        checks.one_of(f"{key}.group", self.group, get_args(Grouping))
        checks.one_of(f"{key}.order", self.order, get_args(Order))
        checks.one_of(f"{key}.observe", self.observe, get_args(Observe))

    @property
    def need(self) -> WindowMass:
        return WindowMass(window=self.window, over=self.observe)

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset({self.need})

    @property
    def question_aware(self) -> bool:
        return self.observe == "question"

    def window_states(self, n_history: int) -> int:
        """How many history tokens are forced: all of a history that is shorter than the window."""
        return min(self.window, n_history) if self.observe == "history" else 0

    def scores_HT(self, prefilled: PrefilledHistory, layer: int) -> Tensor:
        """Float32 scores (H, T) of one layer; NaN for the window's own tokens."""
        n_forced = self.window_states(prefilled.text.n_history)
        mass_QN = recorded(prefilled, self.need, layer)
        mass_QT = mass_QN[:, prefilled.text.protected : prefilled.text.n_prefilled - n_forced]
        return F.pad(self._smoothed(mass_QT, prefilled.n_kv_heads), (0, n_forced), value=torch.nan)

    def _smoothed(self, mass_QT: Tensor, n_kv_heads: int) -> Tensor:
        if self.order == "group_then_pool":
            return pool(group_heads(mass_QT, n_kv_heads, self.group), self.kernel, self.pooling, self.edges)
        return group_heads(pool(mass_QT, self.kernel, self.pooling, self.edges), n_kv_heads, self.group)

    def kept(self, scores_HT: Tensor, budget: int, protected: int) -> LayerSelection:
        """The window's tokens and then the best by score: ``budget`` states a head."""
        n_history = scores_HT.shape[-1]
        forced_T = last_tokens(n_history, self.window_states(n_history), scores_HT.device)
        return pack(top_states(scores_HT, budget, forced_T), scores_HT, protected)
