"""Long-MT-Bench+ (Pan et al., ICLR 2025): 11 long conversations of about five sessions, with questions across them."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from data_adapters.fields import Fields
from data_adapters.files import Source, fingerprint
from data_adapters.located import files_with
from data_adapters.parse import records
from data_adapters.subset import draw, require_choice, require_positive, require_unique
from kvrelay.core.errors import DataError
from kvrelay.core.example import CountTokens, Example, Unit

KEY = "dataset.long_mt_bench_plus"
NAMES = (
    "long_mt_bench_plus.jsonl",
    "long_mt_bench_plus.json",
    "Long-MT-Bench-Plus.json",
    "Long-MT-Bench-Plus.jsonl",
    "mtbp.jsonl",
    "test.jsonl",
    "test.json",
    "test-00000-of-00001.parquet",
)
"""The names that the published code bases and the hub's own formats give to the one file."""

PREAMBLE = (
    "Here is a long conversation of yours with a human. Read it with care: "
    "the question after it is about what was said.\n\n"
)

_TURN_LABEL = re.compile(r"<Turn \d+>:\s*")
_HUMAN, _BOT = "[human]: ", "\n[bot]: "
_LOG = logging.getLogger(__name__)


class _Conversation(NamedTuple):
    id: str
    sessions: tuple[tuple[str, ...], ...]
    questions: tuple[str, ...]
    answers: tuple[str, ...]
    """As many as the questions; empty where the file has no gold."""

    def question_id(self, index: int) -> str:
        return f"{self.id}_{index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LongMTBenchPlus:
    """One example a question; the questions of a conversation share its history and are its cluster.

    ``unit`` is the exchange (a human turn and its reply) or the session; the history's text is the same. A question
    without gold can be answered but not scored. ``per_conversation`` keeps so many questions of each conversation,
    ``limit`` so many in all; both take the first ones, or with ``shuffle_seed`` a seeded sample.
    """

    path: str | None = None
    hub_id: str = "panzs19/Long-MT-Bench-Plus"
    revision: str | None = None
    limit: int | None = None
    per_conversation: int | None = None
    shuffle_seed: int | None = None
    unit: Literal["exchange", "session"] = "exchange"

    def __post_init__(self) -> None:
        require_choice(f"{KEY}.unit", self.unit, ("exchange", "session"))
        require_positive(f"{KEY}.limit", self.limit)
        require_positive(f"{KEY}.per_conversation", self.per_conversation)

    @staticmethod
    def located(given: Path) -> dict[str, str] | None:
        """Fields that point this adapter at a file or folder that holds its records; None if it does not."""
        found = next(files_with(given, (".jsonl", ".json"), ('"sessions"', '"questions"')), None)
        return None if found is None else {"path": str(found)}

    def examples(self, count_tokens: CountTokens) -> Iterator[Example]:
        """Yield the questions conversation by conversation; lengths in tokens play no part. Raises `DataError`."""
        conversations = self._conversations()
        kept = self._kept(conversations)
        total = sum(len(conversation.questions) for conversation in conversations)
        _LOG.info("%s: %d of %d questions about %d conversations", KEY, len(kept), total, len(conversations))
        for conversation in conversations:
            units = tuple(self._units(conversation.sessions))
            for index in range(len(conversation.questions)):
                if conversation.question_id(index) in kept:
                    yield _example(conversation, index, units)

    def fingerprint(self) -> str:
        """sha256 of the file; from the hub, of the records as canonical JSON, for there the file's form may change."""
        if self.path is not None:
            return fingerprint([self._source().file(NAMES)])
        text = json.dumps(self._source().rows("test"), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    def _source(self) -> Source:
        return Source(setting=f"{KEY}.path", path=self.path, hub_id=self.hub_id, revision=self.revision)

    def _conversations(self) -> list[_Conversation]:
        seen: set[str] = set()
        conversations = [_conversation(record, seen) for record in self._records()]
        if not conversations:
            raise DataError(f"{self.path or self.hub_id}: the data set holds no conversations")
        return conversations

    def _records(self) -> Iterator[Fields]:
        if self.path is not None:
            yield from records(self._source().file(NAMES))
            return
        for index, row in enumerate(self._source().rows("test")):
            yield Fields(f"{self.hub_id}: record {index}", row)

    def _kept(self, conversations: Sequence[_Conversation]) -> frozenset[str]:
        ids = [[c.question_id(index) for index in range(len(c.questions))] for c in conversations]
        each = [draw(group, self.per_conversation, self.shuffle_seed) for group in ids]
        left = [id_ for group, stay in zip(ids, each, strict=True) for id_ in group if id_ in stay]
        return draw(left, self.limit, self.shuffle_seed)

    def _units(self, sessions: Sequence[Sequence[str]]) -> Iterator[Unit]:
        for i, session in enumerate(sessions):
            if self.unit == "session":
                yield _unit(str(i), session)
            else:
                yield from (_unit(f"{i}:{j}", [exchange]) for j, exchange in enumerate(session))


def _conversation(record: Fields, seen: set[str]) -> _Conversation:
    id_ = str(record.any("conversation_id"))
    require_unique(seen, id_, record.where)
    record = record.named(f"conversation_id {id_}")
    sessions = tuple(_session(record, i, session) for i, session in enumerate(record.items("sessions")))
    if not any(sessions):
        raise record.error("sessions", "holds no exchange")
    questions = record.texts("questions")
    for index, question in enumerate(questions):
        if not question.strip():
            raise record.error(f"questions[{index}]", "is empty")
    return _Conversation(id_, sessions, tuple(questions), _answers(record, len(questions)))


def _session(record: Fields, index: int, session: object) -> tuple[str, ...]:
    """The exchanges of one session, without the running number that some copies put before each."""
    key = f"sessions[{index}]"
    exchanges = Fields(record.where, {key: session}).texts(key)
    return tuple(
        _TURN_LABEL.sub("", exchange, count=1) if _TURN_LABEL.match(exchange) else exchange for exchange in exchanges
    )


def _answers(record: Fields, wanted: int) -> tuple[str, ...]:
    if record.values.get("answers") is None:
        return ("",) * wanted
    answers = record.items("answers")
    if len(answers) != wanted:
        raise record.error("answers", f"has {len(answers)} entries for {wanted} questions")
    for index, answer in enumerate(answers):
        if not isinstance(answer, str | None):
            raise record.error(f"answers[{index}]", f"is {type(answer).__name__}, wanted a str or null")
    return tuple(answer or "" for answer in answers)


def _unit(id_: str, exchanges: Sequence[str]) -> Unit:
    return Unit(
        id=id_,
        text="".join(exchange + "\n\n" for exchange in exchanges),
        index_text=" ".join(filter(None, map(_spoken, exchanges))),
    )


def _spoken(exchange: str) -> str:
    """What was said, without the speakers' labels. The reply starts at the first label; a later one is quoted text."""
    human, _, bot = exchange.partition(_BOT)
    return " ".join(filter(None, (human.removeprefix(_HUMAN).strip(), bot.strip())))


def _example(conversation: _Conversation, index: int, units: tuple[Unit, ...]) -> Example:
    question, answer = conversation.questions[index].strip(), conversation.answers[index].strip()
    return Example(
        id=conversation.question_id(index),
        cluster_id=conversation.id,
        units=units,
        question=question,
        question_prompt=f"Question: {question}\nAnswer:",
        references=(answer,) if answer else (),
        question_type="conversation",
        preamble=PREAMBLE,
        notes={} if answer else {"no_reference": True},
    )
