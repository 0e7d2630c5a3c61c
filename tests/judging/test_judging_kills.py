"""kill -9 at forty random moments of judging processes: what was acknowledged is there, nothing twice, nothing else."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import judging_lives
import pytest
from judge_server import FALSE, TRUE, Answer, Asked, JudgeServer, completion
from scripted_judge import GOLD, answered_run
from stored_records import environment

from kvrelay.judging.blind import blind_sheet
from kvrelay.judging.protocol import BlindItem
from kvrelay.judging.session import JudgingSettings, judge_folder, planned_records
from kvrelay.judging.stage import states
from kvrelay.run.record import Verdict
from kvrelay.run.store import disagreements, read_judges, read_verdicts

KILLS = 40
QUESTIONS = 600
ITEMS = 900
"""Half of the questions have one answer and half have two: more than forty lives get through."""


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    fake = JudgeServer()
    fake.judge = reply
    yield fake
    fake.close()


def reply(asked: Asked) -> Answer:
    """The truth; of every tenth question a reply that is none, of another a cut one, of a third a refusal."""
    item = asked.payload
    known = GOLD.get((item["question"], item["candidate"]))
    if known is None:
        number = int(item["question"].removeprefix("Question ").removesuffix("?"))
        if number % 10 >= 7:
            return {7: completion("yes"), 8: completion(TRUE, "length"), 9: completion(None, refusal="No.")}[
                number % 10
            ]
        known = item["candidate"].startswith("right")
    return completion(TRUE if known else FALSE)


class Lives:
    """Begins one life after the other, reads what it says, and kills it."""

    def __init__(self, folder: Path, url: str) -> None:
        command = [sys.executable, judging_lives.__file__, str(folder), url]
        pipe, paths = subprocess.PIPE, environment()
        paths["PYTHONPATH"] += os.pathsep + str(Path(__file__).resolve().parents[2])
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=paths)

    def begin(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        word, pid = self.said()
        assert word == "pid"
        return int(pid)

    def said(self) -> tuple[str, str]:
        assert self.process.stdout is not None
        word, _, value = self.process.stdout.readline().decode().strip().partition(" ")
        return word, value

    def one(self, kill: Callable[[int, list[str]], None]) -> tuple[list[str], int]:
        """Keys that a life acknowledged, and how it ended; ``kill`` may read some of them before it strikes."""
        pid, keys = self.begin(), []
        kill(pid, keys)
        while (told := self.said())[0] == "key":
            keys.append(told[1])
        assert told[0] == "ended"
        return keys, int(told[1])


@pytest.fixture
def lives(tmp_path: Path, server: JudgeServer) -> Iterator[Lives]:
    folder = answered_run(tmp_path / "run", questions=QUESTIONS)
    begun = Lives(folder, server.url)
    yield begun
    assert begun.process.stdin is not None and begun.process.stdout is not None
    begun.process.stdin.close()
    begun.process.wait(60)
    begun.process.stdout.close()


def lines(folder: Path) -> list[Verdict]:
    """Every whole line of every shard."""
    texts = [path.read_bytes().split(b"\n")[:-1] for path in (folder / "verdicts").glob("*.jsonl")]
    return [Verdict.model_validate(json.loads(line)["record"]) for text in texts for line in text]


def outcomes(folder: Path) -> dict[str, tuple[bool | None, str, str]]:
    return {key: (one.correct, one.reason, one.raw) for key, one in read_verdicts(folder).items()}


def test_forty_kills_at_random_moments_lose_no_verdict_and_double_none(
    lives: Lives, server: JudgeServer, tmp_path: Path
) -> None:
    """A fourth of the lives is killed within 60 ms of its birth, while it asks who serves, about gold or writes who
    judges; the others up to 4 ms after 0 to 14 verdicts."""
    rng, folder = random.Random(17), tmp_path / "run"

    def strike(pid: int, keys: list[str]) -> None:
        early = rng.random() < 0.25
        for _ in range(0 if early else rng.randint(1, 14)):
            word, key = lives.said()
            assert word == "key"
            keys.append(key)
        time.sleep(rng.random() * (0.06 if early else 0.004))
        os.kill(pid, signal.SIGKILL)

    acknowledged: list[str] = []
    for _ in range(KILLS):
        keys, status = lives.one(strike)
        assert status == -signal.SIGKILL
        acknowledged += keys
        found = read_verdicts(folder)
        assert set(acknowledged) <= found.keys(), "lost"
        assert len(lines(folder)) == len(found), "doubled"
    before = outcomes(folder)
    keys, status = lives.one(lambda pid, keys: None)
    assert status == 0 and len(acknowledged + keys) == len({*acknowledged, *keys})
    assert 0 < len(before) < ITEMS == len(lines(folder)) == len(read_verdicts(folder))
    after = outcomes(folder)
    assert before.items() <= after.items() and disagreements(folder) == []
    undisturbed = answered_run(tmp_path / "undisturbed", questions=QUESTIONS)
    judge = judging_lives.judge_of(server.url).settled("judge")
    judge_folder(undisturbed, {"judge": judge}, JudgingSettings(), lambda line: None)
    assert outcomes(undisturbed) == after
    assert [facts.id for facts in read_judges(folder)] == [judge.facts.id]
    items = blind_sheet(planned_records(folder), judge.facts.id).items
    truth = Counter("correct" if item.candidate.startswith("right") else "wrong" for item in items if last(item) < 7)
    spoilt = Counter({7: "malformed", 8: "truncated", 9: "refused"}[last(item)] for item in items if last(item) >= 7)
    assert states(items, read_verdicts(folder)) == {**truth, **spoilt}
    assert sum(truth.values()) + sum(spoilt.values()) == ITEMS


def last(item: BlindItem) -> int:
    """Last digit of the question's number."""
    return int(item.question[-2])
