"""BM25 over units: Okapi by hand, whole units by rank, exact budgets, and corpora that break rank_bm25."""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import replace

import pytest
from rank_bm25 import BM25Okapi

from kvrelay.core.history import HistoryText
from kvrelay.selection.bm25 import BM25

TEXTS = ("the cat sat", "A dog sat down.", "the Dog barked at the dog", "fish swim", "birds fly south")


def okapi(corpus: list[list[str]], query: list[str], k1: float, b: float, epsilon: float) -> list[float]:
    """Okapi scores, literally; negative idf becomes epsilon times the mean of all idf."""
    n, mean_length = len(corpus), sum(map(len, corpus)) / len(corpus)
    idf = {}
    for word in {word for doc in corpus for word in doc}:
        holders = sum(word in doc for doc in corpus)
        idf[word] = math.log(n - holders + 0.5) - math.log(holders + 0.5)
    floor = epsilon * math.fsum(idf.values()) / len(idf)
    idf = {word: floor if value < 0 else value for word, value in idf.items()}
    scores = []
    for doc in corpus:
        norm = k1 * (1 - b + b * len(doc) / mean_length)
        scores.append(sum(idf.get(w, 0) * doc.count(w) * (k1 + 1) / (doc.count(w) + norm) for w in query if w in doc))
    return scores


def history_text(spans: list[tuple[int, int]], n_history: int, texts: tuple[str, ...]) -> HistoryText:
    ids = tuple(f"u{index}" for index in range(len(spans)))
    return HistoryText(protected=3, n_history=n_history, unit_ids=ids, unit_spans=tuple(spans), index_texts=texts)


@pytest.fixture
def history(make_history):
    """Five units of four tokens, one template token before each: tokens 0, 5, 10, 15, 20 belong to no unit."""
    spans = [(5 * unit + 1, 5 * unit + 5) for unit in range(5)]
    return make_history(25, text=history_text(spans, 25, TEXTS))


def test_scores_by_hand() -> None:
    # "dog" is in 2 of 5 units (words), once in the second and twice in the third; lengths 3 4 6 2 3, mean 3.6
    idf = math.log(3.5) - math.log(2.5)
    second = idf * 2.5 / (1 + 1.5 * (0.25 + 0.75 * 4 / 3.6))
    third = idf * 2 * 2.5 / (2 + 1.5 * (0.25 + 0.75 * 6 / 3.6))
    assert BM25().unit_scores(TEXTS, "Dog?") == pytest.approx([0, second, third, 0, 0], rel=1e-12)


@pytest.mark.parametrize("tokens", ["words", "split"])
@pytest.mark.parametrize(("k1", "b", "epsilon"), [(1.5, 0.75, 0.25), (0.9, 0.4, 0.0), (2.0, 1.0, 1.0), (1.2, 0.0, 0.5)])
def test_scores_equal_the_formula_and_rank_bm25(tokens, k1, b, epsilon) -> None:
    question = "the dog sat the Dog"
    words = {
        "words": [["the", "cat", "sat"], ["a", "dog", "sat", "down"], ["the", "dog", "barked", "at", "the", "dog"]],
        "split": [["the", "cat", "sat"], ["A", "dog", "sat", "down."], ["the", "Dog", "barked", "at", "the", "dog"]],
    }[tokens] + [["fish", "swim"], ["birds", "fly", "south"]]
    asked = question.lower().split() if tokens == "words" else question.split()
    scores = BM25(tokens=tokens, k1=k1, b=b, epsilon=epsilon).unit_scores(TEXTS, question)
    assert scores == pytest.approx(okapi(words, asked, k1, b, epsilon), rel=1e-12, abs=1e-12)
    assert scores == BM25Okapi(words, k1=k1, b=b, epsilon=epsilon).get_scores(asked).tolist()


def test_split_keeps_case_and_punctuation() -> None:
    assert BM25(tokens="split").unit_scores(TEXTS, "dog?") == [0.0] * 5
    assert BM25(tokens="split").unit_scores(TEXTS, "Dog")[1] == 0.0
    assert BM25(tokens="split").unit_scores(TEXTS, "Dog")[2] > 0


def test_a_word_of_every_unit() -> None:
    # two units: idf(common) = ln .5 - ln 2.5, the other four words 0; the mean is negative, so rank_bm25 punishes
    texts = ("common one two", "common three four")
    negative = 0.25 * (math.log(0.5) - math.log(2.5)) / 5
    assert BM25().unit_scores(texts, "common") == pytest.approx([negative, negative])
    assert BM25(negative_idf="floor_zero").unit_scores(texts, "common") == [0.0, 0.0]
    positive_mean = ("common a b", "common c d", "common e f", "g h i")
    floored, plain = (
        BM25(negative_idf=rule).unit_scores(positive_mean, "common e") for rule in ("floor_zero", "okapi")
    )
    assert floored == plain and plain[0] > 0


@pytest.mark.parametrize("texts", [(), ("",), ("", "", ""), ("?!", "...")])
def test_units_without_words_score_zero(texts) -> None:
    # rank_bm25 divides by zero here
    assert BM25().unit_scores(texts, "dog") == [0.0] * len(texts)


@pytest.mark.parametrize("b", [0.75, 1.0])
@pytest.mark.parametrize("question", ["dog", "", "zebra"])
def test_some_empty_units(b, question) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = BM25(b=b).unit_scores(("", "a dog", "", "fish", "birds"), question)
    assert [score > 0 for score in scores] == [False, question == "dog", False, False, False]
    assert all(math.isfinite(score) for score in scores)


def test_whole_units_by_rank_then_a_cut_one(history, question, kept_tokens) -> None:
    asked = replace(question, text="dog barked")
    unit1, unit2 = [6, 7, 8, 9], [11, 12, 13, 14]
    expected = {
        1: [11], 3: [11, 12, 13], 4: unit2, 5: [6, *unit2], 8: unit1 + unit2, 10: [1, 2, *unit1, *unit2],
        20: [t for t in range(25) if t % 5], 22: [t for t in range(25) if t % 5 or t < 10], 25: list(range(25)),
    }  # fmt: skip
    for budget, kept in expected.items():
        selection = BM25().select(history, asked, budget)
        assert kept_tokens(selection) == [[kept] * 2] * 2, budget
        assert selection.layers[0] is selection.layers[1]
    assert BM25().select(history, asked, 5).notes == {"units": ["u2", "u1"]}


def test_the_selection_follows_the_question(history, question, kept_tokens) -> None:
    assert BM25().question_aware and BM25().needs == frozenset()
    kept = {text: kept_tokens(BM25().select(history, replace(question, text=text), 4)) for text in ("fish", "cat")}
    assert kept["fish"][0][0] == [16, 17, 18, 19] and kept["cat"][0][0] == [1, 2, 3, 4]


def test_units_that_share_no_word(history, question, kept_tokens) -> None:
    asked = replace(question, text="fish")
    early, late = (
        kept_tokens(BM25(zero_units=order).select(history, asked, 6))[0][0] for order in ("chronological", "recent")
    )
    assert early == [1, 2, 16, 17, 18, 19] and late == [16, 17, 18, 19, 21, 22]


def test_ties_go_to_the_earlier_unit_whatever_the_order_of_zero_units(question) -> None:
    texts = ("cat", "dog", "fish", "dog", "bird")
    for order, rest in [("chronological", [0, 2, 4]), ("recent", [4, 2, 0])]:
        selector = BM25(zero_units=order)
        assert selector.ranking(selector.unit_scores(texts, "dog")) == [1, 3, *rest]


def test_negative_scores_rank_below_zero() -> None:
    assert BM25().ranking([-0.1, 0.0, 0.2, 0.0]) == [2, 1, 3, 0]


def test_scores_stand_beside_their_tokens(history, question) -> None:
    asked = replace(question, text="dog")
    layer = BM25().select(history, asked, 25).layers[0]
    scores = BM25().unit_scores(TEXTS, "dog")
    for token, score in enumerate(layer.score_HK[0, 3:].tolist()):
        if token % 5 == 0:
            assert math.isnan(score)
        else:
            assert score == pytest.approx(scores[token // 5], rel=2**-23)


def test_a_history_without_units_or_words(make_history, question, kept_tokens) -> None:
    for text in (history_text([], 9, ()), history_text([(2, 5), (5, 5), (6, 9)], 9, ("", "", ""))):
        kept = kept_tokens(BM25().select(make_history(9, text=text), question, 3))
        assert kept == [[[0, 1, 2] if not text.unit_ids else [2, 3, 4]] * 2] * 2


def test_real_sessions(samples, make_history, question) -> None:
    record = json.loads((samples / "longmemeval" / "longmemeval_s_1record.json").read_text(encoding="utf-8"))
    record = record[0] if isinstance(record, list) else record
    texts = tuple(" ".join(turn["content"] for turn in session) for session in record["haystack_sessions"])
    scores = BM25().unit_scores(texts, record["question"])
    gold = [record["haystack_session_ids"].index(session) for session in record["answer_session_ids"]]
    assert BM25().ranking(scores).index(gold[0]) < 3
