"""From scores to positions: the one rule for order and ties, and what every allocator does at the ends of the budget.

Positions are offsets from the first suffix token. Order is (score descending, position ascending), so that equal
inputs give equal positions on every device.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from kvrelay.core.errors import EditError
from kvrelay.core.repair import Allocation, EditedContext


def settled(context: EditedContext, budget: int) -> Allocation | None:
    """Nothing for a budget of 0, the whole suffix for one of S; None where there is something to choose.

    Raises `EditError` for a budget outside 0 … S. No forced minimum of one state: a share of a short suffix is none.
    """
    if budget <= 0:
        return Allocation.of_suffix(context, ()).checked(context, budget)
    if budget >= context.n_suffix:
        return Allocation.of_suffix(context, range(context.n_suffix)).checked(context, budget)
    return None


def finite(scores: Tensor) -> Tensor:
    """The scores (…, S) as float32 on the CPU.

    Raises `EditError` for a NaN or an infinity, which would rank anywhere, and for scores in 16 bits, most of which
    tie (NVIDIA/kvpress#276).
    """
    if scores.dtype not in (torch.float32, torch.float64):
        raise EditError(f"scores came in {scores.dtype}; wanted float32, because 16 bits make false ties")
    wrong = int((~scores.isfinite()).sum())
    if wrong:
        raise EditError(
            f"{wrong} of {scores.numel()} scores are NaN or infinite; no position can be ranked by them "
            "(a 16-bit model may overflow: key model.*.dtype)"
        )
    return scores.float().cpu()


def best_first(scores_S: Tensor, last: Sequence[bool] = ()) -> list[int]:
    """All positions by (score descending, position ascending); those marked ``last`` after all others."""
    order = torch.sort(finite(scores_S), descending=True, stable=True).indices.tolist()
    return sorted(order, key=lambda position: last[position]) if last else order


def top_slots(
    context: EditedContext, scores_S: Tensor, budget: int, notes: dict[str, object] | None = None
) -> Allocation:
    """The ``budget`` suffix tokens with the highest scores."""
    return Allocation.of_suffix(context, best_first(scores_S)[:budget], notes).checked(context, budget)
