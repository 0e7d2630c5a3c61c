"""Whole files of the store: whose folder it is, plans, manifests, and the atomic write under them."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kvrelay.core.errors import AssetError, ConfigError
from kvrelay.run.record import Cell, JudgeFacts, Manifest, PlannedCell, RunPlan
from kvrelay.run.store import (
    claim_folder,
    in_order,
    moment,
    read_judges,
    read_manifest,
    read_plans,
    shard_digests,
    write_atomic,
    write_judge,
    write_manifest,
    write_plan,
    write_provenance,
)
from kvrelay.stats.plans import merge


def plan(run_id: str, created: str) -> RunPlan:
    cell = Cell(model="m", dataset="d", selector="s", retention="r", position="p")
    planned = PlannedCell(cell=cell, config_sha256="c", keys=("k1", "k2"))
    return RunPlan(experiment="e", run_id=run_id, created=created, cells=(planned,), settings={"out": "é"})


def manifest(run_id: str) -> Manifest:
    return Manifest(run_id=run_id, experiment="e", expected=2, done=1, failed=["k2"], files={"a": "b"})


def claimed(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "kvrelay.json").read_text())


def test_plans_come_back_oldest_first_and_manifests_are_no_plans(tmp_path: Path) -> None:
    first, second = plan("b", "2026-01-01T00:00:00Z"), plan("a", "2026-01-02T00:00:00Z")
    for one in (second, first):
        write_plan(tmp_path, one)
    write_manifest(tmp_path, manifest("a"))
    assert read_plans(tmp_path) == [first, second]
    assert read_plans(tmp_path / "nowhere") == []


def test_the_newest_manifest_and_each_runs_own(tmp_path: Path) -> None:
    assert read_manifest(tmp_path) is None
    write_manifest(tmp_path, manifest("a"))
    write_manifest(tmp_path, manifest("b"))
    assert read_manifest(tmp_path) == manifest("b")
    assert read_manifest(tmp_path, "a") == manifest("a")
    assert read_manifest(tmp_path, "c") is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"run_id": "a"}', '{"schema_version": 1, "surplus": 2}'])
def test_a_damaged_plan_or_manifest_is_named(text: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_atomic(tmp_path / "runs" / "a.json", text)
    write_atomic(tmp_path / "manifest.json", text)
    with pytest.raises(AssetError, match=r"a\.json is damaged.*delete it"):
        read_plans(tmp_path)
    assert read_manifest(tmp_path) is None
    assert f"{tmp_path / 'manifest.json'} is damaged and counts as missing" in caplog.text
    write_manifest(tmp_path, manifest("b"))
    assert read_manifest(tmp_path) == manifest("b")


def test_a_plan_of_a_newer_schema_is_refused(tmp_path: Path) -> None:
    value = plan("a", "2026").model_dump(mode="json") | {"schema_version": 9, "surplus": 1}
    write_atomic(tmp_path / "runs" / "a.json", json.dumps(value))
    with pytest.raises(AssetError, match=r"newer kvrelay.*schema 9"):
        read_plans(tmp_path)


def test_provenance_and_digests(tmp_path: Path) -> None:
    path = write_provenance(tmp_path, "a", {"git": {"commit": "c"}})
    assert path == tmp_path / "provenance" / "a.json"
    assert json.loads(path.read_text()) == {"git": {"commit": "c"}}
    write_atomic(tmp_path / "records" / "w.jsonl", b"one")
    write_atomic(tmp_path / "verdicts" / "j.w.jsonl", b"two")
    assert shard_digests(tmp_path) == {
        "records/w.jsonl": hashlib.sha256(b"one").hexdigest(),
        "verdicts/j.w.jsonl": hashlib.sha256(b"two").hexdigest(),
    }


def test_an_atomic_write_replaces_whole_files_and_leaves_no_draft(tmp_path: Path) -> None:
    path = write_atomic(tmp_path / "deep" / "a.txt", "é\u2028\ud800")
    assert path.read_bytes() == "é\u2028\\ud800".encode()
    write_atomic(path, b"\x00two")
    assert path.read_bytes() == b"\x00two"
    assert os.listdir(path.parent) == ["a.txt"]


@pytest.mark.parametrize("broken_call", ["fsync", "replace"])
def test_an_atomic_write_that_fails_leaves_the_old_file(
    broken_call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    path = write_atomic(tmp_path / "a.txt", "old")
    with monkeypatch.context() as broken:
        broken.setattr(*((os, "fsync") if broken_call == "fsync" else (Path, "replace")), full)
        with pytest.raises(AssetError, match=r"a\.txt: the disk is full"):
            write_atomic(path, "new")
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["a.txt"]


def test_an_interrupted_atomic_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    path = write_atomic(tmp_path / "a.txt", "old")
    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", interrupted)
        with pytest.raises(KeyboardInterrupt):
            write_atomic(path, "new")
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["a.txt"]


def test_a_claim_makes_the_folder_marks_it_and_leaves_no_probe(tmp_path: Path) -> None:
    folder = tmp_path / "out" / "table1"
    claim_folder(folder, "table1")
    assert claimed(folder) == {"experiment": "table1", "schema_version": 1}
    assert sorted(os.listdir(folder)) == [
        "judges",
        "kvrelay.json",
        "provenance",
        "records",
        "report",
        "runs",
        "verdicts",
    ]
    assert [path for path in folder.rglob("*") if path.name.startswith(".")] == []
    (folder / "records" / "w.jsonl").write_bytes(b"x")
    claim_folder(folder, "table1")
    assert (folder / "records" / "w.jsonl").read_bytes() == b"x"


def test_the_folder_of_another_experiment_is_refused(tmp_path: Path) -> None:
    claim_folder(tmp_path, "table1")
    with pytest.raises(ConfigError, match=r"belongs to experiment 'table1', not 'smoke'.*key: out"):
        claim_folder(tmp_path, "smoke")
    assert claimed(tmp_path)["experiment"] == "table1"


def test_a_folder_with_files_of_others_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(ConfigError, match=r"files of others \(thesis\.tex\).*key: out"):
        claim_folder(tmp_path, "e")
    assert os.listdir(tmp_path) == ["thesis.tex"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"experiment": "e", "schema_version": 2}', "newer kvrelay"),
        ('{"experiment": "e"}', "damaged"),
        ("[1]", "damaged"),
        ("", "damaged"),
    ],
)
def test_a_marker_that_cannot_be_ours_is_refused(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "kvrelay.json").write_text(text)
    with pytest.raises(ConfigError, match=f"{words}.*key: out"):
        claim_folder(tmp_path, "e")
    assert os.listdir(tmp_path) == ["kvrelay.json"]


def test_a_damaged_marker_is_written_anew_where_the_plans_tell_whose_folder_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    claim_folder(tmp_path, "e")
    write_plan(tmp_path, plan("a", "2026"))
    (tmp_path / "kvrelay.json").write_text('{"exp')
    with pytest.raises(ConfigError, match="damaged"):
        claim_folder(tmp_path, "other")
    claim_folder(tmp_path, "e")
    assert claimed(tmp_path) == {"experiment": "e", "schema_version": 1} and "is damaged" in caplog.text


@pytest.mark.parametrize("created", ["2999-01-01T00:00:00+00:00", "2999-01-01T00:00:00"])
def test_what_comes_later_is_newer_however_the_clock_was_set(created: str, tmp_path: Path) -> None:
    assert moment(tmp_path) <= datetime.now(UTC).isoformat(timespec="microseconds")
    write_plan(tmp_path, plan("old", created))
    write_atomic(tmp_path / "runs" / "damaged.json", '{"created": 7}')
    assert moment(tmp_path) == "2999-01-01T00:00:00.000001+00:00"
    write_plan(tmp_path, plan("new", moment(tmp_path)))
    (tmp_path / "runs" / "damaged.json").unlink()
    assert [one.run_id for one in read_plans(tmp_path)] == ["old", "new"]
    assert merge(read_plans(tmp_path)).experiment == "e"


def test_of_two_identities_of_a_judge_the_one_that_judged_later_is_newer(tmp_path: Path) -> None:
    def facts(mark: str, year: int, name: str = "j") -> JudgeFacts:
        return JudgeFacts(name=name, id=f"{name}-{mark}", created=f"{year}-01-01T00:00:00+00:00")

    write_judge(tmp_path, facts("1", 2030))
    write_judge(tmp_path, facts("1", 2050, "other"))
    late = in_order(tmp_path, facts("2", 2020))
    assert late == facts("2", 2020).model_copy(update={"created": "2030-01-01T00:00:00.000001+00:00"})
    write_judge(tmp_path, late)
    assert [one.id for one in read_judges(tmp_path)] == ["j-1", "j-2", "other-1"]
    assert in_order(tmp_path, facts("2", 2031)) == facts("2", 2031)
    assert in_order(tmp_path, facts("1", 2010)).created == "2030-01-01T00:00:00.000002+00:00"
    assert in_order(tmp_path / "nowhere", facts("1", 2010)) == facts("1", 2010)


def test_the_name_of_a_judges_file_stays_in_its_folder(tmp_path: Path) -> None:
    ids = ["plain-1", "../../outside", "a/b", "x" * 200 + "1", "x" * 200 + "2"]
    for name in ids:
        write_judge(tmp_path / "e", JudgeFacts(name="j", id=name, created="2026"))
    assert sorted(facts.id for facts in read_judges(tmp_path / "e")) == sorted(ids)
    assert os.listdir(tmp_path) == ["e"] and len(os.listdir(tmp_path / "e" / "judges")) == 5
    assert (tmp_path / "e" / "judges" / "plain-1.json").exists()


def test_a_folder_that_cannot_be_written_is_found_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("x")
    for impossible in (tmp_path / "file", tmp_path / "file" / "e"):
        with pytest.raises(ConfigError, match=r"results cannot be written to.*key: out"):
            claim_folder(impossible, "e")
    claim_folder(tmp_path / "e", "e")
    real = Path.open

    def read_only(path: Path, mode: str = "r", *rest: Any, **named: Any) -> Any:
        if "x" in mode and path.parent.name == "records":
            raise OSError(30, "Read-only file system", str(path))
        return real(path, mode, *rest, **named)

    with monkeypatch.context() as broken:
        broken.setattr(Path, "open", read_only)
        with pytest.raises(ConfigError, match="Read-only file system"):
            claim_folder(tmp_path / "e", "e")


def test_many_claims_at_once_agree(tmp_path: Path) -> None:
    folder = tmp_path / "e"
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pool.starmap(claim_folder, [(folder, "e")] * 40, chunksize=1)
    assert claimed(folder)["experiment"] == "e"
    assert [path for path in folder.rglob("*") if path.name.startswith(".")] == []
