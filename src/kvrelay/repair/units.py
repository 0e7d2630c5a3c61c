"""The suffix as semantic units: sentences and lines, as runs of tokens (SUR, section 3.2; the rules are ours).

Units partition the suffix. A border stands after a line break, and after . ! ? ; (closing quotes and brackets included)
where a space or the end follows, or their CJK counterparts wherever they stand. Not after a single capital letter or a
common abbreviation, and so never inside a decimal number; other mistakes are tolerated, since only coherence matters.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

from kvrelay.core.edit import Span

_BREAKS = r"(?:[^\S\n]*\n)*"
_BORDER = re.compile(
    rf"""(?:[.!?;]+["'”’»)\]]*(?=\s|$)|[。！？；｡]+["'”’」』）]*){_BREAKS}"""
    rf"|\n{_BREAKS}"
)
_ABBREVIATED = re.compile(
    r"\b(?:[A-HJ-Z]|Mr|Mrs|Ms|Dr|Prof|St|Mt|Jr|Sr|Gen|Col|Lt|Sgt|Capt|Rev|Hon|vs|cf|al|e\.g|i\.e|approx)\.$"
)
_LONGEST_ABBREVIATION = len("approx")


def segment(pieces: Sequence[str], special: Sequence[bool]) -> tuple[Span, ...]:
    """Half-open, ascending spans of tokens that cover ``pieces`` (each token's text) without a gap.

    A token belongs to the unit that holds its first character which is no space; so a token that joins a full stop and
    line breaks closes its unit. Line breaks close too. A token without text is a part of the character that a later
    token has, and goes with that. Template tokens (``special``) are borders. A unit without a letter or digit joins the
    one before it, or the next where it is the first, so that no lone line break can win.
    """
    spans: list[Span] = []
    last_has_words = False
    for start, end, has_words in _sentences(pieces, special):
        if spans and not (has_words and last_has_words):
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
        last_has_words = last_has_words or has_words
    return tuple(spans)


def _sentences(pieces: Sequence[str], special: Sequence[bool]) -> Iterator[tuple[int, int, bool]]:
    """(first token, end, whether it holds a word) of each sentence, and of each run of template tokens."""
    for marked, run in groupby(range(len(pieces)), key=special.__getitem__):
        tokens = list(run)
        borders = [0, len(tokens)] if marked else _borders([pieces[token] for token in tokens])
        for start, end in pairwise(tokens[0] + border for border in borders):
            yield start, end, not marked and any(any(map(str.isalnum, piece)) for piece in pieces[start:end])


def _borders(pieces: Sequence[str]) -> list[int]:
    """0, the first token of every further sentence, and the number of tokens."""
    cuts = _cuts("".join(pieces))
    of_token = [bisect_right(cuts, anchor) for anchor in _anchors(pieces)]
    return [0, *(index for index in range(1, len(pieces)) if of_token[index] > of_token[index - 1]), len(pieces)]


def _cuts(text: str) -> list[int]:
    """Characters at which a new unit starts."""
    found = []
    for match in _BORDER.finditer(text):
        head = text[max(0, match.start() - _LONGEST_ABBREVIATION - 1) : match.start() + 1]
        if "\n" in match[0] or not _ABBREVIATED.search(head):
            found.append(match.end())
    return found


def _anchors(pieces: Sequence[str]) -> Iterator[int]:
    """The character that decides where each token belongs, ascending: its first that is no space, if it has one.

    A token without text stands where the next one starts.
    """
    start = 0
    for piece in pieces:
        blank = len(piece) - len(piece.lstrip())
        yield start + (blank if blank < len(piece) else 0)
        start += len(piece)
