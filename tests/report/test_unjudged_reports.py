"""Verdicts that are lacking: counted, bounded, stamped, and a status of 5; and what a table says of its judge."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

import pytest

from kvrelay.core.errors import IncompleteError
from kvrelay.report.write import write_report
from kvrelay.run.record import GoldFacts, JudgeFacts
from kvrelay.run.store import write_judge
from tests.report.test_report_files import FEW, grids, on_disk
from tests.stats.golden_study import JUDGE, Files, study_files

# Of 8 answers the judge left 2 without a verdict: one in each arm, on different questions.
LACKING = {("talks", "bm25", "original"): "01u1", ("talks", "bm25", "roperelay"): "1u10"}
WHOLE = {("talks", "bm25", "original"): "0101", ("talks", "bm25", "roperelay"): "1110"}


def files(outcomes: Mapping[tuple[str, str, str], str] = LACKING, reason: str = "malformed") -> Files:
    made = study_files(outcomes)
    changed = {key: v.model_copy(update={"reason": reason}) for key, v in made.verdicts.items() if v.correct is None}
    made.verdicts |= changed
    return made


def facts(**fields: object) -> JudgeFacts:
    gold = GoldFacts(sha256="x", asked=20, right=19, threshold=18, failed=["empty answer"])
    plain = {
        "name": "qwen25_32b",
        "id": JUDGE,
        "created": "2026-01-02T00:00:00+00:00",
        "identity": {"model_asked": "org/Judge", "model_answered": "org/Judge-rev2", "constraint": "choice"},
        "template": "memory_judge_v1",
        "template_sha256": "abcdef012345" + "9" * 52,
        "gold": gold,
    }
    return JudgeFacts(**(plain | fields))


def test_more_than_the_limit_is_stamped_bounded_and_incomplete(tmp_path: Path) -> None:
    """Original: 2 right of 3 known of 4, so 50 to 75 %; the position likewise. Both arms are known of questions 1 and 4
    alone. At worst the position has 2 and the original 3 right, at best the other way round: -25 to +25 points.
    """
    folder = on_disk(files(), tmp_path)
    with pytest.raises(IncompleteError) as told:
        write_report(folder, resamples=FEW, max_unjudged=1)
    stamp = "UNJUDGED: 2 of 8 answers have no verdict (malformed 2): accuracy is only bounded"
    assert told.value.exit_code == 5 and stamp in str(told.value) and "report.max_unjudged" in str(told.value)
    for name in ("table1", "table8"):
        assert f"> - {stamp}" in (folder / "report" / f"{name}.md").read_text(encoding="utf-8")
    text = (folder / "report" / "table1.md").read_text(encoding="utf-8")
    (grid,) = [grid for heading, grid in grids(text).items() if "accuracy" in heading]
    cells = dict(zip(grid[0], grid[1], strict=True))
    assert cells["Original"] == cells["RoPERelay"] == "50.0 (50.0 to 75.0)"
    assert cells["Δ"] == "0.0 (-25.0 to +25.0)"
    assert "In brackets: the accuracy if every answer" in text and "over all pairs of the row" in text
    with (folder / "report" / "table1.csv").open(newline="", encoding="utf-8") as lines:
        (row,) = [row for row in csv.DictReader(lines) if row["metric"] == "accuracy"]
    ends = [row[f"{arm}_if_{end}"] for arm in ("baseline", "position") for end in ("wrong", "right")]
    assert ends == ["50.0", "75.0", "50.0", "75.0"]
    assert (row["difference_if_worst"], row["difference_if_best"]) == ("-25.0", "25.0")


def test_bounds_are_over_all_pairs_and_values_over_whole_ones(tmp_path: Path) -> None:
    """Four questions, original 1 0 0 0, here 1 u u 1. Whole are e1 and e4: original 1 of 2, here 2 of 2, +50 points. Of
    all four the original has 1, whatever is judged yet, and the position 2 to 4: +1 to +3 of 4.
    """
    arms = {("talks", "bm25", "original"): "1000", ("talks", "bm25", "roperelay"): "1uu1"}
    folder = on_disk(files(arms), tmp_path)
    with pytest.raises(IncompleteError):
        write_report(folder, resamples=FEW, max_unjudged=0)
    text = (folder / "report" / "table1.md").read_text(encoding="utf-8")
    (grid,) = [grid for heading, grid in grids(text).items() if "accuracy" in heading]
    cells = dict(zip(grid[0], grid[1], strict=True))
    assert cells["Original"] == "50.0 (25.0 to 25.0)" and cells["RoPERelay"] == "100.0 (50.0 to 100.0)"
    assert cells["Δ"] == "+50.0 (+25.0 to +75.0)" and cells["n"] == "2"
    assert "Brackets are over all pairs of the row, the number before them over the n pairs with two verdicts" in text


@pytest.mark.parametrize("limit", [None, 2, 3])
def test_what_the_limit_bears_is_reported_as_ever(tmp_path: Path, limit: int | None) -> None:
    folder = on_disk(files(), tmp_path)
    write_report(folder, resamples=FEW, max_unjudged=limit)
    text = (folder / "report" / "table1.md").read_text(encoding="utf-8")
    assert "UNJUDGED" not in text and " to " not in text.split("## ")[1]
    assert "2 of 8 answers are unscored (malformed 2): neither right nor wrong" in text


@pytest.mark.parametrize(
    ("reason", "counted"),
    [
        *((reason, True) for reason in ("malformed", "truncated", "refused", "empty", "too_long")),
        *((reason, True) for reason in ("transport_error", "rejected", "a reason of tomorrow")),
        *((reason, False) for reason in ("rubric", "no_reference", "choice", "unanswerable", "no_checklist")),
    ],
)
def test_answers_beyond_a_judge_are_not_missing(tmp_path: Path, reason: str, counted: bool) -> None:
    folder = on_disk(files(reason=reason), tmp_path)
    if counted:
        with pytest.raises(IncompleteError, match=rf"UNJUDGED: 2 of 8 answers have no verdict \({reason} 2\)"):
            write_report(folder, resamples=FEW, max_unjudged=0)
    else:
        write_report(folder, resamples=FEW, max_unjudged=0)


def test_answers_that_nobody_judged_count_and_failed_ones_do_not(tmp_path: Path) -> None:
    folder = on_disk(files({("talks", "bm25", "original"): "01j1", ("talks", "bm25", "roperelay"): "1f1m"}), tmp_path)
    with pytest.raises(IncompleteError) as told:
        write_report(folder, resamples=FEW, max_unjudged=0)
    assert "3 of 8 answers are missing, failed or not judged" in str(told.value)
    assert "And UNJUDGED: 1 of 6 answers have no verdict (no verdict 1)" in str(told.value)


def test_whole_verdicts_exceed_nothing(tmp_path: Path) -> None:
    write_report(on_disk(files(WHOLE), tmp_path), resamples=FEW, max_unjudged=0)


def test_a_run_without_judges_lacks_no_verdict(tmp_path: Path) -> None:
    write_report(on_disk(study_files(WHOLE, judges=()), tmp_path), resamples=FEW, max_unjudged=0)


def test_a_table_tells_who_judged_it(tmp_path: Path) -> None:
    """Six verdicts, of which one was read leniently; two malformed."""
    made = files()
    lenient = next(key for key, verdict in made.verdicts.items() if verdict.correct)
    made.verdicts[lenient] = made.verdicts[lenient].model_copy(update={"parse": "lenient:fence"})
    folder = on_disk(made, tmp_path)
    write_judge(folder, facts())
    write_report(folder, resamples=FEW)
    for name in ("table1.md", "table8.md"):
        assert (
            f"qwen25_32b ({JUDGE}): template memory_judge_v1, sha256 abcdef012345; org/Judge-rev2 answered; form held "
            "to by the server: choice; answers: 6 judged, 2 malformed; parsed strictly 5 of 6 (83.3 %); gold items "
            "19/20." in (folder / "report" / name).read_text(encoding="utf-8")
        )


def test_rules_are_told_as_rules(tmp_path: Path) -> None:
    folder = on_disk(files(WHOLE), tmp_path)
    write_judge(folder, facts(name="lexical", identity={}, template="", template_sha256="", gold=None))
    write_report(folder, resamples=FEW)
    text = (folder / "report" / "table1.md").read_text(encoding="utf-8")
    assert f"lexical ({JUDGE}): rules, no template; answers: 8 judged." in text


def test_caveats_and_gold_without_a_threshold_are_stamps(tmp_path: Path) -> None:
    gold = GoldFacts(sha256="x", asked=20, right=7, threshold=0)
    folder = on_disk(files(WHOLE), tmp_path)
    write_judge(folder, facts(name="small", caveats=["135M parameters: its verdicts mean nothing"], gold=gold))
    idle = facts(name="idle", id="idle-1", caveats=["never asked"])
    write_judge(folder, idle)
    write_report(folder, resamples=FEW)
    for name in ("table1.md", "table8.md"):
        text = (folder / "report" / name).read_text(encoding="utf-8")
        assert "> - Judge small: 135M parameters: its verdicts mean nothing" in text
        assert "> - Judge small: 7 of 20 gold items right, held to no threshold" in text
        assert "never asked" not in text


def test_a_verdict_of_another_identity_is_no_verdict(tmp_path: Path) -> None:
    """The plan names the judge; its newest identity has judged nothing yet."""
    made = files(WHOLE)
    made.plans = [plan.model_copy(update={"judges": ("qwen25_32b",)}) for plan in made.plans]
    folder = on_disk(made, tmp_path)
    write_judge(folder, facts())
    write_report(folder, resamples=FEW, max_unjudged=0)
    write_judge(folder, facts(id="qwen25_32b-new", created="2026-01-03T00:00:00+00:00"))
    with pytest.raises(IncompleteError, match=r"UNJUDGED: 8 of 8 answers have no verdict \(no verdict 8\)"):
        write_report(folder, resamples=FEW, max_unjudged=0)
