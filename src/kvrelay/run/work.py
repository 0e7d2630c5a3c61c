"""What is to be done: examples gathered by history, each with the cells that still miss its answer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from kvrelay.core.errors import DataError
from kvrelay.core.example import Example
from kvrelay.run.grid import GridCell, example_digest
from kvrelay.run.record import PlannedCell


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One example of one (model, data set), the cells planned for it, and those whose answers are missing."""

    example: Example
    sha256: str
    planned: tuple[GridCell, ...]
    missing: tuple[GridCell, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryWork:
    """The examples that share one history, and hence one prefill."""

    history_id: str
    items: tuple[Item, ...]

    @property
    def missing(self) -> tuple[Item, ...]:
        return tuple(item for item in self.items if item.missing)


def checked(examples: Iterable[Example], dataset: str) -> list[Example]:
    """The examples of a data set. Raises `DataError` now for what a report would refuse when all answers are there."""
    found: dict[str, Example] = {}
    for example in examples:
        if example.id in found:
            raise DataError(f"data set {dataset}: the example id {example.id!r} comes twice (key: dataset.{dataset})")
        if not example.cluster_id:
            raise DataError(f"data set {dataset}: example {example.id!r} has no cluster_id; its adapter must give one")
        found[example.id] = example
    if not found:
        raise DataError(f"data set {dataset} gives no questions; wanted at least one (key: dataset.{dataset})")
    return list(found.values())


def gather(examples: Iterable[Example], cells: Sequence[GridCell], done: Collection[str]) -> list[HistoryWork]:
    """Work by history, in the order in which histories first appear. ``done`` holds keys with an answer."""
    by_history: dict[str, list[Item]] = {}
    for example in examples:
        sha256 = example_digest(example)
        missing = tuple(cell for cell in cells if cell.key(sha256) not in done)
        item = Item(example=example, sha256=sha256, planned=tuple(cells), missing=missing)
        by_history.setdefault(example.history_id, []).append(item)
    return [HistoryWork(history_id=history, items=tuple(items)) for history, items in by_history.items()]


def planned_cells(work: Sequence[HistoryWork], cells: Sequence[GridCell]) -> Iterator[PlannedCell]:
    """For the plan on disk: every cell with the keys of all its records."""
    digests = [item.sha256 for history in work for item in history.items]
    for cell in cells:
        keys = tuple(cell.key(sha256) for sha256 in digests)
        yield PlannedCell(cell=cell.cell, config_sha256=cell.sha256, keys=keys)
