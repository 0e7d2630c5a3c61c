"""Which of the question's tokens count."""

from __future__ import annotations

import pytest

from kvrelay.repair.question_terms import question_terms


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("What is the name of my boat?", ["name", "boat"]),
        ("Who leads the US and the WHO?", ["leads", "us", "who"]),  # capitals make a name
        ("WHO LEADS THE US?", ["leads"]),  # but not where all is in capitals
        ("What's Ada's dog like, and isn't it small?", ["ada", "dog", "like", "small"]),
        ("Did he go on 3 May 1999?", ["go", "3", "may", "1999"]),
        ("Rome, rome or ROME?", ["rome"]),
        ("what is it?", []),
        ("?! ...", []),
        ("", []),
    ],
)
def test_content_words(make_question, text: str, words: list[str]) -> None:
    assert [term.word for term in question_terms(make_question(text), "content")] == words


def test_a_word_of_several_tokens_keeps_all_of_them(make_question) -> None:
    """ "is" is no function word where it is the end of a name; and no part stands for the whole word."""
    question = make_question("Is Chartis old?", pieces=["Is", " Chart", "is", " old", "?"], ids=[1, 2, 3, 4, 5])
    terms = question_terms(question, "content")
    assert [(term.token_id, term.word) for term in terms] == [(2, None), (3, None), (4, "old")]


def test_parts_of_a_character_count_with_their_word(make_question) -> None:
    question = make_question("the 好?", pieces=["the", " ", "", "好", "?"], ids=[1, 2, 3, 4, 5])
    assert [term.token_id for term in question_terms(question, "content")] == [3, 4]


def test_without_the_filter_every_different_token_counts(make_question) -> None:
    question = make_question("the the?", ids=[7, 7, 9])
    assert [(term.token_id, term.word) for term in question_terms(question, "none")] == [(7, None), (9, None)]
    assert question_terms(make_question(""), "none") == ()
