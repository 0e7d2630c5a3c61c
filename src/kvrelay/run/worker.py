"""One history at a time: read once, and from it serve every selection, position and question (DESIGN section 8)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from kvrelay.backend.decode import Answer, Asked, answer_rows
from kvrelay.backend.memory import peak_memory_bytes
from kvrelay.backend.model import HALF_PRECISION, CausalModel
from kvrelay.backend.prefill import observe_question, prefill
from kvrelay.backend.prompt import Prompt, PromptRenderer
from kvrelay.core.errors import DataError, InvariantError, PositionError
from kvrelay.core.example import Example
from kvrelay.core.history import Need, PrefilledHistory
from kvrelay.core.rope import RotaryTable
from kvrelay.core.trim import Trimmer
from kvrelay.run.batches import Row, batches
from kvrelay.run.grid import GridCell
from kvrelay.run.keeping import CacheKeeper
from kvrelay.run.kept import Kept, KeptStates
from kvrelay.run.record import ErrorInfo, RunRecord, Timings, digest
from kvrelay.run.repairer import Repairer
from kvrelay.run.settings import RunSettings
from kvrelay.run.work import HistoryWork, Item

SLACK = 8
"""Tokens by which a trimmed history may come out longer than its units counted one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """An example whose prompt fits the model, trimmed where it was asked for, with what every row will be asked."""

    item: Item
    example: Example
    prompt: Prompt
    asked: Asked


class Worker:
    """Answers with one model. ``reach`` is that of all arms of the experiment, so that pairs never break."""

    def __init__(
        self, model: CausalModel, renderer: PromptRenderer, settings: RunSettings, reach: int, run_id: str, name: str
    ) -> None:
        self.model = model
        self.renderer = renderer
        self.settings = settings
        self.reach = reach
        self.run_id = run_id
        self.name = name
        limit = settings.max_history_tokens
        self.keeper: CacheKeeper | None = None
        self.trimmer = None if limit is None else Trimmer(limit, renderer.count)
        self._table = RotaryTable.of(model.rope, 0, model.device)
        self._repairer = Repairer(model, lambda size: self._rotary_table(size + reach + 1), settings.mixed_cache)

    def serve(self, work: HistoryWork) -> Iterator[list[RunRecord]]:
        """Records of one history, a list an example. What fails is a record with its error; the rest goes on."""
        started = time.perf_counter()
        ready: list[Ready] = []
        for item in work.missing:
            try:
                ready.append(self._ready(item))
            except Exception as error:
                yield self._failures(item, error)
        if not ready:
            return
        try:
            prefilled = self._prefill(ready, work.history_id)
        except Exception as error:
            yield from (self._failures(one.item, error) for one in ready)
            return
        prefill_s = time.perf_counter() - started
        kept = KeptStates(self.keeper)
        for one in ready:
            try:
                yield self._answer(one, prefilled, kept, prefill_s)
            except Exception as error:
                yield self._failures(one.item, error)

    def _ready(self, item: Item) -> Ready:
        example = item.example if self.trimmer is None else self.trimmer(item.example)
        prompt = self.renderer.render(example)
        if prompt.text.n_history == 0:
            raise DataError(f"example {example.id} has an empty history; there is nothing to select from")
        if not prompt.question.token_ids:
            raise DataError(f"example {example.id} has an empty question, and the prompt no template; nothing is asked")
        ready = Ready(item=item, example=example, prompt=prompt, asked=self._asked(example, prompt))
        self._check_range(ready)
        return ready

    def _prefill(self, ready: Sequence[Ready], history_id: str) -> PrefilledHistory:
        needs = {need for one in ready for cell in self._decoded(one.item) for need in cell.selector.needs}
        prompt = ready[0].prompt
        return prefill(self.model, self.model.row(prompt.prefilled_ids), prompt.text, history_id, needs)

    def _check_range(self, ready: Ready) -> None:
        prompt, room = ready.prompt, ready.asked.room
        reached = prompt.text.n_prefilled + self.reach + room
        limit = self.model.facts.position_range
        if reached > limit:
            fits = limit - reached + prompt.text.n_history - SLACK
            advice = f"set dataset.max_history_tokens={fits} or lower"
            if fits < 1:
                advice = (
                    f"no history would fit beside a question of {len(prompt.question.token_ids)} tokens: lower "
                    "max_new_tokens or take a model of longer range (keys: max_new_tokens, model)"
                )
            raise PositionError(
                f"example {ready.example.id}: {prompt.text.n_prefilled} history tokens + {room} for question and "
                f"answer + {self.reach} of shift reach position {reached}, but {self.model.facts.name} has {limit}; "
                f"{advice}"
            )

    def _asked(self, example: Example, prompt: Prompt) -> Asked:
        references: tuple[int, ...] = ()
        scored = self.settings.score_references and example.references and not example.unanswerable
        if scored and not example.notes.get("rubric"):
            references = self.renderer.data_ids(example.references[0])
        by_texts = self._by_texts(example)
        if by_texts and not all(choice.text.strip() for choice in example.choices):
            raise DataError(
                f"example {example.id} has a reply without text, whose likelihood means nothing; mend the record "
                "or set choice_by=answer"
            )
        options = [choice.text if by_texts else f"({choice.label})" for choice in example.choices]
        return Asked(
            question_ids=prompt.question.token_ids,
            max_new_tokens=0 if by_texts else self.settings.max_new_tokens,
            reference_ids=references,
            option_ids=tuple(self.renderer.data_ids(option) for option in options),
            whole_options=by_texts,
        )

    def _by_texts(self, example: Example) -> bool:
        return bool(example.choices) and self.settings.choice_by == "texts"

    def _decoded(self, item: Item) -> tuple[GridCell, ...]:
        """Cells that are decoded: those that are missing; in half precision, where the batch can change an answer,
        all that are planned, so that a batch's composition follows from the example alone."""
        exact = self.model.facts.dtype not in HALF_PRECISION
        return item.missing if exact or self.settings.decode_batch_rows == 1 else item.planned

    def _answer(self, ready: Ready, prefilled: PrefilledHistory, kept: KeptStates, prefill_s: float) -> list[RunRecord]:
        item, prompt = ready.item, ready.prompt
        cells = self._decoded(item)
        needs: set[Need] = {need for cell in cells for need in cell.selector.needs}
        seen = observe_question(self.model, prefilled, prompt.question, needs)
        placed = [cell for cell in cells if cell.repair is None]
        rows, records = self._rows(placed, ready, lambda cell: self._row(cell, kept.of(cell, seen, prompt), ready))
        for batch in batches(rows, self.settings.decode_batch_rows):
            records += self._tried(ready, batch, prefill_s)
        repaired = [cell for cell in cells if cell.repair is not None]
        records += self._repaired(repaired, ready, seen, kept, prefill_s)
        missing = {cell.key(item.sha256) for cell in item.missing}
        return [record for record in records if record.key in missing]

    def _rows(
        self, cells: Sequence[GridCell], ready: Ready, make: Callable[[GridCell], Row]
    ) -> tuple[list[Row], list[RunRecord]]:
        """What could be made ready, and records of what failed."""
        rows: list[Row] = []
        failed: list[RunRecord] = []
        for cell in cells:
            try:
                rows.append(make(cell))
            except Exception as error:
                failed.append(self._failed(ready.item, cell, error))
        return rows, failed

    def _repaired(
        self, cells: Sequence[GridCell], ready: Ready, prefilled: PrefilledHistory, kept: KeptStates, prefill_s: float
    ) -> list[RunRecord]:
        """Answers after a deletion, in runs of ``decode_batch_rows``: a repaired cache is as long as the context."""
        records: list[RunRecord] = []
        groups: dict[tuple[str, ...], list[GridCell]] = {}
        for cell in cells:
            groups.setdefault((*cell.group, cell.cell.position), []).append(cell)
        for group in groups.values():
            try:
                states = kept.of(group[0], prefilled, ready.prompt)
                edited = self._repairer.edited(ready.example, ready.prompt, group[0], states)
                clean = self._repairer.clean(edited, group[0], ready.prompt, ready.asked)
            except Exception as error:
                records += [self._failed(ready.item, cell, error) for cell in group]
                continue
            asked = replace(ready, asked=replace(ready.asked, fidelity_to=clean.said))
            for start in range(0, len(group), self.settings.decode_batch_rows):
                some = group[start : start + self.settings.decode_batch_rows]
                make = partial(self._repairer.row, edited=edited, prompt=ready.prompt, clean=clean)
                rows, failed = self._rows(some, ready, make)
                records += failed
                if rows:
                    records += self._tried(asked, rows, prefill_s)
        return records

    def _tried(self, ready: Ready, batch: Sequence[Row], prefill_s: float) -> list[RunRecord]:
        try:
            return self._decode(ready, batch, prefill_s)
        except Exception as error:
            return [self._failed(ready.item, row.cell, error) for row in batch]

    def _decode(self, ready: Ready, batch: Sequence[Row], prefill_s: float) -> list[RunRecord]:
        answers = answer_rows(self.model, [row.cache for row in batch], ready.asked)
        rows = [row.cell.cell.label for row in batch] if len(batch) > 1 else "alone"
        composition = digest([rows, str(self.model.dtype)])
        records = []
        for row, answer in zip(batch, answers, strict=True):
            try:
                record = self._record(ready, row, answer, prefill_s)
            except Exception as error:
                records.append(self._failed(ready.item, row.cell, error))
            else:
                records.append(record.model_copy(update={"batch_sha256": composition, "batch_rows": len(batch)}))
        return records

    def _row(self, cell: GridCell, kept: Kept, ready: Ready) -> Row:
        started = time.perf_counter()
        n_prefilled = ready.prompt.text.n_prefilled
        plan = cell.position.place(kept.selection, n_prefilled, ready.example.id)
        cache = kept.cache.moved(plan, self._rotary_table(n_prefilled + self.reach + 1))
        relocate_s = time.perf_counter() - started
        return Row(cell=cell, kept=kept, cache=cache, relocate_s=relocate_s)

    def _rotary_table(self, size: int) -> RotaryTable:
        if size > self._table.size:
            larger = min(max(size, 2 * self._table.size), self.model.facts.position_range + self.reach + 1)
            self._table = RotaryTable.of(self.model.rope, larger, self.model.device)
        return self._table

    def _record(self, ready: Ready, row: Row, answer: Answer, prefill_s: float) -> RunRecord:
        scores = [answer.reference_nll or 0.0, answer.kl or 0.0, *answer.option_logprobs]
        if not answer.finite or not all(map(math.isfinite, scores)):
            raise InvariantError(
                f"the model's logits are not finite, so that this is no answer: it overflows {self.model.facts.dtype}, "
                f"or its weights are damaged (keys: model.{self.model.facts.name}.dtype, .source)"
            )
        example, prompt, selection = ready.example, ready.prompt, row.kept.selection
        kept_sha256, values_sha256 = row.receipts()
        labels = [choice.label for choice in example.choices]
        return self._identity(ready.item, row.cell).model_copy(
            update={
                "status": "ok",
                **self._said(example, answer),
                "reference_nll": answer.reference_nll,
                "choice_logprobs": dict(zip(labels, answer.option_logprobs, strict=True)),
                "n_history": prompt.text.n_history,
                "n_protected": prompt.text.protected,
                "n_question": len(prompt.question.token_ids),
                "budget": selection.budget,
                "slots_LH": [layer.counts_H.tolist() for layer in row.cache.layers],
                "anchor": max(int(layer.counts_H.max()) for layer in row.cache.layers),
                "next_position": row.cache.next_position,
                "cache_bytes": row.cache.cache_bytes,
                "kept_sha256": kept_sha256,
                "values_sha256": values_sha256,
                "repair": row.repair and row.repair.model_copy(update={"kl": answer.kl}),
                "timings": Timings(
                    prefill_s=prefill_s,
                    select_s=row.kept.select_s,
                    relocate_s=row.relocate_s,
                    allocate_s=row.allocate_s,
                    refresh_s=row.refresh_s,
                    question_s=answer.question_s,
                    decode_s=answer.decode_s,
                ),
                "peak_memory_bytes": peak_memory_bytes(self.model.device),
                "notes": {**example.notes, **selection.notes},
            }
        )

    def _said(self, example: Example, answer: Answer) -> dict[str, Any]:
        """The answer's text and how it ended; for a choice by texts, the letter of the most likely reply."""
        if self._by_texts(example):
            best = max(range(len(example.choices)), key=answer.option_logprobs.__getitem__)
            return {"answer": f"<final_answer> ({example.choices[best].label})", "stop": None}
        return {
            "answer": self.renderer.text(answer.token_ids),
            "answer_tokens": len(answer.token_ids),
            "stop": "eos" if answer.stopped_by_eos else "length",
        }

    def _identity(self, item: Item, cell: GridCell) -> RunRecord:
        example = item.example
        return RunRecord(
            key=cell.key(item.sha256),
            pair_key=cell.pair_key(item.sha256),
            cell=cell.cell,
            run_id=self.run_id,
            worker=self.name,
            example_id=example.id,
            cluster_id=example.cluster_id,
            history_id=example.history_id,
            question=example.question,
            question_type=example.question_type,
            question_date=example.question_date,
            references=example.references,
            choices={choice.label: choice.text for choice in example.choices},
            gold_choice=example.gold_choice,
            unanswerable=example.unanswerable,
            checklist=example.checklist,
            status="error",
            max_new_tokens=self.settings.max_new_tokens,
        )

    def _failures(self, item: Item, error: Exception) -> list[RunRecord]:
        return [self._failed(item, cell, error) for cell in item.missing]

    def _failed(self, item: Item, cell: GridCell, error: Exception) -> RunRecord:
        message = " ".join(str(error).split())[:2000]
        info = ErrorInfo(kind=type(error).__name__, message=message)
        return self._identity(item, cell).model_copy(update={"error": info})
