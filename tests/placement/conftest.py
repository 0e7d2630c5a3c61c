"""Selections for the position tests: one small ragged one, worked by hand, and a maker of random ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch

from kvrelay.core.selection import LayerSelection, Selection

NAN, INF = float("nan"), float("inf")
Rows = Sequence[Sequence[int]]
MakeLayer = Callable[..., LayerSelection]
MakeRandom = Callable[[int], tuple[Selection, int]]


def _left_padded(rows: Sequence[Sequence[float]], fill: float) -> list[list[float]]:
    width = max(map(len, rows))
    return [[fill] * (width - len(row)) + list(row) for row in rows]


def _layer(rows: Rows, scores: Sequence[Sequence[float]] | None = None) -> LayerSelection:
    given = scores if scores is not None else [[NAN] * len(row) for row in rows]
    return LayerSelection(
        source_HK=torch.tensor(_left_padded(rows, -1), dtype=torch.long),
        score_HK=torch.tensor(_left_padded(given, NAN), dtype=torch.float32),
    )


@pytest.fixture
def make_layer() -> MakeLayer:
    """A layer from one list of source positions a head."""
    return _layer


@pytest.fixture
def ragged() -> Selection:
    """N = 12, P = 2, M = 6; layer 2 is layer 0 again. Counts: 5 and 4 in layer 0, 3 and 6 in layer 1."""
    first = _layer([[0, 1, 4, 7, 11], [0, 1, 3, 9]], [[NAN, NAN, 0.5, 0.9, 0.5], [NAN, NAN, NAN, -1.0]])
    second = _layer([[0, 1, 6], [0, 1, 2, 8, 10, 11]], [[NAN, NAN, 0.1], [NAN, NAN, 1.0, -INF, NAN, 2.0]])
    return Selection(layers=(first, second, first), protected=2, budget=2)


@pytest.fixture
def make_random() -> MakeRandom:
    """(selection, N) from a seed: 3 layers, 3 heads, unequal counts, scores with ties, NaN and infinities."""

    def make(seed: int) -> tuple[Selection, int]:
        draw = torch.Generator().manual_seed(seed)
        protected, n_prefilled = int(torch.randint(0, 4, (), generator=draw)), 40
        layers = []
        for _ in range(3):
            rows, scores = [], []
            for _ in range(3):
                kept = int(torch.randint(1, n_prefilled - protected, (), generator=draw))
                history = torch.randperm(n_prefilled - protected, generator=draw)[:kept].sort().values + protected
                rows.append([*range(protected), *history.tolist()])
                chosen = torch.tensor([NAN, -INF, INF, 0.0, 0.25, 0.5])[torch.randint(0, 6, (kept,), generator=draw)]
                scores.append([*[NAN] * protected, *chosen.tolist()])
            layers.append(_layer(rows, scores))
        return Selection(layers=tuple(layers), protected=protected, budget=0), n_prefilled

    return make
