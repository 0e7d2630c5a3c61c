"""ChunkKV (Liu et al., 2025, arXiv 2502.00299): contiguous chunks stay or go whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from kvrelay.core import checks
from kvrelay.core.history import PrefilledHistory, Question
from kvrelay.core.selection import LayerSelection, Selection, expand_heads, pack, top_states
from kvrelay.selection.scores import last_tokens
from kvrelay.selection.window import WindowScored


def chunk_means(scores_T: Tensor, chunk: int) -> Tensor:
    """Each token's score becomes the mean of its chunk, (T,) float64. A shorter last chunk has its own mean."""
    n_tokens = scores_T.shape[0]
    if n_tokens == 0:
        return scores_T.double()
    n_chunks = -(-n_tokens // chunk)
    rows = F.pad(scores_T.double(), (0, n_chunks * chunk - n_tokens)).view(n_chunks, chunk)
    sizes = torch.full((n_chunks,), chunk, device=scores_T.device)
    sizes[-1] = n_tokens - (n_chunks - 1) * chunk
    return (rows.sum(-1) / sizes).repeat_interleave(sizes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkKV(WindowScored):
    """Each layer keeps the window and whole chunks of ``chunk`` tokens by rank, the same in all of its heads.

    A chunk's score is the mean, over its tokens, of the window scores summed over KV heads. Ties go to the earlier
    chunk. The chunk that no longer fits is cut to its first tokens, so that the budget is met exactly (kvpress's whole
    chunks undershoot: 80 of 100 states at T = 1000, kvpress#261). Chunks are counted from the history's first token
    up to the window, which is kept token by token. The paper's chunk scores are not pooled, so ``kernel`` is 1.
    """

    name: ClassVar[str] = "chunkkv"

    chunk: int = 10
    kernel: int = 1

    def __post_init__(self) -> None:
        WindowScored.__post_init__(self)
        checks.whole_number("selector.chunkkv.chunk", self.chunk, 1)

    def select(self, prefilled: PrefilledHistory, question: Question, budget: int) -> Selection:
        budget = min(budget, prefilled.text.n_history)
        layers = tuple(self._layer(prefilled, layer, budget) for layer in range(prefilled.n_layers))
        return Selection(layers=layers, protected=prefilled.text.protected, budget=budget)

    def _layer(self, prefilled: PrefilledHistory, layer: int, budget: int) -> LayerSelection:
        n_history, n_heads = prefilled.text.n_history, prefilled.n_kv_heads
        n_forced = self.window_states(n_history)
        summed_T = self.scores_HT(prefilled, layer)[:, : n_history - n_forced].double().sum(0)
        scores_T = F.pad(chunk_means(summed_T, self.chunk), (0, n_forced), value=torch.nan)
        keep_HT = top_states(scores_T[None], budget, last_tokens(n_history, n_forced, scores_T.device))
        return pack(*expand_heads(keep_HT[0], scores_T, n_heads), prefilled.text.protected)
