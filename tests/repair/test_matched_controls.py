"""SUR's scores without units, its units without scores, and its units with another relevance."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import pytest
import torch
from rank_bm25 import BM25Okapi

from kvrelay.core.errors import ConfigError
from kvrelay.repair.bm25_units import BM25Units, idf_of, rarest_word, words
from kvrelay.repair.edit_local import EditLocal
from kvrelay.repair.epic import Epic
from kvrelay.repair.random_units import RandomUnits
from kvrelay.repair.sur import SUR
from kvrelay.repair.token import TokenTop
from kvrelay.repair.units import segment
from kvrelay.repair.window import BestWindow, best_window

TEXT = (
    "The boat lay in the harbour.\nA captain came; his boat was old. Nobody saw the captain again. Rain fell on us.\n"
)
QUESTION = "Who was the captain of my boat?"


def test_token_takes_the_best_tokens_and_counts_its_ties(
    make_context, make_question, fake_probe, best, offsets
) -> None:
    context, question = make_context(TEXT), make_question(QUESTION)
    probe = fake_probe(context, question)
    score = SUR().token_scores(context, question, probe).score_S.tolist()
    assert score.count(1.0) == 4, "boat twice, captain twice"
    for budget in range(1, context.n_suffix):
        found = TokenTop().allocate(context, question, budget, probe)
        chosen = offsets(found, context)
        assert chosen == best(score, budget)
        border = min(score[position] for position in chosen)
        assert found.notes["boundary_ties"] == score.count(border)
        assert found.notes["boundary_admitted"] == sum(score[position] == border for position in chosen)
    assert TokenTop().allocate(context, question, 3, probe).notes == {
        "degenerate_query": False,
        "boundary_ties": 4,
        "boundary_admitted": 3,
    }


def test_token_takes_template_tokens_last(make_context, make_question, fake_probe, offsets) -> None:
    context = make_context([" boat", "<|end|>", " sea"], special=[True, True, False])
    question = make_question("boat")
    probe = fake_probe(context, question)
    assert offsets(TokenTop().allocate(context, question, 1, probe), context) == [2]
    assert offsets(TokenTop().allocate(context, question, 2, probe), context) == [0, 2]


def test_window_against_all_windows_in_exact_arithmetic() -> None:
    generator = torch.Generator().manual_seed(0)
    for trial in range(60):
        scores = torch.rand(23, generator=generator) * 2 - 1
        if trial % 2:
            scores = torch.randint(0, 3, (23,), generator=generator) / 8  # many ties
        exact = [Fraction(value) for value in scores.tolist()]
        for width in (1, 2, 7, 22, 23):
            sums = [sum(exact[start : start + width]) for start in range(23 - width + 1)]
            assert best_window(scores, width) == sums.index(max(sums))


def test_equal_windows_tie_although_prefix_sums_round() -> None:
    scores = torch.tensor([0.9, 1e-7, 0.3, -2e-6] * 1000)
    prefix = torch.cat([torch.zeros(1).double(), scores.double().cumsum(0)])
    assert (prefix[4:] - prefix[:-4]).argmax() > 0, "all windows of four are equal, their differences are not"
    assert best_window(scores, 4) == 0


def test_window_is_one_run_and_template_tokens_add_nothing(make_context, make_question, fake_probe, offsets) -> None:
    pieces = [" sea", " boat", " boat", " fog", " boat"]
    context = make_context(pieces, special=[False, True, True, False, False])
    question = make_question("boat")
    rows = {context.suffix_ids[0]: (0.0, 1.0), context.suffix_ids[1]: (1.0, 0.0), context.suffix_ids[3]: (-0.1, 1.0)}
    probe = fake_probe(context, question, rows)
    assert offsets(BestWindow().allocate(context, question, 1, probe), context) == [4]
    assert offsets(BestWindow().allocate(context, question, 2, probe), context) == [3, 4]


def test_a_question_without_content_gives_the_first_window_and_tokens(make_context, make_question, fake_probe) -> None:
    context, question = make_context(TEXT), make_question("Who is it?")
    probe = fake_probe(context, question)
    first = EditLocal().allocate(context, question, 7, probe).slots
    for control in (TokenTop(), BestWindow()):
        found = control.allocate(context, question, 7, probe)
        assert found.slots == first and found.notes["degenerate_query"] is True


def test_random_units_are_whole_and_drawn_by_the_case(make_context, make_question, fake_probe, offsets) -> None:
    text = "".join(f"Line {number} of many words here.\n" for number in range(12))
    question = make_question(QUESTION)
    chosen = {}
    for case_id in ("a", "b", "c"):
        context = make_context(text, case_id=case_id)
        units = segment(context.suffix_pieces, context.suffix_special)
        width = units[0][1]
        assert {end - start for start, end in units} == {width}
        probe = fake_probe(context, question)
        found = offsets(RandomUnits().allocate(context, question, 2 * width + 3, probe), context)
        taken = Counter(position // width for position in found)
        assert sorted(taken.values()) == [3, width, width]
        cut = next(unit for unit, count in taken.items() if count == 3)
        assert [position for position in found if position // width == cut] == [cut * width + i for i in range(3)]
        chosen[case_id] = found
        assert found == offsets(RandomUnits().allocate(context, question, 2 * width + 3, probe), context)
        assert found != offsets(RandomUnits(seed=1).allocate(context, question, 2 * width + 3, probe), context)
    assert len(set(map(tuple, chosen.values()))) == 3
    with pytest.raises(ConfigError, match=r"random_units\.seed"):
        RandomUnits(seed=-1)


def test_random_units_are_uniform(make_context, make_question, fake_probe) -> None:
    """Each of 4 units is first in about a quarter of 400 cases: within 4 standard deviations (35) of 100."""
    firsts: Counter[int] = Counter()
    question = make_question(QUESTION)
    for number in range(400):
        context = make_context("One.\nTwo.\nSix.\nTen.\n", case_id=f"case {number}")
        firsts[RandomUnits().allocate(context, question, 1, fake_probe(context, question)).slots[0]] += 1
    assert len(firsts) == 4 and all(abs(count - 100) <= 35 for count in firsts.values())


def test_bm25_scores_are_okapi_with_an_idf_that_is_never_negative() -> None:
    documents = [words(text) for text in ("a boat, a boat", "the BOAT sank", "rain", "", "the captain of the boat")]
    asked = words("The boat of captain, boat?")
    idf = idf_of(documents)
    assert idf == pytest.approx(
        {
            w: math.log(1 + (5 - n + 0.5) / (n + 0.5))
            for w, n in Counter(word for document in documents for word in set(document)).items()
        }
    )
    assert idf["boat"] > 0, "in three of five units: rank_bm25's own idf is negative"
    okapi = BM25Okapi(documents, k1=1.5, b=0.75)
    okapi.idf = idf
    expected = okapi.get_scores(asked)
    assert BM25Units().unit_scores(documents, asked, idf) == pytest.approx(expected.tolist(), rel=1e-12)
    assert BM25Units().unit_scores([[], []], asked, {}) == [0, 0]


@pytest.mark.parametrize(("field", "value"), [("k1", 0.0), ("k1", math.nan), ("b", 1.5), ("b", True)])
def test_wrong_bm25_settings_name_their_key(field: str, value: float) -> None:
    with pytest.raises(ConfigError, match=rf"bm25_units\.{field}"):
        BM25Units(**{field: value})


def test_bm25_ranks_whole_units_and_cuts_at_the_rarest_word(make_context, make_question, fake_probe, offsets) -> None:
    context = make_context("The boat lay in the harbour.\nOld boat and an old captain here.\nRain fell on the boat.\n")
    question = make_question("Which boat had the captain?")
    probe = fake_probe(context, question)
    # the second line holds "captain", which no other has; its seventh token is that word, two before the end
    assert offsets(BM25Units().allocate(context, question, 2, probe), context) == [13, 14]
    assert offsets(BM25Units().allocate(context, question, 9, probe), context) == [*range(8, 17)]
    # the first line has "the" twice (0.67 + 0.13 against 0.51 + 0.14), which is rarer than "boat"; it begins with it
    assert offsets(BM25Units().allocate(context, question, 10, probe), context) == [0, *range(8, 17)]
    assert BM25Units().allocate(context, question, 2, probe).notes == {"units": 3, "matched_units": 3}
    none = make_question("xyz?")
    assert offsets(BM25Units().allocate(context, none, 5, fake_probe(context, none)), context) == [0, 1, 2, 3, 4]


def test_rarest_word_is_the_token_at_which_it_begins() -> None:
    pieces = ["The", " har", "bour", " boat", ",", " harbour", " İx", " sea"]
    assert rarest_word((0, 8), pieces, {"harbour": 2.0, "boat": 1.0}) == 1
    assert rarest_word((3, 8), pieces, {"harbour": 2.0, "boat": 1.0}) == 5
    assert rarest_word((2, 5), pieces, {"harbour": 2.0, "boat": 1.0}) == 3
    assert rarest_word((6, 8), pieces, {"sea": 1.0}) == 7  # a letter whose lower case is longer moves nothing
    assert rarest_word((6, 8), pieces, {"fog": 1.0}) == 6


def test_edit_local_is_the_window_at_the_splice(make_context, make_question, fake_probe) -> None:
    context, question = make_context(TEXT), make_question(QUESTION)
    assert EditLocal().allocate(context, question, 4, fake_probe(context, question)).slots == (3, 4, 5, 6)


def test_epic_takes_the_heads_of_all_units_first(make_context, make_question, fake_probe, offsets) -> None:
    context = make_context("One two three.\nFour.\nFive six.\n")  # units 0-4, 5-7, 8-11
    question = make_question(QUESTION)
    probe = fake_probe(context, question)
    assert [end for _, end in segment(context.suffix_pieces, context.suffix_special)] == [5, 8, 12]
    expected = [0, 5, 8, 1, 6, 9, 2, 7, 10, 3, 11, 4]
    for budget in range(13):
        assert offsets(Epic().allocate(context, question, budget, probe), context) == sorted(expected[:budget])
