"""Which of an experiment's plans stand: the cells in force, the keys they expect, and what older runs left behind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from kvrelay.core.errors import AssetError, DataError
from kvrelay.run.record import Cell, PlannedCell, RunPlan, RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Plans:
    """The plans of one experiment, merged: of two settings of one cell the newer stands, equal settings add up."""

    experiment: str
    keys: Mapping[Cell, tuple[str, ...]]
    """Keys that each cell expects, cells in the order of their names."""
    judges: tuple[str, ...]
    stamps: tuple[str, ...]
    known_keys: frozenset[str]
    """Every key that any plan names, older settings included."""
    siblings: Mapping[str, tuple[str, ...]]
    """The keys at one place of one plan's cells of a data set: records of the same example."""
    changed: frozenset[str] = frozenset()
    """Components (``group.name``) whose settings, in a plan that stands, are not those that their name stands for."""
    budgets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Settings of the repair budgets by name, from the plans that stand, the newest first."""
    dtypes: Mapping[str, str] = field(default_factory=dict)
    """Number format of the weights and states by model, as far as the plans tell it."""


def merge(plans: Sequence[RunPlan]) -> Plans:
    """Merge the plans of an experiment. Raises `AssetError` without one, `DataError` for several experiments."""
    if not plans:
        raise AssetError("report: the folder holds no run plan (runs/*.json); run the experiment first")
    if len(names := sorted({plan.experiment for plan in plans})) > 1:
        raise DataError(f"report: plans of {len(names)} experiments came ({', '.join(names)}); give one folder each")
    ordered = sorted(plans, key=lambda plan: (_created(plan), plan.run_id), reverse=True)
    in_force: dict[Cell, str] = {}
    for plan in ordered:
        for planned in plan.cells:
            in_force.setdefault(planned.cell, planned.config_sha256)
    standing = [(plan, [p for p in plan.cells if in_force[p.cell] == p.config_sha256]) for plan in ordered]
    keys: dict[Cell, dict[str, None]] = {cell: {} for cell in sorted(in_force, key=lambda cell: cell.label)}
    for _, cells in standing:
        for planned in cells:
            keys[planned.cell].update(dict.fromkeys(planned.keys))
    return Plans(
        experiment=ordered[0].experiment,
        keys={cell: tuple(of_cell) for cell, of_cell in keys.items()},
        judges=_unique(judge for plan, _ in standing for judge in plan.judges),
        stamps=_unique([*_plan_stamps(standing), *_older(ordered, in_force)]),
        known_keys=frozenset(key for plan in ordered for planned in plan.cells for key in planned.keys),
        siblings=_siblings(standing),
        changed=frozenset(name for plan, cells in standing if cells for name in plan.changed),
        budgets=_settings(standing, "budget"),
        dtypes={name: str(spec["dtype"]) for name, spec in _settings(standing, "model").items() if "dtype" in spec},
    )


def name_examples(plans: Plans, records: Mapping[str, RunRecord]) -> dict[str, RunRecord]:
    """For keys without a record: a record of the same example from another cell, where the plans tell which it is."""
    found: dict[str, RunRecord] = {}
    for key, column in plans.siblings.items():
        twins = {records[k].example_id: records[k] for k in column if k in records}
        if key not in records and len(twins) == 1:
            found[key] = next(iter(twins.values()))
    return found


def _created(plan: RunPlan) -> datetime:
    try:
        when = datetime.fromisoformat(plan.created)
    except ValueError:
        raise DataError(f"report: run {plan.run_id} was created {plan.created!r}; wanted an ISO 8601 time") from None
    return when if when.tzinfo else when.replace(tzinfo=UTC)


Standing = Sequence[tuple[RunPlan, Sequence[PlannedCell]]]


def _plan_stamps(standing: Standing) -> list[str]:
    """Stamps of the plans that add something: a run with LIMIT that a whole run contains stamps nothing."""
    sets = [frozenset(key for planned in cells for key in planned.keys) for _, cells in standing]
    stamps: list[str] = []
    for i, (plan, _) in enumerate(standing):
        newer = any(sets[i] <= sets[j] for j in range(i))
        larger = any(sets[i] < sets[j] for j in range(i + 1, len(sets)))
        if sets[i] and not newer and not larger:
            stamps.extend(plan.stamps)
    return stamps


def _settings(standing: Standing, group: str) -> dict[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    for plan, cells in standing:
        for name, settings in (plan.settings.get(group) or {}).items() if cells else ():
            found.setdefault(name, settings)
    return found


def _older(ordered: Sequence[RunPlan], in_force: Mapping[Cell, str]) -> list[str]:
    left = {
        (p.cell.label, p.config_sha256) for plan in ordered for p in plan.cells if in_force[p.cell] != p.config_sha256
    }
    if not left:
        return []
    shown = [f"{label} [{sha[:8]}]" for label, sha in sorted(left)]
    more = f" and {len(shown) - 3} more" if len(shown) > 3 else ""
    return [f"Older settings of {len(shown)} cells are left out: {'; '.join(shown[:3])}{more}"]


def _siblings(standing: Standing) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for _, cells in standing:
        by_data = sorted(cells, key=lambda p: (p.cell.model, p.cell.dataset, p.cell.label))
        for _, group in groupby(by_data, key=lambda p: (p.cell.model, p.cell.dataset)):
            columns = [planned.keys for planned in group]
            if len({len(column) for column in columns}) == 1:
                for place in zip(*columns, strict=True):
                    found.update(dict.fromkeys(place, place))
    return found


def _unique(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))
