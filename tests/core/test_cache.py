"""Restricting and moving a cache, against loops over single states in float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from kvrelay.core.cache import KVCache, LayerKV
from kvrelay.core.errors import PositionError
from kvrelay.core.positions import PositionPlan
from kvrelay.core.rope import RotarySpec, RotaryTable
from kvrelay.core.selection import LayerSelection, Selection
from kvrelay.placement.original import Original
from kvrelay.placement.roperelay import RoPERelay
from kvrelay.placement.shifted import CommonShift

N, N_HEADS, WIDTH = 12, 2, 8
U = 2.0**-24
MOVE_BOUND = 10 * U
"""Of the pair's length; derived at the head of test_rope.py."""
Fresh = Callable[[Tensor, RotarySpec, Tensor], Tensor]
ROWS = ([[0, 1, 4, 7, 11], [-1, 0, 1, 3, 9]], [[-1, -1, -1, 0, 1, 6], [0, 1, 2, 8, 10, 11]])


@pytest.fixture
def raw() -> Tensor:
    """Unrotated keys and values, (2, L, H, N, D)."""
    draw = torch.Generator().manual_seed(0)
    return torch.randn(2, 3, N_HEADS, N, WIDTH, generator=draw, dtype=torch.float64)


def prefilled(raw: Tensor, rope: RotarySpec, fresh: Fresh, dtype: torch.dtype = torch.float32) -> KVCache:
    source = torch.arange(N).expand(N_HEADS, N)
    layers = tuple(
        LayerKV(
            keys_HKD=fresh(keys, rope, source).to(dtype),
            values_HKD=values.to(dtype),
            source_HK=source,
            coordinate_HK=source,
            valid_HK=torch.ones_like(source, dtype=torch.bool),
        )
        for keys, values in zip(raw[0], raw[1], strict=True)
    )
    return KVCache(layers=layers, rope=rope, next_position=N)


@pytest.fixture
def cache(raw: Tensor, plain_rope: RotarySpec, fresh: Fresh) -> KVCache:
    return prefilled(raw, plain_rope, fresh)


@pytest.fixture
def selection() -> Selection:
    """Layers 0 and 2 are one object; counts are unequal over heads and layers; P = 2, M = 6."""
    first, second = (
        LayerSelection(source_HK=torch.tensor(rows), score_HK=torch.zeros(2, len(rows[0]))) for rows in ROWS
    )
    return Selection(layers=(first, second, first), protected=2, budget=2)


@pytest.fixture
def one_for_all() -> Selection:
    """Every head of every layer keeps the same four states: one row of factors serves all."""
    same = LayerSelection(source_HK=torch.tensor([[0, 1, 5, 9]] * 2), score_HK=torch.zeros(2, 4))
    return Selection(layers=(same,) * 3, protected=2, budget=2)


def table(rope: RotarySpec) -> RotaryTable:
    return RotaryTable.of(rope, 3000, "cpu")


def states(cache: KVCache) -> list[tuple[int, int, int, int]]:
    """(layer, head, slot, source) of every valid slot."""
    return [
        (index, head, slot, position)
        for index, layer in enumerate(cache.layers)
        for head, row in enumerate(layer.source_HK.tolist())
        for slot, position in enumerate(row)
        if position >= 0
    ]


def test_restricted_takes_the_selected_states_as_they_are(cache: KVCache, selection: Selection) -> None:
    kept = cache.restricted(selection)
    assert len(states(kept)) == 9 + 9 + 9
    for index, head, slot, source in states(kept):
        full, layer = cache.layers[index], kept.layers[index]
        assert torch.equal(layer.keys_HKD[head, slot], full.keys_HKD[head, source])
        assert torch.equal(layer.values_HKD[head, slot], full.values_HKD[head, source])
        assert layer.coordinate_HK[head, slot] == source
    assert (kept.next_position, kept.master) == (N, True)


def test_padding_is_zero_and_invalid(cache: KVCache, selection: Selection) -> None:
    for layer, rows in zip(cache.restricted(selection).layers, [ROWS[0], ROWS[1], ROWS[0]], strict=True):
        padding = torch.tensor(rows) < 0
        assert bool(padding.any())
        assert torch.equal(layer.valid_HK, ~padding)
        for content in (layer.keys_HKD[padding], layer.values_HKD[padding], layer.coordinate_HK[padding]):
            assert not content.any()


def test_merged_values_take_the_place_of_the_cached_ones(cache: KVCache, selection: Selection) -> None:
    merged = tuple(layer.values_HKD + 1 for layer in cache.layers)
    kept = cache.restricted(replace(selection, values_LHND=merged))
    for index, head, slot, source in states(kept):
        assert torch.equal(kept.layers[index].values_HKD[head, slot], merged[index][head, source])
        assert torch.equal(kept.layers[index].keys_HKD[head, slot], cache.layers[index].keys_HKD[head, source])


@pytest.mark.parametrize("chosen", ["selection", "one_for_all"])
@pytest.mark.parametrize("position", [RoPERelay(), RoPERelay(anchor_prefix=True), CommonShift()])
def test_moved_keys_are_those_of_a_fresh_rotation(
    position: RoPERelay | CommonShift,
    chosen: str,
    cache: KVCache,
    raw: Tensor,
    fresh: Fresh,
    request: pytest.FixtureRequest,
) -> None:
    selection: Selection = request.getfixturevalue(chosen)
    plan = position.place(selection, N, "")
    moved = cache.restricted(selection).moved(plan, table(cache.rope))
    for index, head, slot, source in states(moved):
        coordinate = int(plan.coordinate_LHK[index][head, slot])
        wanted = fresh(raw[0, index, head, source], cache.rope, torch.tensor(coordinate))
        x, y = wanted.chunk(2)
        error = (moved.layers[index].keys_HKD[head, slot].double() - wanted).abs() / torch.hypot(x, y).repeat(2)
        # the cast of the cached key adds u
        assert float(error.max()) <= MOVE_BOUND + U
        assert moved.layers[index].coordinate_HK[head, slot] == coordinate
    assert moved.next_position == plan.next_position


def test_moving_changes_keys_and_coordinates_alone(cache: KVCache, selection: Selection) -> None:
    kept = cache.restricted(selection)
    before = [layer.keys_HKD.clone() for layer in kept.layers]
    moved = kept.moved(RoPERelay().place(selection, N, ""), table(cache.rope))
    for old, new, keys in zip(kept.layers, moved.layers, before, strict=True):
        assert new.values_HKD is old.values_HKD and new.source_HK is old.source_HK and new.valid_HK is old.valid_HK
        assert torch.equal(old.keys_HKD, keys)
        stays = (new.coordinate_HK == old.coordinate_HK) & old.valid_HK
        assert torch.equal(new.keys_HKD[stays], old.keys_HKD[stays])
        assert not new.keys_HKD[~old.valid_HK].any()
    assert bool((moved.layers[1].coordinate_HK[0, 3:] > moved.layers[1].source_HK[0, 3:]).any()), "a forward move"


def test_bf16_keys_are_rotated_in_float32_and_rounded_once(
    raw: Tensor, plain_rope: RotarySpec, fresh: Fresh, selection: Selection
) -> None:
    half = prefilled(raw, plain_rope, fresh, torch.bfloat16).restricted(selection)
    wide = replace(half, layers=tuple(replace(one, keys_HKD=one.keys_HKD.float()) for one in half.layers))
    plan = RoPERelay().place(selection, N, "")
    for got, exact in zip(
        half.moved(plan, table(plain_rope)).layers, wide.moved(plan, table(plain_rope)).layers, strict=True
    ):
        assert torch.equal(got.keys_HKD, exact.keys_HKD.bfloat16())


def test_where_nothing_moves_the_layers_stay_themselves(cache: KVCache, selection: Selection) -> None:
    kept = cache.restricted(selection)
    moved = kept.moved(Original().place(selection, N, ""), table(cache.rope))
    assert all(new is old for new, old in zip(moved.layers, kept.layers, strict=True))


def test_a_full_cache_under_roperelay_is_the_full_cache(cache: KVCache) -> None:
    everything = LayerSelection(source_HK=torch.arange(N).expand(2, N), score_HK=torch.zeros(2, N))
    selection = Selection(layers=(everything,) * 3, protected=2, budget=N - 2)
    moved = cache.restricted(selection).moved(RoPERelay().place(selection, N, ""), table(cache.rope))
    assert moved.next_position == N
    assert all(torch.equal(a.keys_HKD, b.keys_HKD) for a, b in zip(moved.layers, cache.layers, strict=True))


def test_a_moved_cache_is_not_moved_again(cache: KVCache, selection: Selection) -> None:
    # vllm 57672, shainet 110: rotation upon rotation drifts, and a second one starts from keys that turned already
    plan = RoPERelay().place(selection, N, "")
    for arm in (plan, Original().place(selection, N, "")):
        moved = cache.restricted(selection).moved(arm, table(cache.rope))
        with pytest.raises(PositionError, match="moved already"):
            moved.moved(plan, table(cache.rope))


def test_one_rotation_serves_layers_that_share_indices(
    cache: KVCache, selection: Selection, one_for_all: Selection, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[torch.Size] = []
    compose = RotaryTable.composed

    def counted(self: RotaryTable, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        asked.append(source.shape)
        return compose(self, source, target)

    monkeypatch.setattr(RotaryTable, "composed", counted)
    cache.restricted(selection).moved(RoPERelay().place(selection, N, ""), table(cache.rope))
    assert asked == [(2, 5), (2, 6)]
    asked.clear()
    cache.restricted(one_for_all).moved(RoPERelay().place(one_for_all, N, ""), table(cache.rope))
    assert asked == [(4,)], "heads with equal indices need one row"


def test_shared_and_separate_layers_move_alike(cache: KVCache, selection: Selection) -> None:
    apart = replace(
        selection,
        layers=tuple(
            LayerSelection(source_HK=layer.source_HK.clone(), score_HK=layer.score_HK) for layer in selection.layers
        ),
    )
    one, other = (
        cache.restricted(chosen).moved(RoPERelay().place(chosen, N, ""), table(cache.rope))
        for chosen in (selection, apart)
    )
    assert all(torch.equal(a.keys_HKD, b.keys_HKD) for a, b in zip(one.layers, other.layers, strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_both_arms_of_a_pair_have_one_digest(
    dtype: torch.dtype, raw: Tensor, plain_rope: RotarySpec, fresh: Fresh, selection: Selection
) -> None:
    kept = prefilled(raw, plain_rope, fresh, dtype).restricted(selection)
    arms = [
        kept.moved(rule.place(selection, N, ""), table(plain_rope)) for rule in (Original(), RoPERelay(), CommonShift())
    ]
    assert {arm.content_digest() for arm in arms} == {kept.content_digest()}


def test_a_digest_sees_a_changed_value_and_a_changed_state(cache: KVCache, selection: Selection) -> None:
    source, values = cache.restricted(selection).content_digest()
    merged = [layer.values_HKD.clone() for layer in cache.layers]
    merged[2][1, 9, 0] = merged[2][1, 9, 0].nextafter(torch.tensor(torch.inf))
    changed = cache.restricted(replace(selection, values_LHND=tuple(merged))).content_digest()
    assert changed[0] == source and changed[1] != values
    other = LayerSelection(source_HK=torch.tensor([[0, 1, 4, 7, 10], ROWS[0][1]]), score_HK=torch.zeros(2, 5))
    moved = cache.restricted(replace(selection, layers=(other, *selection.layers[1:]))).content_digest()
    assert moved[0] != source and moved[1] != values


def test_cache_bytes_count_valid_states_alone(
    raw: Tensor, plain_rope: RotarySpec, fresh: Fresh, selection: Selection
) -> None:
    for dtype, element_bytes in ((torch.float32, 4), (torch.bfloat16, 2)):
        full = prefilled(raw, plain_rope, fresh, dtype)
        assert full.cache_bytes == 3 * N_HEADS * N * WIDTH * 2 * element_bytes
        kept = full.restricted(selection)
        assert kept.cache_bytes == 27 * WIDTH * 2 * element_bytes
        relay = kept.moved(RoPERelay().place(selection, N, ""), table(plain_rope))
        assert relay.cache_bytes == kept.cache_bytes


def test_a_plan_for_other_layers_is_refused(cache: KVCache, selection: Selection) -> None:
    plan = RoPERelay().place(selection, N, "")
    short = PositionPlan(coordinate_LHK=plan.coordinate_LHK[:2], next_position=6)
    with pytest.raises(ValueError, match="zip"):
        cache.restricted(selection).moved(short, table(cache.rope))
    with pytest.raises(ValueError, match="zip"):
        cache.restricted(replace(selection, layers=selection.layers[:2]))
