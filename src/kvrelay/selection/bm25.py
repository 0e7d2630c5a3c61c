"""BM25 over the history's units (Robertson and Zaragoza, 2009): the states of what a retriever would find, stay."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from rank_bm25 import BM25Okapi
from torch import Tensor

from kvrelay.core import checks
from kvrelay.core.history import HistoryText, Need, PrefilledHistory, Question
from kvrelay.core.selection import Selection, top_states
from kvrelay.selection.scores import no_scores, one_set

Tokens = Literal["words", "split"]
NegativeIdf = Literal["okapi", "floor_zero"]
ZeroUnits = Literal["chronological", "recent"]
KEY = "selector.bm25"


@dataclass(frozen=True, slots=True, kw_only=True)
class BM25:
    """Keeps whole units by their BM25 score for the bare question, the same tokens in every layer and head.

    The unit that no longer fits is cut to its first tokens, so that the budget is met exactly; tokens of no unit
    (template text between units) come last, the earlier first. Ties go to the earlier unit; ``zero_units`` says which
    of the units that share no word with the question come first. Scores are rank_bm25's Okapi: sum over question words
    of idf f (k1 + 1) / (f + k1 (1 - b + b len / mean len)), idf = ln(n - n_w + .5) - ln(n_w + .5).

    A word of more than half of the units has a negative idf. rank_bm25 replaces it by ``epsilon`` times the mean idf,
    negative ones included, and with few units that mean can be negative too: a common word then pushes down the units
    that hold it, below units that hold no word of the question. ``negative_idf="floor_zero"`` lets such words count
    nothing; where the mean idf is positive, both choices are the same.

    ``tokens="words"``: lower-cased runs of letters and digits. ``tokens="split"``: cut at single spaces, case and
    punctuation kept, as in LongMemEval's retriever.
    """

    tokens: Tokens = "words"
    k1: float = 1.5
    b: float = 0.75
    epsilon: float = 0.25
    negative_idf: NegativeIdf = "okapi"
    zero_units: ZeroUnits = "chronological"

    def __post_init__(self) -> None:
        checks.one_of(f"{KEY}.tokens", self.tokens, get_args(Tokens))
        checks.number(f"{KEY}.k1", self.k1, 0.01, 100.0)
        checks.number(f"{KEY}.b", self.b, 0.0, 1.0)
        checks.number(f"{KEY}.epsilon", self.epsilon, 0.0, 1.0)
        checks.one_of(f"{KEY}.negative_idf", self.negative_idf, get_args(NegativeIdf))
        checks.one_of(f"{KEY}.zero_units", self.zero_units, get_args(ZeroUnits))

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset()

    @property
    def question_aware(self) -> bool:
        return True

    def select(self, prefilled: PrefilledHistory, question: Question, budget: int) -> Selection:
        text, budget = prefilled.text, min(budget, prefilled.text.n_history)
        scores = self.unit_scores(text.index_texts, question.text)
        ranking = self.ranking(scores)
        rank_T, score_T = _spread(text, scores, ranking)
        keep_T = top_states(-rank_T[None], budget)[0]
        return Selection(
            layers=one_set(prefilled, keep_T, score_T),
            protected=text.protected,
            budget=budget,
            notes={"units": _kept_units(text, ranking, keep_T)},
        )

    def unit_scores(self, index_texts: Sequence[str], question: str) -> list[float]:
        """One score a unit. No words at all, in the units or in the question, make every score zero."""
        corpus = [self._words(text) for text in index_texts]
        if not any(corpus):
            return [0.0] * len(corpus)
        index = BM25Okapi(corpus, k1=self.k1, b=self.b, epsilon=self.epsilon)
        if self.negative_idf == "floor_zero":
            index.idf = {word: max(idf, 0.0) for word, idf in index.idf.items()}
        with np.errstate(invalid="ignore"):  # b = 1 makes 0 / 0 of a unit without words, which scores zero
            scores = index.get_scores(self._words(question))
        return [float(score) for score in np.nan_to_num(scores)]

    def ranking(self, scores: Sequence[float]) -> list[int]:
        """Units, best first."""
        sign = -1 if self.zero_units == "recent" else 1
        return sorted(range(len(scores)), key=lambda unit: (-scores[unit], sign * unit if scores[unit] == 0 else unit))

    def _words(self, text: str) -> list[str]:
        if self.tokens == "words":
            return re.findall(r"\w+", text.lower())
        return text.split(" ") if text else []


def _spread(text: HistoryText, scores: Sequence[float], ranking: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Each token's rank (float64, its unit's; last for tokens of no unit) and score (float32, NaN for those)."""
    rank_T = torch.full((text.n_history,), len(ranking), dtype=torch.float64)
    score_T = no_scores(text.n_history)
    for rank, unit in enumerate(ranking):
        start, end = text.unit_spans[unit]
        rank_T[start:end] = rank
        score_T[start:end] = scores[unit]
    return rank_T, score_T


def _kept_units(text: HistoryText, ranking: Sequence[int], keep_T: Tensor) -> list[str]:
    """Ids of the units that kept a token, best first: a wrong answer can be traced to what was not retrieved."""
    return [text.unit_ids[unit] for unit in ranking if bool(keep_T[slice(*text.unit_spans[unit])].any())]
