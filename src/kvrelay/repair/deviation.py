"""How far one layer's stale states are from what a forward of the edited suffix gives.

Layer 0 sees tokens and positions alone, so that its states do not differ at all after a right shift; the states before
layer 1's attention are what layer 0 has made of the edited text. Shape letters: H KV head, S suffix token, D width.
"""

from __future__ import annotations

from torch import Tensor

from kvrelay.core.deviation import relative
from kvrelay.core.repair import FreshStates


def relative_sum(states: FreshStates) -> Tensor:
    """(S,): the keys' relative deviation plus the values'."""
    return relative(states.key_HSD, states.stale_key_HSD) + relative(states.value_HSD, states.stale_value_HSD)
