"""The forest plot: what it draws, in which order, and that equal studies give equal files."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import matplotlib
import pytest

from kvrelay.report.figures import _draw, _limits, forest
from kvrelay.report.plots import Panel, Series, figure
from kvrelay.report.study import Study, make
from kvrelay.report.tables import md_escape
from kvrelay.stats.frame import tidy
from tests.stats.golden_study import Files, study_files


def study_of(*several: Files) -> Study:
    files = Files()
    for i, one in enumerate(several):
        files.plans += [plan.model_copy(update={"run_id": f"{plan.run_id}-{i}"}) for plan in one.plans]
        files.records |= one.records
        files.verdicts |= one.verdicts
    return make(tidy(files.plans, files.records, files.verdicts), resamples=200)


@pytest.fixture(scope="module")
def study() -> Study:
    extra = {("talks", "bm25", "original"): "0101", ("talks", "bm25", "roperelay"): "1111"}
    return study_of(study_files(), study_files(extra, model="qwen2_7b", settings="b"))


def test_files_are_equal_and_hold_no_dates(study: Study) -> None:
    one, other = forest(study), forest(study)
    assert one == other and set(one) == {f"forest_accuracy.{kind}" for kind in ("pdf", "png", "csv", "md")}
    assert one["forest_accuracy.pdf"].startswith(b"%PDF") and b"CreationDate" not in one["forest_accuracy.pdf"]
    assert b"Software" not in one["forest_accuracy.png"]


def test_captions_show_names_as_they_are(study: Study) -> None:
    """Names come from configurations and servers: none opens a tag, a code span or a line of its own."""
    evil = "a|b<script>x</script> `c` \x1b[31m\u202e\n# H"
    shown = md_escape(evil)
    hostile = replace(study, results=replace(study.results, experiment=evil, told=(evil,)))
    caption = forest(hostile)["forest_accuracy.md"].decode()
    assert caption.count(shown) == 2 and caption.count("\n") == 1
    panel = Panel(title="t", x="x", y="y", series=(Series(name="s", points=((0.0, 1.0),)),))
    assert figure("other", [panel], [], (), evil)["other.md"].decode() == f"{shown}\n"
    assert not any(sign in shown for sign in ("<script", "\x1b", "\u202e", "\n"))


def test_data_beside_the_figure(study: Study) -> None:
    rows = list(csv.DictReader(io.StringIO(forest(study)["forest_accuracy.csv"].decode())))
    assert len(rows) == 5
    bm25 = next(row for row in rows if row["dataset"] == "longmemeval_s" and row["selector"] == "bm25")
    assert (bm25["difference"], bm25["n"], bm25["paper_difference"]) == ("33.3333333333", "6", "11.8")


def test_panels_lines_and_marks(study: Study) -> None:
    rows = [row for row in study.of("accuracy") if row["difference"] is not None]
    figure = _draw(study, "accuracy", rows)
    left, right = figure.axes
    assert [text.get_text() for text in left.get_yticklabels()] == ["BM25", "SnapKV"]
    assert (left.get_title(loc="left"), right.get_title(loc="left")) == ("LongMemEval-S", "talks")
    points = [(line.get_xdata()[0], line.get_ydata()[0]) for line in right.lines if line.get_marker() in ("o", "s")]
    # BM25 and SnapKV of the first model above, BM25 of the second below its twin.
    assert points == [(pytest.approx(100 / 3), -0.25), (pytest.approx(100 / 3), 0.75), (pytest.approx(50.0), 0.25)]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        *("Llama-3.1-8B", "Qwen2-7B", "95 % percentile", "95 % cluster-t", "paper")
    ]


def test_one_cluster_is_hollow_and_has_no_bar() -> None:
    clusters = {"talks": ("c1",) * 4}
    outcomes = {("talks", "bm25", "original"): "0101", ("talks", "bm25", "roperelay"): "1111"}
    lone = study_of(study_files(outcomes, clusters=clusters))
    figure = _draw(lone, "accuracy", list(lone.of("accuracy")))
    marks = [line for line in figure.axes[0].lines if line.get_marker() == "o"]
    assert [line.get_markerfacecolor() for line in marks] == ["white"]
    assert "no interval" in [text.get_text() for text in figure.legends[0].get_texts()]


def test_limits_hold_zero_points_and_percentiles(study: Study) -> None:
    row = {"difference": 5.0, "low": 2.0, "high": 8.0, "low_t": -900.0, "high_t": 9.0, "paper_difference": 20.0}
    low, high = _limits([row])
    assert -15 < low < -10 and 20 < high < 25
    assert _limits([dict.fromkeys(row, 0.0)]) == (-1.0, 1.0)


def test_nothing_to_draw_is_no_figure(study: Study) -> None:
    assert forest(study, "choice_accuracy") == {}


def test_settings_of_matplotlib_are_left_alone(study: Study) -> None:
    before = dict(matplotlib.rcParams)
    forest(study)
    assert dict(matplotlib.rcParams) == before
