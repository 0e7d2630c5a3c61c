"""How the official scripts of short-answer data sets compare texts: SQuAD's way, DROP's way, and numbers alone.

Each quirk is kept, because a score is comparable only with its quirks: "A" is empty to all of them, "3.50" is 350 to
one and 3.5 to another, and punctuation beyond ASCII stays.
"""

from __future__ import annotations

import re
import string
from collections import Counter

DROP_DECIMALS = 2
"""DROP rounds the F1 of every single answer."""

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_PARTS = re.compile("[ -]")
_DIGITS = re.compile(r"\d+")
_CLOSED = frozenset({"yes", "no", "noanswer"})


def squad(text: str) -> str:
    """HotpotQA's, 2WikiMultiHopQA's and MuSiQue's form of a text: lower case, no ASCII punctuation, no articles."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def drop(text: str) -> str:
    """DROP's form: parts between spaces and hyphens, each a number as a float, or a word as in `squad`."""
    return " ".join(part for token in _PARTS.split(text) if (part := _drop_part(token)))


def _drop_part(token: str) -> str:
    """A number keeps its punctuation, a word loses it and may become a number by that ("1,000", "$5")."""
    low = token.lower()
    bare = low if _is_number(low) else low.translate(_NO_PUNCTUATION)
    plain = str(float(bare)) if _is_number(bare) else bare
    return " ".join(_ARTICLES.sub(" ", plain).split())


def _is_number(text: str) -> bool:
    """Whatever Python reads as a float: also "1e3", "1_000" and "nan"."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def hotpot_f1(candidate: str, reference: str) -> float:
    """Token F1 of HotpotQA and 2WikiMultiHopQA. Yes, no and noanswer are right or wrong, never a part of an answer."""
    mine, gold = squad(candidate), squad(reference)
    if mine != gold and not _CLOSED.isdisjoint((mine, gold)):
        return 0.0
    return _multiset_f1(mine.split(), gold.split())


def musique_f1(candidate: str, reference: str) -> float:
    """Token F1 of MuSiQue: where either side is empty, 1 if both are. Yes and no are words like others."""
    mine, gold = squad(candidate).split(), squad(reference).split()
    return float(mine == gold) if not mine or not gold else _multiset_f1(mine, gold)


def drop_f1(candidate: str, reference: str) -> float:
    """F1 of DROP for one span: over sets of parts, 0 where the reference has numbers and the candidate none of them."""
    mine, gold = set(drop(candidate).split()), set(drop(reference).split())
    numbers = {part for part in gold if _is_number(part)}
    if numbers and numbers.isdisjoint(mine):
        return 0.0
    shared = len(mine & gold)
    precision = shared / len(mine) if mine else 1.0
    recall = shared / len(gold) if gold else 1.0
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return round(f1, DROP_DECIMALS)


def plain_value(text: str) -> str:
    """A value that was asked for by itself: no outer space, no commas, no full stop at its end."""
    return text.strip().replace(",", "").removesuffix(".").strip()


def first_number(text: str) -> str:
    """The first run of digits, commas between them aside; nothing where there are none."""
    found = _DIGITS.search(text.replace(",", ""))
    return found[0] if found else ""


def _multiset_f1(candidate: list[str], reference: list[str]) -> float:
    """Harmonic mean of precision and recall; 0 where nothing is shared, as where both are empty."""
    shared = sum((Counter(candidate) & Counter(reference)).values())
    return 2 * shared / (len(candidate) + len(reference)) if shared else 0.0
