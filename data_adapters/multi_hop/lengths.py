"""Passages cut or padded to one number of tokens, so that two of them can change places and nothing else moves."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import replace

from data_adapters.multi_hop.passages import Passage, passage_text
from kvrelay.core.example import CountTokens

PADDING = (".", " .", " also", " so", ";", " a", "!")
"""What fills up the last tokens; which of them makes one token depends on the tokenizer and on what stands before."""
MOST_PADDED = 8
"""Tokens of padding at most: more of it would be a passage that says nothing."""
NEAR_CHARS = 48
"""How many characters around the right place are tried one by one: more than any token is long."""


def tokens_of(passage: Passage, count_tokens: CountTokens) -> int:
    """Tokens of a passage as a unit of the history, which is tokenised by itself."""
    return count_tokens(passage_text(passage.title, passage.text))


def fitted(passage: Passage, size: int, count_tokens: CountTokens) -> Passage | None:
    """The passage in exactly ``size`` tokens, cut at its end.

    A cut falls between words where one fits, else within a word; where no cut does, the last tokens are padding.
    None where neither gives the number, as when the title alone is longer or the text much shorter.
    """

    def size_of(text: str) -> int:
        return count_tokens(passage_text(passage.title, text))

    text = passage.text
    ends = [match.end() for match in re.finditer(r"\S+", text)]
    # the number of tokens hardly ever falls when a word is added: bisection finds the place, the trials make it exact
    place = bisect_right(ends, size, key=lambda end: size_of(text[:end]))
    if place == 0:
        return None
    last = ends[place - 1]
    cuts = [last, *range(min(len(text), last + NEAR_CHARS), max(0, last - NEAR_CHARS), -1)]
    exact = next((end for end in cuts if text[end - 1 : end].strip() and size_of(text[:end]) == size), None)
    found = text[:exact] if exact is not None else _padded(text[:last], size, size_of)
    return None if found is None else replace(passage, text=found)


def _padded(text: str, size: int, size_of: CountTokens) -> str | None:
    """The text with padding up to the size, or None: each step adds a piece that makes one token or fewer."""
    if size - size_of(text) > MOST_PADDED:
        return None
    while (now := size_of(text)) < size:
        text = next((text + piece for piece in PADDING if now < size_of(text + piece) <= size), "")
        if not text:
            return None
    return text if now == size else None
