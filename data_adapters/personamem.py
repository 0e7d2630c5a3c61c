"""PersonaMem v1 (Jiang et al., 2025): chats of a persona that changes, then a message and four replies to it."""

from __future__ import annotations

import ast
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from data_adapters.fields import Fields
from data_adapters.files import Source, fingerprint
from data_adapters.links import own
from data_adapters.located import files_with
from data_adapters.parse import records, require_columns, table
from data_adapters.subset import draw, rank, require_choice, require_positive, require_unique
from kvrelay.core.errors import DataError
from kvrelay.core.example import Choice, CountTokens, Example, Turn, Unit
from kvrelay.core.trim import chat_unit

COLUMNS = (
    "persona_id",
    "question_id",
    "question_type",
    "topic",
    "user_question_or_message",
    "correct_answer",
    "all_options",
    "shared_context_id",
    "end_index_in_shared_context",
)
V2_COLUMNS = frozenset({"chat_history_32k_link", "chat_history_128k_link", "user_query", "incorrect_answers"})
LABELS = "abcd"
ROLES = ("system", "user", "assistant")
INSTRUCTION = (
    "Of the replies (a) to (d) below, which one suits me best, going by everything you know of me? "
    "You may think first. Then end with <final_answer> and, after it, the letter of that one reply in parentheses."
)
FILE_SIZES = {"32k": 589, "128k": 2727, "1M": 2674}
"""Questions in the published files."""

_OPTION = re.compile(r"\(([a-d])\)\s*(.*)", re.DOTALL)
_LOG = logging.getLogger(__name__)


class _Row(NamedTuple):
    fields: Fields
    id: str
    context_id: str
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonaMem:
    """One example a question, in layout ``chat``. A unit is a block of messages; a system message opens each.

    Questions about the same messages of one shared context have the same history and are yielded together, histories
    in the order of their first question. The persona is the cluster. Contents stay as published, their "User: " and
    "Patient: " openings included. With ``limit`` and ``shuffle_seed`` the questions are a seeded sample, without a
    seed the first ones, which are all of one persona. ``shuffle_options`` deals the letters anew by that seed.
    ``path`` is a folder or the questions' CSV; ``contexts_path`` names the contexts if they are not beside it.
    """

    path: str | None = None
    contexts_path: str | None = None
    hub_id: str = "bowen-upenn/PersonaMem-v1"
    revision: str | None = None
    size: Literal["32k", "128k", "1M"] = "128k"
    limit: int | None = None
    shuffle_seed: int | None = None
    shuffle_options: int | None = None

    def __post_init__(self) -> None:
        require_choice(f"{self._key}.size", self.size, tuple(FILE_SIZES))
        require_positive(f"{self._key}.limit", self.limit)

    @staticmethod
    def located(given: Path) -> dict[str, str] | None:
        """Fields that point this adapter at its questions and their contexts; None if ``given`` holds none."""
        questions = next(files_with(given, (".csv",), ("persona_id", "shared_context_id")), None)
        if questions is None:
            return None
        beside = sorted(own(path, questions.parent) for path in questions.parent.glob("shared_contexts*.jsonl"))
        size = next((size for size in FILE_SIZES if f"_{size}" in questions.name), "")
        contexts = next((path for path in beside if f"_{size}" in path.name), None) or next(iter(beside), None)
        found = {"path": questions, "contexts_path": contexts, "size": size}
        return {name: str(value) for name, value in found.items() if value}

    def examples(self, count_tokens: CountTokens) -> Iterator[Example]:
        """Yield the questions, history by history; lengths in tokens play no part. Raises `DataError`."""
        questions, contexts_file = self._files()
        rows = _rows(questions)
        kept = draw([row.id for row in rows], self.limit, self.shuffle_seed)
        chosen = [row for row in rows if row.id in kept]
        contexts = _contexts(contexts_file, {row.context_id for row in chosen})
        note = "" if len(rows) == FILE_SIZES[self.size] else f" (the published file has {FILE_SIZES[self.size]})"
        _LOG.info("%s: %d of %d questions%s about %d contexts", self._key, len(kept), len(rows), note, len(contexts))
        for (context_id, end), group in _histories(chosen, contexts, contexts_file).items():
            units = _blocks(contexts[context_id][:end])
            yield from (self._example(row, units, len(contexts[context_id])) for row in group)

    def fingerprint(self) -> str:
        """sha256 over the digests of both files."""
        return fingerprint(self._files())

    @property
    def _key(self) -> str:
        return f"dataset.personamem_{self.size.lower()}"

    def _files(self) -> tuple[Path, Path]:
        """The questions and the contexts."""
        source = Source(setting=f"{self._key}.path", path=self.path, hub_id=self.hub_id, revision=self.revision)
        questions = source.file((f"questions_{self.size}.csv",))
        beside = self.contexts_path if self.path is None else self.contexts_path or str(questions.parent)
        contexts = Source(setting=f"{self._key}.contexts_path", path=beside, hub_id=self.hub_id, revision=self.revision)
        return questions, contexts.file((f"shared_contexts_{self.size}.jsonl",))

    def _example(self, row: _Row, units: tuple[Unit, ...], n_messages: int) -> Example:
        fields = row.fields
        question = fields.name("user_question_or_message")
        options, gold = _options(fields)
        options_text = fields.text("all_options")
        if self.shuffle_options is not None:
            options, gold = _dealt(options, gold, self.shuffle_options, row.id)
            options_text = str([f"({option.label}) {option.text}" for option in options])
        gold_text = next(option.text for option in options if option.label == gold)
        return Example(
            id=row.id,
            cluster_id=fields.name("persona_id"),
            units=units,
            question=question,
            question_prompt=f"{question}\n\n{INSTRUCTION}\n\n{options_text}",
            references=(gold_text,),
            question_type=fields.name("question_type"),
            layout="chat",
            choices=options,
            gold_choice=gold,
            notes=_notes(fields.text("topic"), options, gold, row.end, n_messages),
        )


def _rows(file: Path) -> list[_Row]:
    """The questions in file order. Raises `DataError` for another schema, v2 of the data set above all."""
    table_rows = table(file)
    found = V2_COLUMNS.intersection(table_rows[0].values)
    if found:
        raise DataError(f"{file}: this is PersonaMem v2 (column {min(found)}), which has another schema; wanted v1")
    require_columns(table_rows[0], COLUMNS)
    seen: set[str] = set()
    rows = []
    for fields in table_rows:
        id_ = fields.name("question_id")
        require_unique(seen, id_, fields.where)
        named = fields.named(f"question_id {id_}")
        rows.append(_Row(named, id_, named.name("shared_context_id"), named.integer("end_index_in_shared_context")))
    return rows


def _contexts(file: Path, wanted: set[str]) -> dict[str, tuple[Turn, ...]]:
    """The wanted contexts. Each line is an object from context ids to messages."""
    contexts: dict[str, tuple[Turn, ...]] = {}
    for line in records(file):
        for context_id in wanted.intersection(line.values):
            if context_id in contexts:
                raise DataError(f"{line.where}: the context {context_id!r} stands twice in the file")
            contexts[context_id] = tuple(_message(message) for message in line.parts(context_id))
    return contexts


def _message(message: Fields) -> Turn:
    role = message.text("role")
    if role not in ROLES:
        raise message.error("role", f"is {role!r}, wanted one of {', '.join(ROLES)}")
    return Turn(role=role, content=message.text("content"))


def _histories(
    rows: Sequence[_Row], contexts: Mapping[str, Sequence[Turn]], file: Path
) -> dict[tuple[str, int], list[_Row]]:
    """Questions by context and number of messages; the number is clamped to what the context has."""
    groups: dict[tuple[str, int], list[_Row]] = {}
    for row in rows:
        if row.context_id not in contexts:
            raise row.fields.error("shared_context_id", f"is {row.context_id!r}, which is not in {file}")
        end = min(row.end, len(contexts[row.context_id]))
        if end < 1:
            raise row.fields.error("end_index_in_shared_context", f"is {row.end}: no message of the context is left")
        groups.setdefault((row.context_id, end), []).append(row)
    return groups


def _blocks(messages: Sequence[Turn]) -> tuple[Unit, ...]:
    starts = [0] + [i for i, message in enumerate(messages) if message.role == "system" and i > 0]
    ends = [*starts[1:], len(messages)]
    return tuple(chat_unit(str(i), messages[a:b]) for i, (a, b) in enumerate(zip(starts, ends, strict=True)))


def _options(fields: Fields) -> tuple[tuple[Choice, ...], str]:
    """The options and the gold letter. The list is written as Python does, not as JSON."""
    try:
        texts = ast.literal_eval(fields.text("all_options"))
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise fields.error("all_options", f"is not a Python list of str ({error})") from error
    matches = [_OPTION.fullmatch(text) for text in texts if isinstance(text, str)] if isinstance(texts, list) else []
    options = tuple(Choice(label=match[1], text=match[2].strip()) for match in matches if match)
    labels = "".join(option.label for option in options)
    if not isinstance(texts, list) or len(options) != len(texts) or labels != LABELS:
        raise fields.error(
            "all_options", f"is not a list of four replies (a) to (d): {fields.text('all_options')[:80]!r}"
        )
    gold = _OPTION.fullmatch(fields.text("correct_answer").strip().lower())
    if gold is None:
        raise fields.error("correct_answer", f"is {fields.text('correct_answer')!r}, wanted (a), (b), (c) or (d)")
    return options, gold[1]


def _dealt(options: Sequence[Choice], gold: str, seed: int, id_: str) -> tuple[tuple[Choice, ...], str]:
    """The same replies under new letters, in an order drawn from seed and question."""
    order = sorted(options, key=lambda option: rank(seed, f"{id_}\n{option.label}"))
    dealt = tuple(Choice(label=label, text=option.text) for label, option in zip(LABELS, order, strict=True))
    return dealt, LABELS[[option.label for option in order].index(gold)]


def _notes(topic: str, options: Sequence[Choice], gold: str, end: int, n_messages: int) -> dict[str, object]:
    """17 of the 589 questions of the 32k file have the gold reply's text under a second letter: both are right."""
    notes: dict[str, object] = {"topic": topic}
    gold_text = next(option.text for option in options if option.label == gold)
    equivalent = [option.label for option in options if option.text == gold_text and option.label != gold]
    if equivalent:
        notes["equivalent_choices"] = equivalent
    if end > n_messages:
        notes["end_index_clamped"] = [end, n_messages]
    return notes
