"""Which answers were decoded with which: what is counted as apart, what is timed, and diagnostics run alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kvrelay.core.errors import ConfigError, IncompleteError
from kvrelay.report.write import write_report
from tests.report.deletion_reports import FEW, csv_rows, on_disk, reported
from tests.stats.deletion_study import Files, deletion_files

ARMS = {("shift", "0", ""): "0000", ("sur", "p05", "packed"): "1111", ("reprefill", "all", ""): "111f"}


def batched(files: Files, batches: Mapping[tuple[str, str], str]) -> Files:
    """The study with other batches for (allocator, example)."""
    for key, record in files.records.items():
        batch = batches.get((record.cell.allocator, record.example_id))
        if batch is not None:
            files.records[key] = record.model_copy(update={"batch_sha256": batch})
    return files


def test_repairs_that_decoded_apart_are_counted_by_example(tmp_path: Path) -> None:
    """Of four examples one has an arm in another batch; that the failed answer names another one counts for nothing."""
    files = batched(deletion_files(ARMS), {("sur", "e2"): "other", ("reprefill", "e4"): "another"})
    with pytest.raises(IncompleteError):
        write_report(on_disk(files, tmp_path), view="niah", resamples=FEW)
    told = json.loads((tmp_path / "report" / "summary.json").read_text())["timings"]
    assert (told["pairs"], told["pairs_decoded_apart"]) == (4, 1)


def test_leftovers_of_a_batch_are_not_timed(tmp_path: Path) -> None:
    """Sixteen rows together and one left over: its times are no latency beside times that were never taken."""
    arms = {names: letters.replace("f", "1") for names, letters in ARMS.items()}
    files = deletion_files(arms, dataset="lab_musique", rows=3)
    last = next(key for key, record in files.records.items() if record.cell.allocator == "reprefill")
    files.records[last] = files.records[last].model_copy(update={"batch_rows": 1})
    report = reported(files, tmp_path, "qa")
    assert not list(report.glob("qa_latency*")) and not list(report.glob("qa_quality_latency*"))
    text = (report / "qa.md").read_text(encoding="utf-8")
    assert "No latency table: in no case did the answers of all arms decode alone" in text


def test_cases_that_decoded_alone_are_timed_beside_others_that_did_not(tmp_path: Path) -> None:
    arms = {names: letters.replace("f", "1") for names, letters in ARMS.items()}
    files = deletion_files(arms, dataset="lab_musique")
    shared = next(k for k, r in files.records.items() if (r.cell.allocator, r.example_id) == ("sur", "e4"))
    files.records[shared] = files.records[shared].model_copy(update={"batch_rows": 2})
    report = reported(files, tmp_path, "qa")
    assert [(r["allocator"], r["n"], r["n_shared"], r["n_paired"]) for r in csv_rows(report / "qa_latency.csv")] == [
        ("shift", "3", "1", "3"),
        ("sur", "3", "1", "3"),
        ("reprefill", "3", "1", "3"),
    ]
    told = (report / "qa_latency.md").read_text(encoding="utf-8")
    assert "3 answers are not timed, as not all arms of their case decoded alone." in told
    assert "No latency table" not in (report / "qa.md").read_text(encoding="utf-8")


def marked(files: Files, allocator: str) -> Files:
    for key, record in files.records.items():
        if record.cell.allocator == allocator and record.repair:
            facts: dict[str, Any] = {"repair": record.repair.model_copy(update={"diagnostic": True})}
            files.records[key] = record.model_copy(update=facts)
    return files


@pytest.mark.parametrize("view", ["niah", "qa"])
def test_what_reads_the_clean_cache_is_a_diagnostic_by_any_name(tmp_path: Path, view: str) -> None:
    arms = {names: letters.replace("f", "1") for names, letters in ARMS.items()}
    files = marked(deletion_files(arms | {("oracle_units", "p05", "packed"): "1111"}), "oracle_units")
    report = reported(files, tmp_path, view)
    assert "oracle_units" not in (report / f"{view}.csv").read_text(encoding="utf-8")
    assert [row["allocator"] for row in csv_rows(report / f"{view}_diagnostics.csv")] == ["oracle_units"]


@pytest.mark.parametrize("name", ["oracle", "oracle_units"])
def test_diagnostics_alone_are_told(tmp_path: Path, name: str) -> None:
    files = marked(deletion_files({(name, "p05", "packed"): "1111"}), name)
    with pytest.raises(ConfigError, match=rf"only diagnostics were run \({name}\), .*, shift first of all"):
        write_report(on_disk(files, tmp_path), view="niah", resamples=FEW)
