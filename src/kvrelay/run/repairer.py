"""One deletion at a time: the shifted cache of an example, and from it every repair (SUR, sections 3 and A.1).

What is deleted, moved and refreshed follows one path for all arms: the states that a selector kept lose the deleted
tokens, the position condition places what stays as if the deleted text had never been there (for a full cache that is
the shift), exactly B suffix states are refreshed, and the question follows.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

from kvrelay.backend.custom_gate import CustomGate
from kvrelay.backend.decode import Asked, Distributions, answer_rows, distributions, synchronise
from kvrelay.backend.mixed import mixed_layers
from kvrelay.backend.model import CausalModel
from kvrelay.backend.prefill import prefill
from kvrelay.backend.probe import CleanModelProbe, ModelProbe
from kvrelay.backend.prompt import Prompt
from kvrelay.backend.refresh import WorkingCache, one_coordinate, refresh
from kvrelay.core.cache import KVCache
from kvrelay.core.edit import Edit
from kvrelay.core.errors import DataError, EditError, InvariantError
from kvrelay.core.example import Example
from kvrelay.core.repair import Allocation, EditedContext, intervals
from kvrelay.core.rope import RotaryTable
from kvrelay.core.selection import Selection
from kvrelay.run.batches import Row
from kvrelay.run.grid import GridCell, Repair
from kvrelay.run.kept import Kept
from kvrelay.run.record import RepairFacts, digest


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Edited:
    """An example's cache after the deletion, shifted: what all arms start from."""

    kept: Kept = field(repr=False)
    cache: KVCache = field(repr=False)
    selection: Selection = field(repr=False)
    context: EditedContext = field(repr=False)
    edit: Edit
    ids: tuple[int, ...] = field(repr=False)
    """All tokens of the edited text, also those that a selector dropped."""
    sha256: str
    """Hash of those tokens: placements of one deletion share it."""
    digests: tuple[str, str]
    shift_s: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Clean:
    """The edited text run afresh, and what it says at every token of its answer."""

    key: str
    cache: KVCache = field(repr=False)
    said: Distributions = field(repr=False)
    prefill_s: float
    move_s: float


class Repairer:
    """Deletes and repairs with one model. It remembers one question's Re-prefill, which its placements share."""

    def __init__(self, model: CausalModel, table: Callable[[int], RotaryTable], look_inside: bool = False) -> None:
        self.model = model
        self.table = table
        """Factors for a history of so many tokens, as far as any position condition reaches beyond it."""
        self.look_inside = look_inside
        self._clean: Clean | None = None
        self._gate = CustomGate(model)

    def edited(self, example: Example, prompt: Prompt, cell: GridCell, kept: Kept) -> Edited:
        """Delete and shift. Raises `EditError` for a deletion that the history does not allow, `DataError` for an
        example without one, `PositionError` for a cache whose heads hold different states."""
        if not example.deleted:
            raise DataError(
                f"example {example.id} deletes nothing, so that there is nothing to repair; choose a data set with "
                "deletions or leave the repair out (keys: dataset, allocator)"
            )
        text = prompt.text
        _check_units(example)
        edit = Edit.of_tokens(text.spans_of(example.deleted), text.n_prefilled, protected=text.protected)
        left = edit.kept(text.n_prefilled)
        cut, selection = kept.cache.edited(edit, text.n_prefilled), kept.selection.edited(edit, text.n_prefilled)
        plan = cell.position.place(selection, len(left), example.id)
        table = self.table(text.n_prefilled)
        started = time.perf_counter()
        cache = cut.moved(plan, table)
        synchronise(self.model.device)
        shift_s = time.perf_counter() - started
        one_coordinate(cache)
        context = EditedContext.after(
            edit,
            text,
            prompt.prefilled_ids,
            held=cache.layers[0].source_HK[0].tolist(),
            case_id=example.id,
            slot_unit=example.slot,
        )
        ids = tuple(prompt.prefilled_ids[position] for position in left)
        return Edited(
            kept=kept,
            cache=cache,
            selection=selection,
            context=context,
            edit=edit,
            ids=ids,
            sha256=digest(list(ids)),
            digests=cut.content_digest(),
            shift_s=shift_s,
        )

    def clean(self, edited: Edited, cell: GridCell, prompt: Prompt, asked: Asked) -> Clean:
        """Re-prefill: the edited text read afresh, kept and placed alike. Runs once for equal texts and questions."""
        seen = [edited.sha256, asked.question_ids, asked.reference_ids, asked.max_new_tokens, asked.option_ids]
        coordinates = edited.cache.layers[0].coordinate_HK[0].tolist()
        key = digest([*seen, edited.selection.digest(), coordinates, edited.cache.next_position])
        if self._clean is None or self._clean.key != key:
            self._clean = None  # two long caches at once may be one too many
            started = time.perf_counter()
            whole = prefill(self.model, self.model.row(edited.ids), prompt.text, "", ()).cache
            synchronise(self.model.device)
            prefill_s = time.perf_counter() - started
            plan = cell.position.place(edited.selection, len(edited.ids), prompt.question.example_id)
            kept, table = whole.restricted(edited.selection), self.table(len(edited.ids))
            started = time.perf_counter()
            cache = kept.moved(plan, table)
            synchronise(self.model.device)
            move_s = time.perf_counter() - started
            answer = answer_rows(self.model, [cache], asked)[0]
            if not answer.finite:
                raise InvariantError(
                    f"Re-prefill's own logits are not finite, so that there is nothing to compare with: the model "
                    f"overflows {self.model.facts.dtype}, or its weights are damaged "
                    f"(keys: model.{self.model.facts.name}.dtype, .source)"
                )
            said = distributions(self.model, cache, asked.question_ids, answer)
            self._clean = Clean(key=key, cache=cache, said=said, prefill_s=prefill_s, move_s=move_s)
        return self._clean

    def row(self, cell: GridCell, edited: Edited, prompt: Prompt, clean: Clean) -> Row:
        """One arm: its slots chosen and refreshed, ready to answer. Exactly B slots, or an `EditError`."""
        context, repair = edited.context, cell.repair
        if repair is None:
            raise EditError(f"{cell.cell.label} names no repair (key: allocator)")
        fixed = getattr(repair.allocator, "fixed_states", None)
        budget = fixed(context) if fixed else repair.budget.states(context.n_suffix)
        seen = (self.model, edited.cache, context, prompt.question)
        reads_clean = getattr(repair.allocator, "reads_clean", False)
        probe = CleanModelProbe(*seen, clean.cache) if reads_clean else ModelProbe(*seen)
        started = time.perf_counter()
        allocation = repair.allocator.allocate(context, prompt.question, budget, probe).checked(context, budget)
        synchronise(self.model.device)
        allocate_s = time.perf_counter() - started
        afresh = getattr(repair.allocator, "afresh", False)
        if afresh:
            cache, refreshed, refresh_s = clean.cache, 0, clean.prefill_s
        else:
            cache, refreshed, refresh_s = self._refresh(edited, repair, allocation)
        if refreshed != budget:
            raise EditError(
                f"{cell.cell.label}: {refreshed} states were refreshed, {budget} were asked for; the executor skips or "
                "doubles some (key: executor)"
            )
        facts = _facts(edited, allocation, budget, refreshed, self.model.facts.n_layers)
        looked = mixed_layers(*seen[:2], clean.cache, context, allocation.slots) if self.look_inside else []
        inside = {"diagnostic": reads_clean, "mixed": [asdict(layer) for layer in looked]}
        return Row(
            cell=cell,
            kept=edited.kept,
            cache=cache,
            relocate_s=clean.move_s if afresh else edited.shift_s,
            allocate_s=allocate_s,
            refresh_s=refresh_s,
            repair=facts.model_copy(update=inside),
            start_digests=edited.digests,
        )

    def _refresh(self, edited: Edited, repair: Repair, allocation: Allocation) -> tuple[KVCache, int, float]:
        if not allocation.slots:
            return edited.cache, 0, 0.0
        working = WorkingCache(edited.cache)  # the harness's own copy: a server would write in place
        schedule, token_ids = repair.executor.schedule(allocation.slots), edited.context.token_ids
        for one in schedule:
            if one.kernel == "blocks":  # remembered by geometry, and no part of a repair's time
                self._gate.check(working, one.slots, token_ids)
        synchronise(self.model.device)
        started = time.perf_counter()
        n_refreshed = refresh(self.model, working, schedule, token_ids, self._gate)
        synchronise(self.model.device)
        return working.cache(), n_refreshed, time.perf_counter() - started


def _check_units(example: Example) -> None:
    """Raises `DataError` where it is not plain which tokens go, or where the template's own would stay behind."""
    if example.layout == "chat":
        raise DataError(
            f"example {example.id} deletes units of a chat, whose turns stand between template tokens that would stay "
            "behind empty; give its history as a document (the adapter's layout)"
        )
    ids = [unit.id for unit in example.units]
    doubled = sorted(unit for unit in set(example.deleted) if ids.count(unit) > 1)
    if doubled:
        raise DataError(f"example {example.id} deletes unit {doubled[0]!r}, but several units have this id")


def _facts(edited: Edited, allocation: Allocation, budget: int, refreshed: int, n_layers: int) -> RepairFacts:
    context = edited.context
    offsets = [slot - context.splice for slot in allocation.slots]
    return RepairFacts(
        splice=context.splice,
        n_suffix=context.n_suffix,
        n_deleted=edited.edit.n_deleted,
        requested=budget,
        refreshed=refreshed,
        interval_lengths=tuple(end - start for start, end in intervals(allocation.slots)),
        edited_sha256=edited.sha256,
        token_layer_updates=n_layers * refreshed,
        causal_pairs=sum(offset + 1 for offset in offsets),
        replay_pairs=context.n_suffix * (context.n_suffix + 1) // 2,
        notes={**edited.edit.notes, **allocation.notes},
    )
