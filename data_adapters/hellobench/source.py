"""The source text inside an instruction: what stands before it, the text in paragraphs, what stands after it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from data_adapters.hellobench.records import HelloRecord
from kvrelay.core.errors import DataError

START, END = "[Text Start]", "[Text End]"
"""Lines of the set's own around the text to summarise."""
_START_LINE = re.compile(r"\[Text Start\]:?[ \t]*\n?")
_PARAGRAPH = re.compile(r"[^\n]*\n+|[^\n]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """An instruction in three: their concatenation is the instruction, character by character."""

    head: str
    source: str
    tail: str

    @property
    def paragraphs(self) -> list[str]:
        """The source by lines, each with the line ends behind it; lines without text go with the one before."""
        found: list[str] = []
        for piece in _PARAGRAPH.findall(self.source):
            if found and (not piece.strip() or not found[-1].strip()):
                found[-1] += piece
            else:
                found.append(piece)
        return found


def parts(record: HelloRecord) -> Parts:
    """Split at the set's own marks, else around the record's raw text. Raises `DataError` where there is no source."""
    text = record.instruction
    marks = text.count(START), text.count(END)
    if marks == (1, 1) and text.index(START) < text.index(END):
        begin = _START_LINE.search(text)
        first = begin.end() if begin else 0
        last = text.index(END)
        # the line end before a mark is the mark's
        last -= last > first and text[last - 1] == "\n"
    elif marks == (0, 0) and record.raw_text.strip() and text.count(record.raw_text) == 1:
        first = text.index(record.raw_text)
        last = first + len(record.raw_text)
    else:
        raise DataError(
            f"{record.where}: no source text in the instruction; wanted one {START} and one {END}, or the field "
            "'raw_text' once in it, word for word"
        )
    found = Parts(head=text[:first], source=text[first:last], tail=text[last:])
    if not found.source.strip() or not found.tail.strip():
        raise DataError(
            f"{record.where}: nothing stands in the source text, or nothing after it that asks for anything"
        )
    return found
