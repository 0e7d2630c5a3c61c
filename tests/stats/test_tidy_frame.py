"""Plans, records and verdicts joined: what is missing is named, what differs is refused, order does not matter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from kvrelay.core.errors import AssetError, DataError, InvariantError
from kvrelay.run.record import RunRecord, Verdict, item_key
from kvrelay.stats.frame import Results, tidy
from tests.stats.golden_study import JUDGE, OUTCOMES, Files, study_files

SMALL = {("talks", "bm25", "original"): "01", ("talks", "bm25", "roperelay"): "11"}


def joined(files: Files, **options: Any) -> Results:
    return tidy(files.plans, files.records, files.verdicts, **options)


def of(results: Results, dataset: str, selector: str, position: str) -> pd.DataFrame:
    table = results.table
    chosen = (table["dataset"] == dataset) & (table["selector"] == selector) & (table["position"] == position)
    return table[chosen].set_index("example_id")


def changed(files: Files, which: int, **fields: Any) -> RunRecord:
    key = list(files.records)[which]
    files.records[key] = files.records[key].model_copy(update=fields)
    return files.records[key]


def test_every_planned_answer_has_a_row_and_a_status() -> None:
    results = joined(study_files())
    assert len(results.table) == 6 * len(OUTCOMES)
    original = of(results, "talks", "snapkv", "original")
    assert original["status"].tolist() == ["scored", "missing", "scored", "unscored", "scored", "scored"]
    assert original["correct"].tolist() == [False, pd.NA, True, pd.NA, False, False]
    assert original.loc["e4", "reason"] == "malformed"
    moved = of(results, "talks", "snapkv", "roperelay")
    assert moved.loc["e5", ["status", "reason"]].tolist() == ["failed", "PositionError: out of range"]
    assert moved["f1"].tolist()[:4] == [1.0, 1.0, 1.0, 1.0] and pd.isna(moved.loc["e5", "f1"])
    assert moved.loc["e1", ["nll", "loglik"]].tolist() == [1.5, -1.5]
    assert results.judges == {"longmemeval_s": JUDGE, "talks": JUDGE}


def test_a_missing_answer_is_named_after_its_siblings() -> None:
    results = joined(study_files())
    row = of(results, "talks", "snapkv", "original").loc["e2"]
    assert row[["status", "cluster", "question_type"]].tolist() == ["missing", "c1", "temporal"]
    assert results.incomplete["example_id"].tolist() == ["e2", "e5"]
    assert "INCOMPLETE: of 54 answers 1 without a record, 1 failed (listed in summary.json)" in results.stamps


def test_an_answer_that_no_cell_gave_is_named_by_its_place() -> None:
    results = joined(study_files({("talks", "bm25", "original"): "0m", ("talks", "bm25", "roperelay"): "1m"}))
    assert results.incomplete["example_id"].tolist() == ["#2", "#2"]


def test_unscored_and_unjudged_are_told_apart() -> None:
    results = joined(study_files({("talks", "bm25", "original"): "0uj", ("talks", "bm25", "roperelay"): "11j"}))
    assert "INCOMPLETE: of 6 answers 2 without a verdict (listed in summary.json)" in results.stamps
    assert "1 of 6 answers are unscored (malformed 1): neither right nor wrong" in results.stamps
    assert results.incomplete["status"].tolist() == ["unjudged", "unjudged"]


@pytest.mark.parametrize("reason", ["transport_error", "rejected", "malformed"])
def test_an_answer_without_a_reply_is_still_to_be_judged(reason: str) -> None:
    files = study_files({("talks", "bm25", "original"): "0uj", ("talks", "bm25", "roperelay"): "11f"})
    changed = {key: v.model_copy(update={"reason": reason}) for key, v in files.verdicts.items() if v.correct is None}
    files.verdicts |= changed
    results, silent = joined(files), reason != "malformed"
    told = ", 1 without a reply" if silent else ""
    assert f"INCOMPLETE: of 6 answers 1 failed, 1 without a verdict{told} (listed in summary.json)" in results.stamps
    assert len(results.incomplete) == 2 + silent and results.incomplete["reason"].tolist().count(reason) == silent
    assert replace(results, planned_judges=()).incomplete["status"].tolist() == ["failed"]


def test_without_a_judge_nothing_is_incomplete() -> None:
    results = joined(study_files(SMALL, judges=()))
    assert results.table["status"].tolist() == ["unjudged"] * 4
    assert results.incomplete.empty and results.judges == {} and results.stamps == ()


def test_order_of_files_does_not_matter() -> None:
    files = study_files()
    back = Files(
        plans=files.plans[::-1],
        records=dict(reversed(files.records.items())),
        verdicts=dict(reversed(files.verdicts.items())),
    )
    one, other = joined(files), joined(back)
    pd.testing.assert_frame_equal(one.table, other.table)
    assert one.content_sha256 == other.content_sha256 and one.stamps == other.stamps


def test_content_hash_passes_over_timings_and_sees_answers() -> None:
    files = study_files()
    before = joined(files).content_sha256
    key = next(iter(files.records))
    volatile = {"worker": "other", "run_id": "again", "peak_memory_bytes": 5, "batch_rows": 9, "batch_sha256": "x"}
    files.records[key] = files.records[key].model_copy(update=volatile)
    assert joined(files).content_sha256 == before
    files.records[key] = files.records[key].model_copy(update={"answer_tokens": 99})
    assert joined(files).content_sha256 != before


# --- several plans --------------------------------------------------------------------------------------------------


def together(*several: Files) -> Files:
    files = Files()
    for one in several:
        files.plans += one.plans
        files.records |= one.records
        files.verdicts |= one.verdicts
    return files


def test_the_newer_settings_stand_and_the_older_are_stamped() -> None:
    old = study_files(SMALL, settings="old", created="2026-01-01T23:30:00+00:00", stamps=("old stamp",))
    flipped = {cell: letters[::-1] for cell, letters in SMALL.items()}
    # Later in time, though earlier as a text: another time zone.
    new = study_files(flipped, settings="new", created="2026-01-01T19:00:00-06:00", stamps=("new stamp",))
    for files in (together(old, new), together(new, old)):
        results = joined(files)
        assert of(results, "talks", "bm25", "original")["correct"].tolist() == [True, False]
        assert len(results.table) == 4
        assert results.stamps[0] == "new stamp" and "old stamp" not in results.stamps
        assert "Older settings of 2 cells are left out: llama31_8b · talks · bm25 · r10 · original" in results.stamps[1]


def test_a_part_is_completed_by_a_later_or_earlier_whole() -> None:
    part = study_files({cell: letters[:1] for cell, letters in SMALL.items()}, stamps=("LIMIT=1",))
    whole = study_files(SMALL, created="2026-03-01T00:00:00+00:00", stamps=("whole",))
    assert joined(part).stamps == ("LIMIT=1",)
    assert joined(together(part, whole)).stamps == ("whole",)
    late = Files(plans=[part.plans[0].model_copy(update={"created": "2026-05-01T00:00:00Z"})])
    results = joined(together(whole, late))
    assert results.stamps == ("whole",) and len(results.table) == 4


def test_runs_of_different_cells_add_up() -> None:
    one = study_files({("talks", "bm25", "original"): "01"}, stamps=("a", "b"))
    other = study_files({("talks", "bm25", "roperelay"): "11"}, created="2026-03-01T00:00:00+00:00", stamps=("b", "c"))
    results = joined(together(one, other))
    assert len(results.table) == 4 and set(results.stamps) == {"a", "b", "c"}


def test_records_of_no_plan_are_counted() -> None:
    files = study_files(SMALL)
    files.records["stray"] = next(iter(files.records.values())).model_copy(update={"key": "stray"})
    assert "1 records belong to no plan and are left out" in joined(files).stamps


def test_plans_that_cannot_be_read_together() -> None:
    files = study_files(SMALL)
    with pytest.raises(AssetError, match="no run plan"):
        tidy([], {}, {})
    with pytest.raises(DataError, match=r"2 experiments came \(golden, other\)"):
        tidy([*files.plans, files.plans[0].model_copy(update={"experiment": "other"})], {}, {})
    with pytest.raises(DataError, match="'yesterday'"):
        tidy([files.plans[0].model_copy(update={"created": "yesterday"})], {}, {})


# --- judges ---------------------------------------------------------------------------------------------------------


def judged_again(files: Files, judge: str, correct: bool | None, scores: dict[str, float]) -> None:
    for record in files.records.values():
        key = item_key(judge, record.item_fields())
        files.verdicts[key] = Verdict(judge_id=judge, item_key=key, correct=correct, scores=scores)
    files.plans = [plan.model_copy(update={"judges": (*plan.judges, judge)}) for plan in files.plans]


def test_the_first_judge_decides_and_scores_come_from_any() -> None:
    files = study_files(SMALL)
    judged_again(files, "second", False, {"f1": 0.5, "official": 1.0})
    table = joined(files).table
    assert table["correct"].tolist() == [False, True, True, True]
    assert table["f1"].tolist() == [0.25, 1.0, 1.0, 1.0]
    assert table["official"].tolist() == [1.0] * 4
    assert joined(files, judge="second").table["correct"].tolist() == [False] * 4


def test_multiple_choice_is_decided_by_objective_rules() -> None:
    files = study_files(SMALL)
    for key, record in files.records.items():
        files.records[key] = record.model_copy(update={"gold_choice": "a"})
    files.verdicts = {}
    for judge, correct, scores in ((JUDGE, True, {}), ("rules", False, {"official": 1.0, "sound": 0.0})):
        judged_again(files, judge, correct, scores)
    results = joined(files)
    assert results.judges == {"talks": "rules"} and results.table["correct"].tolist() == [False] * 4
    assert f"talks: scored by rules, not by {JUDGE}" in results.stamps


def test_a_score_out_of_range_is_refused() -> None:
    files = study_files(SMALL)
    judged_again(files, "percent", True, {"sound": 55.0})
    with pytest.raises(DataError, match=r"percent gives .* sound=55\.0; wanted 0 to 1"):
        joined(files)


@pytest.mark.parametrize(
    ("options", "gold", "expected"),
    [
        ({"a": -2.0, "b": -1.0}, "b", True),
        ({"a": -2.0, "b": -1.0}, "a", False),
        ({"b": -1.0, "a": -1.0}, "a", True),
        ({"b": -1.0, "a": -1.0}, "b", False),
        ({}, "b", pd.NA),
        ({"a": -1.0}, None, pd.NA),
    ],
)
def test_choice_by_log_probability(options: dict[str, float], gold: str | None, expected: object) -> None:
    files = study_files(SMALL, judges=())
    changed(files, 2, gold_choice=gold)
    record = changed(files, 0, choice_logprobs=options, gold_choice=gold)
    table = joined(files).table.set_index("key")
    found = table.loc[record.key, "choice_correct"]
    assert found is pd.NA if expected is pd.NA else bool(found) is expected


# --- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [("kept_sha256", "x"), ("values_sha256", "x"), ("slots_LH", [[7, 6], [7, 7]]), ("pair_key", "x")],
)
def test_a_forged_pair_is_refused(field: str, value: object) -> None:
    files = study_files(SMALL)
    changed(files, 3, **{field: value})
    with pytest.raises(InvariantError, match=rf"original against roperelay, example e2: {field}") as told:
        joined(files)
    assert told.value.exit_code == 6


def test_receipts_of_other_selectors_and_of_failures_are_not_compared() -> None:
    files = study_files({**SMALL, ("talks", "h2o", "original"): "01", ("talks", "bm25", "key_only"): "ff"})
    assert len({record.kept_sha256 for record in files.records.values()}) == 5
    assert len(joined(files).table) == 8


def test_clusters_must_be_known_and_one() -> None:
    files = study_files(SMALL)
    changed(files, 1, cluster_id="")
    with pytest.raises(DataError, match="'e2' has no cluster_id"):
        joined(files)
    files = study_files(SMALL)
    changed(files, 1, cluster_id="elsewhere")
    with pytest.raises(DataError, match="'e2' has 2 cluster ids"):
        joined(files)


def test_one_example_twice_in_a_cell_is_refused() -> None:
    files = study_files({("talks", "bm25", "original"): "01"})
    changed(files, 1, example_id="e1")
    with pytest.raises(DataError, match="'e1' stands twice in llama31_8b · talks · bm25 · r10 · original"):
        joined(files)
