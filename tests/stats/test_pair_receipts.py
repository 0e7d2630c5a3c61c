"""One receipt of one record changed: the pair is refused by its name, with the field."""

from __future__ import annotations

from typing import Any

import pytest

from kvrelay.core.errors import InvariantError
from kvrelay.run.record import RunRecord
from kvrelay.stats.frame import tidy
from kvrelay.stats.receipts import CONTENT, RECEIPTS, REPAIR_RECEIPTS, REPAIR_STARTS, STATES, check_pairs
from tests.stats.deletion_study import deletion_files
from tests.stats.golden_study import Files, study_files

MOVED = {("talks", "bm25", "original"): "01", ("talks", "bm25", "roperelay"): "11", ("talks", "h2o", "original"): "00"}
REPAIRED = {("shift", "0", ""): "0x", ("sur", "p05", "packed"): "11", ("token", "p05", "packed"): "01"}


def other(value: Any) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    kinds: dict[type, Any] = {tuple: ("another",), dict: {"A": "another"}, list: [[1], [2]]}
    return kinds.get(type(value), "another")


def forged(files: Files, which: RunRecord, field: str) -> list[RunRecord]:
    changed = which.model_copy(update={field: other(getattr(which, field))})
    assert getattr(changed, field) != getattr(which, field)
    return [changed if record is which else record for record in files.records.values()]


def the(files: Files, example: str, **cell: str) -> RunRecord:
    found = [
        record
        for record in files.records.values()
        if record.example_id == example and all(getattr(record.cell, name) == value for name, value in cell.items())
    ]
    assert len(found) == 1
    return found[0]


def test_selection_values_content_and_budget_are_receipts() -> None:
    assert {"kept_sha256", "values_sha256", "budget"} == set(STATES)
    assert {"question", "references", "history_id"} <= set(CONTENT)
    for receipts in (RECEIPTS, REPAIR_STARTS):
        assert {"pair_key", *CONTENT, *STATES} <= set(receipts)


@pytest.mark.parametrize("field", RECEIPTS)
@pytest.mark.parametrize(("position", "example"), [("original", "e1"), ("roperelay", "e2")])
def test_a_position_with_another_receipt_is_refused(field: str, position: str, example: str) -> None:
    files = study_files(MOVED)
    records = forged(files, the(files, example, selector="bm25", position=position), field)
    pair = rf"talks · bm25 · r10 · original against roperelay, example {example}: {field}\. "
    with pytest.raises(InvariantError, match=rf"the arms of 1 pairs differ in more than their positions: .*{pair}"):
        check_pairs(records)


@pytest.mark.parametrize("field", REPAIR_STARTS)
def test_a_repair_that_starts_elsewhere_is_refused(field: str) -> None:
    files = deletion_files(REPAIRED)
    records = forged(files, the(files, "e2", allocator="token"), field)
    pair = rf"against token · p05 · packed, example e2: {field}\. "
    with pytest.raises(InvariantError, match=rf"the arms of 1 pairs differ .* same deletion is mended: .*{pair}"):
        check_pairs(records)


@pytest.mark.parametrize("field", REPAIR_RECEIPTS)
def test_a_repair_of_another_deletion_is_refused(field: str) -> None:
    files = deletion_files(REPAIRED)
    record = the(files, "e1", allocator="token")
    assert record.repair is not None
    facts = record.repair.model_copy(update={field: other(getattr(record.repair, field))})
    changed = record.model_copy(update={"repair": facts})
    records = [changed if one is record else one for one in files.records.values()]
    with pytest.raises(InvariantError, match=rf"against token · p05 · packed, example e1: {field}\. "):
        check_pairs(records)


@pytest.mark.parametrize("field", ["answer", "answer_tokens", "reference_nll", "worker", "run_id", "next_position"])
def test_what_an_arm_may_differ_in_is_no_receipt(field: str) -> None:
    """The answer, who gave it and where the question stood."""
    files = study_files(MOVED)
    check_pairs(forged(files, the(files, "e1", selector="bm25", position="roperelay"), field))


def test_no_table_is_made_of_a_refused_pair() -> None:
    files = study_files(MOVED)
    record = the(files, "e1", selector="bm25", position="roperelay")
    files.records[record.key] = record.model_copy(update={"budget": 7})
    with pytest.raises(InvariantError, match="example e1: budget") as told:
        tidy(files.plans, files.records, files.verdicts)
    assert told.value.exit_code == 6


def test_five_pairs_are_named_and_the_rest_counted() -> None:
    files = study_files({("talks", "bm25", p): "000000" for p in ("original", "key_only", "roperelay")})
    records = [
        record.model_copy(update={"budget": 9}) if record.cell.position == "roperelay" else record
        for record in files.records.values()
    ]
    with pytest.raises(InvariantError, match=r"the arms of 6 pairs .*example e5: budget; and 1 more\. "):
        check_pairs(records)
