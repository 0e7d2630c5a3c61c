"""Grades in the tidy table and their means, by hand."""

from __future__ import annotations

import pandas as pd
import pytest
from checklist_study import GRADES, JUDGE, Files, checklist_files

from kvrelay.core.errors import DataError
from kvrelay.run.record import SCORED, Verdict
from kvrelay.stats import checklist
from kvrelay.stats.compare import summarise_cells
from kvrelay.stats.frame import Results, tidy

SNAPKV = ("snapkv", "roperelay")


def results(files: Files) -> Results:
    return tidy(files.plans, files.records, files.verdicts)


def arm(table: pd.DataFrame, selector: str, position: str) -> checklist.Arm:
    (found,) = [a for a in checklist.arms(table) if (a.cell.selector, a.cell.position) == (selector, position)]
    return found


def test_a_graded_answer_is_scored_and_neither_right_nor_wrong() -> None:
    found = results(checklist_files())
    assert set(found.table["status"]) == {"scored"}
    assert found.table["correct"].isna().all()
    assert found.incomplete.empty and dict(found.judges) == {"hellobench_summarization": JUDGE}
    row = found.table[(found.table["selector"] == "snapkv") & (found.table["position"] == "original")].iloc[0]
    assert (row["items"], row["quality"], row["factuality"], row["helloeval"]) == ((1.0, 0.0), 0.5, 0.0, 40.0)
    assert (row["answer_words"], row["helloeval_rescaled"]) == (10, -140.0) and pd.isna(row["coverage"])
    (cell,) = [c for c in summarise_cells(found.table) if (c.selector, c.position) == SNAPKV]
    assert cell.counts == {"scored": 3, "unscored": 0, "unjudged": 0, "failed": 0, "missing": 0}
    assert (cell.means["accuracy"], cell.counted["accuracy"]) == (None, 0)


def test_an_answer_without_grades_is_unscored_with_its_reason_and_no_number() -> None:
    table = results(checklist_files(GRADES | {SNAPKV: [None, (1, 1), "j"]})).table
    rows = table[table["position"] == "roperelay"]
    assert rows["status"].tolist() == ["unscored", "scored", "unjudged"]
    assert rows["reason"].tolist() == ["malformed", "", "no verdict"]
    assert rows["items"].tolist() == [(), (1.0, 1.0), ()]
    assert rows["quality"].isna().tolist() == [True, False, True]


def test_means_are_over_what_could_be_read_and_lengths_over_all() -> None:
    found = arm(results(checklist_files()).table, "snapkv", "original")
    assert found.cell.means == {
        "quality": pytest.approx((0.5 + 0.5 + 0.25) / 3),
        "factuality": pytest.approx((0 + 0.5 + 0.25) / 3),
        "coverage": None,
        "helloeval": pytest.approx((40 + 50 + 18.75) / 3),
        "helloeval_rescaled": pytest.approx(((40 + 50 + 18.75) / 3 - 75) * 4),
    }
    assert (found.parsed, found.words, found.cell.answer_tokens, found.eos) == (1.0, 11.0, 21.0, 2 / 3)
    assert not found.unsure
    part = arm(results(checklist_files(GRADES | {SNAPKV: [None, (1, 1), "j"]})).table, *SNAPKV)
    assert (part.parsed, part.cell.means["quality"], part.cell.counted["quality"]) == (0.5, 1.0, 1)
    assert (part.words, part.eos) == (11.0, 2 / 3) and part.unsure


def test_a_reply_that_never_came_is_no_reply_that_failed_to_parse() -> None:
    lost = arm(results(checklist_files(GRADES | {SNAPKV: ["lost", (1, 1), (1, 1, 1)]})).table, *SNAPKV)
    assert (lost.parsed, lost.cell.unscored_reasons) == (1.0, {"transport_error": 1})
    silent = arm(results(checklist_files(GRADES | {SNAPKV: ["lost", "lost", "j"]})).table, *SNAPKV)
    assert silent.parsed is None and not silent.unsure


@pytest.mark.parametrize(("read", "unsure"), [(19, True), (20, False)])
def test_the_warning_begins_at_nineteen_of_twenty(read: int, unsure: bool) -> None:
    row = [(1, 1)] * read + [None] * (20 - read)
    table = results(checklist_files({("snapkv", "original"): row}, kinds=["report"] * 20)).table
    assert arm(table, "snapkv", "original").unsure is unsure


def test_differences_are_over_pairs_and_intervals_over_records() -> None:
    found = {
        c.metric.name: c
        for c in checklist.differences(results(checklist_files()).table, baseline="original", seed=0, resamples=200)
    }
    assert list(found) == ["quality", "factuality", "helloeval", "helloeval_rescaled"]
    quality = found["quality"]
    assert quality.estimate is not None and (quality.estimate.n, quality.estimate.n_clusters) == (3, 3)
    assert quality.estimate.point == pytest.approx((0.25 + 0.125 + 0) / 3)
    assert found["helloeval"].estimate is not None
    assert found["helloeval"].estimate.point == pytest.approx((30 + 15 + 0) / 3)
    assert quality.estimate.low is not None and 0 <= quality.estimate.low <= quality.estimate.point
    half = checklist_files(GRADES | {SNAPKV: [(1, 0.5), None, (0, 0.25, 0.5)]})
    first = checklist.differences(results(half).table, baseline="original", seed=0, resamples=200)[0]
    assert first.estimate is not None
    assert (first.estimate.point, first.estimate.n, first.n_unscored) == (pytest.approx(0.125), 2, 1)


def test_categories_are_compared_by_themselves() -> None:
    found = checklist.by_category(results(checklist_files()).table, baseline="original", seed=0, resamples=200)
    points = {category: c.estimate.point for category, c in found if c.estimate is not None}
    assert points == {"blogs": pytest.approx(0.0), "report": pytest.approx(0.1875)}


def test_entries_are_compared_within_their_category() -> None:
    found = checklist.by_entry(results(checklist_files()).table, baseline="original")
    told = {(e.category, e.number): (e.n, e.baseline_value, e.value, e.difference) for e in found}
    assert told == {
        ("report", 1): (2, 0.75, 0.75, 0.0),
        ("report", 2): (2, 0.25, 0.625, 0.375),
        ("blogs", 1): (1, 0.0, 0.0, 0.0),
        ("blogs", 2): (1, 0.25, 0.25, 0.0),
        ("blogs", 3): (1, 0.5, 0.5, 0.0),
    }
    unread = checklist_files(GRADES | {SNAPKV: [None, (1, 1), (0, 0.25, 0.5)]})
    assert {(e.category, e.n) for e in checklist.by_entry(results(unread).table, baseline="original")} == {
        ("report", 1),
        ("blogs", 1),
    }


@pytest.mark.parametrize(
    ("name", "value"), [("item_1", 2.0), ("quality", -0.1), ("helloeval", 100.5), ("helloeval_rescaled", -301.0)]
)
def test_a_score_out_of_its_range_is_no_score(name: str, value: float) -> None:
    files = checklist_files()
    key, verdict = next(iter(files.verdicts.items()))
    files.verdicts[key] = verdict.model_copy(update={"scores": verdict.scores | {name: value}})
    with pytest.raises(DataError, match=f"{name}={value}"):
        results(files)


def test_a_checklists_verdict_is_final_and_outranks_an_unscored_one() -> None:
    scored = Verdict(judge_id="j", item_key="k", correct=None, reason=SCORED)
    unscored = Verdict(judge_id="j", item_key="k", correct=None, reason="malformed")
    assert (scored.is_final, scored.is_scored) == (True, True)
    assert (unscored.is_final, unscored.is_scored) == (True, False)
    assert not Verdict(judge_id="j", item_key="k", correct=None, reason="transport_error").is_final
    assert Verdict(judge_id="j", item_key="k", correct=False).is_scored
