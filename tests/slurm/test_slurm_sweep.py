"""A sweep on a real SLURM (``make slurm-test``): what happens to jobs there, and that nothing is lost or done twice."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kvrelay.run.record import RunRecord
from kvrelay.run.store import read_records

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 300
CELLS, QUESTIONS = 2, 36
RAISES, KILLED, FAILS, OVER_TIME, PREEMPTED, CANCELLED = range(6)
"""Numbers of the jobs, in the order of (data set, shard)."""


def no_slurm() -> str:
    """Why these tests cannot run here; empty where they can."""
    for command in ("sbatch", "squeue", "sacct", "scancel"):
        if shutil.which(command) is None:
            return f"there is no {command} here"
    file = Path(os.environ.get("SLURM_CONF", ""))
    if not file.is_file() or "made by kvrelay" not in file.read_text(encoding="utf-8"):
        return "no cluster of our own is up (make slurm-test starts one)"
    try:
        answer = subprocess.run(["sinfo", "-h"], capture_output=True, timeout=20)
    except subprocess.TimeoutExpired:
        return "sinfo does not answer"
    return "sinfo does not work" if answer.returncode else ""


pytestmark = [pytest.mark.slurm, pytest.mark.skipif(bool(no_slurm()), reason=no_slurm() or "SLURM is up")]


class Case:
    """One sweep's folders, environment and commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.out = folder / "out" / "troubled"
        self.trouble = folder / "trouble"
        self.trouble.mkdir()
        paths = [ROOT / "src", ROOT, ROOT / "tests" / "support"]
        plain = {key: value for key, value in os.environ.items() if not key.startswith(("KVRELAY_C", "HYDRA_"))}
        self.environment = {
            **plain,
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "KVRELAY_TROUBLE": str(self.trouble),
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
        }

    def start(self, script: str, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, str(ROOT / "scripts" / script), *arguments]
        with (self.folder / "said.txt").open("a") as said:
            return subprocess.Popen(command, cwd=ROOT, env=self.environment, stdout=said, stderr=said, text=True)

    def settings(self, out: str) -> list[str]:
        return [
            f"hydra.searchpath=[file://{ROOT / 'tests' / 'slurm' / 'conf'}]",
            "experiment=smoke",
            "name=troubled",
            f"out={self.folder / out}",
            "dataset=[alpha,beta]",
            "selector=[troubled]",
            "position=[original,roperelay]",
            "limit=null",
            "max_new_tokens=2",
            f"+model.tiny.cache_folder={self.folder / 'models'}",
        ]

    def sweep(self, shards: int = 3) -> subprocess.Popen[str]:
        given = {"partition": "low", "timeout_min": 2, "mem_gb": 1, "cpus_per_task": 1, "poll_s": 2}
        settings = [f"hydra.launcher.{key}={value}" for key, value in given.items()]
        return self.start("sweep.py", f"--shards={shards}", "--launcher=slurm_cpu", *self.settings("out"), *settings)

    def status(self) -> tuple[int, str]:
        command = [sys.executable, str(ROOT / "scripts" / "status.py"), f"run={self.out}"]
        done = subprocess.run(command, cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=120)
        return done.returncode, done.stdout + done.stderr

    def newest(self) -> Path:
        return max((self.folder / "out" / "sweeps" / "troubled").glob("*/sweep.json")).parent

    def job(self, number: int) -> str:
        jobs = json.loads((self.newest() / "sweep.json").read_text())["jobs"]
        return str(jobs[number]["job"])

    def own_status(self, number: int) -> dict[str, Any]:
        try:
            said = json.loads((self.newest() / str(number) / "status.json").read_text())
        except OSError:
            return {}
        assert isinstance(said, dict)
        return said

    def answers(self, number: int) -> int:
        """Answers that this job has written in this sweep, in all its lives."""
        shards = (self.out / "records").glob(f"{self.job(number)}-*.jsonl")
        return sum(path.read_bytes().count(b"\n") for path in shards)


def until(true: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, f"gave up waiting until {what}"
        time.sleep(0.3)


def essence(record: RunRecord) -> dict[str, Any]:
    """All of a record but who made it, when and how fast."""
    return record.model_dump(mode="json", exclude={"run_id", "worker", "timings", "peak_memory_bytes"})


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    made = Case(tmp_path)
    yield made
    if (tmp_path / "said.txt").exists():
        sys.stdout.write((tmp_path / "said.txt").read_text()[-6000:])
    for sweep in (tmp_path / "out" / "sweeps" / "troubled").glob("*/sweep.json"):
        ids = [job["job"] for job in json.loads(sweep.read_text())["jobs"] if job["job"]]
        subprocess.run(["scancel", *ids], check=False, timeout=60)


def accounts(job: str) -> str:
    """Every row that SLURM's accounts have of a job, earlier lives included."""
    command = ["sacct", "-D", "-n", "-X", "-P", "-o", "JobID,State,ExitCode", "-j", job]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def test_whatever_becomes_of_jobs_a_sweep_gives_what_one_process_gives(case: Case) -> None:
    for what, job in {"raise": RAISES, "kill": KILLED, "fail": FAILS}.items():
        (case.trouble / f"{what}-{job}").touch()
    for job in (OVER_TIME, PREEMPTED, CANCELLED):
        (case.trouble / f"slow-{job}").touch()

    sweep = case.sweep()
    until(lambda: list(case.folder.glob("out/sweeps/troubled/*/sweep.json")), "the sweep is submitted")
    until(lambda: sweep.poll() is not None or case.job(CANCELLED), "its jobs have ids")
    for job in (OVER_TIME, PREEMPTED, CANCELLED):
        until(lambda job=job: sweep.poll() is not None or case.answers(job), f"job {job} has answered something")
    code, said = case.status()
    assert code == 5 and "running (SLURM" in said, said

    subprocess.run(["scancel", case.job(CANCELLED)], check=True, timeout=60)
    until(lambda: case.own_status(CANCELLED).get("state") == "stopped", "the cancelled job has stopped")
    urgent = ["sbatch", "-p", "high", "-c", "8", "-t", "1", "-o", "/dev/null", "--wrap", "sleep 1"]
    subprocess.run(urgent, check=True, capture_output=True, timeout=60)
    until(lambda: case.own_status(PREEMPTED).get("restarts", 0) > 0, "the preempted job has started again")
    assert "PREEMPTED" in accounts(case.job(PREEMPTED))
    (case.trouble / f"slow-{PREEMPTED}").unlink()

    log = case.newest() / ".submitit" / case.job(OVER_TIME)
    until(
        lambda: sweep.poll() is not None or "is timed-out" in "".join(path.read_text() for path in log.glob("*_log.*")),
        "the limit is felt",
    )
    (case.trouble / f"slow-{OVER_TIME}").unlink()
    assert sweep.wait(PATIENCE_S) == 5, "a sweep whose jobs failed says so, when all of them have ended"

    ended = {row["num"]: row for row in map(json.loads, (case.newest() / "ended.jsonl").read_text().splitlines())}
    assert sorted(ended) == list(range(6))
    assert {num for num, row in ended.items() if row["error"]} == {RAISES, KILLED, FAILS, CANCELLED}
    assert "RuntimeError: nobody expects this" in ended[RAISES]["error"]
    assert "Traceback" in (case.newest() / str(RAISES) / "job.log").read_text()
    assert "without a word" in ended[KILLED]["error"] and ended[KILLED]["state"] == "FAILED"
    assert ended[CANCELLED]["state"] == "CANCELLED"
    assert case.own_status(OVER_TIME)["restarts"] >= 2, "once preempted, once over its limit"

    before = read_records(case.out)
    failed = [record for record in before.values() if record.status == "error"]
    said_of = [record.error.message for record in failed if record.error]
    assert said_of == ["this example is broken for 1 day"] * CELLS
    code, said = case.status()
    missing = 2 * CELLS * QUESTIONS - len(before)
    assert code == 5 and f"{CELLS} failed, {missing} missing" in said and missing > 0
    assert f"{CELLS} x ValueError: this example is broken for N day" in said
    assert "RuntimeError: nobody expects this" in said and "scripts/sweep.py --shards=3" in said

    for file in case.trouble.iterdir():
        file.unlink()
    assert case.sweep().wait(PATIENCE_S) == 0, "the same command finishes the rest"
    code, said = case.status()
    assert code == 0 and f"{2 * CELLS * QUESTIONS} of {2 * CELLS * QUESTIONS} answers done" in said

    assert case.start("run.py", *case.settings("alone"), "stages=[run]").wait(PATIENCE_S) == 0
    alone, swept = read_records(case.folder / "alone" / "troubled"), read_records(case.out)
    assert alone.keys() == swept.keys() and len(alone) == 2 * CELLS * QUESTIONS
    assert {key: essence(record) for key, record in swept.items()} == {
        key: essence(record) for key, record in alone.items()
    }
    lines = [line for path in (case.out / "records").glob("*.jsonl") for line in path.read_bytes().splitlines()]
    assert len(lines) == len(swept) + CELLS, "nothing was answered twice but what had failed"


def test_the_launcher_that_is_told_to_stop_leaves_its_jobs_alone(case: Case) -> None:
    (case.trouble / "slow-0").touch()
    sweep = case.sweep(shards=1)
    until(lambda: list(case.folder.glob("out/sweeps/troubled/*/sweep.json")), "the sweep is submitted")
    until(lambda: sweep.poll() is not None or case.job(0), "its jobs have ids")
    os.kill(sweep.pid, signal.SIGTERM)
    sweep.wait(PATIENCE_S)
    (case.trouble / "slow-0").unlink()
    until(lambda: case.status()[0] == 0, "the jobs have finished without their launcher")


def test_jobs_on_one_node_see_a_gpu_each_and_a_large_job_sees_all() -> None:
    say = "echo $CUDA_VISIBLE_DEVICES; sleep 2"
    one = ["srun", "-t", "1", "-c", "1", "--gpus-per-node=1", "sh", "-c", say]
    pair = [subprocess.Popen(one, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert {job.communicate(timeout=60)[0].strip() for job in pair} == {"0", "1"}
    both = ["srun", "-t", "1", "-c", "1", "--gpus-per-node=2", "sh", "-c", say]
    assert subprocess.run(both, capture_output=True, text=True, timeout=60).stdout.strip() == "0,1"
