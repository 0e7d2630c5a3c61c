"""What must hold for every selection: order, ends, distances, and the cases where two conditions are one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
import torch

from kvrelay.core.errors import ConfigError, PositionError
from kvrelay.core.positions import Position
from kvrelay.core.selection import LayerSelection, Selection
from kvrelay.placement.half_gap import HalfGap
from kvrelay.placement.key_only import KeyOnly
from kvrelay.placement.original import Original
from kvrelay.placement.permuted import Random, Reverse, Score
from kvrelay.placement.ranksync import RankSync
from kvrelay.placement.roperelay import RoPERelay
from kvrelay.placement.shifted import CommonShift, QueryOnly

MakeLayer = Callable[..., LayerSelection]
MakeRandom = Callable[[int], tuple[Selection, int]]
SEEDS = range(12)
CHRONOLOGICAL = [
    Original(),
    RoPERelay(),
    RoPERelay(anchor_prefix=True),
    RankSync(),
    KeyOnly(),
    QueryOnly(),
    CommonShift(),
    HalfGap(),
]
PERMUTED = [Score(), Score(most_relevant="last"), Reverse(), Random()]


def heads(selection: Selection, position: Position, n_prefilled: int) -> list[tuple[list[int], list[int], int]]:
    """(sources, coordinates, question) of every head, padding left out."""
    plan = position.place(selection, n_prefilled, "example")
    found = []
    for layer, coordinates in zip(selection.layers, plan.coordinate_LHK, strict=True):
        for source, coordinate in zip(layer.source_HK.tolist(), coordinates.tolist(), strict=True):
            pairs = [(p, c) for p, c in zip(source, coordinate, strict=True) if p >= 0]
            found.append(([p for p, _ in pairs], [c for _, c in pairs], plan.next_position))
    return found


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("position", CHRONOLOGICAL, ids=lambda position: position.name)
def test_chronology_and_range(position: Position, seed: int, make_random: MakeRandom) -> None:
    selection, n_prefilled = make_random(seed)
    for _, coordinates, question in heads(selection, position, n_prefilled):
        assert coordinates[0] >= 0
        assert all(earlier < later for earlier, later in pairwise(coordinates))
        assert coordinates[-1] < question <= n_prefilled + position.reach


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("position", PERMUTED, ids=lambda position: f"{position.name}")
def test_permuted_conditions_fill_the_slots_of_roperelay(
    position: Position, seed: int, make_random: MakeRandom
) -> None:
    selection, n_prefilled = make_random(seed)
    relay = heads(selection, RoPERelay(), n_prefilled)
    for (_, slots, anchor), (_, coordinates, question) in zip(
        relay, heads(selection, position, n_prefilled), strict=True
    ):
        assert sorted(coordinates) == slots
        assert coordinates[: selection.protected] == slots[: selection.protected]
        assert question == anchor == selection.anchor


@pytest.mark.parametrize("seed", SEEDS)
def test_half_gap_against_a_count_of_what_is_missing(seed: int, make_random: MakeRandom) -> None:
    selection, n_prefilled = make_random(seed)
    relay, original = heads(selection, RoPERelay(), n_prefilled), heads(selection, Original(), n_prefilled)
    for head, (sources, coordinates, question) in enumerate(heads(selection, HalfGap(), n_prefilled)):
        assert question == (n_prefilled + selection.anchor) // 2
        for index, (source, coordinate) in enumerate(zip(sources, coordinates, strict=True)):
            between = range(source + 1, n_prefilled)
            kept = sum(position in sources for position in between)
            assert question - coordinate == 1 + kept + (len(between) - kept) // 2
            nearest = relay[head][2] - relay[head][1][index]
            farthest = original[head][2] - original[head][1][index]
            assert nearest <= question - coordinate <= farthest


@pytest.mark.parametrize("position", [RoPERelay(), RankSync(), HalfGap(), KeyOnly(), Original()])
def test_a_full_cache_stays_where_it_is(position: Position, make_layer: MakeLayer) -> None:
    selection = Selection(layers=(make_layer([range(9), range(9)]),) * 2, protected=3, budget=6)
    for sources, coordinates, question in heads(selection, position, 9):
        assert (coordinates, question) == (sources, 9)


def test_uniform_counts_make_ranksync_and_roperelay_one(make_layer: MakeLayer) -> None:
    layers = (make_layer([[0, 3, 5], [0, 1, 8]]), make_layer([[0, 6, 7], [0, 2, 4]]))
    selection = Selection(layers=layers, protected=1, budget=2)
    relay, ranksync = RoPERelay().place(selection, 9, ""), RankSync().place(selection, 9, "")
    assert all(torch.equal(a, b) for a, b in zip(relay.coordinate_LHK, ranksync.coordinate_LHK, strict=True))
    assert relay.next_position == ranksync.next_position == 3


def test_unequal_layers_end_together_and_short_ones_move_forward(make_layer: MakeLayer) -> None:
    # a pyramid: 20, 12 and 4 states of 30; FINCH's sign is wrong for the forward moves of the last layer
    rows = [[*range(2), *range(30 - kept, 30)] for kept in (18, 10)]
    layers = tuple(make_layer([row, row]) for row in [*rows, [0, 1, 2, 4]])
    selection = Selection(layers=layers, protected=2, budget=10)
    found = heads(selection, RoPERelay(), 30)
    assert [coordinates[-1] for _, coordinates, _ in found] == [19] * 6
    assert {question for _, _, question in found} == {20}
    short_sources, short, _ = found[-1]
    assert (short_sources, short) == ([0, 1, 2, 4], [16, 17, 18, 19])
    anchored = heads(selection, RoPERelay(anchor_prefix=True), 30)
    assert [coordinates[:2] for _, coordinates, _ in anchored] == [[0, 1]] * 6
    assert anchored[-1][1] == [0, 1, 18, 19]
    assert [coordinates[0] for _, coordinates, _ in heads(selection, RankSync(), 30)] == [0] * 6


def test_a_kept_suffix_keeps_its_distances(make_layer: MakeLayer) -> None:
    selection = Selection(layers=(make_layer([range(20, 30)]),), protected=0, budget=10)
    for position in (Original(), RoPERelay(), HalfGap(), CommonShift()):
        ((_, coordinates, question),) = heads(selection, position, 30)
        assert [question - coordinate for coordinate in coordinates] == [*range(10, 0, -1)]


def test_half_gap_refuses_states_that_were_not_prefilled(make_layer: MakeLayer) -> None:
    selection = Selection(layers=(make_layer([[0, 9]]),), protected=1, budget=1)
    with pytest.raises(PositionError, match="stands at 9, but 9 tokens"):
        HalfGap().place(selection, 9, "")


@pytest.mark.parametrize("shift", [0, -2048])
@pytest.mark.parametrize("control", [QueryOnly, CommonShift])
def test_a_shift_that_does_not_move_forward_is_refused(
    control: type[QueryOnly] | type[CommonShift], shift: int
) -> None:
    with pytest.raises(ConfigError, match=rf"{shift} positions.*position\.{control().name}\.shift"):
        control(shift=shift)
