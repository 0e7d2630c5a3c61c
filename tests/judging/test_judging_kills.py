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
from collections.abc import Iterator
from contextlib import closing
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

    def some(self, n: int) -> list[str]:
        """The next keys that the life acknowledges."""
        told = [self.said() for _ in range(n)]
        assert {word for word, _ in told} <= {"key"}
        return [key for _, key in told]

    def rest(self) -> tuple[list[str], int]:
        """All other keys, and how the life ended."""
        keys = []
        while (told := self.said())[0] == "key":
            keys.append(told[1])
        assert told[0] == "ended"
        return keys, int(told[1])

    def close(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()


@pytest.fixture
def lives(tmp_path: Path, server: JudgeServer) -> Iterator[Lives]:
    folder = answered_run(tmp_path / "run", questions=QUESTIONS)
    begun = Lives(folder, server.url)
    yield begun
    begun.close()


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
    judges; the others up to 4 ms after 1 to 14 verdicts."""
    rng, folder = random.Random(17), tmp_path / "run"
    acknowledged: list[str] = []
    for _ in range(KILLS):
        pid, early = lives.begin(), rng.random() < 0.25
        acknowledged += lives.some(0 if early else rng.randint(1, 14))
        time.sleep(rng.random() * (0.06 if early else 0.004))
        os.kill(pid, signal.SIGKILL)
        keys, status = lives.rest()
        assert status == -signal.SIGKILL
        acknowledged += keys
        found = read_verdicts(folder)
        assert set(acknowledged) <= found.keys(), "lost"
        assert len(lines(folder)) == len(found), "doubled"
    before = outcomes(folder)
    lives.begin()
    keys, status = lives.rest()
    assert status == 0 and len(acknowledged + keys) == len({*acknowledged, *keys})
    assert 0 < len(before) < ITEMS == len(lines(folder)) == len(read_verdicts(folder))
    after = outcomes(folder)
    assert before.items() <= after.items() and disagreements(folder) == []
    undisturbed = answered_run(tmp_path / "undisturbed", questions=QUESTIONS)
    judge = judging_lives.judge_of(server.url).settled("judge")
    judge_folder(undisturbed, {"judge": judge}, JudgingSettings(), lambda line: None)
    assert outcomes(undisturbed) == after
    assert [facts.id for facts in read_judges(folder)] == [judge.facts.id]
    assert counts(folder, judge.facts.id) == expected(folder, judge.facts.id)


def test_two_processes_that_judge_at_once_and_are_killed_count_every_item_once(
    lives: Lives, server: JudgeServer, tmp_path: Path
) -> None:
    """Twelve kills; both may judge one item, but not differently, and every line of both is whole."""
    rng, folder = random.Random(19), tmp_path / "run"
    acknowledged: set[str] = set()
    with closing(Lives(folder, server.url)) as beside:
        both = (lives, beside)
        for _ in range(6):
            for life, pid in [(one, one.begin()) for one in both]:
                acknowledged |= set(life.some(rng.randint(1, 20)))
                os.kill(pid, signal.SIGKILL)
            told = [one.rest() for one in both]
            assert [status for _, status in told] == [-signal.SIGKILL] * 2
            acknowledged.update(*(keys for keys, _ in told))
            assert acknowledged <= read_verdicts(folder).keys(), "lost"
        assert len(acknowledged) < ITEMS
        for one in both:
            one.begin()
        assert [status for _, status in [one.rest() for one in both]] == [0, 0]
    (facts,) = read_judges(folder)
    assert counts(folder, facts.id) == expected(folder, facts.id)
    assert disagreements(folder) == [] and {one.item_key for one in lines(folder)} == read_verdicts(folder).keys()
    assert ITEMS == len(read_verdicts(folder)) <= len(lines(folder)) <= 2 * ITEMS


def counts(folder: Path, judge_id: str) -> dict[str, int]:
    return states(blind_sheet(planned_records(folder), judge_id).items, read_verdicts(folder))


def expected(folder: Path, judge_id: str) -> dict[str, int]:
    """Items by state, as `reply` has it."""
    items = blind_sheet(planned_records(folder), judge_id).items
    assert len(items) == ITEMS
    truth = Counter("correct" if item.candidate.startswith("right") else "wrong" for item in items if last(item) < 7)
    return truth + Counter(
        {7: "malformed", 8: "truncated", 9: "refused"}[last(item)] for item in items if last(item) >= 7
    )


def last(item: BlindItem) -> int:
    """Last digit of the question's number."""
    return int(item.question[-2])
