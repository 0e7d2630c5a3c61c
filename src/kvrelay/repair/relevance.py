"""How relevant each suffix token is to the question, by frozen input embeddings alone (SUR, sections 3.2 and A.3).

u_i = E[t_i] / ||E[t_i]||, w_q likewise; s_i = max_q <u_i, w_q>. No forward pass, nothing learned, and a function of the
token's identity only: every occurrence of a token has the same score, so ties are the rule.
Shape letters: S suffix token, V different token of the suffix, Q term of the question, D hidden width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from kvrelay.core import checks
from kvrelay.core.history import Question
from kvrelay.core.repair import EditedContext, Probe
from kvrelay.repair.question_terms import QueryFilter, Term, folded, question_terms

Scorer = Literal["max", "mean", "centroid"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TokenScores:
    """``score_S`` and, to each term, ``similarity_SQ``: float32 on the CPU. ``degenerate``: no term, all scores 0."""

    score_S: Tensor
    similarity_SQ: Tensor
    degenerate: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Relevance:
    """The settings of the score, shared by SUR and by the controls that must have the same one.

    ``query_filter``: the question's content words, or "none": every token of it. ``scorer``: the best term, the mean
    over terms, or the cosine to the mean of the terms' unit vectors. ``idf_weight`` multiplies by
    1 / ln(2 + count of the token in the suffix). ``match_variants``: a token that is a whole content word of the
    question in another spelling ("Rome", " rome") has similarity 1 to it, as the same token has.
    """

    query_filter: QueryFilter = "content"
    scorer: Scorer = "max"
    idf_weight: bool = False
    match_variants: bool = True

    def __post_init__(self) -> None:
        checks.one_of("allocator.*.query_filter", self.query_filter, get_args(QueryFilter))
        checks.one_of("allocator.*.scorer", self.scorer, get_args(Scorer))

    def token_scores(self, context: EditedContext, question: Question, probe: Probe) -> TokenScores:
        """Scores of all S suffix tokens. Each different token is scored once, then gathered.

        Cosines are summed in float64 and rounded to float32 once: the same token's cosine is then exactly 1 on every
        device, where float32 sums would rank equal words by their rounding.
        """
        terms = question_terms(question, self.query_filter)
        if not terms:
            n = context.n_suffix
            return TokenScores(score_S=torch.zeros(n), similarity_SQ=torch.zeros(n, 0), degenerate=True)
        ids_V, index_S, count_V = torch.tensor(context.suffix_ids).unique(return_inverse=True, return_counts=True)
        rows = _unit_rows(probe.embeddings([*ids_V.tolist(), *(term.token_id for term in terms)]))
        types_VD, terms_QD = rows[: len(ids_V)], rows[len(ids_V) :]
        similarity_VQ = (types_VD @ terms_QD.T).cpu()
        if self.match_variants:
            similarity_VQ[_variants(context, ids_V, terms)] = 1.0
        score_V = self._reduced(similarity_VQ, types_VD, terms_QD)
        if self.idf_weight:
            weight_V = 1 / torch.log(2.0 + count_V.double())
            score_V, similarity_VQ = score_V * weight_V, similarity_VQ * weight_V[:, None]
        return TokenScores(
            score_S=score_V.float()[index_S], similarity_SQ=similarity_VQ.float()[index_S], degenerate=False
        )

    def _reduced(self, similarity_VQ: Tensor, types_VD: Tensor, terms_QD: Tensor) -> Tensor:
        if self.scorer == "centroid":
            return (types_VD @ _unit_rows(terms_QD.mean(0, keepdim=True))[0]).cpu()
        return similarity_VQ.amax(1) if self.scorer == "max" else similarity_VQ.mean(1)


def _unit_rows(rows: Tensor) -> Tensor:
    """Rows of length 1 in float64; a row of zeros (a padded vocabulary's) stays zeros."""
    rows = rows.double()
    return rows / rows.norm(dim=-1, keepdim=True).clamp_min(torch.finfo(rows.dtype).tiny)


def _variants(context: EditedContext, ids_V: Tensor, terms: tuple[Term, ...]) -> Tensor:
    """Mask (V, Q): the token is the term's whole word, whatever its spelling."""
    word_of = dict(zip(context.suffix_ids, map(folded, context.suffix_pieces), strict=True))
    words = [term.word for term in terms]
    return torch.tensor([[word_of[token_id] == word for word in words] for token_id in ids_V.tolist()])
