"""The order controls: RoPERelay's slots, filled by relevance, backwards or at random.

The protected states keep the first P slots of their head in source order; only history is permuted.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from kvrelay.core.errors import ConfigError
from kvrelay.core.positions import PositionPlan
from kvrelay.core.selection import LayerSelection, Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Slots M - m .. M - 1 by the selector's scores, question at M.

    ``most_relevant="first"`` puts the best state farthest from the question, ``"last"`` next to it. Ties stay in
    source order; a state without a score (NaN) is the least relevant. ``name`` labels it in records and tables.
    """

    most_relevant: Literal["first", "last"] = "first"
    name: str = "score"

    def __post_init__(self) -> None:
        if self.most_relevant not in ("first", "last"):
            raise ConfigError(
                f"most_relevant is {self.most_relevant!r}; wanted first or last "
                f"(key: position.{self.name}.most_relevant)"
            )

    @property
    def reach(self) -> int:
        return 0

    def place(self, selection: Selection, n_prefilled: int, example_id: str) -> PositionPlan:
        descending = self.most_relevant == "last"

        def order(layer: LayerSelection) -> Tensor:
            # torch sorts NaN as the greatest of all, so of the negated scores it is the last or, descending, the first
            return (-layer.score_HK).argsort(dim=-1, descending=descending, stable=True)

        anchor = selection.anchor
        return selection.plan(lambda layer: _slots(layer, order(layer), selection.protected, anchor), anchor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reverse:
    """Slots M - m .. M - 1 from the latest state to the earliest, question at M. ``name`` labels it in records."""

    name: str = "reverse"

    @property
    def reach(self) -> int:
        return 0

    def place(self, selection: Selection, n_prefilled: int, example_id: str) -> PositionPlan:
        def rule(layer: LayerSelection) -> Tensor:
            order = layer.source_HK.argsort(dim=-1, descending=True, stable=True)
            return _slots(layer, order, selection.protected, anchor)

        anchor = selection.anchor
        return selection.plan(rule, anchor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Random:
    """Slots M - m .. M - 1 in the order of random keys, question at M.

    One key is drawn per (example, ``seed``, source position), so heads that keep the same states share one
    permutation. Several seeds make several conditions: give each its own ``name``.
    """

    seed: int = 0
    name: str = "random"

    @property
    def reach(self) -> int:
        return 0

    def place(self, selection: Selection, n_prefilled: int, example_id: str) -> PositionPlan:
        keys = random_keys(example_id, self.seed, n_prefilled)

        def rule(layer: LayerSelection) -> Tensor:
            source = layer.source_HK
            order = keys.to(source.device)[source.clamp(min=0)].argsort(dim=-1, stable=True)
            return _slots(layer, order, selection.protected, anchor)

        anchor = selection.anchor
        return selection.plan(rule, anchor)


def random_keys(example_id: str, seed: int, n_prefilled: int) -> Tensor:
    """One float64 key in [0, 1) per source position, (N,), the same on every device and for every N that holds it."""
    digest = hashlib.sha256(f"position random {seed} {example_id}".encode("utf-8", "surrogatepass")).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)
    return torch.rand(n_prefilled, generator=generator, dtype=torch.float64)


def _slots(layer: LayerSelection, order_HK: Tensor, protected: int, anchor: int) -> Tensor:
    """Coordinates (H, K) of states that take their head's slots in ``order_HK`` (slot indices, first place first).

    Padding and protected states stay in front, as they stand; the history follows in the order given.
    """
    n_heads, width = order_HK.shape
    is_history = layer.rank_HK >= protected
    order = order_HK.gather(-1, is_history.gather(-1, order_HK).byte().argsort(dim=-1, stable=True))
    place = torch.arange(width, device=order.device).expand(n_heads, width)
    placed = torch.empty_like(order).scatter_(-1, order, place)
    return torch.where(is_history, placed, place) + (anchor - width)
