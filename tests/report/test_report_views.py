"""Views of Erasing-NIAH: their files agree, hold what was measured, and say what they may not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvrelay.core.errors import ConfigError, IncompleteError
from kvrelay.report.__main__ import main
from kvrelay.report.caveats import NO_ERASURE, ORACLE, PRIOR, SIDE_SWAP
from kvrelay.report.views import find, names
from kvrelay.report.write import main_table, write_report
from kvrelay.run.store import write_atomic
from tests.report.deletion_reports import FEW, csv_rows, grid, on_disk, part_of, reported
from tests.stats.deletion_study import NIAH, deletion_files
from tests.stats.golden_study import study_files

ORACLE_ARM = {("oracle", "p02", "packed"): "1111"}


@pytest.fixture(scope="module")
def niah(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return reported(deletion_files(NIAH | ORACLE_ARM), tmp_path_factory.mktemp("niah"), "niah")


# --- choosing a view ------------------------------------------------------------------------------------------------


def test_views_are_found_by_name_and_unknown_ones_are_told(tmp_path: Path) -> None:
    assert names() == ["geometry", "helloeval", "holdout", "location", "niah", "qa", "signals", "table1", "table12"]
    assert main_table(tmp_path) == tmp_path / "report" / "table1.md"
    assert main_table(tmp_path, "qa") == tmp_path / "report" / "qa.md"
    for name in names():
        assert name == find(name).MAIN and find(name).ARMS[0] in ("position", "allocator")
    with pytest.raises(ConfigError, match=r"report\.view = 'tabel1': wanted one of geometry, h"):
        write_report(tmp_path, view="tabel1")


def test_a_view_of_what_was_not_measured_is_told(tmp_path: Path) -> None:
    folder = on_disk(deletion_files(), tmp_path / "repairs")
    with pytest.raises(ConfigError, match="no answers for the view table1, which compares positions"):
        write_report(folder, view="table1")
    with pytest.raises(ConfigError, match=r"report\.baseline = original: no answers stand with this allocator"):
        write_report(folder, view="niah", baseline="original")
    other = on_disk(study_files(), tmp_path / "positions")
    with pytest.raises(ConfigError, match="no answers for the view niah, which compares allocators"):
        write_report(other, view="niah")


def test_the_command_takes_a_view(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = on_disk(deletion_files(), tmp_path)
    assert main([str(folder), "--view", "niah", "--resamples", str(FEW)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == str(folder / "report" / "niah.md")
    assert main([str(folder), "--view", "nothing"]) == 2


# --- erasing-niah, geometry, signals --------------------------------------------------------------------------------


def test_every_view_gives_its_files(niah: Path) -> None:
    tables = {
        f"{name}.{kind}" for name in ("niah", "niah_lengths", "niah_diagnostics") for kind in ("md", "csv", "tex")
    }
    figure = {f"niah_budget.{kind}" for kind in ("pdf", "png", "csv", "md")}
    assert {path.name for path in niah.iterdir()} == tables | figure | {"summary.json", "sources.json"}


def test_budgets_stand_beside_each_other_with_the_leak_and_the_paper(niah: Path) -> None:
    sur, token = grid(niah / "niah.md", "Erasing-NIAH, Qwen3-8B: exact match, %")
    assert sur == {
        "Allocator": "SUR",
        **{"2 % EM": "50.0", "2 % Leak": "0.0", "5 % EM": "100.0", "5 % Leak": "0.0"},
        **{"Paper EM 2 %": "89.6", "Paper EM 5 %": "99.0"},
    }
    assert (token["2 % Leak"], token["Paper EM 2 %"], token["Paper EM 5 %"]) == ("25.0", "7.3", "–")
    ends = grid(niah / "niah.md", "Erasing-NIAH, Qwen3-8B: endpoints")
    assert [(row["Allocator"], row["EM"], row["KL"], row["Leak"]) for row in ends] == [
        ("Shift", "0.0", "0.7500", "50.0"),
        ("Replay", "100.0", "0.0000", "0.0"),
        ("Re-prefill", "100.0", "0.0000", "0.0"),
    ]


def test_cells_agree_in_markdown_csv_and_summary(niah: Path) -> None:
    printed = grid(niah / "niah.md", "Erasing-NIAH, Qwen3-8B: differences in exact match, pp")
    stored, told = csv_rows(niah / "niah.csv"), part_of(niah, "niah")["cells"]
    assert len(printed) == len(stored) == len(told) == len(NIAH)
    for md, row, cell in zip(printed, stored, told, strict=True):
        assert (row["allocator"], row["budget"]) == (cell["allocator"], cell["budget"])
        assert row["right"] == str(cell["right"]) and float(row["em"]) == 100 * cell["right"] / cell["n_em"]
        if row["allocator"] != "shift":
            assert float(md["minus Shift Δ EM"]) == float(row["em_minus_shift_difference"])
            assert md["minus Shift repaired"] == row["em_minus_shift_repaired"]
    by_arm = {(row["allocator"], row["budget"]): row for row in stored}
    assert by_arm["sur", "p02"]["kl_minus_shift_difference"] == "-0.375"
    # B of S: 20 + 22 + 24 + 26 of 4,600; the most pairs are (1 - (1 - b)^2) of them, and less a little.
    assert float(by_arm["sur", "p02"]["refreshed_percent"]) == 2.0
    assert 3.9 < float(by_arm["sur", "p02"]["pairs_percent"]) < 4.0
    assert by_arm["reprefill", "all"]["pairs_percent"] == ""


def test_context_lengths_stand_beside_each_other(niah: Path) -> None:
    rows = grid(niah / "niah_lengths.md", "Erasing-NIAH, Qwen3-8B: exact match, %")
    sur = next(row for row in rows if row["Allocator"] == "SUR" and row["Budget"] == "2 %")
    assert (sur["1K"], sur["4K"]) == ("100.0", "0.0")
    stored = csv_rows(niah / "niah_lengths.csv")
    assert len(stored) == 2 * len(NIAH) and {row["n_em"] for row in stored} == {"2"}


def test_the_oracle_is_no_method(niah: Path) -> None:
    for name in ("niah.md", "niah.csv", "niah.tex", "niah_lengths.csv", "niah_budget.csv"):
        assert "racle" not in (niah / name).read_text(encoding="utf-8")
    told = (niah / "niah_diagnostics.md").read_text(encoding="utf-8")
    assert told.startswith("# DIAGNOSTIC, no method.") and ORACLE in told and "| Oracle " in told
    assert [row["allocator"] for row in part_of(niah, "niah")["diagnostics"]] == ["oracle"]
    assert "oracle" not in {row["allocator"] for row in part_of(niah, "niah")["cells"]}


def test_others_stand_beside_sur_at_equal_budget(niah: Path) -> None:
    rows = grid(niah / "niah.md", "Erasing-NIAH, Qwen3-8B: each allocator less SUR at the same budget")
    assert [
        (row["Allocator"], row["Budget"], row["minus SUR Δ EM"], row["repaired"], row["regressed"]) for row in rows
    ] == [
        ("Isolated tokens", "2 %", "-50.0", "0", "2"),
        ("Isolated tokens", "5 %", "-75.0", "0", "3"),
    ]


def test_caveats_are_those_that_apply(niah: Path, tmp_path: Path) -> None:
    text = (niah / "niah.md").read_text(encoding="utf-8")
    assert NO_ERASURE in text and "Replay is an operational comparator" in text and "Pointwise" in text
    assert PRIOR not in text and SIDE_SWAP not in text
    arms = {("shift", "0", ""): "00", ("sur", "p02", "interval"): "11", ("cacheblend", "p02", "interval"): "01"}
    signals = (reported(deletion_files(arms), tmp_path, "signals") / "signals.md").read_text(encoding="utf-8")
    assert PRIOR in signals and "was not rerun on packed" not in signals and "was not rerun on packed" in text


def test_views_show_their_own_allocators_of_one_set_of_records(tmp_path: Path) -> None:
    arms = NIAH | {("bm25_units", "p02", "packed"): "1000", ("window", "p02", "packed"): "0010"}
    folder = on_disk(deletion_files(arms), tmp_path)
    for view in ("niah", "geometry", "signals"):
        write_report(folder, view=view, resamples=FEW)
    shown = {
        view: {row["allocator"] for row in csv_rows(folder / "report" / f"{view}.csv")}
        for view in ("niah", "geometry", "signals")
    }
    ends = {"shift", "replay", "reprefill"}
    assert shown["niah"] == {*ends, "sur", "token", "bm25_units", "window"}
    assert shown["geometry"] == {*ends, "sur", "token", "window"}
    assert shown["signals"] == {*ends, "sur", "bm25_units"}
    told = json.loads((folder / "report" / "summary.json").read_text())
    assert set(told["views"]) == {"niah", "geometry", "signals"}


def test_an_unfinished_run_for_another_view_is_no_concern_of_this_one(tmp_path: Path) -> None:
    folder = on_disk(deletion_files(NIAH | {("cacheblend", "p02", "packed"): "10mf"}), tmp_path)
    told = (write_report(folder, view="geometry", resamples=FEW).parent / "geometry.md").read_text(encoding="utf-8")
    assert "INCOMPLETE" not in told
    assert json.loads((folder / "report" / "summary.json").read_text())["failed"] == []
    for view in ("signals", "niah"):
        with pytest.raises(IncompleteError, match="2 of "):
            write_report(folder, view=view, resamples=FEW)
        assert "1 without a record, 1 failed" in (folder / "report" / f"{view}.md").read_text(encoding="utf-8")


def test_parts_of_other_views_go_with_their_answers(tmp_path: Path) -> None:
    folder = on_disk(deletion_files(), tmp_path)
    write_report(folder, view="niah", resamples=FEW)
    write_report(folder, view="geometry", resamples=150)
    assert set(json.loads((folder / "report" / "summary.json").read_text())["views"]) == {"geometry"}


def test_the_same_inputs_give_the_same_bytes(niah: Path) -> None:
    before = {path.name: path.read_bytes() for path in niah.iterdir()}
    write_report(niah.parent, view="niah", resamples=FEW)
    assert {path.name: path.read_bytes() for path in niah.iterdir()} == before


def test_files_that_no_longer_apply_go(tmp_path: Path) -> None:
    folder = on_disk(deletion_files(), tmp_path)
    for name in ("niah_diagnostics.md", "geometry.md", "notes.md"):
        write_atomic(folder / "report" / name, b"old")
    write_report(folder, view="niah", resamples=FEW)
    left = {path.name for path in (folder / "report").iterdir()}
    assert "niah_diagnostics.md" not in left and {"geometry.md", "notes.md"} <= left


def test_figure_data_are_the_cells(niah: Path) -> None:
    rows = csv_rows(niah / "niah_budget.csv")
    assert [(row["allocator"], row["budget"]) for row in rows] == [
        (row["allocator"], row["budget"]) for row in csv_rows(niah / "niah.csv")
    ]
    assert b"CreationDate" not in (niah / "niah_budget.pdf").read_bytes()
    assert NO_ERASURE in (niah / "niah_budget.md").read_text(encoding="utf-8")
