"""One question of a multi-hop data set and its passages: what all these data sets have in common."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kvrelay.core.example import Unit

SEPARATOR = "\n\n"
"""What ends a passage, and so what goes with it when it is deleted: exactly one."""

PREAMBLE = (
    "Below are passages of an encyclopedia, then a question about them. "
    "Answer with a name, a date, a number, yes or no: a few words, no sentence.\n\n"
)

_GROUPED = re.compile(r"(?<=\d),(?=\d{3})")
_WORD = re.compile(r"[^\W_]+")
_UNTOLD = frozenset({"yes", "no"})
"""Answers that are no words of a passage, so that no passage can give them away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A titled paragraph. ``supporting`` never reaches a prompt."""

    title: str
    text: str
    supporting: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceQuestion:
    """A question as its data set gives it; ``references`` are alternatives, the first one the gold answer itself.

    ``type`` is the data set's own word for its kind of question. ``passages`` stand in the order of the record.
    """

    dataset: str
    id: str
    question: str
    references: tuple[str, ...]
    type: str
    passages: tuple[Passage, ...]
    unanswerable: bool = False
    notes: Mapping[str, object] = field(default_factory=dict)

    @property
    def cluster_id(self) -> str:
        """What a bootstrap resamples: all that is asked from this one question."""
        return f"{self.dataset}:{self.id}"

    @property
    def prompt(self) -> str:
        return f"Q: {self.question}\nA:"

    @property
    def supporting(self) -> tuple[int, ...]:
        """Indices of the supporting passages."""
        return tuple(index for index, passage in enumerate(self.passages) if passage.supporting)

    def unit(self, index: int) -> Unit:
        """A passage as a unit of the history, its separator included."""
        return passage_unit(f"{self.id}#{index}", self.passages[index])


def passage_unit(id_: str, passage: Passage) -> Unit:
    text = passage_text(passage.title, passage.text)
    return Unit(id=id_, text=text, index_text=f"{passage.title}\n{passage.text}", evidence=passage.supporting)


def passage_text(title: str, text: str) -> str:
    """A passage as prompts show it. It ends in one separator, whatever white space its text had around it."""
    return f"Wikipedia Title: {title}\n{text.strip()}{SEPARATOR}"


def distinct(passages: Iterable[Passage]) -> tuple[Passage, ...]:
    """Without empty and repeated passages: the copy of a deleted passage would make its deletion void."""
    found: dict[tuple[str, str], Passage] = {}
    for passage in passages:
        if not passage.text:
            continue
        key = (passage.title, passage.text)
        if key not in found or passage.supporting:
            found[key] = passage
    return tuple(found.values())


def answer_teller(references: Sequence[str]) -> Callable[[Passage], bool]:
    """A test whether a passage contains one of the answers, word by word; yes and no are looked for nowhere."""
    wanted = [words for reference in references if (words := _words(reference)).strip() not in ("", *_UNTOLD)]
    # an answer of signs alone has no words to be found by
    signs = [reference for reference in references if not _words(reference).strip() and reference.strip()]

    def tells(passage: Passage) -> bool:
        said = f"{passage.title}\n{passage.text}"
        words = _words(said)
        return any(one in words for one in wanted) or any(one in said for one in signs)

    return tells


def same_title(title: str, other: str) -> bool:
    """Titles are compared without case: the articles of IIRC are filed in lower case."""
    return title.strip().casefold() == other.strip().casefold()


def _words(text: str) -> str:
    """Folded words, one space around each, so that a text within a text is a run of whole words."""
    words = _WORD.findall(_GROUPED.sub("", text).casefold())
    return f" {' '.join(words)} "
