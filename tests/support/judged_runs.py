"""A small run to be judged, ``scripts/judge.py`` as a user calls it, and what it left on disk."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import command_line

from kvrelay.judging.blind import BlindSheet, blind_sheet
from kvrelay.judging.stage import state, states
from kvrelay.run.record import JudgeFacts, Verdict
from kvrelay.run.store import claim_folder, read_judges, read_records, read_verdicts, record_appender

ROOT = command_line.ROOT
JUDGE = "smollm2_judge"
LONGEST_S = 400


def answered(folder: Path, questions: int) -> Path:
    """A run without verdicts: three answers a question, by the seeded tiny model."""
    parts = ["stages=[run]", "selector=[full,bm25]", "position=[original,roperelay]"]
    status, _, err = command_line.call(*command_line.smoke(folder, questions), *parts)
    assert status == 0, err
    return folder / "out" / "smoke"


def copied(run: Path, to: Path, *, judges: Path | None = None) -> Path:
    """The run's answers without verdicts; with the facts of the judges of another folder, who need no gold again."""
    shutil.copytree(run, to, ignore=shutil.ignore_patterns("verdicts", "judges", "report"))
    if judges is not None:
        shutil.copytree(judges / "judges", to / "judges")
    return to


def rewritten(run: Path, to: Path, answers: Mapping[str, str]) -> Path:
    """The run with other answers under some keys."""
    shutil.copytree(run, to, ignore=shutil.ignore_patterns("verdicts", "judges", "report", "records"))
    claim_folder(to, "smoke")
    with record_appender(to, worker="w") as shard:
        for key, record in read_records(run).items():
            shard.append(record.model_copy(update={"answer": answers.get(key, record.answer)}))
    return to


def begin(run: Path, *overrides: str, url: str, **environment: str) -> subprocess.Popen[str]:
    """The command, begun: only judging, and no gold threshold, unless overrides say otherwise."""
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    plain = {name: value for name, value in os.environ.items() if name != "HYDRA_FULL_ERROR"}
    given = {**plain, "PYTHONPATH": paths, "HF_HUB_OFFLINE": "1", "KVRELAY_JUDGE_URL": url, **environment}
    asked = [f"judge=[{JUDGE}]", f'run="{run}"', "stages=[judge]", "gold_threshold=null", *overrides]
    command = [sys.executable, str(ROOT / "scripts" / "judge.py"), *asked]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, cwd=ROOT, env=given)


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """(exit status, stdout, stderr); a command that outlives its time is killed and fails the test."""
    try:
        out, err = process.communicate(timeout=LONGEST_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return process.returncode, out, err


def judge(run: Path, *overrides: str, url: str, **environment: str) -> tuple[int, str, str]:
    return ended(begin(run, *overrides, url=url, **environment))


def facts(run: Path) -> JudgeFacts:
    """The one judge of a run."""
    (found,) = read_judges(run)
    return found


def sheet(run: Path) -> BlindSheet:
    return blind_sheet(read_records(run).values(), facts(run).id)


def found_states(run: Path) -> dict[str, int]:
    """Items by state, as the files have it."""
    return states(sheet(run).items, read_verdicts(run))


def outcomes(run: Path) -> dict[str, tuple[str, str]]:
    """State and the server's words by item."""
    return {key: (state(verdict), verdict.raw) for key, verdict in read_verdicts(run).items()}


def lines(run: Path) -> list[Verdict]:
    """Every verdict line that is whole, those that say the same of an item twice included."""
    folder = run / "verdicts"
    texts = [line for path in sorted(folder.glob("*.jsonl")) for line in path.read_bytes().split(b"\n")[:-1]]
    return [Verdict.model_validate(json.loads(text)["record"]) for text in texts]


def scored_once(run: Path) -> bool:
    """Whether no item was given a verdict twice."""
    return max(Counter(line.item_key for line in lines(run) if line.is_scored).values()) == 1


def wait_for(process: subprocess.Popen[str], holds: Callable[[], bool]) -> None:
    """Until something holds while the process runs."""
    for _ in range(6000):
        if holds():
            return
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.02)
    process.kill()
    raise AssertionError("waited two minutes in vain")
