"""A small experiment under several judges: outcomes as letters, one string a judge, as in the golden study.

No two answers are alike, so that each judge can say of each what its letters say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kvrelay.run.record import JudgeFacts, Verdict, item_key
from tests.stats.golden_study import CLUSTERS, Files, study_files

A, B = "lexical", "lexical_f1"
OUTCOMES: dict[tuple[str, str, str], dict[str, str]] = {
    ("longmemeval_s", "bm25", "original"): {A: "001001", B: "001000"},
    ("longmemeval_s", "bm25", "roperelay"): {A: "111010", B: "110011"},
    ("longmemeval_s", "snapkv", "original"): {A: "110010", B: "100010"},
    ("longmemeval_s", "snapkv", "roperelay"): {A: "110010", B: "110010"},
    ("talks", "bm25", "original"): {A: "010100", B: "0u1101"},
    ("talks", "bm25", "roperelay"): {A: "111001", B: "0100j1"},
}
"""By hand, paired under both judges: BM25 of LongMemEval gains 2 under A, 3 under B; SnapKV 0 and 1. Of the talks
questions 1, 3, 4 and 6 have all verdicts: A gains 2, B loses 2."""


@dataclass(kw_only=True)
class Judged(Files):
    judges: list[JudgeFacts] = field(default_factory=list)


def facts(name: str, *, created: str = "2026-01-01T00:00:00+00:00", mark: str = "1", **more: Any) -> JudgeFacts:
    return JudgeFacts(name=name, id=f"{name}-{mark}", created=created, **more)


def judged_files(
    outcomes: Mapping[tuple[str, str, str], Mapping[str, str]] = OUTCOMES,
    *,
    judges: Sequence[JudgeFacts] = (facts(A), facts(B)),
    planned: tuple[str, ...] = (A, B),
    clusters: Mapping[str, Sequence[str]] = CLUSTERS,
    **options: Any,
) -> Judged:
    """``f`` and ``m`` of the first judge's letters are failed and missing answers."""
    bare = {cell: next(iter(letters.values())) for cell, letters in outcomes.items()}
    made = study_files(bare, judges=(), clusters=clusters, **options)
    plans = [plan.model_copy(update={"judges": planned}) for plan in made.plans]
    found = Judged(plans=plans, judges=list(judges))
    for key, record in made.records.items():
        own = f"{record.cell.selector} at {record.cell.position}, {record.example_id}"
        found.records[key] = record.model_copy(update={"answer": own if record.status == "ok" else None})
    for planned_cell in plans[0].cells:
        cell = planned_cell.cell
        for judge in judges:
            letters = outcomes[cell.dataset, cell.selector, cell.position].get(judge.name, "")
            for key, letter in zip(planned_cell.keys, letters, strict=False):
                if letter not in "fjm":
                    found.verdicts |= _verdict(found, key, letter, judge.id)
    return found


def _verdict(files: Files, key: str, letter: str, judge: str) -> dict[str, Verdict]:
    item = item_key(judge, files.records[key].item_fields())
    correct = None if letter == "u" else letter == "1"
    return {item: Verdict(judge_id=judge, item_key=item, correct=correct, reason="malformed" if letter == "u" else "")}
