"""A history as the model has read it, and the protocol of those who choose from it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from torch import Tensor

from kvrelay.core.cache import KVCache
from kvrelay.core.errors import EditError
from kvrelay.core.selection import Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowMass:
    """Evidence: attention of ``window`` observing queries, summed over them, (Hq, N) float32 a layer.

    ``over="history"``: the last ``window`` tokens of the history; ``over="question"``: all tokens of the question,
    over the full cache (``window`` is then not used). Softmax in float32 over all keys that the query may see.
    """

    window: int
    over: Literal["history", "question"] = "history"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMass:
    """Evidence: attention summed over all N prefilled queries, (Hq, N) float32 a layer, streamed in blocks."""


Need = WindowMass | ColumnMass


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryText:
    """What the history's tokens are: T tokens after P protected ones, and the units' half-open token spans.

    Spans count from the history's first token; a token belongs to the unit that holds its first character. ``pieces``
    is each prefilled token's own text (together they are the prompt's beginning; of tokens that share a character only
    the last has it) and ``special`` marks tokens of the chat template; both have N = P + T entries.
    """

    protected: int
    n_history: int
    unit_ids: tuple[str, ...]
    unit_spans: tuple[tuple[int, int], ...]
    index_texts: tuple[str, ...]
    pieces: tuple[str, ...] = ()
    special: tuple[bool, ...] = ()

    @property
    def n_prefilled(self) -> int:
        return self.protected + self.n_history

    def spans_of(self, unit_ids: Collection[str]) -> list[tuple[int, int]]:
        """Token spans of units in the prompt, protected tokens counted. Raises `EditError` for a unit that is
        unknown or has none."""
        unknown = set(unit_ids) - set(self.unit_ids)
        if unknown:
            raise EditError(
                f"the history has no unit {sorted(unknown)[0]!r}; it may have been trimmed away "
                "(key: dataset.max_history_tokens)"
            )
        named = [one for one in zip(self.unit_ids, self.unit_spans, strict=True) if one[0] in unit_ids]
        empty = [unit for unit, (start, end) in named if start == end]
        if empty:
            raise EditError(f"unit {empty[0]!r} has no tokens, so that there is nothing of it to delete")
        return [(self.protected + start, self.protected + end) for _, (start, end) in named]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The bare question (what a retriever may see) and the tokens that follow the history in the prompt.

    ``text_ids`` are the bare question's own tokens (no template, no instruction), ``text_pieces`` each one's text.
    """

    text: str
    token_ids: tuple[int, ...]
    example_id: str = ""
    text_ids: tuple[int, ...] = ()
    text_pieces: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PrefilledHistory:
    """The full cache of one history (every position at its source) and the evidence that was recorded on the way."""

    cache: KVCache
    text: HistoryText
    history_id: str
    n_query_heads: int
    evidence: Mapping[Need, tuple[Tensor, ...]] = field(default_factory=dict)

    @property
    def n_layers(self) -> int:
        return len(self.cache.layers)

    @property
    def n_kv_heads(self) -> int:
        return self.cache.layers[0].keys_HKD.shape[0]

    def history_mass(self, need: Need, layer: int) -> Tensor:
        """One layer's evidence over the history alone: (Hq, T)."""
        return self.evidence[need][layer][:, self.text.protected :]


class Selector(Protocol):
    """Decides which states stay. A frozen dataclass that Hydra builds; equal inputs give equal selections."""

    @property
    def needs(self) -> frozenset[Need]:
        """The evidence that prefill must record for it."""
        ...

    @property
    def question_aware(self) -> bool:
        """False where the selection is the same for every question of a history, so that it is made once."""
        ...

    def select(self, prefilled: PrefilledHistory, question: Question, budget: int) -> Selection:
        """Keep exactly ``budget`` history states per layer and KV head (on average over layers), ascending."""
        ...
