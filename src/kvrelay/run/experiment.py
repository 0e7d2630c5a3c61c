"""A whole run: compose, plan, skip what is done, answer what is missing, write the manifest last."""

from __future__ import annotations

import dataclasses
import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from kvrelay.backend.attention import ATTENTION_NAME
from kvrelay.backend.fingerprint import model_fingerprint
from kvrelay.backend.gate import GateCheck, check_gate
from kvrelay.backend.load import ModelSpec, check_device, facts_of, load_model, read_config, read_tokenizer
from kvrelay.backend.model import HALF_PRECISION, CausalModel, ModelFacts
from kvrelay.backend.prompt import PromptRenderer
from kvrelay.core.errors import ConfigError, IncompleteError
from kvrelay.core.example import DatasetAdapter
from kvrelay.run.appender import Appender
from kvrelay.run.build import build_group
from kvrelay.run.estimate import Estimate, as_lines, estimate
from kvrelay.run.grid import Components, GridCell, cells_of, science
from kvrelay.run.keeping import CacheKeeper
from kvrelay.run.portion import Portion
from kvrelay.run.progress import Progress
from kvrelay.run.provenance import provenance
from kvrelay.run.record import Manifest, PlannedCell, RunPlan, RunRecord, digest
from kvrelay.run.settings import RunSettings
from kvrelay.run.stamps import decoded_apart, trimmed
from kvrelay.run.stopping import finished_first
from kvrelay.run.store import (
    claim_folder,
    moment,
    read_records,
    record_appender,
    shard_digests,
    write_manifest,
    write_plan,
    write_provenance,
)
from kvrelay.run.work import HistoryWork, checked, gather, planned_cells
from kvrelay.run.worker import Worker

log = logging.getLogger(__name__)
SHOWN_FAILURES = 10
LOOKS = 5
"""So many times at most a job looks whether others said more of a plan while it wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The work of one (model, data set): ``work`` of this job's part of the histories, ``planned`` of all of them."""

    spec: ModelSpec
    facts: ModelFacts
    dataset: str
    cells: list[GridCell]
    work: list[HistoryWork]
    planned: tuple[PlannedCell, ...]
    renderer: PromptRenderer

    @property
    def keys(self) -> set[str]:
        """Of all answers that are this job's, there or not."""
        return {cell.key(item.sha256) for history in self.work for item in history.items for cell in self.cells}

    @property
    def missing_questions(self) -> int:
        return sum(len(history.missing) for history in self.work)


class Experiment:
    """A composed configuration as plain objects. ``config`` is the resolved configuration as nested dicts.

    ``changed`` names the components (``group.name``) whose settings are not those that their names stand for.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        settings: RunSettings,
        judges: tuple[str, ...] = (),
        changed: tuple[str, ...] = (),
    ) -> None:
        self.config = config
        self.settings = settings
        self.judges = judges
        self.changed = changed
        self.folder = Path(settings.out) / settings.name
        self.portion = Portion.of(settings.shard)
        self.models: dict[str, ModelSpec] = build_group(config["model"], "model")
        self.datasets: dict[str, DatasetAdapter] = build_group(config["dataset"], "dataset")
        self.parts = Components(
            selectors=build_group(config["selector"], "selector"),
            retentions=build_group(config["retention"], "retention"),
            positions=build_group(config["position"], "position"),
            **_repair_groups(config),
        )

    def plan(self) -> tuple[list[Stage], RunPlan, dict[str, RunRecord]]:
        """Everything that is to be measured, and what of it is there already. No weights are loaded.

        The plan names the answers of all parts of the histories, so that the jobs of a sweep write one and the same
        plan, and one that never began leaves its answers named.
        """
        claim_folder(self.folder, self.settings.name)
        records = read_records(self.folder)
        done = {key for key, record in records.items() if record.status == "ok" or not self.settings.retry_errors}
        # all of them, before the first one has run for hours
        facts = {name: facts_of(spec, read_config(spec)) for name, spec in self.models.items()}
        said = {name: self._model_science(spec) for name, spec in self.models.items()}
        stages = [stage for name in self.models for stage in self._stages(name, facts[name], said[name], done)]
        run_id = digest(
            {"cells": [cell.sha256 for stage in stages for cell in stage.cells], "limit": self.settings.limit}
        )[:16]
        plan = RunPlan(
            experiment=self.settings.name,
            run_id=run_id,
            created=moment(self.folder),
            cells=tuple(cell for stage in stages for cell in stage.planned),
            judges=self.judges,
            stamps=tuple(self._stamps()),
            changed=self.changed,
            settings={**self.config, "shard": None},
        )
        return stages, plan, records

    def estimates(self, stages: list[Stage], records: Mapping[str, RunRecord]) -> list[Estimate]:
        """Counts and memory of every stage, for ``dry_run``."""
        found = []
        for stage in stages:
            failed = sum(records[key].status == "error" for key in stage.keys & records.keys())
            found.append(
                estimate(stage.facts, stage.dataset, stage.work, stage.cells, failed, stage.renderer, self.settings)
            )
        return found

    def run(self, say: Callable[[str], None]) -> Manifest:
        """Answer what is missing. Raises `IncompleteError` at the end, manifest written, if any example failed."""
        stages, plan, records = self.plan()
        expected = {key for stage in stages for key in stage.keys}
        left = sum(stage.missing_questions for stage in stages)
        skipped = sum(records[key].status == "ok" for key in expected & records.keys())
        whole = sum(len(cell.keys) for cell in plan.cells)
        part = "" if self.portion.whole else f", shard {self.portion} of {whole}"
        say(
            f"{self.folder}: {len(expected)} answers planned{part}, {skipped} there already, "
            f"{left} questions to work on"
        )
        if self.settings.mixed_cache and skipped:
            say("mixed_cache looks inside caches that are refreshed now; to see all of them, take a new folder: out=…")
        plan = self.announce(plan, records)
        if left:
            self._work_off(stages, plan.run_id)
        return self._closed(plan, expected, skipped)

    def announce(self, plan: RunPlan, records: Mapping[str, RunRecord]) -> RunPlan:
        """Write the plan with what only the answers can tell: histories that were trimmed, pairs decoded apart."""
        half = {name for name, spec in self.models.items() if spec.dtype in HALF_PRECISION}
        found = (*trimmed(plan, records, self.settings.max_history_tokens), *decoded_apart(plan, records, half))
        plan = plan.model_copy(update={"stamps": (*self._stamps(), *found)})
        write_plan(self.folder, plan)
        return plan

    def _closed(self, plan: RunPlan, expected: set[str], skipped: int) -> Manifest:
        """Plan and manifest as the answers stand now. Raises `IncompleteError` if one of this job's failed.

        Jobs that end at the same time write the same plan: each looks again whether more was to be said when it had
        written, so that the last one says all. Jobs that are still at work say theirs at their own end.
        """
        plan = self.announce(plan, records := read_records(self.folder))
        for _ in range(0 if self.portion.whole else LOOKS):
            written = plan
            if (plan := self.announce(plan, records := read_records(self.folder))).stamps == written.stamps:
                break
        manifest = self._manifest(plan, records, expected, skipped)
        if not self.portion.whole:
            own = manifest.model_copy(update={"run_id": f"{plan.run_id}{self.portion.suffix}"})
            write_manifest(self.folder, own, newest=False)
        whole = {key for cell in plan.cells for key in cell.keys}
        if self.portion.whole or whole <= records.keys():
            write_manifest(self.folder, self._manifest(plan, records, whole, skipped))
        if manifest.failed:
            raise IncompleteError(_failure_list([records[key] for key in manifest.failed]))
        return manifest

    def _manifest(self, plan: RunPlan, records: Mapping[str, RunRecord], keys: set[str], skipped: int) -> Manifest:
        return Manifest(
            run_id=plan.run_id,
            experiment=self.settings.name,
            expected=len(keys),
            done=sum(records[key].status == "ok" for key in keys & records.keys()),
            failed=sorted(key for key in keys & records.keys() if records[key].status == "error"),
            skipped=skipped,
            files=shard_digests(self.folder),
            stamps=list(plan.stamps),
        )

    def _work_off(self, stages: list[Stage], run_id: str) -> None:
        for stage in stages:
            if stage.missing_questions:
                check_device(stage.spec)
        with record_appender(self.folder) as appender:
            progress = Progress(sum(stage.missing_questions for stage in stages), "questions")
            try:
                for name, spec in self.models.items():
                    mine = [stage for stage in stages if stage.spec is spec and stage.missing_questions]
                    if mine:
                        self._serve_model(name, mine, run_id, appender, progress)
            finally:
                progress.close()

    def _serve_model(self, name: str, stages: list[Stage], run_id: str, appender: Appender, progress: Progress) -> None:
        spec = stages[0].spec
        model = load_model(spec)
        checks = check_gate(model, spec.expected_attention_scaling) if self.settings.gate else []
        self._write_provenance(
            f"{run_id}-{name}{self.portion.suffix}", name, model, checks, [stage.dataset for stage in stages]
        )
        for stage in stages:
            worker = Worker(model, stage.renderer, self.settings, self.parts.reach, run_id, appender.worker)
            if (kept_in := self.settings.keep_caches) is not None:
                worker.keeper = CacheKeeper(Path(kept_in), model_fingerprint(spec), spec.dtype, stage.renderer)
            for history in stage.work:
                if not history.missing:
                    continue
                for records in _kept(worker.serve(history), appender):
                    failed = any(record.status == "error" for record in records)
                    progress.advance(failed=int(failed), detail=f"{name} · {stage.dataset}")

    def _write_provenance(
        self, file: str, name: str, model: CausalModel, checks: Sequence[GateCheck], datasets: Sequence[str]
    ) -> None:
        said = {
            **dataclasses.asdict(model.facts),
            "fingerprint": model_fingerprint(self.models[name]),
            "rope": {"type": model.rope.rope_type, "scaling": model.rope.scaling, "rotary_dim": model.rope.rotary_dim},
            "eos_ids": list(model.eos_ids),
            "attention": ATTENTION_NAME,
            "gate": [dataclasses.asdict(check) for check in checks],
        }
        data = {dataset: self.datasets[dataset].fingerprint() for dataset in datasets}
        write_provenance(self.folder, file, provenance(dict(self.config), models={name: said}, data=data))

    def _stages(self, name: str, facts: ModelFacts, model_science: dict[str, Any], done: set[str]) -> Iterator[Stage]:
        spec = self.models[name]
        renderer = PromptRenderer(read_tokenizer(spec), spec.chat_template, spec.template_options)
        for dataset, adapter in self.datasets.items():
            # a data set with a limit of its own draws whole source questions, in all their placements
            limit = None if "limit" in self.config["dataset"][dataset] else self.settings.limit
            examples = checked(islice(adapter.examples(renderer.count), limit), dataset)
            cells = cells_of(name, model_science, dataset, self.parts, self.settings)
            work = gather(examples, cells, done)
            yield Stage(
                spec=spec,
                facts=facts,
                dataset=dataset,
                cells=cells,
                work=[history for history in work if self.portion.holds(history.history_id)],
                planned=tuple(planned_cells(work, cells)),
                renderer=renderer,
            )

    def _model_science(self, spec: ModelSpec) -> dict[str, Any]:
        said = science(spec)
        said.pop("cache_folder")
        return {**said, "device": spec.device.split(":")[0], "weights": model_fingerprint(spec)}

    def _stamps(self) -> Iterator[str]:
        yield from self.settings.stamps
        if self.changed:
            yield f"CHANGED from what the names stand for in conf/: {', '.join(self.changed)}"
        if self.settings.limit is not None:
            yield f"PARTIAL: at most {self.settings.limit} questions of each data set (limit)"


def _kept(answers: Iterator[list[RunRecord]], appender: Appender) -> Iterator[list[RunRecord]]:
    """Hand on what has been written down; a scheduler's signal waits until then."""
    while True:
        with finished_first():
            records = next(answers, None)
            if records is not None:
                appender.append(*records)
        if records is None:
            return
        yield records


def _repair_groups(config: Mapping[str, Any]) -> dict[str, Any]:
    """Allocators, budgets and executors: all three, or none where nothing is deleted."""
    groups = ("allocator", "budget", "executor")
    given = [group for group in groups if config.get(group)]
    if given and len(given) < len(groups):
        missing = ", ".join(group for group in groups if group not in given)
        raise ConfigError(f"{', '.join(given)} came without {missing}; repair needs all three (keys: {missing})")
    return {f"{group}s": build_group(config[group], group) for group in given}


def _failure_list(records: list[RunRecord]) -> str:
    shown = [
        f"  {record.cell.label} · {record.example_id}: {record.error.kind}: {record.error.message}"
        for record in records[:SHOWN_FAILURES]
        if record.error
    ]
    more = [f"  ... and {len(records) - SHOWN_FAILURES} more"] if len(records) > SHOWN_FAILURES else []
    return "\n".join([f"{len(records)} answers failed; the same command tries them again:", *shown, *more])


def print_plan(experiment: Experiment) -> None:
    """What ``dry_run=true`` shows."""
    stages, _, records = experiment.plan()
    sys.stdout.write("\n".join(as_lines(experiment.estimates(stages, records))) + "\n")
