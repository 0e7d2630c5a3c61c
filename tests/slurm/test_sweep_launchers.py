"""Launchers of sweeps without a SLURM: every job is waited for, and the end says which of them did not end well."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from command_line import ROOT, call, smoke
from hydra import compose, initialize_config_dir
from hydra.core.plugins import Plugins
from hydra.core.utils import JobStatus
from omegaconf import OmegaConf
from sweep import multiruns

from hydra_plugins.kvrelay_sweeps import slurm
from hydra_plugins.kvrelay_sweeps.slurm import SlurmSweep, ends
from hydra_plugins.kvrelay_sweeps.sweep import COMMAND, Sweep
from kvrelay.core.errors import AssetError, ConfigError, IncompleteError
from kvrelay.run.store import read_records


def config(folder: Path, batch: int | None = None) -> Any:
    return OmegaConf.create({"hydra": {"sweep": {"dir": str(folder)}, "sweeper": {"max_batch_size": batch}}})


def test_a_sweep_lists_its_jobs_first_and_their_ends_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(COMMAND, "make sweep-table1")
    sweep = Sweep(config(tmp_path / "s"), [["a=1", "shard=1/2"], ["a=1", "shard=2/2"]], 4)
    sweep.begin(["9_0", "9_1"])
    whole = json.loads((tmp_path / "s" / "sweep.json").read_text())
    assert whole["command"] == "make sweep-table1"
    assert [(job["num"], job["job"]) for job in whole["jobs"]] == [(4, "9_0"), (5, "9_1")]
    results = [sweep.ended(0), sweep.ended(1, "OutOfMemory: too large", "OUT_OF_MEMORY")]
    rows = [json.loads(line) for line in (tmp_path / "s" / "ended.jsonl").read_text().splitlines()]
    assert [(row["num"], row["state"], row["error"]) for row in rows] == [
        (4, "COMPLETED", ""),
        (5, "OUT_OF_MEMORY", "OutOfMemory: too large"),
    ]
    assert capsys.readouterr().err == "job 4 (shard=1/2): done\njob 5 (shard=2/2): OutOfMemory: too large\n"
    done, failed = sweep.closed(results)
    assert done.status == JobStatus.COMPLETED and done.return_value is None
    with pytest.raises(IncompleteError, match=r"(?s)1 of 2 jobs did not end well.*job 5 \(shard=2/2\): OutOfMemory"):
        _ = failed.return_value


def test_batches_are_refused_because_a_failure_would_end_the_sweep(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="array_parallelism"):
        Sweep(config(tmp_path, batch=2), [["a=1"]], 0)


@pytest.mark.parametrize("key", ["nodes", "tasks_per_node"])
def test_a_job_is_one_process(key: str) -> None:
    with pytest.raises(ConfigError, match=f"{key}.*key: shard"):
        SlurmSweep(**{"submitit_folder": "x", key: 2})


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """Pauses that were asked for; none is made."""
    pauses: list[float] = []
    monkeypatch.setattr(slurm.time, "sleep", pauses.append)
    yield pauses


def job(folder: Path, number: int) -> Any:
    return SimpleNamespace(job_id=f"7_{number}", paths=SimpleNamespace(result_pickle=folder / f"{number}.pkl"))


def answering(monkeypatch: pytest.MonkeyPatch, *looks: Callable[[], set[str] | None]) -> None:
    """What squeue says at each look; its last word stands."""
    left = list(looks)
    monkeypatch.setattr(slurm, "queued", lambda: (left.pop(0) if len(left) > 1 else left[0])())


def test_a_job_that_dies_in_silence_ends_nobodys_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    def finish(number: int) -> set[str]:
        (tmp_path / f"{number}.pkl").touch()
        return {"7_0"}

    answering(
        monkeypatch,
        lambda: {"7_0", "7_1", "7_2"},
        lambda: {"7_0", "7_2"},  # 1 is gone without a result
        lambda: {"7_0", "7_2"},
        lambda: finish(2),
        lambda: finish(0),
    )
    assert list(ends([job(tmp_path, number) for number in range(3)], 30)) == [1, 2, 0]


def test_a_preempted_job_is_waited_for_while_the_queue_has_it_and_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    looks = 0

    def preempted() -> set[str]:
        nonlocal looks
        looks += 1
        return {"7_0"} if looks < 50 else set()

    answering(monkeypatch, preempted)
    assert list(ends([job(tmp_path, 0)], 30)) == [0]
    assert looks == 51, "gone at two looks in a row"
    assert all(0 < pause <= 30 for pause in clock)


def test_a_queue_that_does_not_answer_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    answering(monkeypatch, set, lambda: None, lambda: None, set, lambda: {"7_0"}, set, set)
    assert list(ends([job(tmp_path, 0)], 30)) == [0]
    assert len(clock) == 6, "an absence, silence, an absence that the next look took back, then two"


def test_without_slurm_the_launcher_says_what_to_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(AssetError, match="hydra/launcher=local"):
        slurm._accounts()


def test_without_accounts_it_says_so_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, code in {"squeue": 0, "sacct": 1}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\nexit {code}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert slurm._accounts() is False
    assert "sacct does not work here" in capsys.readouterr().err


def test_a_failed_job_of_a_local_sweep_does_not_end_the_others(tmp_path: Path) -> None:
    overrides = [*smoke(tmp_path, 6), "selector=[bm25]", "stages=[run]", "shard=1/2,3/2,2/2"]
    code, _, err = call("-m", *overrides)
    assert code == 5 and "1 of 3 jobs did not end well" in err and "job 1 (shard=3/2): ConfigError: shard = 3/2" in err
    assert len(read_records(tmp_path / "out" / "smoke")) == 6 * 3
    (sweep,) = (tmp_path / "out" / "sweeps" / "smoke").iterdir()
    states = [json.loads((sweep / str(number) / "status.json").read_text())["state"] for number in range(3)]
    assert states == ["done", "failed", "done"]
    log = (sweep / "1" / "job.log").read_text()
    assert "Traceback" in log and "wanted i/n with i from 1 to n" in log


def sweep_of(*arguments: str) -> tuple[int, str]:
    """(exit status, stderr) of ``scripts/sweep.py``."""
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    given = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, str(ROOT / "scripts" / "sweep.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=given, timeout=240)
    return done.returncode, done.stderr


def test_a_sweep_plans_first_and_what_is_finished_gets_no_jobs(tmp_path: Path) -> None:
    overrides = [*smoke(tmp_path, 4), "selector=[bm25]"]
    code, err = sweep_of("--shards=2", *overrides)
    assert code == 0, err
    assert "12 answers planned, 4 questions to work on" in err and "2 jobs, one after another" in err
    assert len(read_records(tmp_path / "out" / "smoke")) == 4 * 3
    (folder,) = (tmp_path / "out" / "sweeps" / "smoke").iterdir()
    assert "sweep.py --shards=2" in json.loads((folder / "sweep.json").read_text())["command"]
    code, err = sweep_of("--shards=2", *overrides)
    assert code == 0 and "12 answers planned, 0 questions to work on" in err and "jobs" not in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--shards=0"], "--shards=0: wanted at least 1"),
        (["experiment=smoke", "selector=bm25,h2o"], "selector=bm25,h2o: jobs are made of models, data sets and shards"),
        (["experiment=smoke", "shard=1/2"], "shard: the sweep sets this itself"),
        (["experiment=smok"], "experiment = smok: there is no such choice"),
    ],
)
def test_what_a_sweep_cannot_take_is_one_line(arguments: list[str], words: str) -> None:
    code, err = sweep_of(*arguments)
    (line,) = err.strip().splitlines()
    assert code == 2 and words in line


def test_models_and_data_sets_with_the_same_overrides_make_one_multirun() -> None:
    left = [(model, dataset) for model in ("a", "b") for dataset in ("x", "y")]
    given = {"experiment": "experiment=table1", "model": "model=[a,b]", "limit": "limit=3"}
    assert list(multiruns(left, given, "ab", "xy")) == [["experiment=table1", "limit=3", "model=a,b", "dataset=x,y"]]
    assert list(multiruns(left[:1], given, "ab", "xy", swept=False)) == [["experiment=table1", "limit=3", "model=a"]]


def test_a_setting_of_one_model_reaches_its_jobs_alone() -> None:
    left = [(model, dataset) for model in ("a", "b") for dataset in ("x", "y")]
    given = {"model.a.source": "model.a.source=m", "dataset.max_history_tokens": "dataset.max_history_tokens=9"}
    assert list(multiruns(left, given, "ab", "xy")) == [
        ["model.a.source=m", "dataset.max_history_tokens=9", "model=a", "dataset=x,y"],
        ["dataset.max_history_tokens=9", "model=b", "dataset=x,y"],
    ]


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "conf" / "hydra" / "launcher").glob("*.yaml")))
def test_every_launcher_composes_and_hydra_knows_its_class(name: str) -> None:
    with initialize_config_dir(str(ROOT / "conf"), version_base=None):
        config = compose("config", overrides=[f"hydra/launcher={name}"], return_hydra_config=True)
    launcher = config.hydra.launcher
    assert launcher._target_ in Plugins.instance().class_name_to_class
    if name != "local":
        assert launcher.max_num_timeout > 0 and launcher.additional_parameters.requeue is True
        assert launcher.poll_s == 30 and (launcher.gpus_per_node == 1) is (name == "slurm_gpu")


def test_sweeps_run_locally_unless_a_launcher_is_named() -> None:
    with initialize_config_dir(str(ROOT / "conf"), version_base=None):
        config = compose("config", return_hydra_config=True)
    assert config.hydra.launcher._target_ == "hydra_plugins.kvrelay_sweeps.local.LocalSweep"


@pytest.mark.parametrize(("minutes", "delay", "wanted"), [(240, 300, 300), (10, 300, 150), (1, 120, 15)])
def test_the_warning_before_a_limit_never_comes_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, minutes: int, delay: int, wanted: int
) -> None:
    given: dict[str, Any] = {}

    class Executor:
        def __init__(self, **arguments: Any) -> None:
            given.update(arguments)

        def update_parameters(self, **parameters: Any) -> None:
            given.update(parameters)

        def map_array(self, *arguments: Any) -> list[Any]:
            given["jobs"] = list(zip(*arguments[1:], strict=True))
            return []

    monkeypatch.setattr("submitit.AutoExecutor", Executor)
    settings = {"submitit_folder": "f/%j", "timeout_min": minutes, "max_num_timeout": 9, "partition": "p", "mem_gb": 1}
    launcher = SlurmSweep(poll_s=5, signal_delay_s=delay, **settings)
    launcher._submitted(Sweep(config(tmp_path), [["a=1"], ["a=2"]], 3))
    assert given["slurm_signal_delay_s"] == wanted
    assert (given["timeout_min"], given["mem_gb"], given["slurm_partition"]) == (minutes, 1, "p")
    assert (given["slurm_max_num_timeout"], given["folder"], given["cluster"]) == (9, "f/%j", "slurm")
    assert [job[:3] for job in given["jobs"]] == [(["a=1"], "hydra.sweep.dir", 3), (["a=2"], "hydra.sweep.dir", 4)]
