"""``scripts/status.py``: what is there, what runs, what is missing, by model and data set and by job."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import ROOT
from compose import compose
from plain_config import group, plain_config
from status import StatusSettings, status
from sweeps import read_sweeps

from kvrelay.core.errors import AssetError, ConfigError, IncompleteError
from kvrelay.run.portion import Portion
from kvrelay.run.store import read_records

CELLS, QUESTIONS = 3, 8
COMMAND = "make sweep-table1 SHARDS=2"


def config(tmp_path: Path, **changes: Any) -> dict[str, Any]:
    made = plain_config(tmp_path, selector=group("selector", "full", "bm25"), **changes)
    made["position"] = group("position", "original", "roperelay")
    made["dataset"]["plain"].update(histories=4)
    return made


def run(settings: dict[str, Any]) -> None:
    compose(settings)[1].run(lambda line: None)


@pytest.fixture
def no_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))


def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *rows: str) -> None:
    """A squeue that says these rows."""
    folder = tmp_path / "bin"
    folder.mkdir(exist_ok=True)
    (folder / "squeue").write_text("#!/bin/sh\n" + "".join(f"echo '{row}'\n" for row in rows))
    (folder / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


def sweep(tmp_path: Path, *jobs: dict[str, Any], name: str = "1", ended: tuple[dict[str, Any], ...] = ()) -> None:
    """What launcher and jobs leave: a job's own words stand under ``said``."""
    folder = tmp_path / "out" / "sweeps" / "plain" / name
    folder.mkdir(parents=True)
    rows = [{"num": number, "job": "", **job} for number, job in enumerate(jobs)]
    for number, row in enumerate(rows):
        if (said := row.pop("said", None)) is not None:
            (folder / str(number)).mkdir()
            (folder / str(number) / "status.json").write_text(json.dumps(said))
    (folder / "sweep.json").write_text(json.dumps({"command": COMMAND, "jobs": rows}))
    (folder / "ended.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ended))


def shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """What is printed, and what is raised (empty where all is there)."""
    try:
        status(StatusSettings(run=str(tmp_path / "out" / "plain")))
    except IncompleteError as error:
        return capsys.readouterr().out, str(error)
    return capsys.readouterr().out, ""


def test_a_finished_run_is_complete(tmp_path: Path, no_slurm: None, capsys: pytest.CaptureFixture[str]) -> None:
    run(config(tmp_path))
    out, error = shown(tmp_path, capsys)
    assert error == ""
    assert f"{CELLS * QUESTIONS} of {CELLS * QUESTIONS} answers done, 0 failed, 0 missing" in out
    assert out.splitlines()[3].split() == ["tiny", "plain", "3/3", "24", "24", "0", "0"]


def test_without_a_sweep_the_newest_command_finishes_the_rest(
    tmp_path: Path, no_slurm: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = config(tmp_path)
    settings["dataset"]["plain"]["empty"] = 1
    monkeypatch.setattr(sys, "argv", ["scripts/run.py", "experiment=table1", "data=my file.json"])
    with pytest.raises(IncompleteError):
        run(settings)
    _, error = shown(tmp_path, capsys)
    assert error.endswith("\n  python scripts/run.py experiment=table1 'data=my file.json'")


def test_jobs_that_never_began_are_missing_with_the_command_that_finishes(
    tmp_path: Path, no_slurm: None, capsys: pytest.CaptureFixture[str]
) -> None:
    run(config(tmp_path, shard="1/2"))
    shards = [{"overrides": ["model=tiny", f"shard={index}/2"]} for index in (1, 2)]
    sweep(tmp_path, {**shards[0], "said": {"state": "done"}}, shards[1])
    records = read_records(tmp_path / "out" / "plain")
    assert 0 < len(records) < CELLS * QUESTIONS
    out, error = shown(tmp_path, capsys)
    assert f"{len(records)} of 24 answers done, 0 failed, {24 - len(records)} missing; jobs: 1 done, 1 not begun" in out
    assert f"job 0  shard=1/2  done: {len(records)} done, 0 failed" in out
    assert "job 1  shard=2/2  not begun: 0 done, 0 failed" in out
    assert error.endswith(f"\n  {COMMAND}")


def test_a_model_and_data_set_of_which_no_job_began_are_known_from_the_plan(
    tmp_path: Path, no_slurm: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """`scripts/sweep.py` writes the plan before any job."""
    settings = config(tmp_path)
    settings["dataset"]["other"] = {"_target_": "plain_data.PlainData", "histories": 2}
    _, experiment, _ = compose(settings)
    _, plan, records = experiment.plan()
    experiment.announce(plan, records)
    run(config(tmp_path))
    out, error = shown(tmp_path, capsys)
    assert "24 of 36 answers done, 0 failed, 12 missing" in out and error
    assert out.splitlines()[3].split() == ["tiny", "other", "0/3", "12", "0", "0", "12"]


def test_errors_are_grouped_and_counted(tmp_path: Path, no_slurm: None, capsys: pytest.CaptureFixture[str]) -> None:
    settings = config(tmp_path)
    settings["dataset"]["plain"]["empty"] = 1
    with pytest.raises(IncompleteError):
        run(settings)
    sweep(tmp_path, {"overrides": ["a=1"], "said": {"state": "failed", "error": "AssetError: no weights"}})
    out, error = shown(tmp_path, capsys)
    assert "18 of 24 answers done, 6 failed, 0 missing" in out and error
    assert "  6 x DataError: example N-N has an empty history" in out
    assert "  job 0: AssetError: no weights" in out


@pytest.mark.parametrize(
    ("said", "row", "ended", "state"),
    [
        ({"state": "running"}, "5_0 RUNNING", None, "running"),
        ({"state": "running"}, "5_0 PENDING", None, "waiting"),
        ({"state": "stopped", "error": "130"}, "5_0 PENDING", None, "waiting"),
        (None, "5_0 PENDING", None, "waiting"),
        ({"state": "running"}, "", None, "died"),
        ({"state": "running"}, "", "it died without a word (OUT_OF_MEMORY)", "died"),
        ({"state": "done"}, "", "", "done"),
        ({"state": "incomplete", "error": "x"}, "", "x", "incomplete"),
        (None, "", None, "died"),
    ],
)
def test_the_queue_puts_right_what_a_job_could_not_write(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    said: dict[str, str] | None,
    row: str,
    ended: str | None,
    state: str,
) -> None:
    queue(tmp_path, monkeypatch, *([row] if row else []))
    rows = () if ended is None else ({"num": 0, "state": "", "error": ended},)
    sweep(tmp_path, {"job": "5_0", "overrides": ["shard=1/2"], "said": said}, ended=rows)
    (job,) = read_sweeps(tmp_path / "out" / "plain", 300).jobs
    assert job.state == state
    assert not ended or job.error == ended


def test_without_a_queue_a_job_runs_as_long_as_somebody_writes(tmp_path: Path, no_slurm: None) -> None:
    sweep(tmp_path, {"overrides": ["shard=1/2"], "said": {"state": "running"}})
    records = tmp_path / "out" / "plain" / "records"
    records.mkdir(parents=True)
    shard = records / "w.jsonl"
    shard.touch()
    assert read_sweeps(tmp_path / "out" / "plain", 300).jobs[0].state == "running"
    os.utime(shard, (1, 1))
    assert read_sweeps(tmp_path / "out" / "plain", 300).jobs[0].state == "silent"


def test_of_several_sweeps_the_newest_word_on_a_job_counts(tmp_path: Path, no_slurm: None) -> None:
    job = {"overrides": ["shard=1/2", "hydra.launcher.mem_gb=1"]}
    sweep(tmp_path, {**job, "said": {"state": "failed", "error": "x"}}, name="1")
    sweep(tmp_path, {"overrides": ["shard=1/2"], "said": {"state": "done"}}, name="2")
    (found,) = read_sweeps(tmp_path / "out" / "plain", 300).jobs
    assert (found.state, found.error) == ("done", "")


def test_a_job_counts_its_own_records(tmp_path: Path, no_slurm: None) -> None:
    run(config(tmp_path))
    jobs = [{"overrides": ["model=tiny", "dataset=[plain]", f"shard={index}/3"]} for index in (1, 2, 3)]
    sweep(tmp_path, *jobs, {"overrides": ["dataset=another"]})
    *parts, another = read_sweeps(tmp_path / "out" / "plain", 300).jobs
    for record in read_records(tmp_path / "out" / "plain").values():
        held = [index for index in (1, 2, 3) if Portion(index=index, count=3).holds(record.history_id)]
        assert [parts.index(job) + 1 for job in parts if job.holds(record)] == held
        assert not another.holds(record)


def test_a_folder_without_a_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="key: run"):
        status(StatusSettings(run=str(tmp_path / "none")))
    (tmp_path / "empty").mkdir()
    with pytest.raises(AssetError, match="no run plan"):
        status(StatusSettings(run=str(tmp_path / "empty")))


def test_a_look_loads_neither_torch_nor_pandas() -> None:
    code = (
        "import sys; sys.path[:0] = ['src', '.', 'scripts']; import status; print({'torch', 'pandas'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert done.stdout.strip() == "set()", done.stderr
