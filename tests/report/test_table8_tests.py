"""Table 8's tests and what its footer says of them: families, joint interval, smallest detectable difference."""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path

import pytest

from kvrelay.report.text import number
from kvrelay.report.write import write_report
from kvrelay.stats.compare import compare
from kvrelay.stats.frame import tidy
from kvrelay.stats.joint import joint
from tests.report.deletion_reports import csv_rows, grid, on_disk
from tests.stats.golden_study import study_files

OUTCOMES = {
    ("longmemeval_s", "bm25", "original"): "000001",
    ("longmemeval_s", "bm25", "roperelay"): "111011",
    ("longmemeval_s", "snapkv", "original"): "110010",
    ("longmemeval_s", "snapkv", "roperelay"): "111010",
    ("talks", "bm25", "original"): "010100",
    ("talks", "bm25", "roperelay"): "111001",
    ("talks", "bm25", "key_only"): "000001",
}
ONE = {("talks", "bm25", "original"): "01", ("talks", "bm25", "roperelay"): "11"}


def made(folder: Path, outcomes: dict[tuple[str, str, str], str], **options: object) -> Path:
    write_report(on_disk(study_files(outcomes, **options), folder), resamples=300)  # type: ignore[arg-type]
    return folder / "report"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("table8"), OUTCOMES)


def test_pointwise_and_adjusted_columns_say_which_they_are(report: Path) -> None:
    rows = grid(report / "table8.md", "LongMemEval-S")
    heads = [head for head in rows[0] if " p " in f" {head} "]
    assert heads == ["pointwise p McNemar", "pointwise p sign-flip", "adjusted p Holm", "adjusted p max-T"]
    for row in rows:
        assert float(row["adjusted p max-T"]) >= float(row["pointwise p sign-flip"])


def test_max_t_stands_in_csv_and_summary(report: Path) -> None:
    summary = json.loads((report / "summary.json").read_text())
    told = [c for c in summary["comparisons"] if c["metric"] == "accuracy"]
    printed = csv_rows(report / "table8.csv")
    assert [float(row["maxt_p"]) for row in printed] == [c["maxt_p"] for c in told]
    assert all(c["signflip_p"] <= c["maxt_p"] for c in told) and len(told) == 4


def test_the_family_is_declared_with_the_tests_that_were_made(report: Path, tmp_path: Path) -> None:
    text = (report / "table8.md").read_text()
    assert "adjusted for the m = 4 tests of this table, one family over its data sets, models, selectors and" in text
    assert "without a test" not in text
    outcomes = {**ONE, ("longmemeval_s", "bm25", "original"): "01", ("longmemeval_s", "bm25", "roperelay"): "11"}
    fewer = made(tmp_path, outcomes, clusters={"talks": ("c1", "c1"), "longmemeval_s": ("r1", "r2")})
    text = (fewer / "table8.md").read_text()
    assert "the m = 1 tests" in text and "positions; 1 without a test (no pair, or one cluster) are not counted" in text


def test_the_count_has_its_joint_interval(report: Path) -> None:
    """The same draws as the table's: 300 resamples, seed 0, over the three cells of the headline's position."""
    files = study_files(OUTCOMES)
    found = compare(tidy(files.plans, files.records, files.verdicts).table, resamples=300)
    cells = [c for c in found if c.metric.name == "accuracy" and c.position == "roperelay"]
    expected = joint(cells, resamples=300)
    assert expected is not None and expected.n == 3
    line = next(line for line in (report / "table8.md").read_text().splitlines() if "Joint bootstrap" in line)
    ends = [number(end, signed=True) for end in (expected.mean, expected.mean_low, expected.mean_high)]
    assert (
        f"{expected.positive_low} to {expected.positive_high} of 3 positive; mean difference "
        f"{ends[0]} pp [{ends[1]}, {ends[2]}]" in line
    )
    assert "answer the same questions" in line and "no independent trials" in line
    # Net 4, 1 and 2 of 6 questions.
    assert expected.mean == pytest.approx(100 * (4 + 1 + 2) / 18)


def test_one_cell_has_no_joint_interval(tmp_path: Path) -> None:
    text = (made(tmp_path, ONE) / "table8.md").read_text()
    assert "1 of 1 differences positive" in text and "Joint bootstrap" not in text


def test_the_smallest_detectable_difference_is_told_for_the_table(report: Path) -> None:
    shown = [float(row["detectable"]) for row in csv_rows(report / "table8.csv")]
    line = next(line for line in (report / "table8.md").read_text().splitlines() if line.startswith("- MDE"))
    found = re.search(r"here (\S+) pp \(median; (\S+) to (\S+)\)", line)
    assert found and list(found.groups()) == [number(v) for v in (statistics.median(shown), min(shown), max(shown))]
    assert len(shown) == 4
