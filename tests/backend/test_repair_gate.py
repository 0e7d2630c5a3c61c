"""The experimental kernel's error gate: sound kernels pass in every type, wrong ones are named with their layer."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from edited_caches import Deletion, largest, states, support
from tiny_models import make_tiny
from torch import Tensor

from kvrelay.backend.custom_gate import CustomGate
from kvrelay.backend.kernels import BlockwiseSlots
from kvrelay.backend.refresh import WorkingCache, refreshed
from kvrelay.core.errors import InvariantError
from kvrelay.repair.executors import Custom, Packed

CUSTOM = Custom(experimental=True)
DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ["llama", "qwen2-yarn", "qwen3_moe", "glm4_moe"])
def test_the_blockwise_kernel_passes_once_per_geometry(name: str, dtype: torch.dtype) -> None:
    model, _ = make_tiny(name, dtype)
    deletion = Deletion(model)
    gate = CustomGate(model)
    slots = support(deletion, 12)
    for _ in range(2):
        refreshed(model, deletion.shifted, CUSTOM.schedule(slots), deletion.edited_ids, gate)
    assert list(gate.passed) == [(135, len(slots), 12)]
    checks = gate.passed[135, len(slots), 12]
    assert [(one.layer, one.states) for one in checks] == [
        (layer, name) for layer in range(3) for name in ("keys", "values")
    ]
    assert all(one.difference == 0.0 for one in checks[:2])  # layer 0 depends on no attention
    if dtype != torch.float64:  # where roundings of the outputs do not survive the next float32 norm
        assert all(0.0 < one.difference <= one.bound for one in checks[2:])


def test_the_gate_leaves_the_working_copy_alone() -> None:
    model, _ = make_tiny("llama", torch.bfloat16)
    deletion = Deletion(model)
    work = WorkingCache(deletion.shifted)
    before = states(work.cache()).clone()
    CustomGate(model).check(work, support(deletion, 5), deletion.edited_ids)
    assert torch.equal(states(work.cache()), before)


class _Coarse(BlockwiseSlots):
    """Scores rounded to bfloat16 and a little off: an error of a few roundings of the output."""

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Tensor:
        return super().attend(layer, query, key, value, scaling * 1.05)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_kernel_that_is_off_is_refused_with_its_layer(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = make_tiny("llama", dtype)
    deletion = Deletion(model)
    slots = support(deletion, 12)
    monkeypatch.setattr("kvrelay.backend.kernels.BlockwiseSlots", _Coarse)
    with pytest.raises(InvariantError, match=r"keys of layer 1 are off by .*bound .*12 intervals of 135.*packed"):
        refreshed(model, deletion.shifted, CUSTOM.schedule(slots), deletion.edited_ids, CustomGate(model))


def test_not_a_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = make_tiny("llama", torch.bfloat16)
    deletion = Deletion(model)

    def broken(self: Any, *args: Any) -> Tensor:
        return args[1] * float("nan")

    monkeypatch.setattr(BlockwiseSlots, "attend", broken)
    with pytest.raises(InvariantError, match="off by nan"):
        CustomGate(model).check(WorkingCache(deletion.shifted), support(deletion, 3), deletion.edited_ids)


def test_custom_equals_packed_within_a_few_roundings_in_bfloat16() -> None:
    model, _ = make_tiny("qwen3", torch.bfloat16)
    deletion = Deletion(model)
    slots = support(deletion, 20)
    ours, _ = refreshed(model, deletion.shifted, CUSTOM.schedule(slots), deletion.edited_ids, CustomGate(model))
    packed, _ = refreshed(model, deletion.shifted, Packed().schedule(slots), deletion.edited_ids)
    assert largest(ours, packed, slots) <= 2.0**-4 * float(states(packed, slots).abs().max())
