"""MuSiQue (Trivedi et al., TACL 2022): twenty paragraphs and questions of two to four hops."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from data_adapters.fields import Fields
from data_adapters.multi_hop.adapter import MultiHop
from data_adapters.multi_hop.layouts import (
    gold,
    ircot_passages,
    ircot_references,
    is_ircot,
    marked_passages,
    unique,
)
from data_adapters.multi_hop.passages import SourceQuestion
from data_adapters.multi_hop.recognise import find
from data_adapters.parse import records

FILES = ("musique_ans_v1.0_dev.jsonl", "musique_full_v1.0_dev.jsonl", "musique_ans_v1.0_train.jsonl")

_HOPS = re.compile(r"([1-9])hop")


@dataclass(frozen=True, slots=True, kw_only=True)
class MuSiQue(MultiHop):
    """Answerable questions only: the full version holds each question twice, once without its support.

    The type is the number of hops ("2hop" to "4hop"). Files are ordered by it, so a sample needs a ``shuffle_seed``.
    """

    hub_id: str = "dgslibisey/MuSiQue"

    @property
    def name(self) -> str:
        return "musique"

    @staticmethod
    def located(given: Path) -> dict[str, str] | None:
        """Fields that point this adapter at its records; None if ``given`` holds none."""
        found = find(given, "musique")
        return None if found is None else {"path": str(found)}

    def files(self) -> tuple[Path, ...]:
        return (self.source(self.hub_id).file(FILES),)

    def questions(self) -> Iterator[SourceQuestion]:
        (file,) = self.files()
        return (_question(record) for record in records(file) if record.values.get("answerable") is not False)


def _question(record: Fields) -> SourceQuestion:
    ircot = is_ircot(record)
    id_ = record.name("question_id" if ircot else "id")
    named = record.named(f"id {id_}")
    return SourceQuestion(
        dataset="musique",
        id=id_,
        question=named.name("question_text" if ircot else "question").strip(),
        references=ircot_references(named) if ircot else _references(named),
        type=_type(named, id_),
        passages=ircot_passages(named) if ircot else marked_passages(named, "paragraphs"),
        notes={"layout": "ircot"} if ircot else {},
    )


def _references(record: Fields) -> tuple[str, ...]:
    """The gold answer and its aliases, as published: those of "Norway" are NO, NOR and no."""
    aliases = record.texts("answer_aliases") if record.values.get("answer_aliases") is not None else []
    return unique([gold(record), *aliases])


def _type(record: Fields, id_: str) -> str:
    """Hops by the id ("3hop1__…"), else by the steps of the decomposition."""
    match = _HOPS.match(id_)
    if match:
        return match[0]
    steps = record.values.get("question_decomposition")
    if not isinstance(steps, list) or not steps:
        raise record.error("id", f"is {id_!r}, wanted one that begins with its hops, as 2hop__1_2")
    return f"{len(steps)}hop"
