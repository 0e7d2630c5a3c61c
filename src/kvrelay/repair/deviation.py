"""How far one layer's stale states are from what a forward of the edited suffix gives.

Layer 0 sees tokens and positions alone, so that its states do not differ at all after a right shift; the states before
layer 1's attention are what layer 0 has made of the edited text. Shape letters: H KV head, S suffix token, D width.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kvrelay.core.repair import FreshStates


def squared(fresh_HSD: Tensor, stale_HSD: Tensor) -> Tensor:
    """(S,): sum over heads and dimensions of (fresh - stale)^2."""
    return (fresh_HSD - stale_HSD).square().sum((0, 2))


def relative(fresh_HSD: Tensor, stale_HSD: Tensor) -> Tensor:
    """(S,): squared deviation over the fresh state's squared norm; 0 for a fresh state that is all zeros."""
    norm = fresh_HSD.square().sum((0, 2))
    return torch.where(norm > 0, squared(fresh_HSD, stale_HSD) / norm, 0.0)


def relative_sum(states: FreshStates) -> Tensor:
    """(S,): the keys' relative deviation plus the values'."""
    return relative(states.key_HSD, states.stale_key_HSD) + relative(states.value_HSD, states.stale_value_HSD)
