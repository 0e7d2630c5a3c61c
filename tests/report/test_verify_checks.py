"""Each check of a report of repair fails for the fault that it is there for, and stamps every table."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from kvrelay.core.errors import IncompleteError
from kvrelay.report import recovered
from kvrelay.report.given import Given
from kvrelay.report.verify import Check, allowance, stamps, verify
from kvrelay.report.write import write_report
from kvrelay.stats.frame import Results, tidy
from tests.report.deletion_reports import on_disk
from tests.stats.deletion_study import NIAH, deletion_files

Rows = list[dict[str, Any]]
ALLOWANCE, PAIRS = "refreshed = requested = allowance", "at most twice the budget's share of causal pairs"


def checked(
    damage: Callable[[pd.DataFrame], None] = lambda table: None, spoil: Callable[[Rows], None] = lambda rows: None
) -> dict[str, Check]:
    """Checks of the study after its table, or the rows made from the sound table, were tampered with."""
    results = _results()
    table = recovered.methods(results.table).copy()
    rows = [dict(row) for row in recovered.rows(table, Given(results=results, baseline="shift", resamples=100))]
    damage(table)
    spoil(rows)
    return {check.name: check for check in verify(results, table, rows, placements=True)}


def _results(**options: Any) -> Results:
    files = deletion_files(**options)
    return tidy(files.plans, files.records, files.verdicts)


def failing(found: dict[str, Check]) -> dict[str, tuple[str, ...]]:
    return {name: check.failed for name, check in found.items() if check.failed}


def test_a_sound_study_passes_all() -> None:
    found = checked()
    assert failing(found) == {} and stamps(found.values()) == ()
    assert {name: check.n for name, check in found.items()} == {
        "every arm has every case": 7,
        "refreshed = requested = allowance": 28,
        "at most twice the budget's share of causal pairs": 28,
        "equal denominators within a data set": 1,
        "replay = re-prefill on whole caches": 4,
        "pooled counts are sums of integers": 0,
        "repaired - regressed = difference": 12,
        "one edited text for all placements": 4,
    }


def _where(table: pd.DataFrame, allocator: str, budget: str, example: str = "e1") -> pd.Series:
    return (table["allocator"] == allocator) & (table["budget"] == budget) & (table["example_id"] == example)


def _set(column: str, value: object) -> Callable[[pd.DataFrame], None]:
    def damage(table: pd.DataFrame) -> None:
        table.loc[_where(table, "sur", "p05"), column] = value

    return damage


@pytest.mark.parametrize(
    ("damage", "name", "told"),
    [
        (_set("status", "failed"), "every arm has every case", "sur · p05 · packed lacks 1 of 4 cases"),
        (
            _set("refreshed", 49.0),
            "refreshed = requested = allowance",
            "e1: refreshed 49, requested 50, allowed 50 of 1000",
        ),
        (_set("n_suffix", 1020.0), "refreshed = requested = allowance", "allowed 51 of 1020"),
        (_set("causal_pairs", 50_051.0), "at most twice the budget's share of causal pairs", "50051 of 500500 pairs"),
        (
            _set("edited", "another"),
            "one edited text for all placements",
            "qwen3_8b · erasing_niah · a: 2 edited texts",
        ),
    ],
)
def test_damaged_records_are_found(damage: Callable[[pd.DataFrame], None], name: str, told: str) -> None:
    found = failing(checked(damage=damage))
    assert told in found[name][0]


def test_twice_the_share_itself_is_allowed() -> None:
    """2 * 50 / 1,000 of 500,500 pairs are 50,050."""
    assert failing(checked(damage=_set("causal_pairs", 50_050.0))) == {}


def test_a_case_that_an_arm_lacks_altogether_is_found() -> None:
    def drop(table: pd.DataFrame) -> None:
        table.loc[_where(table, "token", "p02", "e3"), "example_id"] = "e1"

    assert "token · p02 · packed lacks 1 of 4 cases" in failing(checked(damage=drop))["every arm has every case"][0]


def test_spoilt_rows_are_found() -> None:
    def other_count(rows: Rows) -> None:
        rows[0]["n_em"] = 3

    def other_difference(rows: Rows) -> None:
        rows[1]["em_minus_shift_difference"] += 0.1

    assert "over 3, 4 cases" in failing(checked(spoil=other_count))["equal denominators within a data set"][0]
    told = failing(checked(spoil=other_difference))["repaired - regressed = difference"]
    assert len(told) == 1 and "2 - 0 of 4 against 50.1" in told[0]


@pytest.mark.parametrize(("count", "measure"), [("n_em", "exact match"), ("n_nll", "NLL"), ("n_kl", "KL")])
def test_denominators_of_every_measure_are_compared(count: str, measure: str) -> None:
    def one_less(rows: Rows) -> None:
        rows[2][count] -= 1

    found = checked(spoil=one_less)["equal denominators within a data set"]
    assert found.failed == (f"qwen3_8b · erasing_niah: {measure} over 3, 4 cases",)


@pytest.mark.parametrize(
    ("dtype", "kl", "bound"),
    [
        ("float32", 1e-4, ""),
        ("float32", 1.1e-4, "0.0001"),
        ("float64", 1.1e-4, "0.0001"),
        ("bfloat16", 1e-2, ""),
        ("bfloat16", 1.1e-2, "0.01"),
        ("float16", 1.1e-2, "0.01"),
        (None, 1e-2, ""),
        (None, 1.1e-2, "0.01"),
        ("float32", float("inf"), "0.0001"),
    ],
)
def test_replay_of_a_whole_cache_is_re_prefill(dtype: str | None, kl: float, bound: str) -> None:
    results = _results(settings={"model": {"qwen3_8b": {"dtype": dtype}}} if dtype else {})
    table = recovered.methods(results.table).copy()
    table.loc[_where(table, "replay", "suffix", "e2"), "kl"] = kl
    check = {found.name: found for found in verify(results, table, [])}["replay = re-prefill on whole caches"]
    told = (
        f"qwen3_8b · erasing_niah · replay · suffix · packed, e2: KL {kl:.2g} nats a token, at most {bound} is rounding"
    )
    assert (check.n, check.failed) == (4, (told,) if bound else ())


def test_replay_of_a_compact_cache_is_something_else() -> None:
    """It recomputes what was kept after states that saw what was dropped."""
    results = _results(cache=("bm25", "r10", "original"))
    table = results.table.copy()
    table["kl"] = 1.0
    assert {check.name: check.n for check in verify(results, table, [])}["replay = re-prefill on whole caches"] == 0


def test_a_case_that_no_arm_has_is_named_once(tmp_path: Path) -> None:
    files = deletion_files({names: letters[:2] + "m" + letters[3:] for names, letters in NIAH.items()})
    with pytest.raises(IncompleteError) as told:
        write_report(on_disk(files, tmp_path), view="niah", resamples=100)
    case = "qwen3_8b · erasing_niah · full · r10 · original, #3: no record in any arm"
    assert f"7 of 28 answers are missing, failed or not judged: {case}. Give the run" in str(told.value)
    stamps_there = json.loads((tmp_path / "report" / "summary.json").read_text())["stamps"]
    assert [s for s in stamps_there if "VERIFY" in s] == [f"VERIFY FAILED, every arm has every case: {case}"]


def test_pools_that_are_no_sums_are_found() -> None:
    def pool(right: int, em: float) -> Callable[[Rows], None]:
        def add(rows: Rows) -> None:
            twin = next(row for row in rows if (row["allocator"], row["budget"]) == ("sur", "p02"))
            rows.append({**twin, "dataset": "lab_musique", "right": 1})
            rows.append({**twin, "dataset": "pooled", "right": right, "n_em": 8, "em": em})

        return add

    name = "pooled counts are sums of integers"
    assert checked(spoil=pool(3, 37.5))[name].failed == () and checked(spoil=pool(3, 37.5))[name].n == 1
    assert "4 of 8 pooled, 3 of 8 by data set" in checked(spoil=pool(4, 50.0))[name].failed[0]
    # The mean of rounded percentages is no pooled percentage.
    assert checked(spoil=pool(3, 37.6))[name].failed


@pytest.mark.parametrize(
    ("budget", "size", "settings", "expected"),
    [
        ("p05", 1019, {}, 50),
        ("p29", 100, {}, 29),
        ("p02", 49, {}, 0),
        ("p80", 10, {}, 8),
        ("p05", 1000, {"p05": {"share": 0.07}}, 70),
        ("t64", 1000, {}, 64),
        ("t64", 40, {}, 40),
        ("t64", 1000, {"t64": {"count": 65}}, 65),
        ("mine", 1000, {"mine": {"share": 0.0025}}, 2),
        ("0", 1000, {}, 0),
        ("suffix", 1000, {}, 1000),
        ("slot", 1000, {}, None),
        ("all", 1000, {}, None),
    ],
)
def test_allowances(budget: str, size: int, settings: dict[str, dict[str, Any]], expected: int | None) -> None:
    assert allowance(budget, size, settings) == expected


def test_a_report_that_fails_is_stamped_everywhere(tmp_path: Path) -> None:
    arms = NIAH | {("sur", "p02", "packed"): "11m0"}
    folder = on_disk(deletion_files(arms), tmp_path)
    with pytest.raises(IncompleteError, match="1 of 28 answers are missing"):
        write_report(folder, view="niah", resamples=100)
    cell = "qwen3_8b · erasing_niah · full · r10 · original · sur · p02 · packed"
    lacks = f"VERIFY FAILED, every arm has every case: {cell} lacks 1 of 4 cases"
    unequal = (f"qwen3_8b · erasing_niah: {measure} over 3, 4 cases" for measure in ("exact match", "NLL", "KL"))
    counts = f"VERIFY FAILED, equal denominators within a data set: {'; '.join(unequal)}"
    summary = json.loads((folder / "report" / "summary.json").read_text())
    assert {lacks, counts} <= set(summary["stamps"])
    outcome = {check["check"]: check["passed"] for check in summary["views"]["niah"]["verify"]}
    assert [name for name, passed in outcome.items() if not passed] == [
        "every arm has every case",
        "equal denominators within a data set",
    ]
    for name in ("niah.md", "niah_lengths.md", "niah_budget.md"):
        assert lacks in (folder / "report" / name).read_text(encoding="utf-8")
