"""The proof that the arms of a pair differ in their positions alone: equal receipts, or no table."""

from __future__ import annotations

from collections.abc import Iterable

from kvrelay.core.errors import InvariantError
from kvrelay.run.record import RunRecord

RECEIPTS = ("pair_key", "kept_sha256", "values_sha256", "slots_LH")
"""Fields that must agree: the settings and the example, the states kept, their values, and slots per layer and head."""


def check_pairs(records: Iterable[RunRecord]) -> None:
    """Compare all answers to one example under one model, data set, selector and retention.

    Raises `InvariantError` that names up to five pairs and the receipts in which they differ.
    """
    first: dict[tuple[str, ...], RunRecord] = {}
    broken: list[str] = []
    for record in sorted(records, key=lambda r: (r.cell.label, r.example_id)):
        if record.status != "ok":
            continue
        cell = record.cell
        group = (cell.model, cell.dataset, cell.selector, cell.retention, record.example_id)
        other = first.setdefault(group, record)
        if differ := [name for name in RECEIPTS if getattr(record, name) != getattr(other, name)]:
            place = f"{other.cell.label} against {cell.position}, example {record.example_id}"
            broken.append(f"{place}: {', '.join(differ)}")
    if broken:
        more = f"; and {len(broken) - 5} more" if len(broken) > 5 else ""
        raise InvariantError(
            f"report: the arms of {len(broken)} pairs differ in more than their positions: "
            f"{'; '.join(broken[:5])}{more}. Answer both arms under the same settings: run the experiment again "
            "into a fresh experiment_name"
        )
