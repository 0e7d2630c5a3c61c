"""The whole report stage on the golden study: files that agree, equal bytes, honest gaps, exit codes."""

from __future__ import annotations

import csv
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kvrelay.core.errors import AssetError, IncompleteError, InvariantError
from kvrelay.report.__main__ import main
from kvrelay.report.names import label
from kvrelay.report.tables import tex_escape
from kvrelay.report.write import main_table, write_report
from kvrelay.run.lines import encode
from kvrelay.run.record import Timings
from kvrelay.run.store import write_atomic, write_plan
from tests.stats.golden_study import JUDGE, OUTCOMES, Files, study_files

COMPLETE = {cell: re.sub("[muf]", "0", letters) for cell, letters in OUTCOMES.items()}
FEW = 200


def on_disk(files: Files, folder: Path, *, backwards: bool = False) -> Path:
    for plan in files.plans:
        write_plan(folder, plan)
    records = list(files.records.values())[:: -1 if backwards else 1]
    half = len(records) // 2
    for name, part in (("w1", records[:half]), ("w2", records[half:])):
        write_atomic(folder / "records" / f"{name}.jsonl", b"".join(map(encode, part)))
    write_atomic(folder / "verdicts" / "v.jsonl", b"".join(map(encode, files.verdicts.values())))
    return folder


def report_bytes(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "report").iterdir())}


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory) -> Path:
    outcomes = {**COMPLETE, ("longmemeval_s", "bm25", "key_only"): "000001"}
    folder = on_disk(study_files(outcomes, stamps=("laptop | model",)), tmp_path_factory.mktemp("complete"))
    assert write_report(folder, resamples=FEW) == folder / "report" / "table1.md"
    return folder


@pytest.fixture(scope="module")
def gaps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = on_disk(study_files(), tmp_path_factory.mktemp("gaps"))
    with pytest.raises(IncompleteError) as told:
        write_report(folder, resamples=FEW)
    message = str(told.value)
    assert told.value.exit_code == 5
    assert "2 of 54 answers" in message and "· snapkv · r10 · original, e2: missing (no record)" in message
    assert "e5: failed (PositionError: out of range)" in message
    return folder


def grids(text: str) -> dict[str, list[list[str]]]:
    """Heading to the cells of its Markdown table, the heads first."""
    found = {}
    for part in text.split("\n## ")[1:]:
        lines = [line for line in part.splitlines() if line.startswith("|")]
        found[part.splitlines()[0]] = [
            re.split(r" *(?<!\\)\| *", line.strip("| ")) for line in lines if "---" not in line
        ]
    return found


def csv_rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_all_files_are_there(complete: Path) -> None:
    tables = {f"{name}.{kind}" for name in ("table1", "table8") for kind in ("md", "csv", "tex")}
    figures = {f"forest_{m}.{kind}" for m in ("accuracy", "f1", "em", "loglik") for kind in ("pdf", "png", "csv", "md")}
    assert set(report_bytes(complete)) == tables | figures | {"summary.json", "sources.json"}


def test_markdown_agrees_with_csv(complete: Path) -> None:
    """Each printed accuracy, difference and interval is its CSV row's, rounded to one decimal."""
    found = grids((complete / "report" / "table1.md").read_text())
    checked = 0
    for row in csv_rows(complete / "report" / "table1.csv"):
        if row["metric"] != "accuracy" or row["position"] not in ("", "roperelay"):
            continue
        head, *body = found[f"{label('dataset', row['dataset'])}: accuracy, %"]
        cells = dict(zip(head, next(r for r in body if r[1] == label("selector", row["selector"])), strict=True))
        assert cells["Original"] == f"{float(row['baseline_value']):.1f}"
        assert (cells["n"], cells["clusters"]) == (row["n"], row["n_clusters"])
        if row["position"]:
            assert cells["RoPERelay"] == f"{float(row['position_value']):.1f}"
            assert float(cells["Δ"]) == pytest.approx(float(row["difference"]), abs=0.05 + 1e-9)
            for column, ends in (("95 % percentile", ("low", "high")), ("95 % cluster-t", ("low_t", "high_t"))):
                printed = [float(x) for x in re.findall(r"[-+]?\d+\.\d", cells[column])]
                assert printed == [round(float(row[end]), 1) + 0.0 for end in ends]
        else:
            assert cells["RoPERelay"] == cells["Δ"] == "–"
        checked += 1
    assert checked == 5


def test_latex_agrees_with_markdown(complete: Path) -> None:
    for name in ("table1", "table8"):
        text = (complete / "report" / f"{name}.tex").read_text()
        bodies = re.findall(r"\\midrule\n(.*?)\\bottomrule", text, flags=re.DOTALL)
        printed = list(grids((complete / "report" / f"{name}.md").read_text()).values())
        assert len(bodies) == len(printed)
        for body, (_, *rows) in zip(bodies, printed, strict=True):
            assert body.splitlines() == [" & ".join(map(tex_escape, row)) + r" \\" for row in rows]


def test_overview_repeats_the_sections(complete: Path) -> None:
    found = grids((complete / "report" / "table1.md").read_text())
    _, *overview = found["Overview: accuracy, %"]
    for i, dataset in enumerate(("LongMemEval-S", "talks")):
        _, *rows = found[f"{dataset}: accuracy, %"]
        expected = {row[1]: row[2:5] for row in rows}
        for row in overview:
            assert row[2 + 3 * i : 5 + 3 * i] == expected.get(row[1], ["–", "–", "–"])


def test_key_only_and_full_have_their_own_rows(complete: Path) -> None:
    found = grids((complete / "report" / "table1.md").read_text())
    _, row = found["LongMemEval-S: accuracy, %, other positions"]
    # 001001 against 000001: 33.3 to 16.7.
    assert row[1:6] == ["BM25", "Key-only", "33.3", "16.7", "-16.7"]
    full = next(row for row in found["LongMemEval-S: accuracy, %"] if row[1] == "FullKV")
    assert full[2:5] == ["50.0", "–", "–"]


def test_the_paper_stands_beside(complete: Path) -> None:
    head, *rows = grids((complete / "report" / "table1.md").read_text())["LongMemEval-S: accuracy, %"]
    assert head[-3:] == ["Paper Original", "Paper RoPERelay", "Paper Δ"]
    assert {row[1]: row[-3:] for row in rows} == {
        "FullKV": ["27.4", "–", "–"],
        "BM25": ["23.6", "35.4", "+11.8"],
        "SnapKV": ["–", "–", "–"],
    }
    assert "Paper" not in str(grids((complete / "report" / "table1.md").read_text())["talks: accuracy, %"])


def test_stamps_and_footer_are_on_every_table(complete: Path, gaps: Path) -> None:
    for name in ("table1", "table8"):
        text = (complete / "report" / f"{name}.md").read_text()
        assert "> - laptop \\| model" in text.split("\n## ")[0]
        for part in (f"{FEW} resamples, seed 0", f"LongMemEval-S: {JUDGE}", "LongMemEval-S: 6 (question record)"):
            assert part in text
        assert re.search(r"answers and verdicts [0-9a-f]{16} \(files: sources.json\)", text)
        with_gaps = (gaps / "report" / f"{name}.md").read_text().split("\n## ")[0]
        assert "INCOMPLETE: of 54 answers 1 without a record, 1 failed (listed in summary.json)" in with_gaps
        assert "1 of 54 answers are unscored (malformed 1)" in with_gaps
    assert r"laptop \| model" in (complete / "report" / "forest_accuracy.md").read_text()


def test_gaps_stand_in_their_columns(gaps: Path) -> None:
    head, *rows = grids((gaps / "report" / "table1.md").read_text())["talks: accuracy, %"]
    cells = dict(zip(head, next(row for row in rows if row[1] == "SnapKV"), strict=True))
    assert (cells["n"], cells["unscored"], cells["missing"]) == ("3", "1", "2")


def test_table8_tests_and_caveat(complete: Path) -> None:
    text = (complete / "report" / "table8.md").read_text()
    head, *rows = grids(text)["LongMemEval-S"]
    cells = [dict(zip(head, row, strict=True)) for row in rows]
    relay = next(c for c in cells if c["Selector"] == "BM25" and c["Position"] == "RoPERelay")
    assert (relay["repaired"], relay["regressed"], relay["pointwise p McNemar"]) == ("3", "1", "0.625")
    assert "share history sessions" in text.split("## talks")[0] and "share history" not in text.split("## talks")[1]
    assert "adjusted for the m = 5 tests" in text and "RoPERelay: 3 of 4 differences positive, 0 negative" in text
    assert not any(row["selector"] == "full" for row in csv_rows(complete / "report" / "table8.csv"))


def test_summary_holds_what_is_printed(gaps: Path) -> None:
    summary = json.loads((gaps / "report" / "summary.json").read_text())
    cell = next(c for c in summary["cells"] if c["n_missing"])
    assert (cell["selector"], cell["position"], cell["accuracy"]) == ("snapkv", "original", 25.0)
    assert (cell["n"], cell["n_scored"], cell["n_unscored"], cell["stop_length"]) == (6, 4, 1, 1)
    pair = next(
        c
        for c in summary["comparisons"]
        if (c["metric"], c["dataset"], c["selector"]) == ("accuracy", "longmemeval_s", "bm25")
    )
    assert (pair["original"], pair["roperelay"], pair["difference"]) == (33.3333333333, 66.6666666667, 33.3333333333)
    assert (pair["gains"], pair["losses"], pair["n"], pair["n_clusters"]) == (3, 1, 6, 6)
    assert pair["reported"] == {"source": "Table 1", "baseline": 23.6, "position": 35.4, "difference": 11.8}
    full = next(c for c in summary["cells"] if c["selector"] == "full")
    assert full["reported"] == 27.4
    assert [(f["example_id"], f["status"]) for f in summary["failed"]] == [("e2", "missing"), ("e5", "failed")]
    assert [(u["example_id"], u["reason"]) for u in summary["unscored"]] == [("e4", "malformed")]
    printed = csv_rows(gaps / "report" / "table8.csv")
    for row, c in zip(printed, (c for c in summary["comparisons"] if c["metric"] == "accuracy"), strict=True):
        assert [row["selector"], float(row["low"]), float(row["holm_p"])] == [c["selector"], c["low"], c["holm_p"]]


def test_sources_are_the_inputs(complete: Path) -> None:
    sources = json.loads((complete / "report" / "sources.json").read_text())
    files = [path for part in ("runs", "records", "verdicts") for path in (complete / part).iterdir()]
    assert sources == {
        path.relative_to(complete).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files
    }


def test_the_same_inputs_give_the_same_bytes(complete: Path) -> None:
    before = report_bytes(complete)
    write_report(complete, resamples=FEW)
    assert report_bytes(complete) == before


def test_order_and_timings_change_no_table(tmp_path: Path, gaps: Path) -> None:
    files = study_files()
    for key, record in files.records.items():
        slower = {"timings": Timings(prefill_s=99.0), "worker": "elsewhere", "run_id": "later"}
        files.records[key] = record.model_copy(update=slower)
    folder = on_disk(files, tmp_path, backwards=True)
    with pytest.raises(IncompleteError):
        write_report(folder, resamples=FEW)
    before, after = report_bytes(gaps), report_bytes(folder)
    assert before.keys() == after.keys()
    assert {name for name in before if before[name] != after[name]} == {"summary.json", "sources.json"}
    one, other = json.loads(before["summary.json"]), json.loads(after["summary.json"])
    assert {name for name in one if one[name] != other[name]} == {"timings", "sources"}


def test_seed_and_resamples_are_used(tmp_path: Path, complete: Path) -> None:
    outcomes = {**COMPLETE, ("longmemeval_s", "bm25", "key_only"): "000001"}
    folder = on_disk(study_files(outcomes, stamps=("laptop | model",)), tmp_path)
    write_report(folder, seed=5, resamples=150)
    assert "150 resamples, seed 5" in (folder / "report" / "table1.md").read_text()
    ends = [[row["low"] for row in csv_rows(f / "report" / "table1.csv")] for f in (folder, complete)]
    assert ends[0] != ends[1]


def test_figures_that_no_longer_apply_go(tmp_path: Path) -> None:
    folder = on_disk(study_files(COMPLETE), tmp_path)
    write_atomic(folder / "report" / "forest_sound.pdf", b"old")
    write_atomic(folder / "report" / "site.html", b"of somebody else")
    write_report(folder, resamples=FEW)
    assert not (folder / "report" / "forest_sound.pdf").exists() and (folder / "report" / "site.html").exists()


def test_a_forged_pair_writes_nothing(tmp_path: Path) -> None:
    files = study_files(COMPLETE)
    key = next(key for key, record in files.records.items() if record.cell.position == "roperelay")
    files.records[key] = files.records[key].model_copy(update={"values_sha256": "forged"})
    folder = on_disk(files, tmp_path)
    with pytest.raises(InvariantError, match="original against roperelay, example e1: values_sha256"):
        write_report(folder, resamples=FEW)
    assert not (folder / "report").exists()


def test_an_empty_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(AssetError, match="no run plan"):
        write_report(tmp_path)


def test_provenance_gives_the_commit(tmp_path: Path) -> None:
    folder = on_disk(study_files(COMPLETE), tmp_path)
    write_atomic(folder / "provenance" / "r.json", json.dumps({"git": {"commit": "ab" * 20, "dirty": True}}))
    write_atomic(folder / "provenance" / "s.json", json.dumps({"git": {"commit": "unknown", "dirty": "unknown"}}))
    write_report(folder, resamples=FEW)
    assert "Inputs: commit abababababab+; answers" in (folder / "report" / "table1.md").read_text()


def test_command_prints_the_table_then_its_path(complete: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(complete), "--resamples", str(FEW)]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines()[-1] == str(main_table(complete))
    assert printed.out.startswith((complete / "report" / "table1.md").read_text()) and printed.err == ""


def test_command_returns_the_errors_code(gaps: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(gaps), "--resamples", str(FEW)]) == 5
    printed = capsys.readouterr()
    assert printed.out.splitlines()[-1] == str(main_table(gaps)) and printed.err.startswith("IncompleteError: report")
    assert main([str(tmp_path)]) == 3
    assert capsys.readouterr().out == ""
    assert main([str(gaps), "--resamples", "10"]) == 2


def test_no_torch_and_no_transformers() -> None:
    code = "import sys, kvrelay.report.write; print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
