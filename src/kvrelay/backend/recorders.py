"""Evidence that a prefill records on the way. Everything streams: no T x T matrix exists at any moment."""

from __future__ import annotations

import torch
from torch import Tensor

from kvrelay.backend.attention import Attend
from kvrelay.core.history import HistoryText, Need, WindowMass

BLOCK_BYTES = 4 << 20
"""Attention rows that are held at a time (float32 bytes, one KV head); rows shrink as the history grows."""


class MassRecorder:
    """Attention of the last ``rows`` of N tokens, summed by key.

    One pass over blocks of query rows: a block meets all the keys it may see, so its softmax is exact, in float32,
    without a second pass for the normaliser.
    """

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.mass_L: dict[int, Tensor] = {}

    def record(self, layer: int, query: Tensor, key: Tensor, scaling: float) -> None:
        self.mass_L[layer] = summed_attention(query[0, :, -self.rows :], key[0], scaling)


def summed_attention(
    query_HQD: Tensor, key_HKD: Tensor, scaling: float, block_bytes: int = BLOCK_BYTES, n_columns: int | None = None
) -> Tensor:
    """Attention of the last Q tokens of a causal sequence, summed over them: (Hq, K) float32.

    ``query_HQD`` (Hq, Q, D) stand at the last Q of the K positions. ``n_columns`` keeps only the first columns.
    """
    n_query_heads, n_queries, width = query_HQD.shape
    n_heads, n_keys, _ = key_HKD.shape
    group = n_query_heads // n_heads
    grouped = query_HQD.reshape(n_heads, group, n_queries, width)
    exact = torch.float64 if query_HQD.dtype == torch.float64 else torch.float32
    mass = torch.zeros(n_heads, group, n_keys, dtype=exact, device=query_HQD.device)
    rows = max(1, min(n_queries, block_bytes // (4 * group * n_keys)))
    future = torch.ones(rows, rows, dtype=torch.bool, device=query_HQD.device).triu(1)
    for head in range(n_heads):
        keys = (key_HKD[head].to(exact) * scaling).t().contiguous()
        for start in range(0, n_queries, rows):
            end = min(n_queries, start + rows)
            first, last = n_keys - n_queries + start, n_keys - n_queries + end
            block = grouped[head, :, start:end].reshape(-1, width).to(exact)
            scores = (block @ keys[:, :last]).view(group, end - start, last)
            scores[:, :, first:].masked_fill_(future[: end - start, : end - start], -torch.inf)
            mass[head, :, :last] += scores.softmax(-1).sum(1)
    return mass.reshape(n_query_heads, n_keys)[:, :n_columns]


def recorder_for(need: Need, text: HistoryText) -> MassRecorder:
    """The recorder of one kind of evidence: the window (all of a shorter history), or every prefilled token."""
    return MassRecorder(min(need.window, text.n_history) if isinstance(need, WindowMass) else text.n_prefilled)


class QuestionObserver:
    """A question's forward over the full cache: attends as usual and sums its attention over the N history keys."""

    def __init__(self, inner: Attend, n_prefilled: int) -> None:
        self.inner = inner
        self.n_prefilled = n_prefilled
        self.mass_L: dict[int, Tensor] = {}

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Tensor:
        self.mass_L[layer] = summed_attention(query[0], key[0], scaling, n_columns=self.n_prefilled)
        return self.inner.attend(layer, query, key, value, scaling)
