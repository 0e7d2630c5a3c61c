"""From scores to kept states, against sorting in plain Python."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from kvrelay.core.selection import (
    LayerSelection,
    Selection,
    expand_heads,
    pack,
    shared,
    top_states,
)

NAN, INF = float("nan"), float("inf")


def reference_mask(scores: list[float], budget: int, forced: list[bool] | None) -> list[bool]:
    """The latest forced tokens, then the best scores, the lower index first; NaN counts as the least score."""
    budget = min(budget, len(scores))
    must = [index for index, needed in enumerate(forced or []) if needed]
    kept = set(must[len(must) - budget :] if len(must) > budget else must)

    def rank(index: int) -> tuple[float, int]:
        return (INF if math.isnan(scores[index]) else -scores[index], index)

    for index in sorted(range(len(scores)), key=rank):
        if len(kept) < budget:
            kept.add(index)
    return [index in kept for index in range(len(scores))]


def tied_scores(n_heads: int, n_tokens: int, seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    values = torch.tensor([0.0, 0.25, 0.5, 0.75, -1.0, INF, -INF, NAN], dtype=dtype)
    return values[torch.randint(0, len(values), (n_heads, n_tokens), generator=draw)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("budget", [0, 1, 3, 11, 22, 23, 40])
@pytest.mark.parametrize("n_forced", [None, 0, 2, 9, 23])
def test_top_states_against_a_sort(budget: int, n_forced: int | None, dtype: torch.dtype) -> None:
    scores = tied_scores(4, 23, seed=budget, dtype=dtype)
    forced = None
    if n_forced is not None:
        forced = torch.zeros(23, dtype=torch.bool)
        forced[torch.randperm(23, generator=torch.Generator().manual_seed(n_forced))[:n_forced]] = True
    mask = top_states(scores, budget, forced)
    given = None if forced is None else forced.tolist()
    assert mask.tolist() == [reference_mask(row, budget, given) for row in scores.tolist()]
    assert mask.sum(-1).tolist() == [min(budget, 23)] * 4


def test_ties_go_to_the_lower_index() -> None:
    assert top_states(torch.tensor([[1.0, 2.0, 1.0, 1.0]]), 2).tolist() == [[True, True, False, False]]


def test_more_forced_states_than_budget_leave_the_latest() -> None:
    forced = torch.tensor([True, True, False, True, True])
    mask = top_states(torch.tensor([[9.0, 9.0, 9.0, 0.0, 0.0]]), 3, forced)
    assert mask.tolist() == [[False, True, False, True, True]]


def test_a_forced_state_stays_beside_any_score() -> None:
    # kvpress 226: a sentinel of the greatest score + 1 is no greater in bf16 once scores reach 256
    scores = torch.tensor([[300.0, INF, 300.0, NAN]])
    assert top_states(scores, 1, torch.tensor([False, False, False, True])).tolist() == [[False, False, False, True]]


def test_nan_ranks_behind_every_number() -> None:
    assert top_states(torch.tensor([[NAN, -5.0, NAN, 0.0]]), 3).tolist() == [[True, True, False, True]]


def reference_pack(keep: Tensor, scores: Tensor, protected: int) -> tuple[list[list[int]], list[list[float]]]:
    rows, given = [], []
    for mask, score in zip(keep.tolist(), scores.tolist(), strict=True):
        kept = [token for token, stays in enumerate(mask) if stays]
        rows.append([*range(protected), *[protected + token for token in kept]])
        given.append([*[NAN] * protected, *[score[token] for token in kept]])
    width = max(map(len, rows))
    sources = [[-1] * (width - len(row)) + row for row in rows]
    return sources, [[NAN] * (width - len(row)) + row for row in given]


@pytest.mark.parametrize("protected", [0, 1, 4])
@pytest.mark.parametrize("seed", range(5))
def test_pack_against_lists(seed: int, protected: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    keep = torch.rand(3, 17, generator=draw) < torch.tensor([[0.2], [0.9], [0.5]])
    scores = torch.randn(3, 17, generator=draw, dtype=torch.float64)
    layer = pack(keep, scores, protected)
    source, given = reference_pack(keep, scores.float(), protected)
    assert layer.source_HK.tolist() == source
    assert torch.equal(layer.score_HK.nan_to_num(nan=99.0), torch.tensor(given).nan_to_num(nan=99.0))
    assert (layer.source_HK.dtype, layer.score_HK.dtype) == (torch.int64, torch.float32)


def test_a_head_may_keep_nothing_but_the_protected_states() -> None:
    layer = pack(torch.tensor([[False, False], [True, True]]), torch.zeros(2, 2), 1)
    assert layer.source_HK.tolist() == [[-1, -1, 0], [0, 1, 2]]
    assert pack(torch.zeros(2, 3, dtype=torch.bool), torch.zeros(2, 3), 2).source_HK.tolist() == [[0, 1], [0, 1]]


def test_kept_states_ascend_whatever_their_scores() -> None:
    # kvpress 173: kept entries came in the order of their scores
    scores = torch.randn(4, 100, generator=torch.Generator().manual_seed(0))
    layer = pack(top_states(scores, 10), scores, 3)
    assert bool((layer.source_HK.diff(dim=-1) > 0).all())
    assert layer.counts_H.tolist() == [13] * 4


def ragged() -> Selection:
    first = pack(torch.tensor([[True, False, True], [False, True, False]]), torch.zeros(2, 3), 2)
    second = pack(torch.ones(2, 3, dtype=torch.bool), torch.zeros(2, 3), 2)
    return Selection(layers=(first, second, first), protected=2, budget=2)


def test_rank_counts_from_the_first_state_of_a_head() -> None:
    layer = ragged().layers[0]
    assert layer.source_HK.tolist() == [[0, 1, 2, 4], [-1, 0, 1, 3]]
    assert layer.rank_HK.tolist() == [[0, 1, 2, 3], [-1, 0, 1, 2]]
    assert layer.valid_HK.tolist() == [[True] * 4, [False, True, True, True]]


def test_anchor_counts_and_widths_are_over_layers_and_heads() -> None:
    selection = ragged()
    assert selection.anchor == 5
    assert selection.counts_LH() == [[4, 3], [5, 5], [4, 3]]
    assert selection.distinct() == (selection.layers[0], selection.layers[1])
    assert max(layer.source_HK.shape[1] for layer in selection.layers) == 5


def test_equal_digests_mean_equal_kept_sets() -> None:
    one, same = ragged(), ragged()
    assert one.digest() == same.digest()
    turned = Selection(layers=(one.layers[1], one.layers[0], one.layers[0]), protected=2, budget=2)
    other = LayerSelection(source_HK=one.layers[0].source_HK + 1, score_HK=one.layers[0].score_HK)
    changed = Selection(layers=(other, one.layers[1], one.layers[0]), protected=2, budget=2)
    assert len({one.digest(), turned.digest(), changed.digest()}) == 3


def test_one_decision_for_all_heads_and_layers_is_stored_once() -> None:
    mask, scores = expand_heads(torch.tensor([True, False, True]), torch.tensor([1.0, 2.0, 3.0]), 4)
    assert (mask.shape, mask.stride(0), scores.stride(0)) == ((4, 3), 0, 0)
    layer = pack(mask, scores, 1)
    assert layer.source_HK.tolist() == [[0, 1, 3]] * 4
    layers = shared(layer, 5)
    assert len(layers) == 5 and all(one is layer for one in layers)
