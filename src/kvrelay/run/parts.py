"""The two kinds of what is measured, answers and verdicts: where they lie, what names one, and which of two stands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic

from kvrelay.run.lines import Record
from kvrelay.run.merged import read_rows
from kvrelay.run.record import RunRecord, Verdict
from kvrelay.run.shards import read_shard


@dataclass(frozen=True, slots=True, kw_only=True)
class Part(Generic[Record]):
    """Shards in ``folder``, and the Parquet file that they may have been merged into; of one key the lowest ``rank``
    counts. ``shown`` are the columns that the Parquet file has for people, beside the records themselves."""

    folder: str
    file: str
    schema: type[Record]
    key: Callable[[Record], str]
    rank: Callable[[Record], int]
    shown: Callable[[Record], Mapping[str, Any]]

    def shards(self, folder: Path) -> list[Path]:
        return sorted((folder / self.folder).glob("*.jsonl"))

    def stream(self, folder: Path) -> Iterator[Record]:
        """Every sound record, repetitions included. The shards first: what is merged away meanwhile is in the file."""
        for shard in self.shards(folder):
            yield from read_shard(shard, self.schema)
        yield from read_rows(folder / self.file, self.schema)


def _shown_answer(record: RunRecord) -> dict[str, Any]:
    named = ("key", "pair_key", "status", "example_id", "cluster_id", "history_id", "question_type", "question")
    cell = {f"cell_{name}": value for name, value in record.cell.model_dump().items()}
    told = {name: getattr(record, name) for name in (*named, "answer", "run_id", "worker")}
    return {**told, **cell, "error": record.error and f"{record.error.kind}: {record.error.message}"}


def _shown_verdict(verdict: Verdict) -> dict[str, Any]:
    correct = None if verdict.correct is None else str(verdict.correct).lower()
    told = {name: getattr(verdict, name) for name in ("item_key", "judge_id", "reason", "parse")}
    return {**told, "correct": correct}


ANSWERS = Part(
    folder="records",
    file="answers.parquet",
    schema=RunRecord,
    key=lambda record: record.key,
    rank=lambda record: record.status != "ok",
    shown=_shown_answer,
)
"""One that is ok stands before one that failed."""

VERDICTS = Part(
    folder="verdicts",
    file="verdicts.parquet",
    schema=Verdict,
    key=lambda verdict: verdict.item_key,
    rank=lambda verdict: (not verdict.is_scored) + (not verdict.is_final),
    shown=_shown_verdict,
)
"""A scored one stands before a final unscored one, that before the others."""
