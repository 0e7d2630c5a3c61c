"""The smallest measured budget that reaches a target, worked by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvrelay.report import recovered
from kvrelay.report.given import Given
from kvrelay.report.locality import localities, section
from kvrelay.stats.frame import tidy
from tests.stats.deletion_study import NIAH, Arm, deletion_files


def found(arms: Mapping[Arm, str], **options: Any) -> dict[str, dict[str, Any]]:
    files = deletion_files(arms, clusters="abcdefghijklmnopqrst", kinds=["niah-1024"] * 20, **options)
    results = tidy(files.plans, files.records, files.verdicts)
    rows = recovered.rows(results.table, Given(results=results, baseline="shift", resamples=100))
    return {row["allocator"]: row for row in localities(rows)}


def test_the_first_budget_that_reaches_its_target() -> None:
    """Re-prefill is right in 20 of 20, so that 19 reach 95 %; Shift's KL is 1, so that 0.05 is wanted."""
    arms = {
        ("shift", "0", ""): "x" * 20,
        ("reprefill", "all", ""): "1" * 20,
        ("sur", "p02", "packed"): "1" * 18 + "00",
        ("sur", "p05", "packed"): "1" * 19 + "0",
        ("sur", "p10", "packed"): "1" * 20,
        ("token", "p02", "packed"): "0" * 20,
        ("token", "p10", "packed"): "1" * 18 + "00",
    }
    here = found(arms, kl={"1": 0.05, "0": 0.5, "x": 1.0})
    assert (here["sur"]["em_target"], here["sur"]["em_budget"]) == (95.0, "p05")
    assert here["sur"]["kl_budget"] == "p10"
    assert (here["token"]["em_budget"], here["token"]["kl_budget"], here["token"]["largest"]) == (None, None, "p10")


def test_shift_is_the_budget_of_nothing() -> None:
    arms = {("shift", "0", ""): "11", ("reprefill", "all", ""): "11", ("sur", "p02", "packed"): "00"}
    assert found(arms)["sur"]["em_budget"] == "0"


def test_without_a_target_there_is_no_locality() -> None:
    arms = {("shift", "0", ""): "00", ("reprefill", "all", ""): "00", ("sur", "p02", "packed"): "11"}
    here = found(arms, kl={"0": 0.0, "1": 0.0})["sur"]
    assert (here["em_target"], here["em_budget"], here["kl_target"], here["kl_budget"]) == (None, None, None, None)
    assert found({("shift", "0", ""): "11", ("sur", "p02", "packed"): "11"})["sur"]["em_target"] is None


def test_what_was_not_reached_is_printed_as_more() -> None:
    files = deletion_files(NIAH)
    results = tidy(files.plans, files.records, files.verdicts)
    shown = section(recovered.rows(results.table, Given(results=results, baseline="shift", resamples=100)))
    assert shown is not None
    texts = {row["allocator"]: [column.text(row) for column in shown.columns[-2:]] for row in shown.rows}
    assert texts == {"sur": ["5 %", "> 5 %"], "token": ["> 5 %", "> 5 %"]}
