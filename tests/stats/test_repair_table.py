"""Records of repairs as rows: their own columns, receipts of a deletion, changed components, older hashes."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from kvrelay.core.errors import InvariantError
from kvrelay.report.recovered import methods, no_methods
from kvrelay.run.record import digest, item_key
from kvrelay.stats.arms import diagnostics
from kvrelay.stats.frame import NO_ARM, Results, tidy
from kvrelay.stats.pool import pooled, pooled_sets
from tests.stats.deletion_study import JUDGE, LAYERS, Files, deletion_files, together
from tests.stats.golden_study import study_files

REPREFILL = ("reprefill", "all", "")
SMALL = {("shift", "0", ""): "x0", ("sur", "p05", "packed"): "1f", ("token", "p05", "packed"): "01"}


def joined(files: Files) -> Results:
    return tidy(files.plans, files.records, files.verdicts)


def row_of(results: Results, allocator: str, example: str) -> pd.Series:
    table = results.table
    return table[(table["allocator"] == allocator) & (table["example_id"] == example)].iloc[0]


def changed(files: Files, allocator: str, example: str, **repair: Any) -> None:
    for key, record in files.records.items():
        if (record.cell.allocator, record.example_id) == (allocator, example):
            assert record.repair is not None
            files.records[key] = record.model_copy(update={"repair": record.repair.model_copy(update=repair)})


def test_a_repairs_row_holds_its_counts_and_times() -> None:
    """Case 1: S = 1,000, of which 5 % are 50; its pairs are 951 + ... + 1,000 = 48,775 of 500,500."""
    row = row_of(joined(deletion_files(SMALL)), "sur", "e1")
    assert row[["allocator", "budget", "executor", "question_type"]].tolist() == ["sur", "p05", "packed", "niah-1024"]
    assert row[["requested", "refreshed", "n_suffix", "splice", "n_intervals"]].tolist() == [50, 50, 1000, 500, 2]
    assert row[["token_layer_updates", "causal_pairs", "replay_pairs"]].tolist() == [LAYERS * 50, 48_775, 500_500]
    assert row[["allocate_s", "relocate_s", "refresh_s", "kl"]].tolist() == [0.25, 0.125, 1.0, 0.25]
    assert row["edited"] == digest(["erasing_niah", "a"])


def test_what_was_not_repaired_has_empty_names_and_no_counts() -> None:
    table = joined(study_files()).table
    assert set(table["allocator"]) == set(table["budget"]) == set(table["executor"]) == set(table["edited"]) == {""}
    assert table["kl"].isna().all() and table["leaked"].isna().all()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("It was 12,345.", True),
        ("12345", True),
        ("the code 12345, I think", True),
        ("123456", False),
        ("A12345", False),
        ("12 345", False),
        ("", False),
    ],
)
def test_the_deleted_value_leaks_where_it_stands_by_itself(answer: str, expected: bool) -> None:
    files = deletion_files(SMALL)
    for key, record in files.records.items():
        files.records[key] = record.model_copy(update={"answer": answer})
    assert bool(row_of(joined(files), "shift", "e1")["leaked"]) is expected


def test_leaks_are_unknown_without_the_note_or_the_answer() -> None:
    files = deletion_files(SMALL)
    assert row_of(joined(files), "sur", "e2")["leaked"] is pd.NA
    for key, record in files.records.items():
        files.records[key] = record.model_copy(update={"notes": {}})
    assert joined(files).table["leaked"].isna().all()


@pytest.mark.parametrize(("field", "value"), [("edited_sha256", "x"), ("n_suffix", 7), ("splice", 1), ("n_deleted", 9)])
def test_arms_of_one_deletion_share_its_receipts(field: str, value: object) -> None:
    files = deletion_files(SMALL)
    changed(files, "token", "e1", **{field: value})
    with pytest.raises(InvariantError, match=rf"against token · p05 · packed, example e1: {field}") as told:
        joined(files)
    assert told.value.exit_code == 6


@pytest.mark.parametrize("field", ["pair_key", "kept_sha256", "values_sha256"])
def test_arms_of_one_deletion_start_from_the_same_states_under_the_same_settings(field: str) -> None:
    """Another answer limit or number format in one arm's run is another measurement, though its tokens agree."""
    files = deletion_files(SMALL)
    for key, record in files.records.items():
        if (record.cell.allocator, record.example_id) == ("token", "e1"):
            files.records[key] = record.model_copy(update={field: "other"})
    with pytest.raises(InvariantError, match=rf"the arms of 1 pairs .* token · p05 · packed, example e1: {field}\."):
        joined(files)


def test_other_caches_start_from_other_states() -> None:
    files = together(deletion_files(SMALL), other := deletion_files(SMALL, cache=("bm25", "r10", "roperelay")))
    for key in other.records:
        files.records[key] = files.records[key].model_copy(update={"pair_key": "p", "kept_sha256": "k"})
    assert len(joined(files).table) == 12


def test_equal_budgets_ask_for_equally_many_states() -> None:
    files = deletion_files(SMALL)
    changed(files, "token", "e1", requested=49, refreshed=49)
    with pytest.raises(InvariantError, match="example e1: requested 50 and 49"):
        joined(files)


def test_what_was_asked_for_was_refreshed() -> None:
    files = deletion_files(SMALL)
    changed(files, "sur", "e1", refreshed=49)
    with pytest.raises(InvariantError, match=r"sur · p05 · packed, example e1: refreshed 49 of 50 requested"):
        joined(files)


def test_a_repair_without_its_facts_is_no_repair() -> None:
    files = deletion_files(SMALL)
    for key, record in files.records.items():
        if record.cell.allocator == "token":
            files.records[key] = record.model_copy(update={"repair": None})
    with pytest.raises(InvariantError, match="example e1: "):
        joined(files)


def test_a_diagnostic_is_one_whatever_it_is_called() -> None:
    """Failed answers of the same allocator say nothing of it, and are no method's for that."""
    files = deletion_files(SMALL | {("oracle_units", "p05", "packed"): "1f", ("oracle", "p05", "packed"): "11"})
    changed(files, "oracle_units", "e1", diagnostic=True)
    table = joined(files).table
    assert diagnostics(table) == {"oracle", "oracle_units"}
    assert set(methods(table)["allocator"]) == {"shift", "sur", "token"}
    assert set(no_methods(table)["allocator"]) == {"oracle", "oracle_units"} and len(no_methods(table)) == 4


def test_that_a_method_is_no_diagnostic_changes_no_hash() -> None:
    files = deletion_files(SMALL)
    told = joined(files).content_sha256
    parts = []
    for key in sorted(files.records):
        record = files.records[key]
        said = record.model_dump(
            mode="json", exclude={"run_id", "worker", "timings", "peak_memory_bytes", "batch_rows", "batch_sha256"}
        )
        said["cell"] = {name: value for name, value in said["cell"].items() if value}
        if said["repair"]:
            del said["repair"]["diagnostic"]
        else:
            del said["repair"]
        judged = files.verdicts.get(item_key(JUDGE, record.item_fields())) if record.status == "ok" else None
        parts.append([said, [[JUDGE, judged.correct, judged.reason, judged.scores]] if judged else []])
    assert told == digest(parts)
    changed(files, "sur", "e1", diagnostic=True)
    assert joined(files).content_sha256 != told


def test_a_case_that_no_arm_has_is_told_from_one_that_some_arms_lack() -> None:
    """Case 2 has no record anywhere; case 1 has one in two arms, which give it its name in the third."""
    table = joined(deletion_files({("shift", "0", ""): "1m", ("sur", "p05", "packed"): "mm", REPREFILL: "0m"})).table
    found = {(row["allocator"], row["example_id"]): row["reason"] for _, row in table.iterrows()}
    assert {key: reason for key, reason in found.items() if reason} == {
        ("sur", "e1"): "no record",
        ("shift", "#2"): NO_ARM,
        ("sur", "#2"): NO_ARM,
        ("reprefill", "#2"): NO_ARM,
    }


def test_pools_do_not_mix_caches() -> None:
    """BM25's cache was measured on both sets, the whole one on one of them, and SUR on BM25's of one set alone."""
    small = {("bm25", "r10", "original"): ("hotpotqa", "musique"), ("full", "all", "original"): ("musique",)}
    files = together(
        *(
            deletion_files({("shift", "0", ""): "01"}, dataset=name, cache=c)
            for c, sets in small.items()
            for name in sets
        ),
        deletion_files({("sur", "p05", "packed"): "11"}, dataset="musique", cache=("bm25", "r10", "original")),
    )
    table = joined(files).table
    pool = pooled(table)
    assert sorted(pool["example_id"]) == ["hotpotqa/e1", "hotpotqa/e2", "musique/e1", "musique/e2"]
    assert set(pool["selector"]) == {"bm25"} and set(pool["allocator"]) == {"shift"}
    assert pooled_sets(table) == {
        ("qwen3_8b", "bm25", "r10", "original"): {"hotpotqa", "musique"},
        ("qwen3_8b", "full", "all", "original"): {"musique"},
    }


def test_components_that_are_not_what_they_are_called_are_stamped() -> None:
    results = joined(deletion_files(SMALL, changed=("budget.p05", "allocator.sur")))
    assert results.changed == {"budget.p05", "allocator.sur"}
    assert "CHANGED allocator.sur, budget.p05: not the settings that the name stands for" in results.stamps
    said = ("CHANGED budget.p05.share=0.2 (conf: 0.05)", "CHANGED allocator.sur.query_filter=none (conf: content)")
    told = joined(deletion_files(SMALL, changed=("budget.p05", "allocator.sur"), stamps=said))
    assert told.told[:2] == said and not any("not the settings" in stamp for stamp in told.stamps)


def test_a_plan_that_no_longer_stands_changes_nothing() -> None:
    old = deletion_files(SMALL, changed=("budget.p05",), settings={"budget": {"p05": {"share": 0.5}}})
    old.plans = [old.plans[0].model_copy(update={"cells": _other_settings(old), "run_id": "old"})]
    new = deletion_files(SMALL, created="2026-02-02T00:00:00+00:00", settings={"budget": {"p05": {"share": 0.05}}})
    new.plans += old.plans
    results = joined(new)
    assert results.changed == frozenset() and results.budgets == {"p05": {"share": 0.05}}


def _other_settings(files: Files) -> tuple[Any, ...]:
    return tuple(planned.model_copy(update={"config_sha256": "other"}) for planned in files.plans[0].cells)


def test_the_hash_of_answers_is_blind_to_fields_of_a_repair_that_was_none() -> None:
    """Reports made before caches were repaired keep their hash: pinned from the records as they were written then."""
    files = study_files({("talks", "bm25", "original"): "01"})
    results = joined(files)
    plain = [
        [
            {
                **record.model_dump(
                    mode="json",
                    exclude={
                        *("run_id", "worker", "timings", "peak_memory_bytes", "batch_rows", "batch_sha256", "repair"),
                    },
                ),
                "cell": {
                    "model": "llama31_8b",
                    "dataset": "talks",
                    "selector": "bm25",
                    "retention": "r10",
                    "position": "original",
                },
            },
            [[v.judge_id, v.correct, v.reason, v.scores] for v in files.verdicts.values() if _judges(v, record)],
        ]
        for _, record in sorted(files.records.items())
    ]
    assert results.content_sha256 == digest(plain)


def _judges(verdict: Any, record: Any) -> bool:
    return bool(verdict.correct) == ("kind 1" in record.answer)
