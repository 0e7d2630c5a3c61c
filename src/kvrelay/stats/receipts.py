"""The proof that the arms of a pair differ in what they are named for alone: equal receipts, or no table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kvrelay.core.errors import InvariantError
from kvrelay.run.record import RunRecord

CONTENT = (
    *("history_id", "question", "question_type", "question_date", "references", "choices", "gold_choice"),
    *("unanswerable", "n_history", "n_protected", "n_question", "max_new_tokens"),
)
"""What was read and asked, and how long the answer might be: the same for all arms of an example."""
STATES = ("kept_sha256", "values_sha256", "budget")
"""Which states the selection kept, their values, and how many it was asked for."""
RECEIPTS = ("pair_key", *CONTENT, *STATES, "slots_LH", "anchor", "cache_bytes")
"""Fields that must agree between positions: settings and example, content, states, slots a layer and head."""
REPAIR_STARTS = ("pair_key", *CONTENT, *STATES)
"""Fields that must agree between repairs of one deletion: what every one of them starts from. The slots may differ:
Re-prefill keeps all states of the edited text."""
REPAIR_RECEIPTS = ("edited_sha256", "n_suffix", "splice", "n_deleted")
"""Fields of the repair that must agree too: the tokens that are left, and where the stale ones begin."""


def check_pairs(records: Iterable[RunRecord]) -> None:
    """Compare all answers to one example: positions of one cache, and repairs of one deletion.

    Raises `InvariantError` that names up to five pairs and the receipts in which they differ.
    """
    answered = sorted((r for r in records if r.status == "ok"), key=lambda r: (r.cell.label, r.example_id))
    repairs = [record for record in answered if record.cell.allocator]
    moved = _moved([record for record in answered if not record.cell.allocator])
    if broken := [*moved, *_unequal_edits(repairs), *_unequal_budgets(repairs), *_unspent(repairs)]:
        more = f"; and {len(broken) - 5} more" if len(broken) > 5 else ""
        than = "their positions" if moved else "where the same deletion is mended"
        raise InvariantError(
            f"report: the arms of {len(broken)} pairs differ in more than {than}: "
            f"{'; '.join(broken[:5])}{more}. Answer both arms under the same settings: run the experiment again "
            "into a fresh experiment_name"
        )


def _moved(records: Sequence[RunRecord]) -> list[str]:
    first: dict[tuple[str, ...], RunRecord] = {}
    broken = []
    for record in records:
        cell = record.cell
        other = first.setdefault((cell.model, cell.dataset, cell.selector, cell.retention, record.example_id), record)
        if differ := [name for name in RECEIPTS if getattr(record, name) != getattr(other, name)]:
            place = f"{other.cell.label} against {cell.position}, example {record.example_id}"
            broken.append(f"{place}: {', '.join(differ)}")
    return broken


def _unequal_edits(records: Sequence[RunRecord]) -> list[str]:
    first: dict[tuple[str, ...], RunRecord] = {}
    broken = []
    for record in records:
        other = first.setdefault(_context(record), record)
        differ = [n for n in REPAIR_STARTS if getattr(record, n) != getattr(other, n)]
        differ += [n for n in REPAIR_RECEIPTS if getattr(record.repair, n, None) != getattr(other.repair, n, None)]
        if differ or record.repair is None:
            broken.append(f"{_place(other, record)}: {', '.join(differ) or 'no facts of its repair'}")
    return broken


def _unequal_budgets(records: Sequence[RunRecord]) -> list[str]:
    first: dict[tuple[str, ...], RunRecord] = {}
    broken = []
    for record in records:
        other = first.setdefault((*_context(record), record.cell.budget), record)
        if record.repair and other.repair and record.repair.requested != other.repair.requested:
            broken.append(f"{_place(other, record)}: requested {other.repair.requested} and {record.repair.requested}")
    return broken


def _unspent(records: Sequence[RunRecord]) -> list[str]:
    return [
        f"{record.cell.label}, example {record.example_id}: refreshed {record.repair.refreshed} "
        f"of {record.repair.requested} requested"
        for record in records
        if record.repair and record.repair.refreshed != record.repair.requested
    ]


def _context(record: RunRecord) -> tuple[str, ...]:
    cell = record.cell
    return cell.model, cell.dataset, cell.selector, cell.retention, cell.position, record.example_id


def _place(one: RunRecord, other: RunRecord) -> str:
    arm = " · ".join(name for name in (other.cell.allocator, other.cell.budget, other.cell.executor) if name)
    return f"{one.cell.label} against {arm}, example {other.example_id}"
