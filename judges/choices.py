"""Which option an answer chose: PersonaMem's published rule, literally, and a rule that reads the answer soundly."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

TAG = "<final_answer>"
"""The published prompt asks for the option after this token."""

_DEFAULT_LABELS = ("a", "b", "c", "d")
_ECHO_LEAST = 3
"""Options named in order from the first one on are an echo of the question, from this many on."""


def official_choice(answer: str, gold: str) -> bool:
    """PersonaMem's extraction: the options named after the last tag, or in the whole answer, are the gold one alone.

    Bracketed letters count; where there are none, letters that stand alone, the article "a" among them.
    """
    wanted = {_label(gold)}
    return _named(answer.rsplit(TAG, 1)[-1]) == wanted or _named(answer) == wanted


def sound_choice(answer: str, choices: Mapping[str, str]) -> str | None:
    """Label of the option that the answer settles on; None where it settles on none.

    Read after the last tag (all of the answer where there is no tag): the last bracketed letter, echoes of the
    options left out; where nothing is bracketed, a letter that opens the text and is closed by ``)``, ``.``, ``:`` or
    the end of the line. The article "a" is never an option, and neither is the last one of a list of all of them.
    """
    labels = tuple(sorted(_label(label) for label in choices)) or _DEFAULT_LABELS
    text = answer.lower().rsplit(TAG, 1)[-1].split("</final_answer>", 1)[0].strip()
    letter = "|".join(map(re.escape, labels))
    bracketed = re.findall(rf"\(({letter})\)", text)
    if bracketed:
        decided = without_echoes(bracketed, labels)
        return decided[-1] if decided else None
    # closed by a mark that no word follows, or by the line's end: neither "a nice plan" nor "D.C." is an option
    closed = rf"({letter})[^\w\n]*?(?:[).:](?!\w)|$)"
    opening = re.match(rf"\W*{closed}", text, re.MULTILINE)
    listed = re.findall(rf"(?<!\w){closed}", text, re.MULTILINE)
    if opening is None or opening[1] not in without_echoes(listed, labels):
        return None
    return opening[1]


def is_gold(label: str | None, gold: str, choices: Mapping[str, str]) -> bool:
    """Whether the chosen option is the gold one, or carries the same text under another letter."""
    if label is None:
        return False
    texts = {_label(name): _bare(text) for name, text in choices.items()}
    gold = _label(gold)
    return label == gold or (label in texts and gold in texts and texts[label] == texts[gold])


def without_echoes(letters: Sequence[str], labels: Sequence[str]) -> list[str]:
    """Drop every stretch that names the options in order from the first one on: it repeats the question."""
    kept: list[str] = []
    at = 0
    while at < len(letters):
        run = 0
        while run < len(labels) and at + run < len(letters) and letters[at + run] == labels[run]:
            run += 1
        if run >= min(_ECHO_LEAST, len(labels)):
            at += run
        else:
            kept.append(letters[at])
            at += 1
    return kept


def _named(text: str) -> set[str]:
    text = text.lower()
    return set(re.findall(r"\(([a-d])\)", text)) or set(re.findall(r"\b([a-d])\b", text))


def _label(label: str) -> str:
    return label.strip().strip("()").lower()


def _bare(text: str) -> str:
    """An option's text without the letter before it, which some data sets keep, and with single spaces."""
    return " ".join(re.sub(r"^\s*\([a-z]\)\s*", "", text.lower()).split())
