"""Contexts from plain text, a probe of random tensors that knows no clean state, and literal float64 references."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

import pytest
import torch
from torch import Tensor

from kvrelay.core.history import Question
from kvrelay.core.repair import Allocation, EditedContext, FreshStates

N_LAYERS, N_QUERY_HEADS, N_KV_HEADS, HEAD_DIM, HIDDEN = 3, 4, 2, 6, 12
VOCABULARY = 997


def token_id(piece: str) -> int:
    """A stable id of a piece; equal pieces are equal tokens."""
    return sum((place + 1) * ord(character) for place, character in enumerate(piece)) % VOCABULARY


def tokens(text: str) -> tuple[str, ...]:
    """Words with the space before them, single marks, single line breaks and further spaces."""
    return tuple(re.findall(r" ?\w+|\n| ?[^\w\s]|[^\S\n]", text))


@pytest.fixture
def make_context() -> Callable[..., EditedContext]:
    """From pieces, or a text that is cut into them; the first three slots are the prefix."""

    def make(
        suffix: str | Sequence[str],
        *,
        ids: Sequence[int] | None = None,
        special: Sequence[bool] | None = None,
        case_id: str = "case",
        slot: tuple[int, int] | None = None,
        prefix: Sequence[str] = ("<s>", "Known", " text."),
    ) -> EditedContext:
        pieces = tokens(suffix) if isinstance(suffix, str) else tuple(suffix)
        return EditedContext(
            token_ids=(*map(token_id, prefix), *(map(token_id, pieces) if ids is None else ids)),
            pieces=(*prefix, *pieces),
            special=(*(piece == "<s>" for piece in prefix), *(special or [False] * len(pieces))),
            splice=len(prefix),
            case_id=case_id,
            slot=slot,
        )

    return make


@pytest.fixture
def make_question() -> Callable[..., Question]:
    def make(text: str, pieces: Sequence[str] | None = None, ids: Sequence[int] | None = None) -> Question:
        pieces = tokens(text) if pieces is None else pieces
        return Question(
            text=text,
            token_ids=(1, 2, 3),
            text_ids=tuple(map(token_id, pieces) if ids is None else ids),
            text_pieces=tuple(pieces),
        )

    return make


class FakeProbe:
    """Exactly what the `Probe` protocol has, from seeded random tensors; it counts what was asked."""

    n_layers = N_LAYERS

    def __init__(
        self, context: EditedContext, question: Question, rows: dict[int, Sequence[float]] | None = None, seed: int = 0
    ) -> None:
        self._generator = torch.Generator().manual_seed(seed)
        n, asked = len(context.token_ids), len(question.text_ids)
        table = self._normal(VOCABULARY, HIDDEN)
        for row, values in (rows or {}).items():
            table[row] = torch.tensor([*values, *[0.0] * (HIDDEN - len(values))])
        self.table = table
        later = torch.ones(asked, asked, dtype=torch.bool).triu(1)
        self.attention = []
        for _ in range(N_LAYERS):
            logits = 2 * self._normal(N_QUERY_HEADS, asked, n + asked)
            logits[:, :, n:].masked_fill_(later, -torch.inf)
            self.attention.append(logits.softmax(-1)[:, :, :n])
        self.states = [self._states(context.n_suffix, asked) for _ in range(N_LAYERS)]
        self.embedded: list[list[int]] = []
        self.attended: list[list[int]] = []

    def embeddings(self, token_ids: Sequence[int]) -> Tensor:
        self.embedded.append(list(token_ids))
        return self.table[list(token_ids)]

    def question_attention(self, layers: Iterable[int], visit: Callable[[int, Tensor], None]) -> None:
        self.attended.append(list(layers))
        for layer in self.attended[-1]:
            visit(layer, self.attention[layer])

    def fresh_states(self, layer: int) -> FreshStates:
        return self.states[layer]

    def _normal(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self._generator)

    def _states(self, n_suffix: int, asked: int) -> FreshStates:
        return FreshStates(
            key_HSD=self._normal(N_KV_HEADS, n_suffix, HEAD_DIM),
            value_HSD=self._normal(N_KV_HEADS, n_suffix, HEAD_DIM),
            stale_key_HSD=self._normal(N_KV_HEADS, n_suffix, HEAD_DIM),
            stale_value_HSD=self._normal(N_KV_HEADS, n_suffix, HEAD_DIM),
            question_query=self._normal(N_QUERY_HEADS, asked, HEAD_DIM),
            question_key_HUD=self._normal(N_KV_HEADS, asked, HEAD_DIM),
            scaling=HEAD_DIM**-0.5,
        )


class CleanFakeProbe(FakeProbe):
    """With what only the oracle may see."""

    def __init__(self, context: EditedContext, question: Question, seed: int = 0) -> None:
        super().__init__(context, question, seed=seed)
        self.clean = self._normal(N_LAYERS, context.n_suffix).square()

    def deviation(self) -> Tensor:
        return self.clean


@pytest.fixture
def fake_probe() -> type[FakeProbe]:
    return FakeProbe


@pytest.fixture
def clean_fake_probe() -> type[CleanFakeProbe]:
    return CleanFakeProbe


@pytest.fixture
def best() -> Callable[[Sequence[float], int], list[int]]:
    """Literal ranking: the highest scores, the lower position first, ascending."""

    def rank(scores: Sequence[float], budget: int) -> list[int]:
        return sorted(sorted(range(len(scores)), key=lambda position: (-scores[position], position))[:budget])

    return rank


@pytest.fixture
def offsets() -> Callable[[Allocation, EditedContext], list[int]]:
    """What was chosen, counted from the first suffix token."""

    def read(allocation: Allocation, context: EditedContext) -> list[int]:
        return [slot - context.splice for slot in allocation.slots]

    return read
