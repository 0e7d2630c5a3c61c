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

CPU_BLOCK_BYTES = 1 << 21
"""Keys that a CPU rotates at a time (float32 bytes): intermediate results stay in its cache."""
ACCELERATOR_BLOCK_BYTES = 1 << 28
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

    def composed(self, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """The rotation from ``source`` to ``target`` (any equal shape): (C, S), each (..., D_rot/2) float32."""
        device, half = self.cos.device, self.cos.shape[-1]
        p, t = source.reshape(-1).to(device), target.reshape(-1).to(device)
        cos, sin = self.cos.new_empty(len(p), half), self.cos.new_empty(len(p), half)
        for block in _blocks(len(p), 2 * half, device):
            c_p, s_p = self.cos.index_select(0, p[block]), self.sin.index_select(0, p[block])
            c_t, s_t = self.cos.index_select(0, t[block]), self.sin.index_select(0, t[block])
            amplitude = (c_p * c_p).add_(s_p * s_p)
            torch.mul(c_t, c_p, out=cos[block]).add_(s_t * s_p).div_(amplitude)
            torch.mul(s_t, c_p, out=sin[block]).sub_(c_t * s_p).div_(amplitude)
        return cos.view(*source.shape, half), sin.view(*source.shape, half)


def rotate(keys: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Apply a rotation to keys (..., K, D); float32 arithmetic, one cast back, dimensions from D_rot on untouched.

    Factors are (..., K, D_rot/2), or (K, D_rot/2) where all heads turn alike.
    """
    half, width = cos.shape[-1], keys.shape[-1]
    cos, sin = cos.to(keys.device), sin.to(keys.device)
    rows = keys.reshape(math.prod(keys.shape[:-2]), keys.shape[-2], width)
    if cos.dim() > 2:
        rows, cos, sin = keys.reshape(1, -1, width), cos.reshape(-1, half), sin.reshape(-1, half)
    out = torch.empty(rows.shape, dtype=keys.dtype, device=keys.device)
    if 2 * half < width:
        out[..., 2 * half :] = rows[..., 2 * half :]
    for block in _blocks(rows.shape[1], len(rows) * width, keys.device):
        _rotate_block(rows[:, block, : 2 * half], cos[block], sin[block], out[:, block, : 2 * half])
    return out.view(keys.shape)


def _rotate_block(keys: Tensor, cos: Tensor, sin: Tensor, out: Tensor) -> None:
    """Products and sums round apart, never fused, so that (1, 0) gives the key itself."""
    half = cos.shape[-1]
    exact = keys.float()
    turned = out if out.dtype == torch.float32 else torch.empty_like(exact)
    x, y = exact[..., :half], exact[..., half:]
    torch.mul(x, cos, out=turned[..., :half]).sub_(y * sin)
    torch.mul(y, cos, out=turned[..., half:]).add_(x * sin)
    if turned is not out:
        out.copy_(turned)


def _blocks(n_rows: int, row_width: int, device: torch.device) -> Iterator[slice]:
    block_bytes = CPU_BLOCK_BYTES if device.type == "cpu" else ACCELERATOR_BLOCK_BYTES
    step = max(1, block_bytes // (4 * row_width))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))
