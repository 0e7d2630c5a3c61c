"""The error gate of the experimental kernel: layer by layer, against the masked kernel on the same support.

The bound is derived, not chosen: the masked pass is run again with every attention output disturbed by as much as two
sound kernels may differ there (at random, and at the size of the head's output), and the disturbance runs on through
the layers. Whatever this moves a layer's keys and values by (root mean square over the refreshed states), the kernels
may differ by, times a margin. In half precision sums are float32, and what differs is the one rounding at the end. In
float32 and float64 the sums round too: a sum of n terms in another order differs by some sqrt(n) roundings (Higham and
Mary, 2019), here of D products a score and of K weighted values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from kvrelay.backend.attention import Attend
from kvrelay.backend.model import CausalModel
from kvrelay.backend.refresh import WorkingCache, kernel_of, run_pass
from kvrelay.core.errors import InvariantError
from kvrelay.core.repair import Kernel, Traversal, intervals

MARGIN = 3.0
"""The root mean square over a layer's refreshed states hardly depends on the sample."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerCheck:
    """One layer's difference between kernels and its bound, root mean squares; keys and values apart."""

    layer: int
    states: str
    difference: float
    bound: float

    @property
    def passed(self) -> bool:
        return self.difference <= self.bound


class CustomGate:
    """Checks the blockwise kernel once per geometry (slots of the cache, slots to refresh, intervals) of one model."""

    def __init__(self, model: CausalModel, kernel: Kernel = "blocks", seed: int = 0) -> None:
        self.model, self.kernel, self.seed = model, kernel, seed
        self.passed: dict[tuple[int, int, int], list[LayerCheck]] = {}

    def check(self, work: WorkingCache, slots: Sequence[int], token_ids: Sequence[int]) -> None:
        """Raises `InvariantError` that names the first layer beyond its bound. ``work`` is left as it was."""
        geometry = (len(work.coordinate_K), len(slots), len(intervals(slots)))
        if geometry in self.passed:
            return
        checks = self.measured(work, slots, token_ids)
        for one in checks:
            if not one.passed:
                raise InvariantError(
                    f"the custom kernel's {one.states} of layer {one.layer} are off by {one.difference:.3g} (root mean "
                    f"square; bound {one.bound:.3g}) with {geometry[1]} slots in {geometry[2]} intervals of "
                    f"{geometry[0]}; use the executor packed (key: executor)"
                )
        self.passed[geometry] = checks

    def measured(self, work: WorkingCache, slots: Sequence[int], token_ids: Sequence[int]) -> list[LayerCheck]:
        """Every layer's difference and bound."""
        scratch = WorkingCache(work.cache())
        masked = kernel_of(self.model, Traversal(slots=tuple(slots), kernel="masked"))
        tried = kernel_of(self.model, Traversal(slots=tuple(slots), kernel=self.kernel))
        found = []
        for attend in (masked, tried, _Disturbed(masked, self.model.dtype, self.seed)):
            run_pass(self.model, scratch, slots, token_ids, attend)
            found.append(_states(scratch, slots))
        return [
            LayerCheck(
                layer=at // 2, states=("keys", "values")[at % 2], difference=_rms(ours, ref), bound=MARGIN * limit
            )
            for at, (ref, ours, limit) in enumerate(
                (ref, ours, _rms(noisy, ref)) for ref, ours, noisy in zip(*found, strict=True)
            )
        ]


class _Disturbed:
    """Another attention's outputs, each element moved by a kernel's roundings of the head's output, up or down."""

    def __init__(self, inner: Attend, dtype: torch.dtype, seed: int) -> None:
        self.inner = inner
        self.eps = torch.finfo(dtype).eps
        self.half = dtype in (torch.bfloat16, torch.float16)
        self.generator = torch.Generator().manual_seed(seed)

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Tensor:
        out = self.inner.attend(layer, query, key, value, scaling)
        signs = torch.randint(0, 2, out.shape, generator=self.generator).to(out.device) * 2 - 1
        wide = out.double()
        roundings = 1.0 if self.half else query.shape[-1] ** 0.5 + key.shape[2] ** 0.5
        return (wide + signs * roundings * self.eps * wide.square().mean(-1, keepdim=True).sqrt()).to(out.dtype)


def _states(work: WorkingCache, slots: Sequence[int]) -> list[Tensor]:
    """Keys and values (H, B, D) of the refreshed slots: layer 0's keys, its values, layer 1's keys …"""
    where = list(slots)
    return [states[0][:, where] for pair in zip(work.keys, work.values, strict=True) for states in pair]


def _rms(one: Tensor, other: Tensor) -> float:
    return float((one.double() - other.double()).square().mean().sqrt())
