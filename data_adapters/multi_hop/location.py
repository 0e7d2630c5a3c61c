"""Where the evidence stands when something is deleted (SUR, appendix D; the details are our reading).

A context is: the other supporting passages, slot A, the passage that is deleted, slot B, a tail. One supporting passage
stands in slot A (the prefix, whose states stay exact) or in slot B (the suffix, whose states are stale); the other slot
holds a partner of the same number of tokens. So the edit, the length of the suffix and all other passages are the same
for both sides. The exchange also changes order and recency. The tail is short or long, the same for both sides; a
longer one also brings filler, more stale states and a longer way from the evidence to the question.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal

from data_adapters.multi_hop.adapter import MultiHop
from data_adapters.multi_hop.lengths import fitted, tokens_of
from data_adapters.multi_hop.passages import PREAMBLE, Passage, SourceQuestion, answer_teller, passage_unit, same_title
from data_adapters.multi_hop.placements import CHOICES, NOTHING_SUPPORTS, Choice, deletable, ordered
from data_adapters.subset import rank, require_choice, require_positive
from kvrelay.core.errors import ConfigError, DataError
from kvrelay.core.example import CountTokens, Example, Unit

Side = Literal["prefix", "suffix"]
SIDES: tuple[Side, ...] = ("prefix", "suffix")
DatasetName = Literal["hotpotqa", "twowikimultihopqa", "musique", "iirc"]
DATASETS: tuple[DatasetName, ...] = ("hotpotqa", "twowikimultihopqa", "musique", "iirc")

TOO_FEW_SPARE = "fewer than two passages to delete and to exchange"
NO_PARTNER = "no partner of the evidence's length"
NO_FILLER = "too little filler"

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """The passages of one question's contexts. ``evidence`` and ``partner`` have the same number of tokens."""

    question: SourceQuestion
    head: tuple[Unit, ...]
    evidence: Unit
    partner: Unit
    deleted: Unit
    tail: tuple[Unit, ...]
    notes: dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceLocation:
    """Four contexts a question: two sides of the evidence, two tails of ``short_tail`` and ``long_tail`` passages.

    The evidence is the last supporting passage that contains the answer, else the last one; it keeps its text, and
    the partner is cut or prolonged to its tokens. Tails are the question's own spare passages, then those of the
    questions after it. ``limit`` counts source questions. ``source`` names the data set; ``path`` and what else there
    is to say about its files are its adapter's fields.
    """

    source: DatasetName
    path: str | None = None
    revision: str | None = None
    aliases_path: str | None = None
    articles_path: str | None = None
    limit: int | None = None
    shuffle_seed: int | None = None
    seed: int = 0
    deletion: Choice = "seeded"
    short_tail: int = 0
    long_tail: int = 3

    def __post_init__(self) -> None:
        require_choice(f"{self.key}.source", self.source, DATASETS)
        require_choice(f"{self.key}.deletion", self.deletion, CHOICES)
        require_positive(f"{self.key}.limit", self.limit)
        if not 0 <= self.short_tail < self.long_tail:
            raise ConfigError(
                f"{self.key}.short_tail={self.short_tail} and long_tail={self.long_tail}: wanted 0 <= short < long"
            )

    @property
    def key(self) -> str:
        return f"dataset.location_{self.source}"

    def examples(self, count_tokens: CountTokens) -> Iterator[Example]:
        """Yield the four contexts of each question, next to each other. Raises `DataError` where there is none."""
        questions = [question for question in self.adapter().checked() if question.supporting]
        left_out: Counter[str] = Counter()
        made: dict[int, _Parts] = {}
        for index in self._order(questions):
            if len(made) == self.limit:
                break
            parts = self._parts(questions[index], _foreign(questions, index), count_tokens)
            if isinstance(parts, str):
                left_out[parts] += 1
            else:
                made[index] = parts
        reasons = ", ".join(f"{count} with {reason}" for reason, count in sorted(left_out.items()))
        if not made:
            raise DataError(f"{self.key}: no question has its four contexts: {reasons or NOTHING_SUPPORTS}")
        _LOG.info("%s: %d of %d questions; left out: %s", self.key, len(made), len(questions), reasons or "none")
        for _, parts in sorted(made.items()):
            yield from self._placed(parts)

    def _order(self, questions: Sequence[SourceQuestion]) -> list[int]:
        """In which order questions are tried until ``limit`` are there: that of the file, or one drawn by the seed."""
        order = list(range(len(questions)))
        seed = self.shuffle_seed
        return order if seed is None else sorted(order, key=lambda index: rank(seed, questions[index].id))

    def fingerprint(self) -> str:
        """The data set's own."""
        return self.adapter().fingerprint()

    def adapter(self) -> MultiHop:
        """The data set's adapter; imported late, so that one broken adapter breaks one column."""
        if self.source == "hotpotqa":
            from data_adapters.multi_hop.hotpotqa import HotpotQA

            return HotpotQA(path=self.path, revision=self.revision)
        if self.source == "twowikimultihopqa":
            from data_adapters.multi_hop.twowikimultihopqa import TwoWikiMultiHopQA

            return TwoWikiMultiHopQA(path=self.path, revision=self.revision, aliases_path=self.aliases_path)
        if self.source == "musique":
            from data_adapters.multi_hop.musique import MuSiQue

            return MuSiQue(path=self.path, revision=self.revision)
        from data_adapters.multi_hop.iirc import IIRC

        return IIRC(path=self.path, revision=self.revision, articles_path=self.articles_path)

    def _parts(self, question: SourceQuestion, foreign: Iterator[Passage], count_tokens: CountTokens) -> _Parts | str:
        """What the contexts of a question are made of, or why they cannot be made."""
        spare = ordered(question, deletable(question), self.seed, self.deletion)
        if len(spare) < 2:
            return TOO_FEW_SPARE
        deleted, *others = spare
        evidence = _evidence(question)
        size = tokens_of(question.passages[evidence], count_tokens)
        found = _partner(question, others, size, foreign, count_tokens)
        if found is None:
            return NO_PARTNER
        partner, partner_unit, notes = found
        own = [question.unit(index) for index in others if index != partner]
        borrowed = [passage_unit(f"{question.id}+{i}", p) for i, p in enumerate(islice(foreign, self._lacks(own)))]
        tail = (*own, *borrowed)[: self.long_tail]
        if len(tail) < self.long_tail:
            return NO_FILLER
        return _Parts(
            question=question,
            head=tuple(question.unit(index) for index in question.supporting if index != evidence),
            evidence=question.unit(evidence),
            partner=partner_unit,
            deleted=question.unit(deleted),
            tail=tail,
            notes={**question.notes, **notes, "slot_tokens": size, "borrowed_filler": len(borrowed)},
        )

    def _lacks(self, own: Sequence[Unit]) -> int:
        return max(0, self.long_tail - len(own))

    def _placed(self, parts: _Parts) -> Iterator[Example]:
        """Sides within tails, so that the arms of a side contrast stand next to each other."""
        question = parts.question
        for tail, length in (("short", self.short_tail), ("long", self.long_tail)):
            for side in SIDES:
                slots = (parts.evidence, parts.partner) if side == "prefix" else (parts.partner, parts.evidence)
                yield Example(
                    id=f"{question.id}:{side}-{tail}",
                    cluster_id=question.cluster_id,
                    units=(*parts.head, slots[0], parts.deleted, slots[1], *parts.tail[:length]),
                    question=question.question,
                    question_prompt=question.prompt,
                    references=question.references,
                    question_type=f"{side}-{tail}",
                    preamble=PREAMBLE,
                    unanswerable=question.unanswerable,
                    deleted=(parts.deleted.id,),
                    slot=slots[1].id,
                    notes={**parts.notes, "side": side, "tail": tail, "source_type": question.type},
                )


def _evidence(question: SourceQuestion) -> int:
    """The index of the supporting passage that changes sides."""
    tells = answer_teller(question.references)
    telling = [index for index in question.supporting if tells(question.passages[index])]
    return (telling or question.supporting)[-1]


def _partner(
    question: SourceQuestion,
    others: Sequence[int],
    size: int,
    foreign: Iterator[Passage],
    count_tokens: CountTokens,
) -> tuple[int, Unit, dict[str, object]] | None:
    """The index and the unit of a spare passage in ``size`` tokens: one that can be cut, else one to be prolonged."""
    lengths = {index: tokens_of(question.passages[index], count_tokens) for index in others}
    shorter = sorted((index for index in others if lengths[index] < size), key=lambda index: -lengths[index])
    for index in [*(index for index in others if lengths[index] >= size), *shorter]:
        passage = fitted(_prolonged(question.passages[index], foreign, size, count_tokens), size, count_tokens)
        if passage is not None:
            notes: dict[str, object] = {"partner_tokens_before": lengths[index]}
            return index, passage_unit(f"{question.id}#{index}", passage), notes
    return None


def _prolonged(passage: Passage, foreign: Iterator[Passage], size: int, count_tokens: CountTokens) -> Passage:
    """A passage of at least ``size`` tokens, as far as the other questions have text to add."""
    while tokens_of(passage, count_tokens) < size and (more := next(foreign, None)) is not None:
        passage = replace(passage, text=f"{passage.text} {more.text}")
    return passage


def _foreign(questions: Sequence[SourceQuestion], index: int) -> Iterator[Passage]:
    """Passages of the questions after one that say nothing about it, each title once."""
    own = questions[index]
    tells = answer_teller(own.references)
    taken = [passage.title for passage in own.passages]
    for step in range(1, len(questions)):
        for passage in questions[(index + step) % len(questions)].passages:
            if passage.supporting or tells(passage) or any(same_title(passage.title, title) for title in taken):
                continue
            taken.append(passage.title)
            yield passage
