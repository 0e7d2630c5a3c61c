"""An experiment's cells, and the keys under which their answers are kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from kvrelay.core.budget import Retention
from kvrelay.core.errors import ConfigError
from kvrelay.core.example import Example
from kvrelay.core.history import Selector
from kvrelay.core.positions import Position
from kvrelay.core.repair import Allocator, Executor
from kvrelay.run.record import SCHEMA_VERSION, Cell, digest
from kvrelay.run.settings import RunSettings

METHOD_VERSION = 1
"""Raised when the code changes what an answer is, so that older answers are not taken for newer ones."""

EVERYTHING = "all"
"""The retention's name where a selector keeps the whole history, whatever the retention."""


def science(component: Any) -> dict[str, Any]:
    """A component's class and fields: what a measurement depends on."""
    return {"class": type(component).__qualname__, **dataclasses.asdict(component)}


class RepairBudget(Protocol):
    """How many of a suffix's S stale states are refreshed."""

    def states(self, n_suffix: int) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """What a cell does after the deletion; an allocator that refreshes nothing has no use for the executor."""

    allocator: Allocator
    budget: RepairBudget
    executor: Executor


@dataclass(frozen=True, slots=True, kw_only=True)
class GridCell:
    """One cell with its components. ``sha256`` hashes its settings, ``pair_sha256`` those that its arms share: all but
    the position, and but what is done after a deletion.
    """

    cell: Cell
    selector: Selector
    retention: Retention
    position: Position
    sha256: str
    pair_sha256: str
    repair: Repair | None = None

    @property
    def group(self) -> tuple[str, str]:
        """Cells with equal groups differ in position alone and share one selection."""
        return self.cell.selector, self.cell.retention

    def key(self, example_sha256: str) -> str:
        return digest([self.sha256, example_sha256])

    def pair_key(self, example_sha256: str) -> str:
        return digest([self.pair_sha256, example_sha256])


@dataclass(frozen=True, slots=True, kw_only=True)
class Components:
    """The parts that an experiment composes, by the names of their configs."""

    selectors: Mapping[str, Selector]
    retentions: Mapping[str, Retention]
    positions: Mapping[str, Position]
    allocators: Mapping[str, Allocator] = field(default_factory=dict)
    budgets: Mapping[str, RepairBudget] = field(default_factory=dict)
    executors: Mapping[str, Executor] = field(default_factory=dict)

    @property
    def reach(self) -> int:
        """How far any arm may place a token beyond its source position."""
        return max(position.reach for position in self.positions.values())


def example_digest(example: Example) -> str:
    """Hash of all that an example says (its notes apart)."""
    said = {field.name: getattr(example, field.name) for field in dataclasses.fields(example) if field.name != "notes"}
    units = said.pop("units")
    if not said["checklist"]:  # questions without one are the same measurement as before there were any
        del said["checklist"]
    choices = [[choice.label, choice.text] for choice in said.pop("choices")]
    return digest({**said, "choices": choices, "history": example.history_id, "unit_ids": [unit.id for unit in units]})


def cells_of(
    model: str, model_science: dict[str, Any], dataset: str, parts: Components, settings: RunSettings
) -> list[GridCell]:
    """Cells of one model and data set, positions of one selection next to each other."""
    _check_names(parts, settings)
    base = {
        "schema": SCHEMA_VERSION,
        "method": METHOD_VERSION,
        "model": model_science,
        "dataset": {"name": dataset, "max_history_tokens": settings.max_history_tokens},
        "decoding": {
            "max_new_tokens": settings.max_new_tokens,
            "score_references": settings.score_references,
            "choice_by": settings.choice_by,
        },
    }
    return list(_product(base, model, dataset, parts, settings))


def _product(
    base: dict[str, Any], model: str, dataset: str, parts: Components, settings: RunSettings
) -> Iterator[GridCell]:
    for selector_name, selector in parts.selectors.items():
        for retention_name, retention in _retentions(selector, parts.retentions).items():
            pair = {**base, "selector": science(selector)}
            if retention_name != getattr(selector, "fixed_retention", None):
                pair["retention"] = science(retention)
            for position_name, position in parts.positions.items():
                if position_name not in settings.only_positions.get(selector_name, parts.positions):
                    continue
                if selector_name not in settings.only_selectors.get(position_name, parts.selectors):
                    continue
                names = {"selector": selector_name, "retention": retention_name, "position": position_name}
                placed = {**pair, "position": science(position)}
                for repair_names, repair, said in _repairs(parts, settings):
                    yield GridCell(
                        cell=Cell(model=model, dataset=dataset, **names, **repair_names),
                        selector=selector,
                        retention=retention,
                        position=position,
                        sha256=digest({**placed, **said}),
                        pair_sha256=digest(pair),
                        repair=repair,
                    )


def _repairs(
    parts: Components, settings: RunSettings
) -> Iterator[tuple[dict[str, str], Repair | None, dict[str, Any]]]:
    """Names, components and what a key says of them; one empty repair where nothing is deleted."""
    if not parts.allocators:
        yield {}, None, {}
        return
    for name, allocator in parts.allocators.items():
        for budget_name, budget in _budgets(name, allocator, parts, settings).items():
            for executor_name, executor in _executors(allocator, parts).items():
                said = {"allocator": science(allocator)}
                if budget_name in parts.budgets:
                    said["budget"] = science(budget)
                if executor_name:
                    said["executor"] = science(executor)
                names = {"allocator": name, "budget": budget_name, "executor": executor_name}
                yield names, Repair(allocator=allocator, budget=budget, executor=executor), {"repair": said}


def _budgets(name: str, allocator: Allocator, parts: Components, settings: RunSettings) -> Mapping[str, RepairBudget]:
    """Those that are asked of it, or the one name under which an allocator always refreshes the same."""
    fixed = getattr(allocator, "fixed_budget", None)
    if fixed is not None:
        return {fixed: next(iter(parts.budgets.values()))}
    allowed = settings.only_budgets.get(name, list(parts.budgets))
    return {budget_name: budget for budget_name, budget in parts.budgets.items() if budget_name in allowed}


def _executors(allocator: Allocator, parts: Components) -> Mapping[str, Executor]:
    """All of them, or one without a name where nothing is refreshed in place."""
    if getattr(allocator, "refreshes", True):
        return parts.executors
    return {"": next(iter(parts.executors.values()))}


def _retentions(selector: Selector, retentions: Mapping[str, Retention]) -> Mapping[str, Retention]:
    """All of them, or the one name that a selector gives which keeps the same whatever is asked for."""
    fixed = getattr(selector, "fixed_retention", None)
    return retentions if fixed is None else {fixed: next(iter(retentions.values()))}


def _check_names(parts: Components, settings: RunSettings) -> None:
    """A thinned grid that comes out empty is a typing error; names of parts that are not composed are no harm."""
    for allocator in parts.allocators:
        wanted = settings.only_budgets.get(allocator, parts.budgets)
        if not set(wanted) & set(parts.budgets):
            raise ConfigError(
                f"only_budgets leaves the allocator {allocator} none of the budgets {list(parts.budgets)}; leave the "
                "allocator out instead (keys: only_budgets, budget)"
            )
    for positions in settings.only_positions.values():
        if not positions:
            raise ConfigError("only_positions lists a selector without any position; leave the selector out instead")
    if not any(
        position in settings.only_positions.get(selector, parts.positions)
        and selector in settings.only_selectors.get(position, parts.selectors)
        for selector in parts.selectors
        for position in parts.positions
    ):
        raise ConfigError(
            f"no cell is left of selectors {list(parts.selectors)} and positions {list(parts.positions)} "
            "(keys: only_positions, only_selectors)"
        )
