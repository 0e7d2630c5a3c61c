"""A small experiment whose answers were held to checklists: grades by hand, so that every mean can be worked out.

A tuple is an answer's grades, ``None`` a reply that could not be read, ``lost`` one that never came, ``j`` an answer
that nobody judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kvrelay.run.record import SCORED, Cell, PlannedCell, RunPlan, RunRecord, Verdict, digest, item_key

JUDGE = "helloeval-0123"
KINDS = ("report", "report", "blogs")
ENTRIES = {"report": ("Clear?", "True?"), "blogs": ("Clear?", "True?", "Whole?")}
WEIGHTS = {"report": (40.0, 60.0), "blogs": (50.0, 25.0, 25.0)}
TRUE = 2
"""The entry of both kinds that is about facts."""
Grades = tuple[float, ...] | str | None
GRADES: dict[tuple[str, str], Sequence[Grades]] = {
    ("full", "original"): [(1, 1), (1, 0.5), (1, 1, 1)],
    ("snapkv", "original"): [(1, 0), (0.5, 0.5), (0, 0.25, 0.5)],
    ("snapkv", "roperelay"): [(1, 0.5), (0.5, 0.75), (0, 0.25, 0.5)],
}


@dataclass(kw_only=True)
class Files:
    """What an experiment's folder holds."""

    plans: list[RunPlan] = field(default_factory=list)
    records: dict[str, RunRecord] = field(default_factory=dict)
    verdicts: dict[str, Verdict] = field(default_factory=dict)


def checklist_files(
    grades: Mapping[tuple[str, str], Sequence[Grades]] = GRADES,
    *,
    dataset: str = "hellobench_summarization",
    model: str = "llama31_8b",
    kinds: Sequence[str] = KINDS,
    changed: tuple[str, ...] = (),
) -> Files:
    files = Files()
    planned = []
    for (selector, position), row in grades.items():
        cell = Cell(model=model, dataset=dataset, selector=selector, retention="r10", position=position)
        keys = tuple(digest([cell.model_dump(), i]) for i in range(len(row)))
        planned.append(PlannedCell(cell=cell, config_sha256=digest(cell.label), keys=keys))
        for i, given in enumerate(row):
            record = _record(cell, keys[i], i, kinds[i])
            files.records[record.key] = record
            if given != "j":
                verdict = _verdict(record, given)
                files.verdicts[verdict.item_key] = verdict
    created = "2026-01-02T00:00:00+00:00"
    plan = RunPlan(
        experiment="hello", run_id="r", created=created, cells=tuple(planned), judges=(JUDGE,), changed=changed
    )
    files.plans = [plan]
    return files


def _record(cell: Cell, key: str, i: int, kind: str) -> RunRecord:
    """Answer ``i`` of an arm has ``10 + i`` words; the last one of three ended at its limit."""
    pair = digest([cell.model, cell.selector, i])
    return RunRecord(
        key=key,
        pair_key=pair,
        cell=cell,
        run_id="r",
        worker="w",
        example_id=f"e{i + 1}",
        cluster_id=f"c{i + 1}",
        history_id=f"h{i + 1}",
        question="Summarise it.",
        question_type=kind,
        references=("the instruction",),
        checklist=ENTRIES[kind],
        status="ok",
        answer=" ".join([cell.selector, cell.position, *(["word"] * (8 + i))]),
        answer_tokens=20 + i,
        stop="length" if i == 2 else "eos",
        slots_LH=[[7]],
        kept_sha256=digest(["kept", pair]),
        values_sha256=digest(["values", pair]),
    )


def _verdict(record: RunRecord, given: Grades) -> Verdict:
    shared = {"judge_id": JUDGE, "item_key": item_key(JUDGE, record.item_fields()), "correct": None}
    if not isinstance(given, tuple):
        return Verdict(**shared, reason="transport_error" if given == "lost" else "malformed")
    score = sum(w * g for w, g in zip(WEIGHTS[record.question_type], given, strict=True))
    scores = {f"item_{i}": float(grade) for i, grade in enumerate(given, start=1)}
    scores |= {"quality": sum(given) / len(given), "factuality": float(given[TRUE - 1])}
    return Verdict(
        **shared, reason=SCORED, scores=scores | {"helloeval": score, "helloeval_rescaled": (score - 75) * 4}
    )
