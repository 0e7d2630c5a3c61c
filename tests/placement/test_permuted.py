"""The order controls against plain Python, and what a random permutation may depend on."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from kvrelay.core.errors import ConfigError
from kvrelay.core.selection import LayerSelection, Selection
from kvrelay.placement.permuted import Random, Score, random_keys

MakeLayer = Callable[..., LayerSelection]
MakeRandom = Callable[[int], tuple[Selection, int]]


def expected_by_key(selection: Selection, key: Callable[[LayerSelection, int, int], object]) -> list[list[list[int]]]:
    """Coordinates of all heads from a sort key for (layer, head, slot); Python's sort keeps ties in source order."""
    tables = []
    for layer in selection.layers:
        width = layer.source_HK.shape[1]
        table = []
        for head, row in enumerate(layer.source_HK.tolist()):
            slots = [slot for slot in range(width) if row[slot] >= 0]
            start = selection.anchor - len(slots)
            front, history = slots[: selection.protected], slots[selection.protected :]
            ranked = front + sorted(history, key=lambda slot, h=head: key(layer, h, slot))  # type: ignore[misc]
            coordinate = dict(zip(ranked, range(start, selection.anchor), strict=True))
            table.append([coordinate.get(slot, 0) for slot in range(width)])
        tables.append(table)
    return tables


def placed(selection: Selection, position: Score | Random, n_prefilled: int, example: str) -> list[list[list[int]]]:
    return [table.tolist() for table in position.place(selection, n_prefilled, example).coordinate_LHK]


@pytest.mark.parametrize("seed", range(8))
def test_score_orders_by_relevance(seed: int, make_random: MakeRandom) -> None:
    selection, n_prefilled = make_random(seed)

    def relevance(layer: LayerSelection, head: int, slot: int) -> tuple[bool, float]:
        score = float(layer.score_HK[head, slot])
        return (False, 0.0) if math.isnan(score) else (True, score)

    def first(layer: LayerSelection, head: int, slot: int) -> tuple[bool, float]:
        scored, score = relevance(layer, head, slot)
        return (not scored, -score)

    assert placed(selection, Score(), n_prefilled, "") == expected_by_key(selection, first)
    assert placed(selection, Score(most_relevant="last"), n_prefilled, "") == expected_by_key(selection, relevance)


@pytest.mark.parametrize("seed", range(4))
def test_random_is_one_key_per_source_position(seed: int, make_random: MakeRandom) -> None:
    selection, n_prefilled = make_random(seed)
    keys = random_keys("example", 7, n_prefilled).tolist()
    expected = expected_by_key(selection, lambda layer, head, slot: keys[int(layer.source_HK[head, slot])])
    assert placed(selection, Random(seed=7), n_prefilled, "example") == expected


def test_heads_with_equal_indices_share_the_permutation(make_layer: MakeLayer) -> None:
    long, short = [0, *range(5, 25)], [0, *range(5, 15)]
    selection = Selection(layers=(make_layer([long, short]), make_layer([short, long])), protected=1, budget=20)
    first, second = placed(selection, Random(), 30, "e")
    assert first == [second[1], second[0]]
    kept = first[1][-10:]
    order = sorted(range(10), key=lambda slot: first[0][1 + slot])
    assert sorted(range(10), key=lambda slot: kept[slot]) == order


def test_random_depends_on_example_and_seed_alone(make_layer: MakeLayer) -> None:
    selection = Selection(layers=(make_layer([range(30)]),), protected=2, budget=28)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    one = placed(selection, Random(seed=3), 30, "e")
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert placed(selection, Random(seed=3), 30, "e") == one
    assert placed(selection, Random(seed=4), 30, "e") != one
    assert placed(selection, Random(seed=3), 30, "f") != one


def test_a_longer_history_does_not_redraw_the_keys() -> None:
    assert torch.equal(random_keys("e", 0, 1000)[:37], random_keys("e", 0, 37))


def test_seed_and_example_do_not_run_together() -> None:
    assert not torch.equal(random_keys("1x", 1, 8), random_keys("x", 11, 8))


def test_every_permutation_of_three_is_drawn(make_layer: MakeLayer) -> None:
    selection = Selection(layers=(make_layer([[0, 4, 5, 6]]),), protected=1, budget=3)
    drawn = {tuple(placed(selection, Random(seed=seed), 8, "e")[0][0]) for seed in range(100)}
    assert len(drawn) == 6
    assert {row[0] for row in drawn} == {0}


def test_an_unknown_end_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'nearest'; wanted first or last \(key: position\.score\.most_relevant\)"):
        Score(most_relevant="nearest")  # type: ignore[arg-type]
