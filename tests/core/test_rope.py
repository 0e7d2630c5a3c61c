"""Re-rotation against the model's own factors and against the two-step definition in float64.

With u = 2^-24 and r the length of a pair (x, y): the numerator of C or S errs by 2u, its denominator by 2u and the
division by u, so either errs by 5u and the two together turn x and y wrongly by at most 5 sqrt(2) u r; the last
products and the sum add 2u r. A move is therefore exact to (5 sqrt(2) + 2) u r = 9.1u r; MOVE_BOUND allows 10u r.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

import kvrelay.core.rope as rope_module
from kvrelay.core.rope import RotarySpec, RotaryTable, rotate

U = 2.0**-24
MOVE_BOUND = 10 * U
N_HEADS, N_STATES, REACH = 3, 65, 131_072
Fresh = Callable[[Tensor, RotarySpec, Tensor], Tensor]
TwoStep = Callable[[Tensor, RotarySpec, Tensor, Tensor], Tensor]


def random_keys(rope: RotarySpec, seed: int = 0) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(N_HEADS, N_STATES, rope.rotary_dim, generator=draw, dtype=torch.float64)


def random_moves(seed: int = 0) -> tuple[Tensor, Tensor]:
    """Sources and targets that differ per head, forward and backward, over the whole range."""
    draw = torch.Generator().manual_seed(seed)
    source = torch.randint(0, REACH, (N_HEADS, N_STATES), generator=draw).sort(-1).values
    target = torch.randint(0, REACH, (N_HEADS, N_STATES), generator=draw).sort(-1).values
    assert bool((source < target).any()) and bool((source > target).any())
    return source, target


def move(keys: Tensor, rope: RotarySpec, source: Tensor, target: Tensor) -> Tensor:
    size = int(torch.maximum(source, target).max()) + 1
    return rotate(keys, *RotaryTable.of(rope, size, "cpu").composed(source, target))


def pair_length(keys: Tensor) -> Tensor:
    """r of the pair that each dimension belongs to, (..., D)."""
    x, y = keys.double().chunk(2, -1)
    return torch.hypot(x, y).repeat(*[1] * (keys.dim() - 1), 2)


def worst_error(got: Tensor, wanted: Tensor) -> float:
    """Largest difference in units of the pair's length."""
    return float(((got.double() - wanted.double()).abs() / pair_length(wanted)).max())


def test_the_spec_holds_what_the_library_computes(module: torch.nn.Module, rope: RotarySpec) -> None:
    if module.rope_type != "default":
        inv_freq, scaling = ROPE_INIT_FUNCTIONS[module.rope_type](module.config, "cpu")
        assert torch.equal(rope.inv_freq, inv_freq)
        assert rope.scaling == scaling
    assert rope.scaling == (pytest.approx(1.138629, abs=5e-7) if module.rope_type == "yarn" else 1.0)


def test_factors_are_the_models_own_bit_for_bit(module: torch.nn.Module, rope: RotarySpec) -> None:
    positions = torch.cat([torch.arange(40), torch.tensor([8_191, 32_769, 99_999, 100_000, 131_071])])
    cos, sin = module(torch.zeros(1), positions[None])
    table = RotaryTable.of(rope, REACH, "cpu")
    for ours, theirs in zip(rope.factors(positions), (cos[0], sin[0]), strict=True):
        assert torch.equal(ours.repeat(1, 2), theirs)
    assert torch.equal(table.cos[positions].repeat(1, 2), cos[0])
    assert torch.equal(table.sin[positions].repeat(1, 2), sin[0])


def test_move_is_the_two_step_definition(rope: RotarySpec, two_step: TwoStep) -> None:
    keys, (source, target) = random_keys(rope).float(), random_moves()
    exact = two_step(keys.double(), rope, source, target)
    moved = move(keys, rope, source, target)
    assert worst_error(moved, exact) <= MOVE_BOUND
    # the float32 definition errs as much: its inverse as C and S do, its rotation by 2u more
    assert worst_error(moved, two_step(keys, rope, source, target)) <= 2 * MOVE_BOUND


def test_move_equals_fresh_rope_at_the_target(rope: RotarySpec, fresh: Fresh) -> None:
    # kvpress 84, llama.cpp 17945: YaRN's scale must not be applied twice. The cast of the cached key adds u r.
    raw, (source, target) = random_keys(rope), random_moves(1)
    cached, wanted = fresh(raw, rope, source).float(), fresh(raw, rope, target)
    assert worst_error(move(cached, rope, source, target), wanted) <= MOVE_BOUND + U


@pytest.mark.parametrize(("source", "target"), [(3, 10), (10, 3), (0, 131_071), (131_071, 0)])
def test_forward_and_backward(source: int, target: int, rope: RotarySpec, fresh: Fresh) -> None:
    # FINCH's published sign is right for backward moves alone; they show here as an error near 1
    raw = random_keys(rope)
    p, t = torch.full((N_HEADS, N_STATES), source), torch.full((N_HEADS, N_STATES), target)
    moved = move(fresh(raw, rope, p).float(), rope, p, t)
    assert worst_error(moved, fresh(raw, rope, t)) <= MOVE_BOUND + U


def test_lengths_are_preserved(rope: RotarySpec) -> None:
    """A component errs by 10u r, so a pair by 10 sqrt(2) u r; a factor by 3u (cosine, scaling), so a_t / a_p by 6u."""
    keys = random_keys(rope).float()
    before, after = pair_length(keys), pair_length(move(keys, rope, *random_moves(2)))
    assert float((after / before - 1).abs().max()) <= 2**0.5 * MOVE_BOUND + 6 * U


def test_no_move_is_the_identity_bit_for_bit(rope: RotarySpec) -> None:
    everywhere = torch.arange(REACH)
    cos, sin = RotaryTable.of(rope, REACH, "cpu").composed(everywhere, everywhere)
    assert bool((cos == 1).all()) and bool((sin == 0).all())
    source, _ = random_moves()
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        keys = random_keys(rope).to(dtype)
        assert torch.equal(move(keys, rope, source, source).view(torch.uint8), keys.view(torch.uint8))


def test_there_and_back(rope: RotarySpec) -> None:
    """The way back carries the first error on, at most sqrt(2) times as large, and adds its own."""
    keys, (source, target) = random_keys(rope).float(), random_moves(3)
    back = move(move(keys, rope, source, target), rope, target, source)
    assert worst_error(back, keys) <= (2**0.5 + 1) * MOVE_BOUND


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_keys_are_rounded_once(dtype: torch.dtype, rope: RotarySpec) -> None:
    keys, (source, target) = random_keys(rope).to(dtype), random_moves(4)
    moved = move(keys, rope, source, target)
    assert moved.dtype == dtype
    assert torch.equal(moved, move(keys.float(), rope, source, target).to(dtype))


def test_the_angle_of_the_difference_would_be_wrong_at_a_hundred_thousand(fresh: Fresh) -> None:
    rope = RotarySpec(inv_freq=1.0 / 500_000.0 ** (torch.arange(64) / 64))
    raw = torch.randn(1, 200, 128, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    source, target = torch.arange(99_801, 100_001)[None], torch.arange(200)[None]
    cached, wanted = fresh(raw, rope, source).float(), fresh(raw, rope, target)
    difference = (target - source).float()[..., None] * rope.inv_freq
    naive = rotate(cached, difference.cos(), difference.sin())
    assert worst_error(move(cached, rope, source, target), wanted) <= MOVE_BOUND + U
    assert worst_error(naive, wanted) > 1e-4


def test_dimensions_beyond_the_rotary_ones_are_untouched(rope: RotarySpec) -> None:
    keys, (source, target) = random_keys(rope).bfloat16(), random_moves()
    rest = torch.randn(N_HEADS, N_STATES, 6, generator=torch.Generator().manual_seed(9)).bfloat16()
    moved = move(torch.cat([keys, rest], -1), rope, source, target)
    assert torch.equal(moved[..., rope.rotary_dim :], rest)
    assert torch.equal(moved[..., : rope.rotary_dim], move(keys, rope, source, target))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_shared_factors_turn_every_head_alike(dtype: torch.dtype, plain_rope: RotarySpec) -> None:
    keys = random_keys(plain_rope).to(dtype)
    source, target = (positions[:1].expand(N_HEADS, -1) for positions in random_moves())
    shared = move(keys, plain_rope, source[0], target[0])
    assert torch.equal(shared, move(keys, plain_rope, source, target))
    for head in range(N_HEADS):
        assert torch.equal(shared[head], move(keys[head], plain_rope, source[head], target[head]))


@pytest.mark.parametrize("block", [1, 10, 100, 1_000])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_blocks_do_not_show(
    dtype: torch.dtype, shared: bool, block: int, plain_rope: RotarySpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, (source, target) = random_keys(plain_rope).to(dtype), random_moves()
    if shared:
        source, target = source[0], target[0]
    whole = move(keys, plain_rope, source, target)
    for limit in ("SERIAL_BLOCK", "PARALLEL_BLOCK"):
        monkeypatch.setattr(rope_module, limit, block)
    assert torch.equal(move(keys, plain_rope, source, target), whole)


def test_any_memory_layout_gives_the_same_and_nothing_is_written(plain_rope: RotarySpec) -> None:
    keys, (source, target) = random_keys(plain_rope).float(), random_moves()
    strided = keys.transpose(0, 1).contiguous().transpose(0, 1)
    kept = strided.clone()
    for p, t in ((source, target), (source[0], target[0])):
        moved = move(strided, plain_rope, p, t)
        assert torch.equal(moved, move(keys, plain_rope, p, t))
        assert moved.is_contiguous()
    assert torch.equal(strided, kept)


def test_factors_follow_the_keys_to_their_device(plain_rope: RotarySpec) -> None:
    # kvpress 241: the rotary module of a sharded model lies on another device than most layers
    keys, (source, target) = random_keys(plain_rope).float().to("meta"), random_moves()
    assert move(keys, plain_rope, source, target).device.type == "meta"


def test_an_empty_head_is_no_special_case(plain_rope: RotarySpec) -> None:
    none = torch.zeros(2, 0, dtype=torch.long)
    table = RotaryTable.of(plain_rope, 4, "cpu")
    assert rotate(torch.zeros(2, 0, 8), *table.composed(none, none)).shape == (2, 0, 8)
    assert rotate(torch.zeros(2, 0, 8), *table.composed(none[0], none[0])).shape == (2, 0, 8)


@pytest.mark.parametrize("beyond", [-1, 4])
def test_a_position_that_the_table_does_not_reach_is_an_error(beyond: int, plain_rope: RotarySpec) -> None:
    table = RotaryTable.of(plain_rope, 4, "cpu")
    for pair in ([beyond, 0], [0, beyond]):
        with pytest.raises(IndexError):
            table.composed(torch.tensor([pair[0]]), torch.tensor([pair[1]]))
