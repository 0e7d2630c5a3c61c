"""HotpotQA (Yang et al., EMNLP 2018): ten paragraphs, two of which the answer needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from data_adapters.fields import Fields
from data_adapters.multi_hop.adapter import MultiHop
from data_adapters.multi_hop.layouts import gold, hotpot_passages, ircot_passages, ircot_references, is_ircot
from data_adapters.multi_hop.passages import SourceQuestion
from data_adapters.multi_hop.recognise import find
from data_adapters.parse import records

FILES = (
    "hotpot_dev_distractor_v1.json",
    "distractor/validation-00000-of-00001.parquet",
    "hotpot_train_v1.1.json",
)
"""The authors' dev file, the hub's Parquet file, and the training set without the 117 broken questions (hotpot#2)."""
LEAST_WORDS = 4
"""Shorter questions are marked in the notes: release 1.1 removed 117 broken ones, and a few more look like them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HotpotQA(MultiHop):
    """The distractor setting. Records come as published, in the hub's layout, or in IRCoT's, which gives no type."""

    hub_id: str = "hotpotqa/hotpot_qa"

    @property
    def name(self) -> str:
        return "hotpotqa"

    @staticmethod
    def located(given: Path) -> dict[str, str] | None:
        """Fields that point this adapter at its records; None if ``given`` holds none."""
        found = find(given, "hotpotqa")
        return None if found is None else {"path": str(found)}

    def files(self) -> tuple[Path, ...]:
        return (self.source(self.hub_id).file(FILES),)

    def questions(self) -> Iterator[SourceQuestion]:
        (file,) = self.files()
        return (hotpot_question(record, self.name, ()) for record in records(file))


def hotpot_question(record: Fields, dataset: str, aliases: tuple[str, ...]) -> SourceQuestion:
    """A record of HotpotQA's layout or of IRCoT's. ``aliases`` are further references, after the gold answer."""
    if is_ircot(record):
        named = record.named(f"question_id {record.name('question_id')}")
        return SourceQuestion(
            dataset=dataset,
            id=named.name("question_id"),
            question=named.name("question_text").strip(),
            references=ircot_references(named),
            type="unlabelled",
            passages=ircot_passages(named),
            notes={"layout": "ircot"},
        )
    id_ = record.name("_id" if "_id" in record.values else "id")
    named = record.named(f"id {id_}")
    answer, question = gold(named).strip(), named.name("question").strip()
    return SourceQuestion(
        dataset=dataset,
        id=id_,
        question=question,
        references=(answer, *(alias for alias in aliases if alias != answer)),
        type=named.name("type"),
        passages=hotpot_passages(named),
        notes={"short_question": True} if len(question.split()) < LEAST_WORDS else {},
    )
