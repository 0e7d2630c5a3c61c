"""Text that a terminal shows and does not obey, whoever wrote it."""

from __future__ import annotations

import unicodedata

_OBEYED = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Control and format characters (escape sequences begin with one, bidirectional overrides are some), halves of
surrogate pairs, what has no meaning, and the separators that break a line."""


def printable(text: str) -> str:
    """One line in which every such character, and the backslash, stands as Python's escape of it."""
    return "".join(_escaped(char) if char == "\\" or unicodedata.category(char) in _OBEYED else char for char in text)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def shortened(text: str, most: int) -> str:
    """The beginning of a long text and how much is left out; 0 for all of it."""
    if not most or len(text) <= most:
        return text
    return f"{text[:most]} … ({len(text) - most} more characters)"
