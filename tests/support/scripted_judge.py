"""A judge that says what a test says, and an answered run for it to judge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kvrelay.core.errors import EndpointError
from kvrelay.judging.gold import gold_items
from kvrelay.judging.protocol import BlindItem
from kvrelay.run.record import Cell, JudgeFacts, PlannedCell, RunPlan, RunRecord, Verdict, digest
from kvrelay.run.store import claim_folder, record_appender, write_plan

Said = bool | str
"""True, false, or the reason why there is neither."""
GOLD = {(item.question, item.candidate): item.correct for item in gold_items()}
ARMS = ("original", "roperelay")
CREATED = "2026-01-02T00:00:00+00:00"


def gold_says(item: BlindItem) -> bool | None:
    """The known verdict of a gold item; None for any other."""
    return GOLD.get((item.question, item.candidate))


@dataclass(kw_only=True)
class ScriptedJudge:
    """Judge and settled judge in one. ``gives_out_after``: so many verdicts, and then the server is away."""

    decide: Callable[[BlindItem], Said]
    id: str = "scripted-1"
    name: str = "scripted"
    created: str = CREATED
    reads_a_template: bool = False
    fingerprints: tuple[str, ...] = ()
    caveats: list[str] = field(default_factory=list)
    usage: dict[str, int] = field(default_factory=dict)
    gives_out_after: int | None = None
    asked: list[BlindItem] = field(default_factory=list)

    def settled(self, name: str) -> ScriptedJudge:
        self.name = name
        return self

    @property
    def facts(self) -> JudgeFacts:
        template = {"template": "memory_judge_v1", "template_sha256": "ab" * 32} if self.reads_a_template else {}
        identity = {"model_asked": "org/Judge", "model_answered": "org/Judge-rev2", "constraint": "choice"}
        return JudgeFacts(
            name=self.name,
            id=self.id,
            created=self.created,
            identity=identity if self.reads_a_template else {},
            caveats=self.caveats,
            fingerprints=self.fingerprints,
            **template,
        )

    def verdicts(self, items: Iterable[BlindItem]) -> Iterator[Verdict]:
        for done, item in enumerate(items):
            if done == self.gives_out_after:
                raise EndpointError("the server stays away")
            self.asked.append(item)
            said = self.decide(item)
            yield Verdict(
                judge_id=self.id,
                item_key=item.key,
                correct=said if isinstance(said, bool) else None,
                reason=said if isinstance(said, str) else "",
                usage=self.usage,
            )

    def pace(self) -> str:
        return "3 in flight"


def answered_run(folder: Path, questions: int = 10, **settings: object) -> Path:
    """A run of two arms: even questions have one answer in both, odd ones two. Of 4 answers 3 are distinct items.

    The original's answer to question i is ``right i`` where i is a multiple of 3, else ``wrong i``; an odd question's
    other answer is ``right i``.
    """
    claim_folder(folder, "answered")
    cells = [Cell(model="m", dataset="d", selector="snapkv", retention="r10", position=arm) for arm in ARMS]
    records = {cell: [_record(cell, i) for i in range(questions)] for cell in cells}
    with record_appender(folder, worker="w") as shard:
        for of_cell in records.values():
            shard.append(*of_cell)
    planned = tuple(
        PlannedCell(cell=cell, config_sha256=digest(cell.label), keys=tuple(record.key for record in of_cell))
        for cell, of_cell in records.items()
    )
    report = {"view": None, "baseline": "original", "resamples": 100, "seed": 0, **settings}
    write_plan(
        folder,
        RunPlan(
            experiment="answered",
            run_id="run",
            created=CREATED,
            cells=planned,
            judges=("scripted",),
            settings={"allocator": None, "report": report},
        ),
    )
    return folder


def _record(cell: Cell, i: int) -> RunRecord:
    original = f"right {i}" if i % 3 == 0 else f"wrong {i}"
    answer = original if cell.position == "original" or i % 2 == 0 else f"right {i}, said otherwise"
    return RunRecord(
        key=digest([cell.label, i]),
        pair_key=digest(["pair", i]),
        cell=cell,
        run_id="run",
        worker="w",
        example_id=f"e{i}",
        cluster_id=f"c{i}",
        history_id=f"h{i}",
        question=f"Question {i}?",
        question_type="single-session-user",
        references=(f"right {i}",),
        status="ok",
        answer=answer,
        answer_tokens=3,
        stop="eos",
        slots_LH=[[7, 7]],
        kept_sha256=digest(["kept", i]),
        values_sha256=digest(["values", i]),
    )


def is_right(item: BlindItem) -> bool:
    """What is true of an answer of `answered_run`, and of a gold item."""
    known = gold_says(item)
    return item.candidate.startswith("right") if known is None else known
