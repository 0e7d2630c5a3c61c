"""Deletions: which tokens go, which stay, and what is refused."""

from __future__ import annotations

import pytest
import torch

from kvrelay.core.cache import KVCache, LayerKV
from kvrelay.core.edit import Edit
from kvrelay.core.errors import EditError
from kvrelay.core.rope import RotarySpec
from kvrelay.core.selection import LayerSelection, Selection


def test_several_deletions_stand_in_original_coordinates_and_are_joined() -> None:
    edit = Edit.of_tokens([(7, 9), (2, 4), (4, 5), (8, 10)], 12)
    assert edit.spans == ((2, 5), (7, 10))
    assert edit.n_deleted == 6 and edit.splice == 2
    assert edit.kept(12) == [0, 1, 5, 6, 10, 11]


@pytest.mark.parametrize("span", [(0, 3), (9, 12)])
def test_a_deletion_at_either_end_is_one(span: tuple[int, int]) -> None:
    edit = Edit.of_tokens([span], 12)
    assert edit.kept(12) == [position for position in range(12) if not span[0] <= position < span[1]]
    assert edit.splice == span[0]


@pytest.mark.parametrize(
    ("spans", "protected", "said"),
    [
        ([], 0, "no span"),
        ([(3, 3)], 0, r"\(3, 3\) is empty"),
        ([(5, 3)], 0, r"\(5, 3\) is empty"),
        ([(8, 13)], 0, "outside the context of 12 tokens"),
        ([(-1, 3)], 0, "outside the context"),
        ([(0, 3)], 1, "protected token"),
        ([(0, 12)], 0, "nothing would be left"),
        ([(1, 6), (6, 12)], 1, "delete all 11 tokens"),
    ],
)
def test_a_deletion_that_cannot_be_says_why(spans: list[tuple[int, int]], protected: int, said: str) -> None:
    with pytest.raises(EditError, match=said):
        Edit.of_tokens(spans, 12, protected=protected)


PIECES = ["The", " cat", " sat", ".", "", "é", " End"]
"""The fifth token is the first half of a character, the sixth its second."""


@pytest.mark.parametrize(
    ("span", "tokens", "snapped"),
    [
        ((3, 11), (1, 3), None),
        ((4, 6), (1, 2), [4, 6, 3, 7]),
        ((0, 1), (0, 1), [0, 1, 0, 3]),
        ((12, 13), (4, 6), None),
        ((10, 14), (2, 7), [10, 14, 7, 17]),
    ],
)
def test_characters_are_widened_to_the_tokens_they_touch(
    span: tuple[int, int], tokens: tuple[int, int], snapped: list[int] | None
) -> None:
    edit = Edit.of_characters([span], PIECES)
    assert edit.spans == (tokens,)
    assert edit.notes == ({} if snapped is None else {"snapped": [snapped]})


@pytest.mark.parametrize(("span", "said"), [((4, 4), "empty"), ((0, 99), "outside the context of 17 characters")])
def test_characters_that_cannot_be_deleted_are_refused(span: tuple[int, int], said: str) -> None:
    with pytest.raises(EditError, match=said):
        Edit.of_characters([span], PIECES)


def ragged() -> tuple[KVCache, Selection]:
    """Two heads of a text of 8 tokens: one holds 0, 2, 3, 5, 7, the other 1, 2, 6 (padded on the left)."""
    source = torch.tensor([[0, 2, 3, 5, 7], [-1, -1, 1, 2, 6]])
    keys = source[..., None].repeat(1, 1, 4).double()
    layer = LayerKV(
        keys_HKD=keys, values_HKD=-keys, source_HK=source, coordinate_HK=source.clamp(min=0), valid_HK=source >= 0
    )
    cache = KVCache(layers=(layer, layer), rope=RotarySpec(inv_freq=torch.ones(2)), next_position=8)
    kept = LayerSelection(source_HK=source, score_HK=source.float())
    return cache, Selection(layers=(kept, kept), protected=0, budget=4)


def test_a_cache_loses_the_deleted_states_and_numbers_the_others_anew() -> None:
    cache, selection = ragged()
    edit = Edit.of_tokens([(2, 4), (6, 7)], 8)
    cut, left = cache.edited(edit, 8), selection.edited(edit, 8)
    for layer, kept in zip(cut.layers, left.layers, strict=True):
        assert layer.source_HK.tolist() == kept.source_HK.tolist() == [[0, 3, 4], [-1, -1, 1]]
        assert layer.coordinate_HK.tolist() == [[0, 5, 7], [0, 0, 1]]
        assert layer.keys_HKD[..., 0].tolist() == [[0, 5, 7], [0, 0, 1]]
        assert layer.values_HKD[..., 0].tolist() == [[0, -5, -7], [0, 0, -1]]
        assert layer.valid_HK.tolist() == [[True] * 3, [False, False, True]]
        assert kept.score_HK[0].tolist() == [0.0, 5.0, 7.0] and bool(kept.score_HK[1, :2].isnan().all())
    assert cut.master and cache.layers[0].keys_HKD.shape[1] == 5


def test_deletions_one_after_another_are_one_deletion() -> None:
    cache, _ = ragged()
    once = cache.edited(Edit.of_tokens([(2, 4), (6, 7)], 8), 8)
    twice = cache.edited(Edit.of_tokens([(6, 7)], 8), 8).edited(Edit.of_tokens([(2, 4)], 7), 7)
    for one, other in zip(once.layers, twice.layers, strict=True):
        for name in ("keys_HKD", "values_HKD", "source_HK", "coordinate_HK", "valid_HK"):
            assert torch.equal(getattr(one, name), getattr(other, name))
