"""A small experiment made in code: outcomes as letters, so that every mean and count can be worked out by hand.

``1`` right, ``0`` wrong, ``u`` unscored, ``j`` never judged, ``f`` failed, ``m`` missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kvrelay.run.record import Cell, ErrorInfo, PlannedCell, RunPlan, RunRecord, Timings, Verdict, digest, item_key

JUDGE = "lexical-0123"
CLUSTERS = {"talks": ("c1", "c1", "c1", "c2", "c3", "c3"), "longmemeval_s": ("r1", "r2", "r3", "r4", "r5", "r6")}
OUTCOMES: dict[tuple[str, str, str], str] = {
    ("talks", "bm25", "original"): "010100",
    ("talks", "bm25", "roperelay"): "111001",
    ("talks", "snapkv", "original"): "0m1u00",
    ("talks", "snapkv", "roperelay"): "1111f0",
    ("longmemeval_s", "bm25", "original"): "001001",
    ("longmemeval_s", "bm25", "roperelay"): "111010",
    ("longmemeval_s", "snapkv", "original"): "110010",
    ("longmemeval_s", "snapkv", "roperelay"): "110010",
    ("longmemeval_s", "full", "original"): "111000",
}


@dataclass(kw_only=True)
class Files:
    """What an experiment's folder holds."""

    plans: list[RunPlan] = field(default_factory=list)
    records: dict[str, RunRecord] = field(default_factory=dict)
    verdicts: dict[str, Verdict] = field(default_factory=dict)


def study_files(
    outcomes: Mapping[tuple[str, str, str], str] = OUTCOMES,
    *,
    settings: str = "a",
    created: str = "2026-01-02T00:00:00+00:00",
    clusters: Mapping[str, Sequence[str]] = CLUSTERS,
    model: str = "llama31_8b",
    stamps: tuple[str, ...] = (),
    judges: tuple[str, ...] = (JUDGE,),
) -> Files:
    files = Files()
    planned = []
    for (dataset, selector, position), letters in outcomes.items():
        cell = Cell(model=model, dataset=dataset, selector=selector, retention="r10", position=position)
        keys = tuple(digest([settings, cell.model_dump(), i]) for i in range(len(letters)))
        planned.append(PlannedCell(cell=cell, config_sha256=digest([settings, cell.label]), keys=keys))
        for i, letter in enumerate(letters):
            if letter != "m":
                record = _record(cell, settings, keys[i], i, letter, clusters[dataset][i])
                files.records[record.key] = record
                if letter not in "fj" and judges:
                    verdict = _verdict(record, letter, judges[0])
                    files.verdicts[verdict.item_key] = verdict
    run_id = f"run-{settings}-{digest([cell.model_dump_json() for cell in planned])[:8]}"
    files.plans = [
        RunPlan(experiment="golden", run_id=run_id, created=created, cells=tuple(planned), judges=judges, stamps=stamps)
    ]
    return files


def _record(cell: Cell, settings: str, key: str, i: int, letter: str, cluster: str) -> RunRecord:
    pair = digest([settings, cell.model, cell.dataset, cell.selector, i])
    failed = letter == "f"
    return RunRecord(
        key=key,
        pair_key=pair,
        cell=cell,
        run_id="run",
        worker="w",
        example_id=f"e{i + 1}",
        cluster_id=cluster,
        history_id=f"h-{cluster}",
        question=f"question {i + 1} of {cell.dataset}",
        question_type="temporal" if i % 2 else "update",
        references=("the reference",),
        status="error" if failed else "ok",
        error=ErrorInfo(kind="PositionError", message="out of range") if failed else None,
        answer=None if failed else f"an answer of kind {letter}",
        answer_tokens=10 + i,
        stop=None if failed else ("length" if i == 5 else "eos"),
        reference_nll=None if failed else 2.0 - 0.5 * (letter == "1"),
        slots_LH=[] if failed else [[7, 7], [7, 7]],
        kept_sha256="" if failed else digest(["kept", pair]),
        values_sha256="" if failed else digest(["values", pair]),
        timings=Timings(prefill_s=1.0 + i, decode_s=0.5),
        peak_memory_bytes=1000 + i,
    )


def _verdict(record: RunRecord, letter: str, judge: str) -> Verdict:
    return Verdict(
        judge_id=judge,
        item_key=item_key(judge, record.item_fields()),
        correct=None if letter == "u" else letter == "1",
        reason="malformed" if letter == "u" else "",
        scores={} if letter == "u" else {"f1": 1.0 if letter == "1" else 0.25, "em": float(letter == "1")},
    )
