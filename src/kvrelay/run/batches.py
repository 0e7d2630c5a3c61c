"""Which rows decode together. The rule reads rows alone, so a question's batches follow from its example."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from kvrelay.core.cache import KVCache
from kvrelay.core.errors import InvariantError
from kvrelay.run.grid import GridCell
from kvrelay.run.kept import Kept
from kvrelay.run.record import RepairFacts

WIDEST_TO_NARROWEST = 2.0
"""Rows are padded to the longest of their batch; a full cache among compressed ones would cost more than it saves."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Row:
    """One arm, placed and ready to answer. After a deletion, ``start_digests`` are of what all arms start from."""

    cell: GridCell
    kept: Kept = field(repr=False)
    cache: KVCache = field(repr=False)
    relocate_s: float
    allocate_s: float = 0.0
    refresh_s: float = 0.0
    repair: RepairFacts | None = None
    start_digests: tuple[str, str] | None = None

    @property
    def states(self) -> int:
        """Padded states over all layers: what the row costs to read."""
        return sum(layer.keys_HKD.shape[1] for layer in self.cache.layers)

    def receipts(self) -> tuple[str, str]:
        """Digests of the states kept and of their values, which the arms of a pair share.

        Without a deletion the values must still be the selection's own tensors.
        """
        if self.start_digests is not None:
            return self.start_digests
        moved, kept = self.cache.layers, self.kept.cache.layers
        if any(one.values_HKD is not other.values_HKD for one, other in zip(moved, kept, strict=True)):
            raise InvariantError(f"{self.cell.cell.label}: placing the cache changed its values")
        return self.kept.digests


def batches(rows: Sequence[Row], limit: int) -> Iterator[list[Row]]:
    """Rows by length; arms of one selection are never separated, unless every row is to decode alone (limit 1)."""
    if limit == 1:
        yield from ([row] for row in rows)
        return
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault(row.cell.group, []).append(row)
    batch: list[Row] = []
    for group in sorted(groups.values(), key=lambda group: group[0].states):
        too_many = len(batch) + len(group) > limit
        if batch and (too_many or group[0].states > WIDEST_TO_NARROWEST * batch[0].states):
            yield batch
            batch = []
        batch = batch + group
    if batch:
        yield batch
