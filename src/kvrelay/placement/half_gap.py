"""Half-gap: every gap that eviction left is halved instead of closed."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from kvrelay.core.errors import PositionError
from kvrelay.core.positions import PositionPlan
from kvrelay.core.selection import LayerSelection, Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfGap:
    """Coordinate E - (m - i) - floor(g_i / 2) with g_i = N - p_i - (m - i), question at E = floor((N + M) / 2).

    g_i counts the evicted positions between state i and the question, the trailing gap included; halving the sum
    instead of each gap keeps rounding below one position in all. The coordinates rise strictly, because g_i falls by
    exactly the gap that is passed, and start at 0 or above, because E - m - floor(g_0 / 2) >= (M - m + p_0 - 1) / 2.
    ``name`` labels it in records and tables. Raises `PositionError` for states at N or beyond.
    """

    name: str = "half_gap"

    @property
    def reach(self) -> int:
        return 0

    def place(self, selection: Selection, n_prefilled: int, example_id: str) -> PositionPlan:
        end = (n_prefilled + selection.anchor) // 2
        return selection.plan(lambda layer: _halved(layer, n_prefilled, end), end)


def _halved(layer: LayerSelection, n_prefilled: int, end: int) -> Tensor:
    last = int(layer.source_HK.max())
    if last >= n_prefilled:
        raise PositionError(
            f"a retained state stands at {last}, but {n_prefilled} tokens were prefilled; wanted a selection "
            "made from this history (key: selector)"
        )
    left = layer.counts_H[:, None] - layer.rank_HK
    evicted = n_prefilled - layer.source_HK - left
    return end - left - evicted.div(2, rounding_mode="floor")
