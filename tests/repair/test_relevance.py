"""Token scores against a literal float64 loop, with every option."""

from __future__ import annotations

import math

import pytest
import torch

from kvrelay.repair.relevance import Relevance

TEXT = "The boat lay in the harbour. A captain came; his boat was old.\nNobody saw the captain again."
QUESTION = "Who was the captain of my boat in Genoa?"
ROUNDING = 2.0**-24
"""One rounding to float32 of a number of at most 1; the sums are in float64."""


def literal(context, question, probe, scorer: str, query_filter: str, idf_weight: bool) -> list[float]:
    def unit(row: torch.Tensor) -> list[float]:
        values = row.double().tolist()
        length = math.sqrt(sum(value * value for value in values))
        return [value / length for value in values]

    def dot(one: list[float], other: list[float]) -> float:
        return sum(a * b for a, b in zip(one, other, strict=True))

    wanted = {"captain", "boat", "genoa"}
    pairs = zip(question.text_ids, question.text_pieces, strict=True)
    kept = dict.fromkeys(i for i, piece in pairs if query_filter == "none" or piece.strip().lower() in wanted)
    terms = [unit(probe.table[i]) for i in kept]
    scores = []
    for token_id in context.suffix_ids:
        one = unit(probe.table[token_id])
        cosines = [dot(one, term) for term in terms]
        if scorer == "centroid":
            mean = [sum(column) / len(terms) for column in zip(*terms, strict=True)]
            score = dot(one, mean) / math.sqrt(dot(mean, mean))
        else:
            score = max(cosines) if scorer == "max" else sum(cosines) / len(cosines)
        scores.append(score / (math.log(2 + context.suffix_ids.count(token_id)) if idf_weight else 1))
    return scores


@pytest.mark.parametrize("scorer", ["max", "mean", "centroid"])
@pytest.mark.parametrize("query_filter", ["content", "none"])
@pytest.mark.parametrize("idf_weight", [False, True])
def test_scores(make_context, make_question, fake_probe, scorer: str, query_filter: str, idf_weight: bool) -> None:
    context, question = make_context(TEXT), make_question(QUESTION)
    probe = fake_probe(context, question)
    settings = Relevance(scorer=scorer, query_filter=query_filter, idf_weight=idf_weight, match_variants=False)
    found = settings.token_scores(context, question, probe)
    expected = literal(context, question, probe, scorer, query_filter, idf_weight)
    assert found.score_S.dtype == torch.float32
    torch.testing.assert_close(
        found.score_S.double(), torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1.01 * ROUNDING
    )


def test_every_different_token_is_embedded_once_and_scored_the_same(make_context, make_question, fake_probe) -> None:
    context, question = make_context(TEXT), make_question(QUESTION)
    probe = fake_probe(context, question)
    score = Relevance().token_scores(context, question, probe).score_S.tolist()
    assert len(probe.embedded) == 1 and len(probe.embedded[0]) == len(set(context.suffix_ids)) + 3
    by_token: dict[int, set[float]] = {}
    for token_id, value in zip(context.suffix_ids, score, strict=True):
        by_token.setdefault(token_id, set()).add(value)
    assert all(len(values) == 1 for values in by_token.values())


def test_the_same_token_is_exactly_one(make_context, make_question, fake_probe) -> None:
    """In float32 sums its cosine is 1 but for rounding, which would rank equal words by it."""
    pieces = [f" word{number}" for number in range(200)]
    context, question = make_context(pieces, ids=range(200)), make_question(" ".join(pieces), pieces, range(200))
    probe = fake_probe(context, question)
    rows = probe.table[:200]
    rows = rows / rows.norm(dim=1, keepdim=True)
    assert len(set((rows * rows).sum(1).tolist())) > 1
    found = Relevance(match_variants=False).token_scores(context, question, probe).score_S
    assert found.tolist() == [1.0] * 200
