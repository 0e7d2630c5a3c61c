"""Text in the cells of a spreadsheet: shown so that no program computes, guesses or drops anything, and read back.

Three rules, all reversible. Characters that a spreadsheet or terminal would swallow, or act on, stand as escapes
(``\\t``, ``\\u202e``; a backslash is doubled); line breaks stay. A cell that a program might take for a formula, a
number, a date or a truth value begins with an apostrophe. And so does what would be a formula after a semicolon or a
line break: a program that parts cells at semicolons or tabs knows no comma's quotes, and begins a new cell there.
"""

from __future__ import annotations

import re
import unicodedata

GUARD = "'"
LONGEST = 32_767
"""Characters that a cell of the common programs holds; they cut the rest off in silence."""
_SHORT = 40
_NAMED = {"\\": "\\\\", "\t": "\\t", "\r": "\\r"}
_READ = {"\\\\": "\\", "\\t": "\t", "\\r": "\r"}
_ESCAPE = re.compile(r"\\\\|\\t|\\r|\\u([0-9a-f]{4})|\\U([0-9a-f]{8})")
_FORMULA = r"=+\-@\uff1d\uff0b\uff0d\uff20"
"""Signs that begin a formula, also of full width."""
_BEGINS = re.compile(rf"(?<=[;\n])(?='|[\s\"']*[{_FORMULA}])")
"""Places where a cell would begin under another separator: before a formula, and before an apostrophe, so that reading
can take one away wherever it stands there."""
_BEGUN = re.compile(rf"(?<=[;\n]){GUARD}")
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories that are controls, marks of direction, surrogates or nothing at all."""
_TRUTH = frozenset({"true", "false", "yes", "no"})


def shown(text: str) -> str:
    """The cell of a text."""
    escaped = _BEGINS.sub(GUARD, "".join(_character(character) for character in text))
    return GUARD + escaped if _may_be_taken(escaped) else escaped


def read(cell: str) -> str:
    """The text of a cell, whichever line breaks the program has given it."""
    plain = _BEGUN.sub("", cell.replace("\r\n", "\n").replace("\r", "\n").removeprefix(GUARD))
    return _ESCAPE.sub(lambda found: _READ.get(found[0]) or chr(int(found[1] or found[2], 16)), plain)


def same(cell: str, other: str) -> bool:
    """Whether two cells hold one text; some programs take the apostrophe away when they open a file."""
    return read(other) in (read(cell), read(GUARD + cell))


def _character(character: str) -> str:
    if character in _NAMED:
        return _NAMED[character]
    if character == "\n" or unicodedata.category(character) not in _UNSEEN:
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _may_be_taken(escaped: str) -> bool:
    """Whether it begins with anything but a letter, or is as short as a number or a date, or is a truth value."""
    number = len(escaped) <= _SHORT and any(character.isdigit() for character in escaped)
    return bool(escaped) and (not escaped[0].isalpha() or number or escaped.casefold() in _TRUTH)
