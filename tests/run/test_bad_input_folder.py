"""Folders that are full, read-only, taken or empty, on the whole path; what is finished is never lost."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from compose import compose, compose_run
from given_data import given
from plain_config import group, plain_config

from kvrelay.core.errors import AssetError, ConfigError
from kvrelay.run.store import claim_folder, read_manifest, read_records, read_verdicts

Mount = Callable[[Path, str], None]


@pytest.fixture
def mounted() -> Iterator[Mount]:
    """Mounts a small file system of a test's own in memory, and takes it away again."""
    folders: list[Path] = []

    def mount(folder: Path, options: str) -> None:
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True, text=True
        )
        if done.returncode:
            pytest.skip(f"mounting is not permitted here: {done.stderr.strip()}")
        folders.append(folder)

    if os.geteuid() != 0:
        pytest.skip("mounting is for root alone")
    yield mount
    for folder in folders:
        subprocess.run(["umount", str(folder)], check=True)


def few(tmp_path: Path, **changes: Any) -> dict[str, Any]:
    return plain_config(tmp_path, **{"selector": group("selector", "bm25", "snapkv"), **changes})


def lines_of(folder: Path) -> list[str]:
    """Keys of all records on disk, one a line, repetitions included."""
    lines = [line for shard in folder.glob("*.jsonl") for line in shard.read_bytes().split(b"\n") if line]
    return [json.loads(line)["record"]["key"] for line in lines]


def test_a_full_disk_stops_the_run_and_with_room_the_same_command_finishes(tmp_path: Path, mounted: Mount) -> None:
    config = plain_config(tmp_path)
    folder = tmp_path / "out" / "plain"
    claim_folder(folder, "plain")
    mounted(folder / "records", "size=48k")
    with pytest.raises(AssetError, match=r"records.*the disk is full.*finished records are safe.*key out") as caught:
        compose_run(config)
    assert caught.value.exit_code == 3
    before = lines_of(folder / "records")
    assert 0 < len(before) < 56 and len(set(before)) == len(before)
    assert read_manifest(folder) is None
    with pytest.raises(AssetError, match=r"the disk is full.*make room"):
        compose_run(config)
    subprocess.run(["mount", "-o", "remount,size=8m", str(folder / "records")], check=True)
    assert compose_run(config) == 0
    after = lines_of(folder / "records")
    assert len(after) == len(set(after)) == 56 and set(before) < set(after)


@pytest.mark.parametrize("part", ["verdicts", "report"])
def test_a_disk_that_is_full_after_the_answers_loses_none(part: str, tmp_path: Path, mounted: Mount) -> None:
    folder = tmp_path / "out" / "plain"
    claim_folder(folder, "plain")
    mounted(folder / part, "size=4k")
    with pytest.raises(AssetError, match=rf"{part}.*the disk is full.*key out"):
        compose_run(few(tmp_path))
    assert len(read_records(folder)) == 20
    subprocess.run(["mount", "-o", "remount,size=8m", str(folder / part)], check=True)
    assert compose_run(few(tmp_path)) == 0
    assert len(lines_of(folder / "records")) == 20


def test_a_read_only_folder_is_met_before_a_model_is_loaded(
    tmp_path: Path, mounted: Mount, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvrelay.run.experiment.load_model", lambda *_: pytest.fail("a model was loaded"))
    (tmp_path / "out").mkdir()
    mounted(tmp_path / "out", "ro,size=64k")
    with pytest.raises(ConfigError, match=r"results cannot be written to .*Read-only file system.*key: out"):
        compose_run(few(tmp_path))


def test_a_file_in_place_of_the_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    with pytest.raises(ConfigError, match=r"results cannot be written to .*key: out"):
        compose_run(few(tmp_path))
    assert (tmp_path / "out").read_text() == "mine"


@pytest.mark.parametrize("stages", [["run"], ["judge"], ["report"]])
def test_the_folder_of_another_experiment_is_refused_by_every_stage(stages: list[str], tmp_path: Path) -> None:
    assert compose_run(few(tmp_path, limit=1)) == 0
    (tmp_path / "out" / "plain").rename(tmp_path / "out" / "other")
    before = sorted((tmp_path / "out" / "other").rglob("*"))
    with pytest.raises(ConfigError, match=r"belongs to experiment 'plain', not 'other'.*key: out"):
        compose_run(few(tmp_path, name="other", stages=stages))
    assert sorted((tmp_path / "out" / "other").rglob("*")) == before


@pytest.mark.parametrize("stages", [["judge"], ["report"], ["judge", "report"]])
def test_judging_and_reporting_want_a_run(stages: list[str], tmp_path: Path) -> None:
    foreign = tmp_path / "out" / "plain"
    for made in (False, True):
        if made:
            foreign.mkdir(parents=True)
            (foreign / "thesis.tex").write_text("mine")
        with pytest.raises(
            AssetError, match=r"holds no run of experiment 'plain'; run it first.*keys: stages, out, name"
        ):
            compose_run(few(tmp_path, stages=stages))
    assert [path.name for path in foreign.iterdir()] == ["thesis.tex"]


def test_other_settings_in_the_same_folder_reuse_nothing_and_the_table_says_so(tmp_path: Path) -> None:
    assert compose_run(few(tmp_path)) == 0
    changed = group("selector", "bm25", "snapkv")
    changed["snapkv"]["window"] = 5
    assert compose_run(few(tmp_path, selector=changed)) == 0
    assert len(read_records(tmp_path / "out" / "plain")) == 20 + 8
    table = (tmp_path / "out" / "plain" / "report" / "table1.md").read_text(encoding="utf-8")
    assert "Older settings of 2 cells are left out" in table


def test_a_report_on_a_run_that_was_interrupted_is_stamped_and_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = few(tmp_path)
    _interrupt_after(1, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        compose_run(config)
    monkeypatch.undo()
    folder = tmp_path / "out" / "plain"
    kept = read_records(folder)
    assert 0 < len(kept) < 20 and read_manifest(folder) is None
    assert compose_run(config | {"stages": ["judge", "report"]}) == 5
    shown = capsys.readouterr()
    assert "INCOMPLETE: of 20 answers" in shown.out and "without a record" in shown.out
    assert "Give the run and judge commands again" in shown.err
    assert compose_run(config) == 0
    assert "INCOMPLETE" not in capsys.readouterr().out
    assert len(lines_of(folder / "records")) == len(read_records(folder)) == 20
    assert all(read_records(folder)[key] == record for key, record in kept.items())


def _interrupt_after(questions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from kvrelay.run.progress import Progress

    real = Progress.advance

    def advance(self: Progress, *given: Any, **named: Any) -> None:
        real(self, *given, **named)
        if self.done >= questions:
            raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "advance", advance)


def test_a_failed_answer_is_tried_again_and_its_error_forgotten(tmp_path: Path) -> None:
    config = few(tmp_path)
    config["dataset"] = {"g": given(), "max_history_tokens": None}
    config["model"]["tiny"]["position_range"] = 16
    assert compose_run(config) == 5
    del config["model"]["tiny"]["position_range"]
    assert compose_run(config) == 0
    _, experiment, _ = compose(config)
    verdicts = read_verdicts(experiment.folder)
    assert verdicts and not any(verdict.reason for verdict in verdicts.values())
