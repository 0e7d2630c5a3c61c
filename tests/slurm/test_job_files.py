"""What a job of a sweep writes of itself, however it ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jobs import slurm_id, told_in_files

from kvrelay.core.errors import ConfigError, IncompleteError


def ended(tmp_path: Path, error: BaseException | None) -> dict[str, Any]:
    """The status that is left when this is raised in a job."""
    (tmp_path / "0").mkdir(exist_ok=True)
    try:
        with told_in_files((tmp_path / "0", ["shard=1/2"])):
            assert json.loads((tmp_path / "0" / "status.json").read_text())["state"] == "running"
            if error is not None:
                raise error
    except BaseException as caught:
        assert caught is error or (isinstance(caught, SystemExit) and caught.code == 1)
    said = json.loads((tmp_path / "0" / "status.json").read_text())
    assert isinstance(said, dict) and said["overrides"] == ["shard=1/2"]
    return said


@pytest.mark.parametrize(
    ("error", "state", "words"),
    [
        (None, "done", ""),
        (ConfigError("limit = 0"), "failed", "ConfigError: limit = 0"),
        (IncompleteError("3 answers failed"), "incomplete", "3 answers failed"),
        (SystemExit(5), "incomplete", "answers failed"),
        (SystemExit(-1), "stopped", "-1"),
        (KeyboardInterrupt("timed-out too many times"), "stopped", "timed-out too many times"),
        (MemoryError("out of it"), "failed", "MemoryError: out of it"),
    ],
)
def test_a_job_says_how_it_ended(tmp_path: Path, error: BaseException | None, state: str, words: str) -> None:
    said = ended(tmp_path, error)
    assert said["state"] == state and words in said.get("error", "")
    log = (tmp_path / "0" / "job.log").read_text()
    assert ("Traceback" in log) is (error is not None)


def test_an_error_of_this_softwares_own_is_an_exit_and_its_trace_is_in_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "0").mkdir()
    with pytest.raises(SystemExit) as caught, told_in_files((tmp_path / "0", [])):
        raise LookupError("nobody expects this")
    assert caught.value.code == 1, "SLURM calls a job COMPLETED whose launcher keeps its exception"
    for said in ((tmp_path / "0" / "job.log").read_text(), capsys.readouterr().err):
        assert "Traceback" in said and "nobody expects this" in said


def test_a_job_that_starts_again_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended(tmp_path, KeyboardInterrupt())
    for name, value in {"ARRAY_JOB_ID": "12", "ARRAY_TASK_ID": "3", "JOB_ID": "15", "RESTART_COUNT": "2"}.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    said = ended(tmp_path, None)
    assert (said["state"], said["job"], said["restarts"]) == ("done", "12_3", 2)
    assert slurm_id() == "12_3"


def test_outside_of_a_sweep_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with told_in_files(None):
        pass
    assert list(tmp_path.iterdir()) == []
