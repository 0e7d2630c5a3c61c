"""Synthetic prefilled histories, and slow float64 references that share nothing with the code under test."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import pytest
import torch
from torch import Tensor

from kvrelay.core.cache import KVCache, LayerKV
from kvrelay.core.history import HistoryText, Need, PrefilledHistory, Question
from kvrelay.core.rope import RotarySpec
from kvrelay.core.selection import Selection

HEAD_DIM = 6
MakeHistory = Callable[..., PrefilledHistory]


def _layer(values: Tensor, n_prefilled: int) -> LayerKV:
    source = torch.arange(n_prefilled).expand(values.shape[0], -1)
    return LayerKV(
        keys_HKD=values + 1,
        values_HKD=values,
        source_HK=source,
        coordinate_HK=source,
        valid_HK=torch.ones_like(source, dtype=torch.bool),
    )


def _text(n_history: int, protected: int, unit_tokens: int) -> HistoryText:
    starts = range(0, n_history, unit_tokens)
    words = ["apple pear", "pear plum fig", "kiwi", "apple apple lime", "", "fig"]
    return HistoryText(
        protected=protected,
        n_history=n_history,
        unit_ids=tuple(f"unit{start}" for start in starts),
        unit_spans=tuple((start, min(start + unit_tokens - 1, n_history)) for start in starts),
        index_texts=tuple(words[index % len(words)] for index, _ in enumerate(starts)),
    )


@pytest.fixture
def make_history() -> MakeHistory:
    """A history with random values and, for each need, evidence in multiples of 180 / 64.

    Sums of those, and their means over up to 5 neighbours and 4 heads in either order, are exact in float32: rankings
    can be compared with float64 token by token, and ties are common.
    """

    def make(
        n_history: int = 50,
        *,
        needs: Iterable[Need] = (),
        protected: int = 3,
        n_layers: int = 2,
        n_query_heads: int = 4,
        n_kv_heads: int = 2,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
        history_id: str = "h",
        text: HistoryText | None = None,
    ) -> PrefilledHistory:
        generator = torch.Generator().manual_seed(seed)
        n = protected + n_history
        values = [torch.randn(n_kv_heads, n, HEAD_DIM, generator=generator).to(dtype) for _ in range(n_layers)]
        evidence = {
            need: tuple(
                torch.randint(0, 64, (n_query_heads, n), generator=generator) * (180 / 64) for _ in range(n_layers)
            )
            for need in sorted(needs, key=repr)
        }
        return PrefilledHistory(
            cache=KVCache(
                layers=tuple(_layer(layer, n) for layer in values),
                rope=RotarySpec(inv_freq=torch.ones(HEAD_DIM // 2)),
                next_position=n,
            ),
            text=text or _text(n_history, protected, 7),
            history_id=history_id,
            n_query_heads=n_query_heads,
            evidence=evidence,
        )

    return make


@pytest.fixture
def question() -> Question:
    return Question(text="apple or fig?", token_ids=(1, 2, 3))


@pytest.fixture
def kept_tokens() -> Callable[[Selection], list[list[list[int]]]]:
    """History tokens that stay, by layer and head, protected states checked and taken off."""

    def read(selection: Selection) -> list[list[list[int]]]:
        layers = []
        for layer in selection.layers:
            heads = [row[row >= 0].tolist() for row in layer.source_HK]
            assert all(head[: selection.protected] == list(range(selection.protected)) for head in heads)
            layers.append([[source - selection.protected for source in head[selection.protected :]] for head in heads])
        return layers

    return read


@pytest.fixture
def best() -> Callable[..., list[int]]:
    """Literal ranking: forced tokens (the latest of them), then the highest scores, the lower index first."""

    def rank(scores: list[float], budget: int, forced: Iterable[int] = ()) -> list[int]:
        stay = sorted(forced)[-budget:] if budget else []
        free = sorted(set(range(len(scores))) - set(forced), key=lambda token: (-scores[token], token))
        return sorted(stay + free[: max(0, budget - len(stay))])

    return rank


@pytest.fixture
def slow_window_scores() -> Callable[..., list[list[float]]]:
    """Grouping and pooling of window mass (Hq, n) by loops over Python floats: (H, n)."""

    def group(mass: list[list[float]], n_kv_heads: int, how: str) -> list[list[float]]:
        size, reduce = len(mass) // n_kv_heads, {"mean": lambda v: sum(v) / len(v), "max": max, "sum": sum}[how]
        return [
            [reduce(column) for column in zip(*mass[h * size : (h + 1) * size], strict=True)] for h in range(n_kv_heads)
        ]

    def pool(row: list[float], kernel: int, how: str, edges: str) -> list[float]:
        half, out = kernel // 2, []
        for t in range(len(row)):
            near = row[max(0, t - half) : t + half + 1]
            out.append(max(near) if how == "max" else math.fsum(near) / (kernel if edges == "padded" else len(near)))
        return out

    def scores(mass: Tensor, n_kv_heads: int, selector: object) -> list[list[float]]:
        s, rows = selector, mass.double().tolist()
        if s.order == "group_then_pool":
            return [pool(row, s.kernel, s.pooling, s.edges) for row in group(rows, n_kv_heads, s.group)]
        return group([pool(row, s.kernel, s.pooling, s.edges) for row in rows], n_kv_heads, s.group)

    return scores
