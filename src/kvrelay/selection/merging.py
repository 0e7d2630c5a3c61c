"""Cache merging of values (CaM, Zhang et al., 2024): merge probabilities and the merged values themselves.

A token i that leaves the recent window adds a share of its value to each of the w tokens after it, if a coin r_i says
so: V'[j] = V[j] + (1/w) sum over i = j-w ... j-1 of r_i V'[i]. Merges cascade: what i hands on includes what it was
handed. The probability is i's attention over the largest of an always-kept reference and its own window of w tokens.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

BLOCK_TOKENS = 128
"""Tokens that are solved at a time: enough work for one call, a small triangle."""


def merge_probabilities(mass_HT: Tensor, reference_H: Tensor, start: int, width: int) -> Tensor:
    """p (H, T) for i in [start, T - 1 - width], zero elsewhere: a[i] / max(reference, a[i : i + width]), in [0, 1].

    ``mass_HT`` may be the sum or the mean over the observing queries: p is a ratio. 0 / 0 counts as 0.
    """
    n_tokens = mass_HT.shape[-1]
    p = torch.zeros_like(mass_HT)
    if start >= n_tokens - width:
        return p
    leaving = mass_HT[:, start : n_tokens - width]
    largest = F.max_pool1d(mass_HT[:, None, start : n_tokens - 1], width, stride=1)[:, 0]
    ratio = leaving / torch.maximum(largest, reference_H[:, None])
    p[:, start : n_tokens - width] = ratio.nan_to_num(nan=0.0, posinf=1.0).clamp(0.0, 1.0)
    return p


def merged_values(values_HTD: Tensor, merge_HT: Tensor, width: int) -> Tensor:
    """V' (H, T, D) in float32 (float64 for float64 values); the caller casts once. ``merge_HT``: the coins r.

    The recurrence is linear, so a block of tokens is one unit lower triangular system: with A[j, i] = r_i / w for
    0 < j - i <= w, (I - A_inside) V'_block = V_block + A_before V'_before. Blocks without a merge are left as they are.
    """
    out = values_HTD.to(torch.promote_types(values_HTD.dtype, torch.float32), copy=True)
    weight_HT = merge_HT.to(out.dtype) / width
    merging_T = merge_HT.any(0).cpu()
    for begin in range(0, out.shape[1], BLOCK_TOKENS):
        end, first = min(begin + BLOCK_TOKENS, out.shape[1]), max(begin - width, 0)
        if bool(merging_T[first:end].any()):
            out[:, begin:end] = _solve_block(out[:, first:end], weight_HT[:, first:end], begin - first, width)
    return out


def _solve_block(out_HTD: Tensor, weight_HT: Tensor, n_before: int, width: int) -> Tensor:
    """V' of the tokens after the first ``n_before`` of ``out_HTD``, whose V' is known."""
    index = torch.arange(out_HTD.shape[1], device=out_HTD.device)
    gap = index[n_before:, None] - index
    into = weight_HT[:, None, :] * ((gap > 0) & (gap <= width))
    known = out_HTD[:, n_before:] + into[..., :n_before] @ out_HTD[:, :n_before]
    unit = torch.eye(known.shape[1], dtype=known.dtype, device=known.device)
    inside: Tensor = torch.linalg.solve_triangular(unit - into[..., n_before:], known, upper=False, unitriangular=True)
    return inside
