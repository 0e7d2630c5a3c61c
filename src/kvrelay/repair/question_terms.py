"""Which tokens of the bare question count: all of them, or those of its content words (SUR, step A).

With all of them, every token of a text that also stands in the question has cosine 1, "the" and "?" included, so that
most sentences tie for the best and their order decides. Hence the filter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from kvrelay.core.history import Question
from kvrelay.repair.function_words import CLITICS, FUNCTION_WORDS

QueryFilter = Literal["content", "none"]
WORD = re.compile(r"\w+(?:['’]\w+)*")


@dataclass(frozen=True, slots=True)
class Term:
    """A token of the question. ``word`` is the folded content word that the token holds whole, else None."""

    token_id: int
    word: str | None


def question_terms(question: Question, query_filter: QueryFilter) -> tuple[Term, ...]:
    """The question's different tokens in order, those of its content words or all; none where no token is left.

    A word in two spellings (" Rome", "rome") is one term. A token counts where it overlaps a content word; a token
    without text, which is a part of a character, where it stands in or beside one.
    """
    if query_filter == "none":
        return tuple(Term(token_id, None) for token_id in dict.fromkeys(question.text_ids))
    spans = list(_content_spans("".join(question.text_pieces)))
    ends = list(accumulate(map(len, question.text_pieces)))
    found: dict[object, Term] = {}
    for token_id, piece, end in zip(question.text_ids, question.text_pieces, ends, strict=True):
        for first, last, word in spans:
            beside = not piece and first <= end <= last
            if beside or (first < end and end - len(piece) < last):
                whole = folded(piece) == word
                found.setdefault(word if whole else token_id, Term(token_id, word if whole else None))
    return tuple(found.values())


def folded(piece: str) -> str:
    """A token's text without its spaces and its case."""
    return piece.strip().casefold()


def _content_spans(text: str) -> Iterator[tuple[int, int, str]]:
    """(first character, end, folded word) of each content word; what an apostrophe adds to a word is not in it.

    A word in capitals is a name (US, IT, WHO), unless all of the text is in capitals.
    """
    shouted = text.isupper()
    for match in WORD.finditer(text):
        word = match[0].replace("’", "'")
        if word.casefold().endswith("n't"):
            continue
        stem, mark, tail = word.rpartition("'")
        stem = stem if mark and tail.casefold() in CLITICS else word
        named = len(stem) > 1 and stem.isupper() and not shouted
        if named or stem.casefold() not in FUNCTION_WORDS:
            yield match.start(), match.start() + len(stem), stem.casefold()
