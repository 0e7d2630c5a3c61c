"""The view of long answers: its tables by hand, the paper's numbers where they match, and its warnings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from checklist_study import GRADES, Files, checklist_files

from kvrelay.core.errors import IncompleteError
from kvrelay.report.checklists import published_gain, published_mean
from kvrelay.report.text import NOTHING
from tests.report.deletion_reports import csv_rows, grid, part_of
from tests.report.deletion_reports import reported as report

PLACE = "HelloBench summarization, Llama-3.1-8B"
SNAPKV = ("snapkv", "roperelay")


def made(tmp_path: Path, **settings: Any) -> Path:
    files: Any = checklist_files(**settings)
    return report(files, tmp_path, "helloeval")


def test_every_arm_with_its_means_lengths_and_the_papers(tmp_path: Path) -> None:
    full, original, relay = grid(made(tmp_path) / "helloeval.md", PLACE)
    assert (full["Selector"], full["Quality"], full["Paper Quality"], full["Paper tokens"]) == (
        *("FullKV", "0.9167", NOTHING, "737.5"),
    )
    assert original == {
        **{"Selector": "SnapKV", "Position": "Original", "Quality": "0.4167", "Factuality": "0.2500"},
        **{"HelloEval": "36.25", "rescaled": "-155.00", "parsed, %": "100.0", "n": "3"},
        **{"words": "11.0", "tokens": "21.0", "EOS, %": "66.7"},
        **{"Paper Quality": "0.7279", "Paper Coverage": "0.7500", "Paper tokens": "659.7"},
    }
    assert (relay["Quality"], relay["Paper Quality"], relay["Paper tokens"]) == ("0.5417", "0.7324", "680.0")


def test_differences_by_measure_category_and_entry(tmp_path: Path) -> None:
    main = made(tmp_path) / "helloeval.md"
    quality, facts, hello, scaled = grid(main, f"{PLACE}: difference from Original")
    assert (quality["Measure"], quality["Original"], quality["Here"], quality["Δ"]) == (
        *("Quality", "0.4167", "0.5417", "+0.1250"),
    )
    assert (quality["Paper Δ"], facts["Paper Δ"]) == ("+0.0045", NOTHING)
    assert (facts["Δ"], hello["Δ"], scaled["Δ"]) == ("+0.2500", "+15.00", "+60.00")
    assert (quality["n"], quality["clusters"]) == ("3", "3")
    blogs, reports = grid(main, f"{PLACE}: quality by category")
    assert (blogs["Category"], blogs["Δ"], blogs["Paper Δ"], blogs["95 % percentile"]) == (
        *("blogs", "0.0000", "+0.1042", "not estimable"),
    )
    assert (reports["Δ"], reports["Paper Δ"], reports["n"]) == ("+0.1875", "+0.0347", "2")
    entries = grid(main, f"{PLACE}: mean grade by entry of the checklist")
    assert [(e["Category"], e["Entry"], e["Δ"]) for e in entries] == [
        *(("blogs", "1", "0.0000"), ("blogs", "2", "0.0000"), ("blogs", "3", "0.0000")),
        *(("report", "1", "0.0000"), ("report", "2", "+0.3750")),
    ]


def test_csv_latex_and_summary_hold_the_same_rows(tmp_path: Path) -> None:
    folder = made(tmp_path)
    rows = csv_rows(folder / "helloeval.csv")
    kinds = [row["row"] for row in rows]
    assert kinds == ["arm"] * 3 + ["difference"] * 4 + ["category"] * 2 + ["entry"] * 5
    part = part_of(folder, "helloeval")
    assert [len(part[name]) for name in ("arms", "comparisons", "categories", "entries")] == [3, 4, 2, 5]
    assert part["arms"][1]["quality"] == pytest.approx(1.25 / 3, abs=1e-11) == float(rows[1]["quality"])
    assert r"\toprule" in (folder / "helloeval.tex").read_text()


def test_a_set_or_a_component_of_ones_own_stands_beside_no_published_number(tmp_path: Path) -> None:
    for number, settings in enumerate(
        ({"dataset": "lab_hellobench"}, {"model": "smollm2"}, {"changed": ("selector.snapkv",)})
    ):
        folder = made(tmp_path / str(number), **settings)
        rows = [row for row in csv_rows(folder / "helloeval.csv") if row["selector"] == "snapkv"]
        assert not any(row[name] for row in rows for name in row if name.startswith("paper_"))


def test_replies_that_cannot_be_read_are_warned_of_and_are_no_noughts(tmp_path: Path) -> None:
    folder = made(tmp_path, grades=GRADES | {SNAPKV: [(1, 0.5), None, (0, 0.25, 0.5)]})
    text = (folder / "helloeval.md").read_text()
    assert "HelloBench summarization, Llama-3.1-8B, SnapKV, RoPERelay: only 66.7 % of the judge's replies" in text
    relay = grid(folder / "helloeval.md", PLACE)[-1]
    assert (relay["Quality"], relay["parsed, %"], relay["n"]) == ("0.5000", "66.7", "2")


def test_before_judging_the_lengths_stand_alone(tmp_path: Path) -> None:
    files: Files = checklist_files({arm: ["j"] * 3 for arm in GRADES})
    with pytest.raises(IncompleteError):
        report(files, tmp_path, "helloeval")  # type: ignore[arg-type]
    rows = grid(tmp_path / "report" / "helloeval.md", PLACE)
    assert [(row["parsed, %"], row["tokens"], row["n"]) for row in rows] == [(NOTHING, "21.0", "0")] * 3


def test_published_numbers_are_found_by_name_alone() -> None:
    asked = {"model": "llama31_8b", "dataset": "hellobench_summarization", "selector": "snapkv", "retention": "r10"}
    relay, original = asked | {"position": "roperelay"}, asked | {"position": "original"}
    assert published_mean("coverage", relay) == 0.7604
    assert published_mean("factuality", relay) is None
    assert published_mean("quality", original | {"retention": "r20"}) is None
    assert published_mean("quality", original | {"model": "qwen2_7b"}) is None
    full = original | {"selector": "full", "retention": "any"}
    assert (published_mean("answer_tokens", full), published_mean("quality", full)) == (737.5, None)
    assert published_mean("answer_tokens", full | {"position": "roperelay"}) is None
    assert published_gain("blogs", relay, "original") == 0.1042
    assert published_gain("news", relay, "original") is None
    assert published_gain("blogs", original, "roperelay") is None
