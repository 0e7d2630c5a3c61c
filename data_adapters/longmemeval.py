"""LongMemEval (Wu et al., ICLR 2025): dated chat sessions, then one question about them."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

from data_adapters.fields import Fields
from data_adapters.files import Source, fingerprint
from data_adapters.located import files_with
from data_adapters.parse import records
from data_adapters.subset import draw, require_choice, require_positive, require_unique
from kvrelay.core.errors import DataError
from kvrelay.core.example import CountTokens, Example, Unit

PREAMBLE = (
    "What follows are earlier chats of yours with a user, each under its date. "
    "Answer the question at the end from what these chats say.\n\n\nHistory Chats:\n\n"
)
ROLES = ("user", "assistant")

_DATE = re.compile(r"(\d{4})/(\d{2})/(\d{2}) \(\w+\) (\d{2}):(\d{2})")
_LOG = logging.getLogger(__name__)


class _Turn(NamedTuple):
    role: str
    content: str
    has_answer: bool


class _Session(NamedTuple):
    position: int
    """Where it stands in the record. Session ids repeat in 13 histories (LongMemEval#54), so they are no key."""
    id: str
    date: str
    when: datetime
    turns: tuple[_Turn, ...]

    @property
    def key(self) -> str:
        return f"{self.position}:{self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LongMemEval:
    """One example a record. Sessions stand in the order of their dates, ties in the record's order.

    ``unit`` is the session, or the round: a user turn with all that follows up to the next. ``index_roles="user"``
    hides the assistant's words from retrievers, as the published index does; evidence may stand in them, so both is
    the default. The history's text is the same for both units. Sessions later than the question stay (43 questions
    have evidence there) and are named in ``notes["after_question"]``. With ``limit`` and ``shuffle_seed`` the
    questions are a seeded sample: the files are sorted by question type.
    """

    path: str | None = None
    hub_id: str = "xiaowu0162/longmemeval-cleaned"
    revision: str | None = None
    variant: Literal["s", "m", "oracle"] = "s"
    limit: int | None = None
    shuffle_seed: int | None = None
    unit: Literal["session", "round"] = "session"
    index_roles: Literal["both", "user"] = "both"
    session_format: Literal["paragraphs", "json"] = "paragraphs"

    def __post_init__(self) -> None:
        require_choice(f"{self._key}.variant", self.variant, ("s", "m", "oracle"))
        require_choice(f"{self._key}.unit", self.unit, ("session", "round"))
        require_choice(f"{self._key}.index_roles", self.index_roles, ("both", "user"))
        require_choice(f"{self._key}.session_format", self.session_format, ("paragraphs", "json"))
        require_positive(f"{self._key}.limit", self.limit)

    @staticmethod
    def located(given: Path) -> dict[str, str] | None:
        """Fields that point this adapter at a file or folder that holds its records; None if it does not."""
        found = next(files_with(given, (".json", ""), ('"haystack_',)), None)
        return None if found is None else {"path": str(found)}

    def examples(self, count_tokens: CountTokens) -> Iterator[Example]:
        """Yield the questions in file order; lengths in tokens play no part. Raises `DataError` for a bad record."""
        file = self._file()
        kept = self._sample(file)
        chosen = (record for record in _checked(file) if kept is None or record.text("question_id") in kept)
        count = 0
        for record in islice(chosen, self.limit):
            count += 1
            yield self._example(record)
        if count == 0:
            raise DataError(f"{file}: the file holds no records")
        _LOG.info("%s: %d questions from %s", self._key, count, file)

    def fingerprint(self) -> str:
        """sha256 of the file. The cleaned release and the original differ in it and are not to be compared."""
        return fingerprint([self._file()])

    @property
    def _key(self) -> str:
        return f"dataset.longmemeval_{self.variant}"

    def _file(self) -> Path:
        stem = f"longmemeval_{self.variant}"
        source = Source(setting=f"{self._key}.path", path=self.path, hub_id=self.hub_id, revision=self.revision)
        return source.file((f"{stem}_cleaned.json", f"{stem}.json", stem))

    def _sample(self, file: Path) -> frozenset[str] | None:
        if self.limit is None or self.shuffle_seed is None:
            return None
        return draw([record.text("question_id") for record in _checked(file)], self.limit, self.shuffle_seed)

    def _example(self, record: Fields) -> Example:
        id_, answer, date = record.text("question_id"), record.any("answer"), record.name("question_date")
        if isinstance(answer, bool) or not isinstance(answer, str | int | float):
            raise record.error("answer", f"is {answer!r}, wanted a str or a number")
        asked = _parsed(date, record, "question_date")
        sessions = _sessions(record)
        evidence = frozenset(record.texts("answer_session_ids"))
        question, kind = record.name("question"), record.name("question_type")
        return Example(
            id=id_,
            cluster_id=id_,
            units=tuple(unit for i, s in enumerate(sessions, start=1) for unit in self._units(i, s, evidence)),
            question=question,
            question_prompt=f"\n\nCurrent Date: {date}\nQuestion: {question}\nAnswer:",
            references=(str(answer),) if str(answer).strip() else (),
            question_type=kind,
            question_date=date,
            preamble=PREAMBLE,
            unanswerable=id_.endswith("_abs"),
            notes=_notes(kind, answer, [session.key for session in sessions if session.when > asked]),
        )

    def _units(self, number: int, session: _Session, evidence: frozenset[str]) -> Iterator[Unit]:
        """The ``number``-th session in its published layout, whole or cut into rounds, which join to the same text."""
        head = f"\n### Session {number}:\nSession Date: {session.date}\nSession Content:\n"
        pieces = _json_pieces(session.turns) if self.session_format == "json" else _paragraphs(session.turns)
        starts = _round_starts(session.turns) if self.unit == "round" else [0]
        for index, (start, end) in enumerate(zip(starts, [*starts[1:], None], strict=True)):
            turns = session.turns[start:end]
            text = "".join(pieces[start:end])
            yield Unit(
                id=session.key if self.unit == "session" else f"{session.key}:{index}",
                text=(head if start == 0 else "") + text + ("\n" if end is None else ""),
                index_text=self._index_text(turns),
                timestamp=session.date,
                evidence=_is_evidence(turns, session, evidence),
            )

    def _index_text(self, turns: Sequence[_Turn]) -> str:
        seen = (turn.content.strip() for turn in turns if self.index_roles == "both" or turn.role == "user")
        return " ".join(content for content in seen if content)


def _checked(file: Path) -> Iterator[Fields]:
    """The file's records, each with its question id in its place's name; no id twice."""
    seen: set[str] = set()
    for record in records(file):
        id_ = record.name("question_id")
        require_unique(seen, id_, record.where)
        yield record.named(f"question_id {id_}")


def _sessions(record: Fields) -> list[_Session]:
    """The haystack by date. Raises `DataError` where its three lists differ in length."""
    ids, dates = record.texts("haystack_session_ids"), record.texts("haystack_dates")
    sessions = record.items("haystack_sessions")
    if not len(ids) == len(dates) == len(sessions):
        others = f"{len(ids)} haystack_session_ids and {len(dates)} haystack_dates"
        raise record.error("haystack_sessions", f"has {len(sessions)} entries, but there are {others}")
    parsed = [
        _Session(i, ids[i], dates[i], _parsed(dates[i], record, f"haystack_dates[{i}]"), _turns(record, i, session))
        for i, session in enumerate(sessions)
    ]
    return sorted(parsed, key=lambda session: session.when)


def _turns(record: Fields, position: int, session: object) -> tuple[_Turn, ...]:
    key = f"haystack_sessions[{position}]"
    turns = Fields(record.where, {key: session}).parts(key)
    return tuple(_turn(turn) for turn in turns)


def _turn(turn: Fields) -> _Turn:
    role, marked = turn.text("role"), turn.values.get("has_answer") or False
    if role not in ROLES:
        raise turn.error("role", f"is {role!r}, wanted one of {', '.join(ROLES)}")
    if not isinstance(marked, bool):
        raise turn.error("has_answer", f"is {marked!r}, wanted true or false")
    return _Turn(role, turn.text("content"), marked)


def _parsed(date: str, record: Fields, key: str) -> datetime:
    """The day's name is not read: it depends on the locale and says nothing new."""
    match = _DATE.fullmatch(date.strip())
    try:
        if match:
            return datetime(*map(int, match.groups()))  # type: ignore[arg-type]
    except ValueError:
        pass
    raise record.error(key, f"is {date!r}, wanted a date like '2023/05/30 (Tue) 23:40'")


def _paragraphs(turns: Sequence[_Turn]) -> list[str]:
    return [f"\n\n{turn.role}: {turn.content.strip()}" for turn in turns]


def _json_pieces(turns: Sequence[_Turn]) -> list[str]:
    """The session's JSON in as many pieces as it has turns, so that rounds join to the very text of the session."""
    pieces = [json.dumps({"role": turn.role, "content": turn.content}) for turn in turns]
    ends = [", "] * (len(pieces) - 1) + ["]"]
    joined = [piece + end for piece, end in zip(pieces, ends, strict=False)] or ["]"]
    return ["\n[" + joined[0], *joined[1:]]


def _round_starts(turns: Sequence[_Turn]) -> list[int]:
    return [0] + [i for i, turn in enumerate(turns) if turn.role == "user" and i > 0]


def _is_evidence(turns: Sequence[_Turn], session: _Session, evidence: frozenset[str]) -> bool:
    """A marked turn makes its unit evidence; in an answer session without any mark, every unit is."""
    marked = any(turn.has_answer for turn in session.turns)
    return any(turn.has_answer for turn in turns) if marked else session.id in evidence


def _notes(kind: str, answer: str | int | float, later: list[str]) -> dict[str, object]:
    """What a table or a judge must know of a record beside its fields: see the data set's known problems."""
    notes: dict[str, object] = {}
    if not isinstance(answer, str):
        notes["answer_raw"] = answer
    if kind == "single-session-preference":
        notes["rubric"] = True
    if not str(answer).strip():
        notes["no_reference"] = True
    if later:
        notes["after_question"] = later
    return notes
