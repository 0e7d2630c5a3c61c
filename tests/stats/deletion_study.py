"""A small experiment with deletions, made in code: outcomes as letters, budgets and counts that can be worked by hand.

``1`` right, ``0`` wrong, ``x`` wrong because the deleted value is told, ``u`` unscored, ``f`` failed, ``m`` missing.
Case i has a suffix of 1,000 + 100 i stale states behind 500 exact ones, in a model of two layers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kvrelay.run.record import (
    Cell,
    ErrorInfo,
    PlannedCell,
    RepairFacts,
    RunPlan,
    RunRecord,
    Timings,
    Verdict,
    digest,
    item_key,
)
from kvrelay.stats.arms import MEMORY
from tests.stats.golden_study import Files

JUDGE = "short-answer-0123"
LAYERS, PREFIX = 2, 500
KL = {"1": 0.25, "0": 0.5, "x": 1.0, "u": 0.5}
"""Nats a token by outcome; zero for Re-prefill, and for Replay, whose states are the same."""
Arm = tuple[str, str, str]
WHOLE = ("full", "r10", "original")
"""Selector, retention and position of the cache that is edited."""
NIAH: dict[Arm, str] = {
    ("shift", "0", ""): "x00x",
    ("replay", "suffix", "packed"): "1111",
    ("reprefill", "all", ""): "1111",
    ("sur", "p02", "packed"): "1100",
    ("sur", "p05", "packed"): "1111",
    ("token", "p02", "packed"): "0x00",
    ("token", "p05", "packed"): "0100",
}
SECONDS = {"shift": 0.5, "reprefill": 4.0}
"""Seconds of refresh or re-prefill; of all others 1."""


def n_suffix(case: int) -> int:
    return 1000 + 100 * case


def allowed(budget: str, size: int) -> int:
    """B of S: 5 % of 1,100 states are 55."""
    fixed = {"0": 0, "suffix": size, "all": 0, "slot": 40}
    if budget in fixed:
        return fixed[budget]
    return size * int(budget[1:]) // 100 if budget[0] == "p" else min(size, int(budget[1:]))


def deletion_files(
    arms: Mapping[Arm, str] = NIAH,
    *,
    dataset: str = "erasing_niah",
    model: str = "qwen3_8b",
    clusters: Sequence[str] = ("a", "b", "c", "d"),
    kinds: Sequence[str] = ("niah-1024", "niah-1024", "niah-4096", "niah-4096"),
    kl: Mapping[str, float] = KL,
    created: str = "2026-01-02T00:00:00+00:00",
    rows: int = 1,
    cache: tuple[str, str, str] = WHOLE,
    **plan: Any,
) -> Files:
    """Plan, records and verdicts of these arms on one data set and cache; ``rows`` decoded together."""
    files, planned = Files(), []
    for (allocator, budget, executor), letters in arms.items():
        names = {
            "allocator": allocator,
            "budget": budget,
            "executor": executor,
            **dict(zip(MEMORY, cache, strict=True)),
        }
        cell = Cell(model=model, dataset=dataset, **names)
        keys = tuple(digest([cell.model_dump(), case]) for case in range(len(letters)))
        planned.append(PlannedCell(cell=cell, config_sha256=digest(cell.label), keys=keys))
        for case, letter in enumerate(letters):
            if letter != "m":
                record = _record(cell, keys[case], case, letter, clusters[case], kinds[case], kl, rows)
                files.records[record.key] = record
                if letter != "f":
                    verdict = _verdict(record, letter)
                    files.verdicts[verdict.item_key] = verdict
    run_id = f"run-{dataset}-{model}"
    fields = {"experiment": "deletions", "run_id": run_id, "created": created, "judges": (JUDGE,)} | plan
    files.plans = [RunPlan(cells=tuple(planned), **fields)]
    return files


def together(*several: Files) -> Files:
    files = Files()
    for one in several:
        files.plans += one.plans
        files.records |= one.records
        files.verdicts |= one.verdicts
    return files


def _record(
    cell: Cell, key: str, case: int, letter: str, cluster: str, kind: str, kl: Mapping[str, float], rows: int
) -> RunRecord:
    failed = letter == "f"
    return RunRecord(
        key=key,
        pair_key=digest([cell.dataset, case]),
        cell=cell,
        run_id="run",
        worker="w",
        example_id=f"e{case + 1}",
        cluster_id=cluster,
        history_id="h",
        question=f"question {case + 1} of {cell.dataset}",
        question_type=kind,
        references=("4711",),
        status="error" if failed else "ok",
        error=ErrorInfo(kind="EditError", message="no") if failed else None,
        answer=None if failed else {"1": "4711", "x": "It was 12,345."}.get(letter, f"none ({letter})"),
        answer_tokens=5,
        stop=None if failed else "eos",
        reference_nll=None if failed else 3.0 - 2.0 * (letter == "1"),
        batch_sha256="" if failed else "b",
        batch_rows=rows,
        repair=None if failed else _facts(cell, case, letter, cluster, kl),
        timings=Timings(
            prefill_s=9.0,
            allocate_s=0.25,
            relocate_s=0.125,
            refresh_s=SECONDS.get(cell.allocator, 1.0) * (case + 1),
            question_s=0.25,
            decode_s=0.5,
        ),
        notes={"erased_value": 12345},
    )


def _facts(cell: Cell, case: int, letter: str, cluster: str, kl: Mapping[str, float]) -> RepairFacts:
    size = n_suffix(case)
    states = allowed(cell.budget, size)
    return RepairFacts(
        splice=PREFIX,
        n_suffix=size,
        n_deleted=20,
        requested=states,
        refreshed=states,
        interval_lengths=(states - 10, 10) if states > 10 else (),
        edited_sha256=digest([cell.dataset, cluster]),
        kl=0.0 if cell.allocator in ("replay", "reprefill") else kl[letter],
        token_layer_updates=LAYERS * states,
        # The last states of the suffix: the most pairs that so many can have.
        causal_pairs=states * (2 * size - states + 1) // 2,
        replay_pairs=size * (size + 1) // 2,
    )


def _verdict(record: RunRecord, letter: str) -> Verdict:
    scores = {} if letter == "u" else {"em": float(letter == "1"), "f1": 1.0 if letter == "1" else 0.25}
    return Verdict(
        judge_id=JUDGE,
        item_key=item_key(JUDGE, record.item_fields()),
        correct=None if letter == "u" else letter == "1",
        reason="malformed" if letter == "u" else "",
        scores=scores,
    )
