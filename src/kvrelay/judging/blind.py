"""From run records to what a judge may see: no method, opaque keys, an order that no run order can leak into."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from kvrelay.judging.protocol import BlindItem
from kvrelay.run.record import RunRecord, item_key


@dataclass(frozen=True, slots=True, kw_only=True)
class BlindSheet:
    """The distinct items of many records, in the order in which they are judged."""

    items: tuple[BlindItem, ...]
    answers: int
    """Records with an answer; those beyond ``len(items)`` repeat an item and share its verdict."""
    unanswered: int
    """Records that failed, or hold no answer: there is nothing to judge."""


def blind_item(record: RunRecord, judge_id: str) -> BlindItem:
    """Keep the fields that a judge may see, and the key that records find their verdict by.

    The key does not depend on the order of the options, so neither may the item: they are sorted by label.
    """
    fields = record.item_fields()
    return BlindItem(
        key=item_key(judge_id, fields),
        question=fields["question"],
        references=tuple(fields["references"]),
        candidate=fields["candidate"],
        question_type=fields["question_type"],
        question_date=fields["question_date"],
        choices=dict(sorted(fields["choices"].items())),
        gold_choice=fields["gold_choice"],
        unanswerable=fields["unanswerable"],
        checklist=tuple(fields.get("checklist", ())),
    )


def blind_sheet(records: Iterable[RunRecord], judge_id: str) -> BlindSheet:
    """Items of all answered records, each once, ordered by a hash of their keys.

    Identical answers under two methods are one item, so a judge's noise cannot part a tie. The order is a function
    of the items alone: neither relabelling nor reordering the records changes it.
    """
    items: dict[str, BlindItem] = {}
    answers = unanswered = 0
    for record in records:
        if record.status == "error" or record.answer is None:
            unanswered += 1
            continue
        answers += 1
        item = blind_item(record, judge_id)
        items.setdefault(item.key, item)
    ordered = sorted(items.values(), key=lambda item: _draw(item.key))
    return BlindSheet(items=tuple(ordered), answers=answers, unanswered=unanswered)


def _draw(key: str) -> bytes:
    return hashlib.sha256(b"order:" + key.encode()).digest()
