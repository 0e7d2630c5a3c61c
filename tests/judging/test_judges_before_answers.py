"""A run meets its judges, and holds them to the gold items, before it answers anything; and keeps them for later."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

import early_judge
import pytest
from compose import compose_run
from plain_config import plain_config
from scripted_judge import answered_run

from kvrelay.core.errors import EndpointError
from kvrelay.run.experiment import Experiment
from kvrelay.run.progress import Progress
from kvrelay.run.store import read_judges, read_verdicts


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happens in its order; answering is replaced by a run that is there already."""
    monkeypatch.setattr(early_judge, "EVENTS", [])

    def run(experiment: Experiment, say: Any) -> None:
        early_judge.EVENTS.append("run")
        answered_run(experiment.folder)

    monkeypatch.setattr(Experiment, "run", run)
    return early_judge.EVENTS


def config(tmp_path: Path, **judge: Any) -> dict[str, Any]:
    parts = {"early": {"_target_": "early_judge.EarlyJudge", **judge}}
    return plain_config(tmp_path, judge=parts, stages=["run", "judge"], name="answered")


def test_judges_first_then_answers_then_verdicts(tmp_path: Path, events: list[str]):
    assert compose_run(config(tmp_path)) == 0
    assert [(what, len(list(times))) for what, times in groupby(events)] == [
        ("settled", 1),
        ("gold", 20),
        ("run", 1),
        ("answer", 15),
    ]
    folder = tmp_path / "out" / "answered"
    (facts,) = read_judges(folder)
    assert facts.name == "early" and facts.gold is not None and facts.gold.right == 20
    assert len(read_verdicts(folder)) == 15


def test_a_judge_that_fails_the_gold_items_costs_no_answer(tmp_path: Path, events: list[str]):
    with pytest.raises(EndpointError, match="got 0 of 20 gold items right"):
        compose_run(config(tmp_path, right=False))
    assert "run" not in events and events.count("gold") == 20


def test_without_a_threshold_it_may_go_on(tmp_path: Path, events: list[str]):
    assert compose_run({**config(tmp_path, right=False), "gold_threshold": None}) == 0
    assert events.count("answer") == 15


@pytest.mark.parametrize(
    ("done", "elapsed_s", "told"),
    [
        (12, 25.2, "[12/48 items] 2.1 s each · 1 min 16 s left 3 in flight"),
        (24, 2.0, "[24/48 items] 12.0 a second · 2 s left 3 in flight"),
        (48, 0.0, "[48/48 items] 0.0 s each · 0 s left 3 in flight"),
    ],
)
def test_progress_tells_rate_time_left_and_pace(done: int, elapsed_s: float, told: str):
    progress = Progress(48, "items")
    progress.done = done
    assert progress.line(elapsed_s, "3 in flight") == told
