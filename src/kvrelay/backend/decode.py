"""Questions and answers over caches of unequal lengths, as one batch of rows.

A row is one placed cache. All rows of a batch hear the same question, so new tokens need no padding; what differs are
the histories (padded on the left, hidden by a validity mask) and the first positions.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from kvrelay.backend.attention import RaggedContinuation
from kvrelay.backend.layers import AppendLayer, RelayCache, empty_buffer
from kvrelay.backend.model import CausalModel
from kvrelay.core.cache import KVCache, LayerKV


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Distributions:
    """What one row says at every token of its own answer: (A, vocabulary) log-probabilities, teacher-forced.

    ``context_ids`` are the A - 1 tokens that stand before the last of them.
    """

    context_ids: tuple[int, ...]
    logprobs: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is asked of every row: the question, how long to answer, and what to score beside the answer.

    ``reference_ids``: the answer's tokens for the teacher-forced likelihood. ``option_ids``: one token sequence an
    option, for the log-probability of each as the answer's start: of the first token in which they differ, or, with
    ``whole_options``, the mean over all tokens of an option. ``max_new_tokens`` may be 0.
    """

    question_ids: tuple[int, ...]
    max_new_tokens: int
    reference_ids: tuple[int, ...] = ()
    option_ids: tuple[tuple[int, ...], ...] = ()
    whole_options: bool = False
    fidelity_to: Distributions | None = field(default=None, compare=False)

    @property
    def room(self) -> int:
        """Tokens that may follow a history at most."""
        scored = max([len(self.reference_ids), *(len(ids) for ids in self.option_ids)])
        if self.fidelity_to is not None:
            scored = max(scored, len(self.fidelity_to.context_ids))
        return len(self.question_ids) + max(self.max_new_tokens, scored)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One row's answer. ``reference_nll`` in nats a token; ``option_logprobs`` in the order of the options.

    ``kl``: mean KL divergence of this row from `Asked.fidelity_to`, nats a token of that row's answer.

    ``finite`` is false where a token was chosen from logits that are no numbers, so that the answer is none.
    """

    token_ids: tuple[int, ...]
    stopped_by_eos: bool
    finite: bool
    reference_nll: float | None
    kl: float | None
    option_logprobs: tuple[float, ...]
    question_s: float
    decode_s: float
    first_logits: Tensor = field(repr=False)


def answer_rows(model: CausalModel, rows: Sequence[KVCache], asked: Asked) -> list[Answer]:
    """Answer one question over each row greedily, all rows in one batch. Caches are read, never changed."""
    batch = _Batch(model, rows, asked.room)
    started = time.perf_counter()
    last = batch.read(asked.question_ids)[:, -1]
    first_logits = model.logits(last)
    synchronise(model.device)
    asked_at = time.perf_counter()
    kept = batch.cache.lengths()
    nll = batch.reference_nll(first_logits, asked.reference_ids)
    batch.forget(kept)
    options = batch.option_logprobs(first_logits, asked)
    batch.forget(kept)
    kl = batch.divergence(first_logits, asked.fidelity_to)
    batch.forget(kept)
    scored_at = time.perf_counter()
    tokens, eos, finite = batch.greedy(first_logits, asked.max_new_tokens)
    ended = time.perf_counter()
    return [
        Answer(
            token_ids=tuple(tokens[row]),
            stopped_by_eos=eos[row],
            finite=finite[row],
            reference_nll=None if nll is None else float(nll[row]),
            kl=None if kl is None else float(kl[row]),
            option_logprobs=tuple(options[row].tolist()) if options is not None else (),
            question_s=asked_at - started,
            decode_s=ended - scored_at,
            first_logits=first_logits[row],
        )
        for row in range(len(rows))
    ]


def distributions(model: CausalModel, row: KVCache, question_ids: Sequence[int], answer: Answer) -> Distributions:
    """What a row says at every token of ``answer``, its own, up to where it ended."""
    context = answer.token_ids if answer.stopped_by_eos else answer.token_ids[:-1]
    batch = _Batch(model, [row], len(question_ids) + len(context))
    first_logits = model.logits(batch.read(question_ids)[:, -1])
    logits = batch.forced(first_logits, context)[0]
    return Distributions(context_ids=tuple(context), logprobs=logits.log_softmax(-1))


class _Batch:
    """The throw-away cache of one batch and where each of its rows stands."""

    def __init__(self, model: CausalModel, rows: Sequence[KVCache], room: int) -> None:
        self.model = model
        self.cache, self.attend = batched_cache(rows, room)
        self.next_B = torch.tensor([row.next_position for row in rows], device=model.device)

    def read(self, ids: Sequence[int] | Tensor) -> Tensor:
        """Append the same tokens (Q,) to every row, or one token a row (B, 1): hidden states (B, Q, hidden)."""
        given = ids if isinstance(ids, Tensor) else self.model.row(ids).expand(len(self.next_B), -1)
        positions = self.next_B[:, None] + torch.arange(given.shape[1], device=given.device)
        self.next_B = self.next_B + given.shape[1]
        return self.model.forward(given, positions, self.cache, self.attend)

    def forget(self, lengths: Sequence[int]) -> None:
        """Back to where the cache's layers had ``lengths``."""
        self.next_B = self.next_B - (self.cache.lengths()[0] - lengths[0])
        self.cache.truncate(lengths)

    def reference_nll(self, first_logits: Tensor, reference_ids: Sequence[int]) -> Tensor | None:
        """Mean negative log-likelihood of the reference's tokens, (B,), nats a token."""
        if not reference_ids:
            return None
        total = -first_logits.log_softmax(-1)[:, reference_ids[0]].double()
        if len(reference_ids) > 1:
            logits = self.model.logits(self.read(reference_ids[:-1]))
            wanted = self.model.row(reference_ids[1:]).expand(logits.shape[0], -1)
            total = total - logits.log_softmax(-1).gather(-1, wanted[..., None])[..., 0].double().sum(-1)
        return total / len(reference_ids)

    def forced(self, first_logits: Tensor, context_ids: Sequence[int]) -> Tensor:
        """Logits (B, A, vocabulary) after the question and after each of the A - 1 tokens that follow it."""
        if not context_ids:
            return first_logits[:, None]
        return torch.cat([first_logits[:, None], self.model.logits(self.read(context_ids))], 1)

    def divergence(self, first_logits: Tensor, to: Distributions | None) -> Tensor | None:
        """Mean over answer tokens of KL(to || row), (B,), nats; summed over the vocabulary in float64."""
        if to is None:
            return None
        own = self.forced(first_logits, to.context_ids).log_softmax(-1)
        wanted = to.logprobs.to(own.device).double()
        shares = wanted.exp()
        # a token that cannot come adds nothing, also where the row cannot say it either
        return torch.stack(
            [torch.where(shares > 0, shares * (wanted - row.double()), 0.0).sum(-1).mean() for row in own]
        )

    def option_logprobs(self, first_logits: Tensor, asked: Asked) -> Tensor | None:
        """(B, options): of the first token in which the options differ, or of whole options the mean over tokens."""
        options = asked.option_ids
        if not options:
            return None
        if asked.whole_options:
            return torch.stack([self._mean_logprob(first_logits, option) for option in options], -1)
        shared = _shared_prefix(options)
        logits = self.model.logits(self.read(options[0][:shared])[:, -1]) if shared else first_logits
        differing = torch.tensor([option[shared] for option in options], device=logits.device)
        return logits.log_softmax(-1)[:, differing]

    def _mean_logprob(self, first_logits: Tensor, option: Sequence[int]) -> Tensor:
        kept = self.cache.lengths()
        nll = self.reference_nll(first_logits, option)
        self.forget(kept)
        return first_logits.new_zeros(len(self.next_B)) if nll is None else -nll

    def greedy(self, first_logits: Tensor, limit: int) -> tuple[list[list[int]], list[bool], list[bool]]:
        """Most likely tokens until EOS (left out of the answer) or the limit; ties go to the lower token id.

        Per row: tokens, whether EOS ended them, whether all of them were chosen from finite logits. NaN is the largest
        for torch, so that the chosen logit is finite only where all are.
        """
        n_rows = first_logits.shape[0]
        tokens: list[list[int]] = [[] for _ in range(n_rows)]
        ended, finite = [False] * n_rows, [True] * n_rows
        logits = first_logits
        for step in range(limit):
            chosen = logits.argmax(-1)
            sound = logits.gather(-1, chosen[:, None])[:, 0].isfinite()
            for row, (token, is_sound) in enumerate(zip(chosen.tolist(), sound.tolist(), strict=True)):
                if ended[row]:
                    continue
                finite[row] &= is_sound
                ended[row] = token in self.model.eos_ids
                if not ended[row]:
                    tokens[row].append(token)
            if all(ended) or step == limit - 1:
                break
            logits = self.model.logits(self.read(chosen[:, None])[:, -1])
        return tokens, ended, finite


def synchronise(device: torch.device) -> None:
    """Wait for an accelerator's queue, so that a clock reads what has been done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _shared_prefix(options: Sequence[Sequence[int]]) -> int:
    shortest = min(len(option) for option in options)
    for index in range(shortest):
        if len({option[index] for option in options}) > 1:
            return index
    return shortest - 1


def batched_cache(rows: Sequence[KVCache], room: int) -> tuple[RelayCache, RaggedContinuation]:
    """Rows side by side, histories ending in the same column, with room for ``room`` new tokens in each layer."""
    layers, masks, widths = [], [], []
    for parts in zip(*(row.layers for row in rows), strict=True):
        width = max(part.keys_HKD.shape[1] for part in parts)
        keys = empty_buffer(parts[0].keys_HKD, len(rows), width + room)
        values = empty_buffer(parts[0].keys_HKD, len(rows), width + room)
        for row, part in enumerate(parts):
            start = width - part.keys_HKD.shape[1]
            keys[row, :, start:width], values[row, :, start:width] = part.keys_HKD, part.values_HKD
        layers.append(AppendLayer(keys, values, width))
        masks.append(_validity(parts, width))
        widths.append(width)
    return RelayCache(layers), RaggedContinuation(masks, widths)


def _validity(parts: Sequence[LayerKV], width: int) -> Tensor | None:
    if all(part.keys_HKD.shape[1] == width and bool(part.valid_HK.all()) for part in parts):
        return None
    valid = torch.zeros(
        len(parts), parts[0].keys_HKD.shape[0], width, dtype=torch.bool, device=parts[0].valid_HK.device
    )
    for row, part in enumerate(parts):
        valid[row, :, width - part.keys_HKD.shape[1] :] = part.valid_HK
    return valid
