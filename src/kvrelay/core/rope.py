"""Exact re-rotation of cached keys (RoPERelay, appendix A).

A model's rotary module scales its factors: c = a cos(p w), s = a sin(p w), with a = 1 except for YaRN. A cached key
is R_p k, in the half-split layout k = (x, y): R_p k = (c x - s y, c y + s x). Moving it from p to t is one composed
rotation,

    C = (c_t c_p + s_t s_p) / (c_p^2 + s_p^2),    S = (s_t c_p - c_t s_p) / (c_p^2 + s_p^2),

which is exactly (1, 0) for t = p. The factors are the model's own float32 factors; the angle of t - p is never used,
because the model rounds p w and t w and not (t - p) w, which is 7e-4 off at 100,000.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from kvrelay.core.errors import PositionError

SERIAL_BLOCK = 1 << 15
"""Elements that one operation treats at a time on a CPU with one or two threads: torch then keeps it on one thread.

Two threads that wait for each other after each operation gain little and, where the cores have other work, lose it all.
"""
PARALLEL_BLOCK = 1 << 18
"""The same with more threads: enough for all of them, and small enough for their caches."""
ACCELERATOR_BLOCK = 1 << 25
"""The same on an accelerator: few kernels, and a bound on what a long history needs beside its keys."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RotarySpec:
    """The rotary embedding in force, read from a loaded model.

    ``inv_freq`` (D_rot/2,) float32 as the model's module holds it; ``scaling`` is the factor a;
    ``rope_type`` is for records. Head dimensions from D_rot on are not rotated.
    """

    inv_freq: Tensor
    scaling: float = 1.0
    rope_type: str = "default"

    @property
    def rotary_dim(self) -> int:
        return 2 * self.inv_freq.shape[0]

    def factors(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Scaled (cos, sin), each (..., D_rot/2) float32, as the model's own forward computes them."""
        angles = positions.to(self.inv_freq.device, torch.float32)[..., None] * self.inv_freq
        return angles.cos() * self.scaling, angles.sin() * self.scaling


@dataclass(frozen=True, slots=True, eq=False)
class RotaryTable:
    """The factors of positions 0 .. size - 1, computed once and gathered from: two tensors (size, D_rot/2)."""

    cos: Tensor
    sin: Tensor

    @classmethod
    def of(cls, rope: RotarySpec, size: int, device: torch.device | str) -> RotaryTable:
        cos, sin = rope.factors(torch.arange(size, device=rope.inv_freq.device))
        return cls(cos.to(device), sin.to(device))

    @property
    def size(self) -> int:
        """Positions that it reaches, from 0."""
        return self.cos.shape[0]

    def composed(self, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """The rotation from ``source`` to ``target`` (any equal shape): (C, S), each (..., D_rot/2) float32."""
        device, half = self.cos.device, self.cos.shape[-1]
        p, t = source.reshape(-1).to(device), target.reshape(-1).to(device)
        cos, sin = self.cos.new_empty(len(p), half), self.cos.new_empty(len(p), half)
        for block in _blocks(len(p), half, device):
            c_p, s_p = self.cos.index_select(0, p[block]), self.sin.index_select(0, p[block])
            c_t, s_t = self.cos.index_select(0, t[block]), self.sin.index_select(0, t[block])
            amplitude = (c_p * c_p).add_(s_p * s_p)
            torch.mul(c_t, c_p, out=cos[block]).add_(s_t * s_p).div_(amplitude)
            torch.mul(s_t, c_p, out=sin[block]).sub_(c_t * s_p).div_(amplitude)
        return cos.view(*source.shape, half), sin.view(*source.shape, half)


def rotate(keys: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Apply a rotation to keys (..., K, D); float32 arithmetic, one cast back, dimensions from D_rot on untouched.

    Factors are (..., K, D_rot/2), or (K, D_rot/2) where all heads turn alike. Keys in float64 are turned in float64.
    Raises `PositionError` for keys that are no floating-point numbers.
    """
    if not keys.is_floating_point():
        raise PositionError(f"keys of type {keys.dtype} came; a quantised key cannot be rotated, only a floating one")
    half, width, exact = cos.shape[-1], keys.shape[-1], torch.promote_types(keys.dtype, torch.float32)
    cos, sin = cos.to(keys.device), sin.to(keys.device)
    rows = keys.reshape(math.prod(keys.shape[:-2]), keys.shape[-2], width)
    if cos.dim() > 2:
        rows, cos, sin = keys.reshape(1, -1, width), cos.reshape(-1, half), sin.reshape(-1, half)
    out = torch.empty(rows.shape, dtype=keys.dtype, device=keys.device)
    if 2 * half < width:
        out[..., 2 * half :] = rows[..., 2 * half :]
    x, y, out_x, out_y = rows[..., :half], rows[..., half : 2 * half], out[..., :half], out[..., half : 2 * half]
    for block in _blocks(rows.shape[1], len(rows) * half, keys.device):
        c, s, x_block, y_block = cos[block], sin[block], x[:, block].to(exact), y[:, block].to(exact)
        # products and sums round apart, never fused, so that (1, 0) gives the key itself
        out_x[:, block] = (x_block * c).sub_(y_block * s)
        out_y[:, block] = (y_block * c).add_(x_block * s)
    return out.view(keys.shape)


def _blocks(n_rows: int, row_elements: int, device: torch.device) -> Iterator[slice]:
    block = ACCELERATOR_BLOCK
    if device.type == "cpu":
        block = PARALLEL_BLOCK if torch.get_num_threads() > 2 else SERIAL_BLOCK
    step = max(1, block // row_elements)
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))
