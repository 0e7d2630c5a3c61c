"""One deleted passage at three places of one context (SUR, section 4.3 and A.5; the details are our reading).

The other passages stand in one fixed order, so that the context is the same after the deletion wherever the passage
stood: an answer without it is computed once a question, and its three placements are compared with that one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from data_adapters.multi_hop.passages import PREAMBLE, Passage, SourceQuestion, answer_teller, same_title
from data_adapters.subset import rank
from kvrelay.core.example import Example

Placement = Literal["front", "middle", "late"]
PLACEMENTS: tuple[Placement, ...] = ("front", "middle", "late")

Choice = Literal["seeded", "similar"]
CHOICES: tuple[Choice, ...] = ("seeded", "similar")

LEAST_KEPT = 3
"""Fewer other passages have no three different places with a passage after each."""
LATE_DEPTH = 0.8
"""Where ``late`` is when the last supporting passage stands in the first half of the context."""

NOTHING_SUPPORTS = "no supporting passage"
NOTHING_TO_DELETE = "no passage that can be deleted"
TOO_FEW = f"fewer than {LEAST_KEPT + 1} passages"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """A question, the index of the passage that is deleted, and those of the others in their order."""

    question: SourceQuestion
    deleted: int
    kept: tuple[int, ...]

    @property
    def depths(self) -> dict[Placement, int]:
        """Before how many of the others the passage stands; strictly ascending, and never behind the last one.

        ``late`` is right before the last supporting passage, so that its states are stale; where that is no later
        than ``middle``, it is at 80 % of the passages.
        """
        n = len(self.kept)
        last = max(place for place, index in enumerate(self.kept) if self.question.passages[index].supporting)
        middle = n // 2
        return {"front": 0, "middle": middle, "late": last if last > middle else int(LATE_DEPTH * n)}


def plan_deletion(
    question: SourceQuestion, seed: int, choice: Choice = "seeded", max_passages: int | None = None
) -> Deletion | str:
    """What is deleted from a question's context, or why the question cannot be asked.

    Deleted is a passage that does not support the answer, does not contain it and shares no title with one that does:
    the one that comes first in an order drawn from seed and id (``seeded``), or the one with most of the question's
    rarer words (``similar``: the likeliest to mislead). With ``max_passages`` the last of the others are left out, but
    never a supporting one.
    """
    if not question.supporting:
        return NOTHING_SUPPORTS
    candidates = deletable(question)
    if not candidates:
        return NOTHING_TO_DELETE
    deleted = ordered(question, candidates, seed, choice)[0]
    kept = _kept(question, deleted, max_passages)
    return Deletion(question=question, deleted=deleted, kept=kept) if len(kept) >= LEAST_KEPT else TOO_FEW


def deletable(question: SourceQuestion) -> list[int]:
    """Passages without which the answer and its support are all there."""
    tells = answer_teller(question.references)
    titles = [question.passages[index].title for index in question.supporting]

    def spare(passage: Passage) -> bool:
        return not (passage.supporting or any(same_title(passage.title, title) for title in titles) or tells(passage))

    return [index for index, passage in enumerate(question.passages) if spare(passage)]


def ordered(question: SourceQuestion, candidates: list[int], seed: int, choice: Choice) -> list[int]:
    """Candidates, the first choice first; ties and everything seeded by a hash of seed, question and place."""
    shared = _similarity(question) if choice == "similar" else [0.0] * len(question.passages)
    return sorted(candidates, key=lambda index: (-shared[index], rank(seed, f"{question.id}\n{index}")))


def place(plan: Deletion, preamble: str = PREAMBLE, prompt: str | None = None) -> Iterator[Example]:
    """The three examples of a question, next to each other, with the same units in three orders."""
    question = plan.question
    units = [question.unit(index) for index in plan.kept]
    deleted = question.unit(plan.deleted)
    for placement, depth in plan.depths.items():
        yield Example(
            id=f"{question.id}:{placement}",
            cluster_id=question.cluster_id,
            units=(*units[:depth], deleted, *units[depth:]),
            question=question.question,
            question_prompt=question.prompt if prompt is None else prompt.replace("{question}", question.question),
            references=question.references,
            question_type=question.type,
            preamble=preamble,
            unanswerable=question.unanswerable,
            deleted=(deleted.id,),
            notes={
                **question.notes,
                "placement": placement,
                "depth": depth,
                "passages": len(units) + 1,
                "deleted_title": question.passages[plan.deleted].title,
            },
        )


def _kept(question: SourceQuestion, deleted: int, max_passages: int | None) -> tuple[int, ...]:
    """All but the deleted one; the last that do not support are dropped until ``max_passages`` stay, it included."""
    kept = [index for index in range(len(question.passages)) if index != deleted]
    others = [index for index in kept if not question.passages[index].supporting]
    surplus = 0 if max_passages is None else min(max(0, len(kept) + 1 - max_passages), len(others))
    dropped = set(others[len(others) - surplus :])
    return tuple(index for index in kept if index not in dropped)


def _similarity(question: SourceQuestion) -> list[float]:
    """Of each passage, the sum over the words that it shares with the question of 1 / (passages with the word)."""
    asked = _vocabulary(question.question)
    said = [asked & _vocabulary(f"{passage.title} {passage.text}") for passage in question.passages]
    among = Counter(word for words in said for word in words)
    return [sum(1 / among[word] for word in sorted(words)) for words in said]


def _vocabulary(text: str) -> set[str]:
    """Its longer words, folded: short ones tell passages not apart."""
    return set(re.findall(r"\w{4,}", text.casefold()))
