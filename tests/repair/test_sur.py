"""SUR: the worked example from embeddings to slots, and every edge case with its right value."""

from __future__ import annotations

import math

import pytest
import torch

from kvrelay.core.errors import ConfigError, EditError
from kvrelay.repair.edit_local import EditLocal
from kvrelay.repair.sur import SUR

LINES = (4, 1, 7, 8)
SCORES = [0.1, 0.2, 0.1, 0, 0.9, 0.3, 0.3, 0.8, 0.1, 0.1, 0.1, 0.1, 0.7, 0, 0, 0, 0, 0, 0, 0.6]
WORKED = {1: [4], 2: [4, 7], 3: [4, 7, 8], 5: [4, 7, 8, 9, 10], 8: [*range(4, 12)], 9: [*range(4, 13)]} | {
    12: [*range(4, 16)],
    20: [*range(20)],
}
QUESTION_ID = 900


def at_angle(cosine: float) -> tuple[float, float]:
    """A vector of any length whose cosine to the question's is this."""
    return 3 * cosine, 3 * math.sqrt(1 - cosine * cosine)


@pytest.fixture
def scored(make_context, make_question, fake_probe):
    """A context of lines whose tokens have these cosines to a question of one word, with its probe."""

    def make(lines, scores, special=None):
        pieces = [f" w{line}" if place else f"w{line}" for line, width in enumerate(lines) for place in range(width)]
        ends = {sum(lines[: index + 1]) - 1 for index in range(len(lines))}
        pieces = [f"{piece}.\n" if index in ends else piece for index, piece in enumerate(pieces)]
        context = make_context(pieces, ids=range(len(pieces)), special=special)
        question = make_question("boat", ids=[QUESTION_ID])
        rows = {index: at_angle(score) for index, score in enumerate(scores)} | {QUESTION_ID: (2.0, 0.0)}
        return context, question, fake_probe(context, question, rows)

    return make


@pytest.mark.parametrize("budget", WORKED)
def test_worked_example(scored, offsets, budget: int) -> None:
    context, question, probe = scored(LINES, SCORES)
    assert offsets(SUR().allocate(context, question, budget, probe), context) == WORKED[budget]


def test_no_budget_and_no_suffix_give_nothing(scored, make_context, make_question, fake_probe) -> None:
    context, question, probe = scored(LINES, SCORES)
    assert SUR().allocate(context, question, 0, probe).slots == ()
    empty = make_context("")
    assert SUR().allocate(empty, question, 0, fake_probe(empty, question)).slots == ()
    with pytest.raises(EditError, match="exactly 21"):
        SUR().allocate(context, question, 21, probe)


def test_one_unit_without_a_border_gets_a_window_at_its_peak(make_context, make_question, fake_probe, offsets) -> None:
    context = make_context([" a"] * 12, ids=range(12))
    question = make_question("boat", ids=[QUESTION_ID])
    rows = {i: at_angle(0.9 if i in (5, 8) else 0.1) for i in range(12)} | {QUESTION_ID: (1.0, 0.0)}
    probe = fake_probe(context, question, rows)
    assert offsets(SUR().allocate(context, question, 3, probe), context) == [5, 6, 7]
    assert offsets(SUR(lookback=2).allocate(context, question, 3, probe), context) == [3, 4, 5]
    assert offsets(SUR().allocate(context, question, 9, probe), context) == [*range(3, 12)]


def test_a_peak_at_the_end_of_a_unit_ends_its_window(scored, offsets) -> None:
    context, question, probe = scored((5, 5), [0.1, 0, 0, 0, 0.9, 0, 0, 0, 0, 0])
    assert offsets(SUR().allocate(context, question, 3, probe), context) == [2, 3, 4]


def test_continue_goes_on_to_units_that_fit(scored, offsets) -> None:
    context, question, probe = scored((6, 2, 2), [0, 0.9, 0, 0, 0, 0, 0.5, 0, 0.7, 0])
    assert offsets(SUR().allocate(context, question, 5, probe), context) == [1, 2, 3, 4, 5]
    skipping = SUR(on_overflow="continue")
    assert offsets(skipping.allocate(context, question, 5, probe), context) == [1, 6, 7, 8, 9]


def test_a_question_without_content_is_edit_local_and_says_so(make_context, make_question, fake_probe) -> None:
    context = make_context("Rain fell. The boat sank; nobody saw it.\nThen it was dark. The end.")
    for text in ("What is it?", "", "?!"):
        question = make_question(text)
        probe = fake_probe(context, question)
        for budget in range(1, context.n_suffix):
            found = SUR().allocate(context, question, budget, probe)
            assert found.slots == EditLocal().allocate(context, question, budget, probe).slots
            assert found.notes["degenerate_query"] is True
        assert probe.embedded == []
    question = make_question("Which boat?")
    assert SUR().allocate(context, question, 3, fake_probe(context, question)).notes["degenerate_query"] is False
    context = make_context(["<|end|>", "One", " two", ".", " Six"], special=[True, False, False, False, False])
    found = SUR().allocate(context, make_question("Who?"), 2, fake_probe(context, make_question("Who?")))
    assert found.slots == (3, 4), "template tokens too are taken from the splice on"


def test_function_words_rank_by_place_without_the_filter(make_context, make_question, fake_probe, offsets) -> None:
    """Every line has "the"; only the last has what is asked for."""
    context = make_context("In the rain.\nOn the road.\nFor the boat.\n")
    question = make_question("Where is the boat ?")
    probe = fake_probe(context, question)
    assert offsets(SUR().allocate(context, question, 5, probe), context) == [10, 11, 12, 13, 14]
    unfiltered = SUR(query_filter="none", match_variants=False).allocate(context, question, 1, probe)
    assert unfiltered.notes["tied_units"] == 3


def test_equal_best_tokens_rank_by_more_terms_then_by_place(make_context, make_question, fake_probe, offsets) -> None:
    question = make_question("red boat captain", ids=[1, 2, 3])
    rows = {i: tuple(float(i == axis) for axis in range(1, 6)) for i in range(1, 6)}
    lines = {"one": [1, 5], "two": [1, 2], "two_again": [2, 1], "twice": [3, 3], "three": [1, 2, 3]}
    for order, expected in (
        (["one", "two"], "two"),  # two terms beat one
        (["two", "two_again"], "two"),  # equal: the earlier
        (["two_again", "two"], "two_again"),
        (["twice", "one"], "twice"),  # the same term twice is one term
        (["two", "three"], "three"),
    ):
        ids = [token for name in order for token in lines[name]]
        pieces = [" w" if place else "w" for name in order for place in range(len(lines[name]))]
        ends = [len(lines[order[0]]) - 1, len(ids) - 1]
        context = make_context([f"{p}.\n" if i in ends else p for i, p in enumerate(pieces)], ids=ids)
        start = 0 if expected == order[0] else len(lines[order[0]])
        found = SUR().allocate(context, question, len(lines[expected]), fake_probe(context, question, rows))
        assert offsets(found, context) == list(range(start, start + len(lines[expected]))), order
        assert found.notes["tied_units"] == 2
        first = SUR(tie_terms=0).allocate(context, question, 1, fake_probe(context, question, rows))
        assert offsets(first, context)[0] < len(lines[order[0]]), "with no term, the earlier unit"


def test_duplicate_sentences_may_both_be_admitted_the_earlier_first(
    make_context, make_question, fake_probe, offsets
) -> None:
    context = make_context("Rain fell.\nA boat sank.\nDogs bark.\nA boat sank.\n")
    question = make_question(" boat")
    probe = fake_probe(context, question)
    assert offsets(SUR().allocate(context, question, 5, probe), context) == [4, 5, 6, 7, 8]
    assert offsets(SUR().allocate(context, question, 10, probe), context) == [*range(4, 9), *range(13, 18)]


def test_a_line_break_brings_its_sentence(make_context, make_question, fake_probe, offsets) -> None:
    """It is no unit of its own, even where its embedding is the question's."""
    context = make_context(["One", ".", "\n", "\n", "Two", " boats", "."], ids=[1, 2, 3, 3, 4, 5, 2])
    question = make_question("boat", ids=[QUESTION_ID])
    rows = {3: (1.0, 0.0), QUESTION_ID: (1.0, 0.0), 5: at_angle(0.9)} | {i: at_angle(0.0) for i in (1, 2, 4)}
    found = SUR().allocate(context, question, 4, fake_probe(context, question, rows))
    assert offsets(found, context) == [0, 1, 2, 3]


def test_template_tokens_are_refreshed_with_a_unit_and_rank_none(scored, offsets) -> None:
    special = [False, False, True, True, False, False, False]
    context, question, probe = scored((4, 3), [0.2, 0.1, 1.0, 1.0, 0.3, 0.1, 0.1], special)
    assert offsets(SUR().allocate(context, question, 3, probe), context) == [4, 5, 6]
    assert offsets(SUR().allocate(context, question, 4, probe), context) == [0, 4, 5, 6]
    assert offsets(SUR().allocate(context, question, 6, probe), context) == [0, 1, 2, 4, 5, 6]
    context, question, probe = scored((2, 2), [1.0] * 4, [True] * 4)
    assert offsets(SUR().allocate(context, question, 3, probe), context) == [0, 1, 2]


def test_rows_of_zeros_score_zero(make_context, make_question, fake_probe) -> None:
    context = make_context(["a", " b", " c"], ids=[1, 2, 3])
    question = make_question("boat", ids=[QUESTION_ID])
    rows = {1: (0.0, 0.0), 2: at_angle(-0.5), 3: at_angle(0.5), QUESTION_ID: (1.0, 0.0)}
    found = SUR().token_scores(context, question, fake_probe(context, question, rows))
    torch.testing.assert_close(found.score_S, torch.tensor([0.0, -0.5, 0.5]), rtol=0, atol=2**-23)
    rows[QUESTION_ID] = (0.0, 0.0)
    assert SUR().token_scores(context, question, fake_probe(context, question, rows)).score_S.tolist() == [0, 0, 0]


def test_a_question_word_that_is_nowhere_ranks_by_soft_cosine(scored, offsets) -> None:
    context, question, probe = scored((2, 2, 2), [0.1, 0.0, 0.31, 0.2, 0.3, 0.2])
    assert offsets(SUR().allocate(context, question, 2, probe), context) == [2, 3]


def test_parts_of_characters_move_with_their_unit(make_context, make_question, fake_probe, offsets) -> None:
    context = make_context(["One", ".", "\n", "", "", "好", " boats", "."], ids=[1, 2, 3, 10, 11, 12, 5, 2])
    question = make_question("boat", ids=[QUESTION_ID])
    rows = {i: at_angle(0.0) for i in (1, 2, 3, 10, 11, 12)} | {5: at_angle(0.9), QUESTION_ID: (1.0, 0.0)}
    found = SUR().allocate(context, question, 5, fake_probe(context, question, rows))
    assert offsets(found, context) == [3, 4, 5, 6, 7]


def test_other_spellings_of_a_whole_word_match(make_context, make_question, fake_probe) -> None:
    context = make_context(["Boat", " boat", " BOAT", " ships", " boats"])
    question = make_question("boat")
    probe = fake_probe(context, question)
    found = SUR().token_scores(context, question, probe).score_S
    own = SUR(match_variants=False).token_scores(context, question, probe).score_S
    assert found[:3].tolist() == [1, 1, 1] and max(own[:3].tolist()) < 1
    assert torch.equal(found[3:], own[3:])


@pytest.mark.parametrize(
    "settings",
    [
        {"query_filter": "some"},
        {"scorer": "min"},
        {"on_overflow": "go"},
        {"lookback": -1},
        {"lookback": 1.0},
        {"tie_terms": -1},
    ],
)
def test_wrong_settings_name_their_key(settings: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings))):
        SUR(**settings)
