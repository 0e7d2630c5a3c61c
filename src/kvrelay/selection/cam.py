"""CaM (Zhang et al., 2024): values are merged into their followers before the selection drops states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from kvrelay.core import checks
from kvrelay.core.budget import BASIS_POINTS
from kvrelay.core.history import Need, PrefilledHistory, Question, WindowMass
from kvrelay.core.selection import LayerSelection, Selection, pack, top_states
from kvrelay.selection.draws import uniform
from kvrelay.selection.merging import merge_probabilities, merged_values
from kvrelay.selection.scores import Grouping, group_heads, last_tokens, recorded

Sinks = Literal["prompt", "history"]
KEY = "selector.cam"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaM:
    """The prefill form of KVCache-Factory: keys never change, kept and dropped tokens merge alike.

    Attention of the last ``window`` history tokens decides both the merging of values (see `merging`; ``merge_window``
    followers, the first ``start_ratio`` of the history merges nothing) and the selection (no pooling; the window is
    kept). The merge reference is the largest attention of the tokens before the start; ``sinks="prompt"`` counts the
    protected tokens among them, as in a prompt that is compressed whole, ``"history"`` leaves them out. The sink stands
    there, so merges are rare: the realised rate is in the record. Coins are drawn from (history id, ``seed``, layer),
    so every arm, budget and re-run has the same merged values.
    """

    window: int = 32
    merge_window: int = 32
    start_ratio: float = 0.1
    group: Grouping = "mean"
    sinks: Sinks = "prompt"
    seed: int = 0

    def __post_init__(self) -> None:
        checks.whole_number(f"{KEY}.window", self.window, 1)
        checks.whole_number(f"{KEY}.merge_window", self.merge_window, 1)
        checks.basis_points(f"{KEY}.start_ratio", self.start_ratio)
        checks.one_of(f"{KEY}.group", self.group, get_args(Grouping))
        checks.one_of(f"{KEY}.sinks", self.sinks, get_args(Sinks))
        checks.whole_number(f"{KEY}.seed", self.seed, 0)

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset({WindowMass(window=self.window)})

    @property
    def question_aware(self) -> bool:
        return False

    def select(self, prefilled: PrefilledHistory, question: Question, budget: int) -> Selection:
        budget = min(budget, prefilled.text.n_history)
        layers, values, coins, growth = [], [], [], []
        for layer in range(prefilled.n_layers):
            mass_HN = group_heads(self._mass(prefilled, layer), prefilled.n_kv_heads, self.group)
            coins.append(self._coins(prefilled, layer, mass_HN))
            merged, ratio = self._merged(prefilled, layer, coins[-1])
            values.append(merged)
            growth.append(ratio)
            layers.append(self._kept(mass_HN[:, prefilled.text.protected :], budget, prefilled.text.protected))
        return Selection(
            layers=tuple(layers),
            protected=prefilled.text.protected,
            budget=budget,
            values_LHND=tuple(values),
            notes={"merge_rate": self._rate(coins), "value_norm_ratio": max(growth)},
        )

    def start(self, n_history: int) -> int:
        """The first token that may merge: ceil(start_ratio T), in integers."""
        points = checks.basis_points(f"{KEY}.start_ratio", self.start_ratio)
        return -(-n_history * points // BASIS_POINTS)

    def _mass(self, prefilled: PrefilledHistory, layer: int) -> Tensor:
        return recorded(prefilled, WindowMass(window=self.window), layer)

    def _coins(self, prefilled: PrefilledHistory, layer: int, mass_HN: Tensor) -> Tensor:
        """r (H, T), bool: one Bernoulli draw a KV head and history token."""
        protected, start = prefilled.text.protected, self.start(prefilled.text.n_history)
        first = 0 if self.sinks == "prompt" else protected
        reference = F.pad(mass_HN[:, first : protected + start], (0, 1)).amax(-1)
        p_HT = merge_probabilities(mass_HN[:, protected:], reference, start, self.merge_window)
        shape = (p_HT.shape[0], p_HT.shape[1])
        return uniform(shape, KEY, prefilled.history_id, self.seed, layer).to(p_HT.device) < p_HT

    def _merged(self, prefilled: PrefilledHistory, layer: int, merge_HT: Tensor) -> tuple[Tensor, float]:
        """Values (H, N, D) in the cache's dtype, protected ones untouched, and how much merging lengthened them."""
        values_HND, protected = prefilled.cache.layers[layer].values_HKD, prefilled.text.protected
        merged = merged_values(values_HND[:, protected:], merge_HT, self.merge_window)
        ratio = merged.norm() / values_HND[:, protected:].float().norm().clamp(min=torch.finfo(torch.float32).tiny)
        return torch.cat([values_HND[:, :protected], merged.to(values_HND.dtype)], 1), float(ratio)

    def _kept(self, mass_HT: Tensor, budget: int, protected: int) -> LayerSelection:
        n_history = mass_HT.shape[-1]
        window_T = last_tokens(n_history, self.window, mass_HT.device)
        scores = mass_HT.masked_fill(window_T, torch.nan)
        return pack(top_states(scores, budget, window_T), scores, protected)

    def _rate(self, coins: list[Tensor]) -> float:
        """Merges over the number of tokens that could merge, all layers and heads together."""
        n_heads, n_history = coins[0].shape
        could = len(coins) * n_heads * max(0, n_history - self.merge_window - self.start(n_history))
        return sum(int(coin.sum()) for coin in coins) / could if could else 0.0
