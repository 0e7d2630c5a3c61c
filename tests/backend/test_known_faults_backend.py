"""Faults that others reported in cache repair and position shifts, where no other test of the backend holds them.

docs/known_faults.md has the whole list, with the tests that hold the other entries.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
import torch
from edited_caches import Deletion, largest, prefilled, shift, states
from tiny_models import FAMILIES, make_tiny, token_ids
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from kvrelay.backend.attention import CausalPrefill
from kvrelay.backend.decode import Asked, answer_rows
from kvrelay.backend.gate import check_gate
from kvrelay.backend.kernels import kernel_for
from kvrelay.backend.layers import AppendLayer, RelayCache, capture_cache
from kvrelay.backend.load import ModelSpec, load_model, wrap_model
from kvrelay.backend.model import CausalModel
from kvrelay.backend.refresh import refreshed
from kvrelay.backend.tiny import byte_tokenizer, tiny_config, tiny_model
from kvrelay.core.cache import KVCache
from kvrelay.core.edit import Edit
from kvrelay.core.errors import InvariantError, PositionError
from kvrelay.core.repair import Kernel
from kvrelay.core.rope import RotaryTable, rotate
from kvrelay.core.selection import LayerSelection, Selection
from kvrelay.repair.executors import Packed

CPU = torch.device("cpu")
EXACT, WRONG = 1e-10, 1e-3
ROUNDED = 64 * torch.finfo(torch.float32).eps
"""GLM's router is a float32 product of 64 terms."""
DTYPES: tuple[Literal["bfloat16", "float64"], ...] = ("bfloat16", "float64")
KERNELS: tuple[Kernel, ...] = ("causal", "masked", "blocks")


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_kernel_leaves_its_list_of_slots_as_it_was(kernel: Kernel) -> None:
    """LMCache 1414: planning wrote into the index tensor, so that every 32nd chosen token was another one."""
    slots = list(range(30, 95)) if kernel == "causal" else list(range(1, 130, 2))
    kept = tuple(slots)
    query, key = torch.randn(1, 4, len(slots), 8), torch.randn(1, 2, slots[-1] + 1, 8)
    attend = kernel_for(kernel, slots, 2, CPU)
    for layer in range(2):
        attend.attend(layer, query, key, key, 0.3)
    assert tuple(slots) == kept


@pytest.mark.parametrize("kernel", KERNELS)
def test_no_kernel_repeats_keys_or_falls_back_to_whole_matrices(kernel: Kernel) -> None:
    """transformers 39412, 46960, ComfyUI 15135: with a mask and grouped heads, torch's unfused way takes over unseen.

    16 tokens over 16,384 slots, 4 query heads a KV head: the keys repeated for them would be 8 MiB, as would the scores
    of all of them in float32; a square mask, 256 MiB.
    """
    heads, group, n_tokens, n_slots, width = 2, 4, 16, 16_384, 16
    slots = list(range(n_slots - n_tokens, n_slots)) if kernel == "causal" else list(range(1_023, n_slots, 1_024))
    query, key = torch.randn(1, heads * group, n_tokens, width), torch.randn(1, heads, n_slots, width)
    attend = kernel_for(kernel, slots, group, CPU)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        attend.attend(0, query, key, key, 0.25)
    repeated = heads * group * n_slots * width * 4
    largest_made = max(event.self_cpu_memory_usage for event in seen.events())
    assert largest_made < (repeated // 16 if kernel == "blocks" else repeated)
    names = {event.name for event in seen.events()}
    assert not any("attention_math" in name for name in names)
    if kernel != "blocks":
        assert "aten::_scaled_dot_product_flash_attention_for_cpu" in names


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_angles_stay_float32_in_a_half_precision_model(name: str, tmp_path: Path) -> None:
    """vllm 863, transformers 29285, flash-attention 823: 16 bits hold no whole numbers above 256, nor the frequencies.

    Layer 0's keys depend on token and position alone, so they are compared with those of the same weights in float64.
    Embedding, norms, weights, sums and the rotation round to bfloat16 some 16 times, by half an eps each; a position
    that was rounded would turn a key by radians: 15,962 would be 15,936.
    """
    family, changes = FAMILIES[name]
    config = tiny_config(family, len(byte_tokenizer()), **changes)
    tiny_model(config, dtype=torch.float32).save_pretrained(tmp_path)
    byte_tokenizer().save_pretrained(tmp_path)
    half, exact = (load_model(ModelSpec(name="m", source=str(tmp_path), dtype=dtype)) for dtype in DTYPES)
    assert half.module.dtype == torch.bfloat16
    assert half.rope.inv_freq.dtype == half.module.get_decoder().rotary_emb.inv_freq.dtype == torch.float32
    assert torch.equal(half.rope.inv_freq, exact.rope.inv_freq)
    places = [15_936, 15_962, 15_968]
    assert torch.tensor(places).bfloat16().tolist() == [15_936, 15_936, 16_000]
    ours, theirs = (_first_keys(model, places) for model in (half, exact))
    allowed = 8 * torch.finfo(torch.bfloat16).eps * theirs.norm(dim=-1)
    assert bool(((ours - theirs).norm(dim=-1) <= allowed).all())
    assert bool(((theirs[:, 1] - theirs[:, 0]).norm(dim=-1) > 2 * allowed[:, 1]).all())
    cos = RotaryTable.of(half.rope, places[-1] + 1, "cpu").cos[places].double()
    wanted = (torch.tensor(places).double()[:, None] * half.rope.inv_freq.double()).cos() * half.rope.scaling
    assert float((cos - wanted).abs().max()) <= 2 * places[-1] * 2.0**-24


def _first_keys(model: CausalModel, places: list[int]) -> Tensor:
    """Layer 0's keys of one token at these positions, (H, places, D) float64."""
    captured = capture_cache(model.facts.n_layers)
    model.forward(model.row([5] * len(places)), torch.tensor(places)[None], captured, CausalPrefill())
    keys: Tensor = captured.layers[0].keys[0].double()
    return keys


def restricted(cache: KVCache, kept: list[int]) -> KVCache:
    source = torch.tensor(kept).expand(cache.layers[0].keys_HKD.shape[0], -1)
    one = LayerSelection(source_HK=source, score_HK=torch.zeros(source.shape))
    return cache.restricted(Selection(layers=(one,) * len(cache.layers), protected=0, budget=len(kept)))


def test_a_deletion_of_states_that_were_dropped_before_still_closes_the_gap(tiny: CausalModel) -> None:
    """llama.cpp 3825: where nothing left the cache, the shift was left out. A selector may have dropped the span."""
    ids, edit = token_ids(60), Edit.of_tokens([(20, 30)], 60)
    kept = [*range(5, 18), *range(33, 55)]
    moved = shift(restricted(prefilled(tiny, ids), kept), edit, 60)
    assert moved.next_position == 50
    places = [place if place < 20 else place - 10 for place in kept]
    for layer in moved.layers:
        assert layer.source_HK.tolist() == layer.coordinate_HK.tolist() == [places] * 2
    clean = prefilled(tiny, ids[:20] + ids[30:]).layers[0].keys_HKD[:, places]
    assert float((moved.layers[0].keys_HKD - clean).abs().max()) <= 20 * 2.0**-24 * float(clean.abs().max())


@pytest.mark.parametrize("seed", range(8))
def test_positions_are_0_to_n_after_any_edits(seed: int) -> None:
    """llama.cpp 14298: positions stood twice in between. All at once, or one by one in any order, none ever does."""
    model, _ = make_tiny("llama")
    draw, n_tokens = random.Random(seed), 60
    cuts = sorted(draw.sample(range(n_tokens), 8))
    spans = list(zip(cuts[::2], cuts[1::2], strict=True))
    dirty = prefilled(model, token_ids(n_tokens))
    at_once = shift(dirty, Edit.of_tokens(spans, n_tokens), n_tokens)
    left = list(range(n_tokens))
    stepwise = dirty
    for index, span in enumerate(draw.sample(spans, len(spans))):
        inside = [place for place, position in enumerate(left) if span[0] <= position < span[1]]
        edit = Edit.of_tokens([(inside[0], inside[-1] + 1)], len(left))
        stepwise = stepwise.edited(edit, len(left)) if index < len(spans) - 1 else shift(stepwise, edit, len(left))
        left = [position for position in left if not span[0] <= position < span[1]]
        for layer in stepwise.layers:
            assert layer.source_HK.tolist() == [list(range(len(left)))] * 2
    for layer in (*at_once.layers, *stepwise.layers):
        assert layer.coordinate_HK.tolist() == [list(range(len(left)))] * 2
    assert at_once.next_position == stepwise.next_position == len(left)
    assert torch.equal(states(at_once), states(stepwise))


def test_a_deleted_tail_is_as_if_it_had_never_been_there(tiny: CausalModel) -> None:
    """The community's sink cache turned keys to local places and left the question where it had stood."""
    tail = Deletion(tiny, spans=[(48, 60)], n_tokens=60)
    asked = Asked(question_ids=tuple(token_ids(5, seed=7)), max_new_tokens=3)
    after, never = (answer_rows(tiny, [cache], asked)[0] for cache in (tail.shifted, prefilled(tiny, tail.ids[:48])))
    assert float((after.first_logits - never.first_logits).abs().max()) <= ROUNDED
    assert after.token_ids == never.token_ids
    late = replace(prefilled(tiny, tail.ids[:48]), next_position=60)
    far = answer_rows(tiny, [late], asked)[0]
    assert float((far.first_logits - never.first_logits).abs().max()) > ROUNDED, "else the place would not matter"


def test_forgetting_all_some_or_none_of_a_buffer() -> None:
    """transformers 47433, 47720: cropping to 0 kept everything, and a crop that was too large kept stale tokens."""
    first = torch.arange(1.0, 5.0).view(1, 1, 4, 1)
    for length in (0, 1, 4):
        layer = AppendLayer(torch.zeros(1, 1, 8, 1), torch.zeros(1, 1, 8, 1), 0)
        cache = RelayCache([layer])
        layer.update(first, -first)
        cache.truncate([length])
        assert cache.lengths() == [length]
        keys, values = layer.update(torch.full((1, 1, 2, 1), 9.0), torch.full((1, 1, 2, 1), -9.0))
        assert keys.flatten().tolist() == [*range(1, length + 1), 9, 9]
        assert values.flatten().tolist() == [*range(-1, -length - 1, -1), -9, -9]


def test_a_backend_that_refreshes_nothing_fails_its_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    """LMCache 4666, 4476: a repair that is wrong for one architecture, or not in force, was noticed by nobody."""
    model, _ = make_tiny("llama")
    check_gate(model)
    monkeypatch.setattr("kvrelay.backend.gate.refresh_slots", lambda model, cache, slots, ids: cache)
    with pytest.raises(InvariantError, match="replay equals re-prefill"):
        check_gate(model)


def test_tokens_from_before_the_edit_are_not_what_is_refreshed(tiny: CausalModel) -> None:
    """LMCache 1227 and 305 had settings and tokens of another request in force; here each slot has its own token."""
    deletion = Deletion(tiny, n_tokens=60)
    slots = deletion.suffix[:9]
    right, n_refreshed = refreshed(tiny, deletion.shifted, Packed().schedule(slots), deletion.edited_ids)
    assert n_refreshed == 9 and largest(right, deletion.clean, slots) <= ROUNDED
    wrong, _ = refreshed(tiny, deletion.shifted, Packed().schedule(slots), deletion.ids[: deletion.end])
    assert largest(wrong, deletion.clean, slots) > WRONG


def test_rounded_frequencies_do_not_become_a_model() -> None:
    module = tiny_model(tiny_config(), dtype=torch.bfloat16)
    assert module.get_decoder().rotary_emb.inv_freq.dtype == torch.float32
    facts = make_tiny("llama")[0].facts
    with pytest.raises(InvariantError, match=r"rounded to torch\.bfloat16"):
        wrap_model(module.to(torch.bfloat16), facts)


def test_keys_that_are_no_floats_are_not_turned() -> None:
    with pytest.raises(PositionError, match="int8"):
        rotate(torch.ones(1, 4, 8, dtype=torch.int8), torch.ones(4, 4), torch.zeros(4, 4))


def test_a_buffer_is_never_cut_to_more_than_it_holds() -> None:
    cache = RelayCache([AppendLayer(torch.zeros(1, 1, 8, 4), torch.zeros(1, 1, 8, 4), 3)])
    for length in (4, -1):
        with pytest.raises(PositionError, match="3 tokens cannot be cut"):
            cache.truncate([length])
