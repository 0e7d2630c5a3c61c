"""Views of natural questions, of the evidence's place and of the holdout; and the paper beside what it names alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvrelay.report import recovered
from kvrelay.report.caveats import SIDE_SWAP
from kvrelay.report.given import Given
from kvrelay.report.write import write_report
from kvrelay.stats.frame import tidy
from tests.report.deletion_reports import FEW, csv_rows, grid, on_disk, reported
from tests.stats.deletion_study import Files, deletion_files, together
from tests.stats.golden_study import study_files

QA = {
    ("shift", "0", ""): "001001",
    ("replay", "suffix", "interval"): "111111",
    ("reprefill", "all", ""): "111011",
    ("sur", "p05", "interval"): "110001",
    ("sur", "p05", "packed"): "110001",
    ("infoflow", "p05", "interval"): "011001",
}
PAPER_SETS = ("hotpotqa", "twowikimultihopqa", "musique", "iirc")
LOCATION = {
    ("shift", "0", ""): "00000001",
    ("replay", "suffix", "packed"): "10100010",
    ("reprefill", "all", ""): "11111111",
    ("localized", "slot", "packed"): "10101011",
}
SIDES = ("suffix-short", "prefix-short", "suffix-long", "prefix-long") * 2


def qa_files(model: str = "qwen3_30b", **options: Any) -> Files:
    shape = {"clusters": "aaabbb", "kinds": ["bridge"] * 6, "model": model}
    return together(*(deletion_files(QA, dataset=name, **shape, **options) for name in PAPER_SETS))


def location_files(model: str = "qwen3_30b") -> Files:
    shape = {"clusters": "aaaabbbb", "kinds": SIDES, "model": model}
    return together(*(deletion_files(LOCATION, dataset=f"location_{name}", **shape) for name in PAPER_SETS))


def arm(path: Path, dataset: str, allocator: str, executor: str) -> dict[str, str]:
    """The one row of an arm."""
    wanted = {"dataset": dataset, "allocator": allocator, "executor": executor}
    (row,) = (row for row in csv_rows(path) if wanted.items() <= row.items())
    return row


@pytest.fixture(scope="module")
def qa(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return reported(qa_files(), tmp_path_factory.mktemp("qa"), "qa")


# --- natural questions ----------------------------------------------------------------------------------------------


def test_pools_are_over_cases(qa: Path) -> None:
    """Each set: Shift 2 of 6 right, SUR 3 of 6 with two repaired and one regressed. All: 8 and 12 of 24."""
    row = next(
        r
        for r in csv_rows(qa / "qa.csv")
        if (r["dataset"], r["allocator"], r["executor"]) == ("pooled", "sur", "interval")
    )
    assert (row["right"], row["n_em"], row["n_clusters"]) == ("12", "24", "8")
    assert (row["em_minus_shift_repaired"], row["em_minus_shift_regressed"]) == ("8", "4")
    assert float(row["em_minus_shift_difference"]) == pytest.approx(100 * (8 - 4) / 24)
    # Re-prefill 111011 against SUR 110001: two lost, none gained in each set.
    assert (row["em_minus_reprefill_repaired"], row["em_minus_reprefill_regressed"]) == ("0", "8")
    assert float(row["em_minus_reprefill_difference"]) == pytest.approx(-100 * 8 / 24)


def test_the_papers_numbers_stand_beside_the_pool_alone(qa: Path, tmp_path: Path) -> None:
    pooled, *others = [r for r in csv_rows(qa / "qa.csv") if (r["allocator"], r["executor"]) == ("sur", "interval")]
    wanted = ("paper_minus_shift", "paper_minus_reprefill", "paper_repaired", "paper_regressed")
    assert [pooled[name] for name in wanted] == ["1.75", "0.08", "2.5", "0.75"]
    assert len(others) == 4 and not any(row[name] for row in others for name in wanted)
    laptop = reported(qa_files(model="smollm2"), tmp_path, "qa")
    assert not any(row[name] for row in csv_rows(laptop / "qa.csv") for name in wanted)


def test_the_papers_speed_stands_beside_its_executor_alone(qa: Path) -> None:
    rows = csv_rows(qa / "qa_latency.csv")
    printed = {(r["dataset"], r["executor"]) for r in rows if r["paper_lowest"]}
    assert printed == {("pooled", "interval")}
    shown = grid(qa / "qa_latency.md", "All data sets, Qwen3-30B: by executor")
    sur = next(row for row in shown if row["Allocator"] == "SUR")
    assert sur["Interval Paper"] == "1.16–1.43" and "Packed Paper" not in sur


def test_latency_by_stage_and_both_ratios(qa: Path) -> None:
    """Refresh takes 1 … 6 s, Re-prefill 4 … 24 s, the rest 1.125 s."""
    row = next(
        r
        for r in csv_rows(qa / "qa_latency.csv")
        if (r["dataset"], r["allocator"], r["executor"]) == ("hotpotqa", "sur", "packed")
    )
    assert [
        float(row[name]) for name in ("allocate_s", "relocate_s", "refresh_s", "question_s", "decode_s", "total_s")
    ] == [*(0.25, 0.125, 3.5, 0.25, 0.5, 4.625)]
    assert float(row["ratio_of_means"]) == pytest.approx(15.125 / 4.625)
    ratio = 1.0
    for i in range(1, 7):
        ratio *= (4 * i + 1.125) / (i + 1.125)
    assert float(row["paired_ratio"]) == pytest.approx(ratio ** (1 / 6))


def test_an_arm_that_a_data_set_lacks_is_not_pooled_in_silence(tmp_path: Path) -> None:
    shape: dict[str, Any] = {"clusters": "ab", "kinds": ["bridge"] * 2}
    first = deletion_files({("shift", "0", ""): "00", ("sur", "p05", "packed"): "11"}, dataset="lab_hotpotqa", **shape)
    other = deletion_files({("shift", "0", ""): "01"}, dataset="lab_musique", **shape)
    text = (reported(together(first, other), tmp_path, "qa") / "qa.md").read_text(encoding="utf-8")
    assert "Not pooled, as a data set lacks them: qwen3_8b · sur · p05 · packed" in text


# --- location and holdout -------------------------------------------------------------------------------------------


def test_contrasts_by_data_set_and_over_all(tmp_path: Path) -> None:
    report = reported(location_files(), tmp_path, "location")
    rows = {(r["dataset"], r["allocator"], r["metric"], r["contrast"]): r for r in csv_rows(report / "location.csv")}
    replay = rows["location_hotpotqa", "replay", "nll", "side, both tails"]
    # Effects in exact match are those of the contrasts' own test: one whole point, in likelihood minus two nats.
    assert (float(replay["difference"]), replay["n"], replay["paper"]) == (-2.0, "2", "-0.045")
    assert rows["location_hotpotqa", "replay", "em", "side, both tails"]["paper"] == ""
    pool = rows["pooled", "localized", "nll", "side, both tails"]
    assert (pool["n"], pool["paper"], pool["paper_low"], pool["paper_high"]) == ("8", "-0.031", "-0.093", "0.032")
    text = (report / "location.md").read_text(encoding="utf-8")
    assert SIDE_SWAP in text and "-0.031 nats [-0.093, +0.032]" in text and "-0.031 [-0.093, +0.032]" in text
    cells = csv_rows(report / "location_cells.csv")
    kinds = [r["question_type"] for r in cells if (r["dataset"], r["allocator"]) == ("location_iirc", "replay")]
    assert kinds == list(SIDES[:4])


def test_regions_against_tokens_by_support_and_length(tmp_path: Path) -> None:
    arms = {
        ("shift", "0", ""): "0000",
        ("sur", "t64", "packed"): "1110",
        ("token", "t64", "packed"): "1000",
        ("sur", "t256", "packed"): "1111",
        ("token", "t256", "packed"): "1101",
    }
    report = reported(deletion_files(arms, dataset="holdout_erasing_niah"), tmp_path, "holdout")
    found = [
        (r["budget"], r["question_type"], float(r["em_minus_token_difference"]), r["paper"])
        for r in csv_rows(report / "holdout.csv")
    ]
    assert found == [
        ("t64", "all lengths", 50.0, "9.85"),
        ("t64", "niah-1024", 50.0, ""),
        ("t64", "niah-4096", 50.0, ""),
        ("t256", "all lengths", 25.0, "1.84"),
        ("t256", "niah-1024", 0.0, ""),
        ("t256", "niah-4096", 50.0, ""),
    ]
    assert not [stamp for stamp in json.loads((report / "summary.json").read_text())["stamps"] if "VERIFY" in stamp]


# --- changed components ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("changed", ["budget.p02", "allocator.sur", "model.qwen3_8b", "dataset.erasing_niah"])
def test_the_paper_does_not_stand_beside_a_changed_component(changed: str) -> None:
    files = deletion_files(changed=(changed,))
    results = tidy(files.plans, files.records, files.verdicts)
    given = Given(results=results, baseline="shift", resamples=100)
    paper = {(row["allocator"], row["budget"]): row["paper_em"] for row in recovered.rows(results.table, given)}
    assert paper["sur", "p02"] is None
    assert paper["sur", "p05"] == (98.96 if changed == "budget.p02" else None)
    assert paper["token", "p02"] == (7.3 if changed == "allocator.sur" else None)


def test_the_paper_does_not_stand_beside_a_changed_retention(tmp_path: Path) -> None:
    files = study_files({("longmemeval_s", "bm25", p): "001001" for p in ("original", "roperelay")})
    told = files.plans[0].model_copy(
        update={"changed": ("retention.r10",), "stamps": ("CHANGED retention.r10.ratio=0.2 (conf: 0.1)",)}
    )
    for plans, printed in ((files.plans, True), ([told], False)):
        folder = on_disk(
            Files(plans=list(plans), records=files.records, verdicts=files.verdicts), tmp_path / str(printed)
        )
        write_report(folder, resamples=FEW)
        text = (folder / "report" / "table1.md").read_text(encoding="utf-8")
        assert ("Paper" in text) is printed and ("CHANGED retention.r10.ratio=0.2" in text) is not printed
        summary = json.loads((folder / "report" / "summary.json").read_text())
        assert {cell["reported"] for cell in summary["cells"]} == ({23.6, 35.4} if printed else {None})
        assert (summary["comparisons"][0]["reported"] is not None) is printed


def test_a_changed_shift_takes_only_the_difference_from_it(tmp_path: Path) -> None:
    report = reported(qa_files(changed=("allocator.shift",)), tmp_path, "qa")
    pooled = next(r for r in csv_rows(report / "qa.csv") if (r["dataset"], r["allocator"]) == ("pooled", "sur"))
    assert (pooled["paper_minus_shift"], pooled["paper_minus_reprefill"]) == ("", "0.08")
