"""A run's answers judged against a server that misbehaves, counted and judged again, and the row that tells of it."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from judge_server import FALSE, TRUE, Answer, Asked, JudgeServer, completion
from scripted_judge import GOLD, answered_run

from kvrelay.core.errors import EndpointError
from kvrelay.judging.blind import blind_sheet
from kvrelay.judging.protocol import BlindItem
from kvrelay.judging.session import JudgingSettings, judge_folder, planned_records
from kvrelay.judging.stage import states
from kvrelay.run.record import Verdict
from kvrelay.run.store import read_verdicts

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "faults.md"


class Played:
    """A run's folder, one judge, and what has been said; the truth is known of each item."""

    def __init__(self, folder: Path, server: Any, make_judge: Any, **settings: Any) -> None:
        self.folder, self.server = answered_run(folder), server
        server.judge = true_verdict
        self.judge = make_judge(**({"retries": 2} | settings)).settled("judge")
        self.said: list[str] = []
        self.final: dict[str, Verdict] = {}

    @property
    def items(self) -> tuple[BlindItem, ...]:
        return blind_sheet(planned_records(self.folder), self.judge.facts.id).items

    def again(self) -> tuple[dict[str, int], str]:
        """The command's judging, once: counts of every state on file, and the error that ended it."""
        error = ""
        self.server.asked.clear()
        try:
            settings = JudgingSettings(gold_threshold=None)
            judge_folder(self.folder, {"judge": self.judge}, settings, self.said.append, command="COMMAND")
        except EndpointError as caught:
            error = str(caught).replace(self.server.url, "URL")
        self.check()
        counted = states(self.items, read_verdicts(self.folder))
        assert sum(counted.values()) == 15
        return counted, error

    def check(self) -> None:
        """What was final is as it was; no item has two verdicts; none is of no item, and none is wrong."""
        truth = {item.key: item.candidate.startswith("right") for item in self.items}
        found = read_verdicts(self.folder)
        assert found.keys() <= truth.keys(), "of no item"
        assert self.final.items() <= found.items(), "lost"
        self.final = {key: verdict for key, verdict in found.items() if verdict.is_final}
        scored = [verdict for verdict in self.lines() if verdict.correct is not None]
        assert all(verdict.correct == truth[verdict.item_key] for verdict in scored), "scored wrong"
        assert set(Counter(verdict.item_key for verdict in self.lines() if verdict.is_final).values()) <= {1}, "doubled"

    def lines(self) -> list[Verdict]:
        texts = [path.read_bytes() for path in (self.folder / "verdicts").glob("*.jsonl")]
        return [Verdict.model_validate(json.loads(one)["record"]) for text in texts for one in text.splitlines()]

    def about_answers(self) -> set[str]:
        """Answers that the last pass asked about."""
        return {asked.payload["candidate"] for asked in self.server.asked if not is_gold(asked)}

    def open(self) -> set[str]:
        """Answers without a final verdict."""
        final = {key for key, verdict in read_verdicts(self.folder).items() if verdict.is_final}
        return {item.candidate for item in self.items if item.key not in final}

    def told(self) -> list[str]:
        """Reason and words of every item without a verdict."""
        return [f"{one.reason}: {one.raw}" for one in read_verdicts(self.folder).values() if one.correct is None]


def is_gold(asked: Asked) -> bool:
    return (asked.payload["question"], asked.payload["candidate"]) in GOLD


def true_verdict(asked: Asked) -> Answer:
    item = asked.payload
    known = GOLD.get((item["question"], item["candidate"]))
    return completion(TRUE if (item["candidate"].startswith("right") if known is None else known) else FALSE)


def in_words(counted: dict[str, int]) -> str:
    """As the rows have it. Which items come first follows from hashes, so that a stopped pass counts no right ones."""
    if left := counted.get("unjudged"):
        return f"{counted.get('correct', 0) + counted.get('wrong', 0)} judged, {left} unjudged"
    named = [*("correct", "wrong"), *sorted(counted.keys() - {"correct", "wrong"})]
    return ", ".join(f"{counted[name]} {name}" for name in named if name in counted)


def row(name: str) -> list[str]:
    """Cells of the row: number, fault, injected how, what the user sees, before, after, test."""
    text = DOCUMENT.read_text(encoding="utf-8")
    (found,) = re.findall(rf"^\| (J\d+ \| {re.escape(name)} \|.*) \|$", text, re.MULTILINE)
    return [cell.strip() for cell in found.split(" | ")]


def assert_row(name: str, words: str, before: str, after: str) -> None:
    _, _, _, seen, *counts, _ = row(name)
    assert words in seen if words else seen == "nothing", seen
    assert counts == [before, after]


def revived(played: Played) -> dict[str, int]:
    """Counts after a pass with the server back at its address."""
    played.server = JudgeServer(played.server.port)
    played.server.judge = true_verdict
    try:
        counted, error = played.again()
    finally:
        played.server.close()
    assert error == ""
    return counted
