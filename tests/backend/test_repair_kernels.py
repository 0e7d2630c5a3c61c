"""The kernels against softmax written out."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from kvrelay.backend import kernels
from kvrelay.backend.kernels import BlockwiseSlots, CausalInterval, MaskedSlots, exact_scores, kernel_for
from kvrelay.core.repair import Kernel

CPU = torch.device("cpu")
WRONG = 1e-3
KERNELS: tuple[Kernel, ...] = ("causal", "masked", "blocks")


def literal(query: Tensor, key: Tensor, value: Tensor, slots: list[int], scaling: float) -> Tensor:
    """Token by token, head by head: softmax over the slots up to its own, with keys repeated for the query heads."""
    group = query.shape[1] // key.shape[1]
    keys, values = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
    out = torch.zeros_like(query)
    for row, slot in enumerate(slots):
        for head in range(query.shape[1]):
            weights = torch.softmax(keys[0, head, : slot + 1] @ query[0, head, row] * scaling, 0)
            out[0, head, row] = weights @ values[0, head, : slot + 1]
    return out


def drawn(
    n_slots: int, n_queries: int, heads: int = 2, group: int = 3, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(n_queries)
    shapes = (heads * group, n_queries), (heads, n_slots), (heads, n_slots)
    return tuple(torch.randn(1, *shape, 16, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes)


@pytest.mark.parametrize("n_queries", [1, 2, 31, 32, 33, 65])
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_kernel_is_softmax_over_the_slots_up_to_each_token(
    kernel: Kernel, n_queries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks smaller than the text, so that borders inside rows, keys and masks are met."""
    monkeypatch.setattr(kernels, "CAUSAL_ROWS", 16)
    monkeypatch.setattr(kernels, "KEY_BLOCK", 24)
    monkeypatch.setattr(kernels, "QUERY_BLOCK", 8)
    generator = torch.Generator().manual_seed(n_queries)
    slots = torch.randperm(90, generator=generator)[:n_queries].sort().values.tolist()
    if kernel == "causal":
        slots = list(range(25, 25 + n_queries))
    query, key, value = drawn(90, n_queries)
    end = slots[-1] + 1
    out = kernel_for(kernel, slots, 3, CPU).attend(0, query, key[:, :, :end], value[:, :, :end], 0.3)
    assert float((out - literal(query, key, value, slots, 0.3)).abs().max()) <= 1e-12


@pytest.mark.parametrize("kernel", KERNELS)
def test_strided_tensors_give_what_contiguous_ones_give(kernel: Kernel) -> None:
    """Masked attention of strided tensors was wrong in some versions (pytorch 112577)."""
    query, key, value = drawn(40, 10)
    slots = list(range(30, 40))
    strided = [one.transpose(1, 2).contiguous().transpose(1, 2) for one in (query, key, value)]
    assert not strided[0].is_contiguous()
    attend = kernel_for(kernel, slots, 3, CPU)
    straight = attend.attend(0, query, key, value, 0.25)
    assert float((attend.attend(0, *strided, 0.25) - straight).abs().max()) <= 1e-13


def test_folding_query_heads_is_repeating_keys() -> None:
    query, key, value = drawn(50, 7)
    slots = [3, 9, 10, 22, 30, 41, 49]
    mask = torch.arange(50) <= torch.tensor(slots)[:, None]
    repeated = scaled_dot_product_attention(
        query, key.repeat_interleave(3, 1), value.repeat_interleave(3, 1), attn_mask=mask, scale=0.25
    )
    out = MaskedSlots(slots, 3, CPU).attend(0, query, key, value, 0.25)
    assert float((out - repeated).abs().max()) <= 1e-13


def test_the_mask_of_a_pass_is_made_once_and_lengths_do_not_mix() -> None:
    """Block masks reused with another length were wrong (pytorch 137779, 141486)."""
    for n_slots, n_queries in ((60, 20), (33, 9)):
        query, key, value = drawn(n_slots, n_queries)
        slots = torch.arange(n_slots)[-2 * n_queries :: 2].tolist()
        end = slots[-1] + 1
        attend = MaskedSlots(slots, 3, CPU)
        first = attend.attend(0, query, key[:, :, :end], value[:, :, :end], 0.25)
        made = dict(attend.masks)
        again = attend.attend(1, query, key[:, :, :end], value[:, :, :end], 0.25)
        assert torch.equal(first, again)
        assert attend.masks.keys() == made.keys() and all(attend.masks[one] is made[one] for one in made)
        assert float((first - literal(query, key, value, slots, 0.25)).abs().max()) <= 1e-12


def test_masks_above_their_limit_are_made_again_and_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    query, key, value = drawn(40, 20)
    slots = list(range(1, 40, 2))
    kept = MaskedSlots(slots, 3, CPU)
    monkeypatch.setattr(kernels, "MASK_BYTES", 8)
    dropped = MaskedSlots(slots, 3, CPU)
    for dtype in (torch.float64, torch.bfloat16):
        given = [one.to(dtype) for one in (query, key, value)]
        assert torch.equal(kept.attend(0, *given, 0.25), dropped.attend(0, *given, 0.25))
    assert kept.masks and not dropped.masks
    assert kept.products.masks and not dropped.products.masks


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_scores_of_rounded_products_are_as_good_as_float32(dtype: torch.dtype) -> None:
    """Two roundings of eps/2 on top of each other; a float32 sum of 16 products adds 16 of its own."""
    query, key, _ = (one[0, 0] for one in drawn(64, 32, group=1, dtype=dtype))
    exact = query.double() @ key.double().t()
    sizes = query.double().abs() @ key.double().abs().t()
    half = torch.finfo(dtype).eps / 2
    allowed = half**2 * exact.abs() + (16 * 2.0**-24) * sizes + torch.finfo(dtype).smallest_normal
    assert bool(((exact_scores(query, key).double() - exact).abs() <= allowed).all())
    assert float(((query @ key.t()).double() - exact).abs().max()) > 8 * float(allowed.max())


def plain(query: Tensor, key: Tensor, value: Tensor, slots: list[int], scaling: float) -> Tensor:
    """Softmax of scores that are rounded to the query's type as they are."""
    group = query.shape[1] // key.shape[1]
    keys, values = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
    scores = (scaling * query) @ keys.transpose(-1, -2)
    hidden = torch.arange(key.shape[2]) > torch.tensor(slots)[:, None]
    return scores.masked_fill(hidden, -torch.inf).softmax(-1) @ values


def most_off(query: Tensor, key: Tensor, value: Tensor, slots: list[int], scaling: float, first: int) -> Tensor:
    """How far bfloat16 products may be from the exact answer, worked out in float64, an element each.

    A score that is rounded once, u = 2^-8 of its distance from a level that is itself rounded twice, is off by d (and
    by float32's sum); a weight then by exp(d) over the sum of all weights' exp(-d), and by its own rounding, u.
    """
    group = query.shape[1] // key.shape[1]
    keys, values = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
    unit, single = 2.0**-8, 2.0**-24 * (query.shape[-1] + 2)
    scores = scaling * query @ keys.transpose(-1, -2)
    sizes = scaling * query.abs() @ keys.abs().transpose(-1, -2)
    level = scores[..., :first].amax(-1, keepdim=True)
    wrong_level = 2.1 * unit * sizes[..., :first].amax(-1, keepdim=True)
    off = unit * ((scores - level).abs() + wrong_level) + single * (sizes + level.abs() + wrong_level)
    hidden = torch.arange(key.shape[2]) > torch.tensor(slots)[:, None]
    weights = scores.masked_fill(hidden, -torch.inf).softmax(-1)
    factor = off.exp() / (weights * (-off).exp()).sum(-1, keepdim=True)
    few = 2.0**-24 * (key.shape[2] + 8)  # float32's exponentials and sums
    moved = (weights * (factor * (1 + unit) * (1 + few) - 1)) @ values.abs()
    return moved + unit * ((weights @ values).abs() + moved)


@pytest.mark.parametrize("n_queries", [2, 20, 65])
@pytest.mark.parametrize("kernel", ["causal", "masked"])
def test_bfloat16_on_a_cpu_is_rounded_by_the_distance_from_a_level(
    kernel: Kernel, n_queries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scores of about 60 have an error of up to 1/4 where they are rounded as they are."""
    monkeypatch.setattr(kernels, "CAUSAL_ROWS", 16)
    monkeypatch.setattr(kernels, "LEVEL_KEYS", 4)
    slots = torch.randperm(86, generator=torch.Generator().manual_seed(1))[:n_queries].add(4).sort().values.tolist()
    if kernel == "causal":
        slots = list(range(25, 25 + n_queries))
    query, key, value = drawn(90, n_queries)
    query[..., 0], key[..., 0] = 20.0, 10.0
    query, key, value = (one.bfloat16() for one in (query, key, value))
    end, wide = slots[-1] + 1, [one.double() for one in (query, key, value)]
    attend = kernel_for(kernel, slots, 3, CPU)
    out = attend.attend(0, query, key[:, :, :end], value[:, :, :end], 0.3)
    exact, allowed = literal(*wide, slots, 0.3), most_off(*wide, slots, 0.3, 4)  # type: ignore[misc]
    assert out.dtype == torch.bfloat16 and bool(((out.double() - exact).abs() <= allowed).all())
    coarse = plain(query, key, value, slots, 0.3)
    assert bool(((coarse.double() - exact).abs() > allowed).any())
    later = attend.attend(1, query, key[:, :, :end], value[:, :, :end], 0.3)
    assert torch.equal(later, out)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("kernel", KERNELS)
def test_large_scores_stay_finite_in_half_precision(kernel: Kernel, dtype: torch.dtype) -> None:
    """Masks filled with a large number overflow float16 (kvpress 250); here hidden keys are hidden by position."""
    query, key, value = (40 * one for one in drawn(40, 10, dtype=dtype))
    out = kernel_for(kernel, list(range(30, 40)), 3, CPU).attend(0, query, key, value, 0.25)
    assert bool(out.isfinite().all())


def test_kernels_are_chosen_by_name() -> None:
    assert isinstance(kernel_for("causal", [1], 1, CPU), CausalInterval)
    assert isinstance(kernel_for("masked", [1], 1, CPU), MaskedSlots)
    assert isinstance(kernel_for("blocks", [1], 1, CPU), BlockwiseSlots)
