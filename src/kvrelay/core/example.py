"""What a data set gives: a history in units, a question about it, and the reference answers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, Protocol

CountTokens = Callable[[str], int]
"""Number of tokens of a text in the model's own tokenizer, special tokens not added."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One message of a conversation. ``role`` is what the chat template knows (system, user, assistant)."""

    role: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """What the data set calls one piece of history: a session, a turn, a passage, a book chunk.

    ``text`` is the piece as the published prompt shows it (layout ``document``); ``turns`` are its messages
    (layout ``chat``). ``index_text`` is what a retriever may see of it. ``evidence`` never reaches a prompt.
    """

    id: str
    text: str
    index_text: str
    turns: tuple[Turn, ...] = ()
    timestamp: str | None = None
    evidence: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One option of a multiple-choice question; ``label`` is its letter, lower case, without brackets."""

    label: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One question about one history.

    The prompt is ``preamble`` + the units in order + ``question_prompt``, wrapped in the model's chat template.
    ``question`` is the bare question, for retrievers and judges. Examples with equal ``history_id`` share a prefill.
    ``cluster_id`` is what the bootstrap resamples. An example without references can be answered but not scored.
    ``deleted`` are ids of units that are deleted from the cached history before the question is asked. Where there are
    any, each unit is tokenised by itself, so that what is left has the same tokens wherever the deleted unit stood.
    ``checklist`` are the questions that a checklist judge asks of a long answer; there may be no references then.
    ``slot`` names the unit whose place an experiment's design holds fixed, where it has one.
    """

    id: str
    cluster_id: str
    units: tuple[Unit, ...]
    question: str
    question_prompt: str
    references: tuple[str, ...]
    question_type: str
    question_date: str | None = None
    preamble: str = ""
    system: str | None = None
    layout: Literal["document", "chat"] = "document"
    choices: tuple[Choice, ...] = ()
    gold_choice: str | None = None
    unanswerable: bool = False
    deleted: tuple[str, ...] = ()
    slot: str | None = None
    checklist: tuple[str, ...] = ()
    notes: Mapping[str, object] = field(default_factory=dict)

    @property
    def history_id(self) -> str:
        """Hash of everything that stands before the question: equal ids mean equal prefills."""
        return _history_id(self.system, self.preamble, self.layout, self.units, bool(self.deleted))


@lru_cache(maxsize=64)
def _history_id(system: str | None, preamble: str, layout: str, units: tuple[Unit, ...], apart: bool) -> str:
    """Remembered, because every record of a history names it and a long history is half a megabyte to hash."""
    said = [[unit.text, [[turn.role, turn.content] for turn in unit.turns]] for unit in units]
    seen = [system, preamble, layout, said, *(["units tokenised apart"] if apart else [])]
    return hashlib.sha256(json.dumps(seen, ensure_ascii=False).encode("utf-8", "surrogatepass")).hexdigest()[:16]


class DatasetAdapter(Protocol):
    """Reads one data set. Bad records raise `DataError` with the file, the record and the field."""

    def examples(self, count_tokens: CountTokens) -> Iterator[Example]:
        """Yield examples in the data set's own order, the questions of one history next to each other."""
        ...

    def fingerprint(self) -> str:
        """sha256 over the bytes of every file that is read, so that a changed file is a changed data set."""
        ...
