"""Matched control: SUR's units and admission, ranked by BM25 for the question (SUR, A.4 and C.2)."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from kvrelay.core import checks
from kvrelay.core.edit import Span
from kvrelay.core.history import Question
from kvrelay.core.repair import Allocation, EditedContext, Probe
from kvrelay.repair.admission import admit
from kvrelay.repair.ranking import settled
from kvrelay.repair.units import segment

WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class BM25Units:
    """Refreshes the units with the highest BM25 score for the bare question, ties and units without a match by place.

    Documents are the suffix's units, words are lower-cased runs of letters and digits, and score = sum over the
    question's words of idf f (k1 + 1) / (f + k1 (1 - b + b len / mean len)), idf = ln(1 + (N - n + .5) / (n + .5)).
    This idf is never negative: rank_bm25's is, for words of more than half of the units, and reorders short contexts.
    The window in the unit that does not fit starts at the word of the question with the highest idf.
    """

    k1: float = 1.5
    b: float = 0.75

    def __post_init__(self) -> None:
        checks.number("allocator.bm25_units.k1", self.k1, 0.01, 100.0)
        checks.number("allocator.bm25_units.b", self.b, 0.0, 1.0)

    def allocate(self, context: EditedContext, question: Question, budget: int, probe: Probe) -> Allocation:
        if (done := settled(context, budget)) is not None:
            return done
        units = segment(context.suffix_pieces, context.suffix_special)
        pieces = [
            " " if special else piece
            for piece, special in zip(context.suffix_pieces, context.suffix_special, strict=True)
        ]
        documents = [words("".join(pieces[start:end])) for start, end in units]
        asked = words(question.text)
        idf = idf_of(documents)
        scores = self.unit_scores(documents, asked, idf)
        ranking = sorted(range(len(units)), key=lambda unit: -scores[unit])
        wanted = {word: idf[word] for word in asked if word in idf}
        offsets = admit(units, ranking, budget, lambda unit: rarest_word(unit, pieces, wanted))
        notes = {"units": len(units), "matched_units": sum(score > 0 for score in scores)}
        return Allocation.of_suffix(context, offsets, notes).checked(context, budget)

    def unit_scores(
        self, documents: Sequence[Sequence[str]], asked: Sequence[str], idf: Mapping[str, float]
    ) -> list[float]:
        """One score a document; a word that the question has twice counts twice."""
        mean_length = max(sum(map(len, documents)), 1) / len(documents)
        scores = []
        for document in documents:
            counts = Counter(document)
            damping = self.k1 * (1 - self.b + self.b * len(document) / mean_length)
            scores.append(
                math.fsum(
                    idf[word] * counts[word] * (self.k1 + 1) / (counts[word] + damping)
                    for word in asked
                    if counts[word]
                )
            )
        return scores


def words(text: str) -> list[str]:
    return [word.lower() for word in WORD.findall(text)]


def idf_of(documents: Sequence[Sequence[str]]) -> dict[str, float]:
    """ln(1 + (N - n + .5) / (n + .5)) of every word, n of the N documents holding it."""
    holders = Counter(word for document in documents for word in set(document))
    return {word: math.log(1 + (len(documents) - n + 0.5) / (n + 0.5)) for word, n in holders.items()}


def rarest_word(unit: Span, pieces: Sequence[str], wanted: Mapping[str, float]) -> int:
    """The token at which the unit's first wanted word of the highest idf begins; the unit's first where it has none."""
    ends = list(accumulate(len(piece) for piece in pieces[slice(*unit)]))
    found = [match for match in WORD.finditer("".join(pieces[slice(*unit)])) if match[0].lower() in wanted]
    if not found:
        return unit[0]
    rarest = max(found, key=lambda match: wanted[match[0].lower()])
    return unit[0] + bisect_right(ends, rarest.start())
