"""Histories shared out between jobs: the parts together are the whole, by key and by content."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from compose import compose, compose_run
from plain_config import group, plain_config

from kvrelay.core.errors import ConfigError
from kvrelay.run.portion import Portion
from kvrelay.run.record import RunRecord
from kvrelay.run.store import read_manifest, read_plans, read_records
from kvrelay.stats.plans import merge

HISTORIES, QUESTIONS, CELLS = 5, 2, 3


def config(tmp_path: Path, out: str, **changes: Any) -> dict[str, Any]:
    made = plain_config(tmp_path, out=str(tmp_path / out), selector=group("selector", "full", "bm25"), **changes)
    made["position"] = group("position", "original", "roperelay")
    made["dataset"]["plain"].update(histories=HISTORIES, questions=QUESTIONS)
    return made


def run(settings: dict[str, Any]) -> list[str]:
    said: list[str] = []
    compose(settings)[1].run(said.append)
    return said


def essence(record: RunRecord) -> dict[str, Any]:
    return record.model_dump(mode="json", exclude={"worker", "timings", "peak_memory_bytes"})


def test_a_part_is_named_by_its_number_and_theirs() -> None:
    assert Portion.of("2/4") == Portion.of("02/4") == Portion(index=2, count=4)
    assert (str(Portion.of("2/4")), Portion.of("2/4").suffix, Portion.of("2/4").whole) == ("2/4", ".2-of-4", False)
    assert Portion.of(None) == Portion.of("1/1") and Portion.of(None).whole and Portion.of(None).suffix == ""


@pytest.mark.parametrize("shard", ["0/3", "4/3", "a/b", "1", "1/0", "", "1/2/3", "-1/2", "1.0/2", "²/3"])
def test_what_is_no_part_is_refused_by_its_key(tmp_path: Path, shard: str) -> None:
    with pytest.raises(ConfigError, match=r"wanted i/n with i from 1 to n.*key: shard"):
        compose(config(tmp_path, "out", shard=shard))


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_every_history_is_in_one_part_by_its_hash_alone(count: int) -> None:
    for number in range(200):
        history = f"{number:04x}"
        place = int(hashlib.sha256(history.encode()).hexdigest(), 16) % count + 1
        held = [index for index in range(1, count + 1) if Portion(index=index, count=count).holds(history)]
        assert held == [place]


def test_parts_of_many_histories_are_about_equal() -> None:
    """500 histories in 4 parts: each count is binomial, mean 125, deviation 9.7; four deviations either way."""
    parts = [Portion(index=index, count=4) for index in range(1, 5)]
    counts = [sum(part.holds(f"history {number}") for number in range(500)) for part in parts]
    assert sum(counts) == 500 and all(abs(count - 125) <= 39 for count in counts)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    run(config(folder, "out"))
    return folder / "out" / "plain"


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_the_parts_together_are_what_one_process_gives(tmp_path: Path, whole: Path, count: int) -> None:
    for index in reversed(range(1, count + 1)):
        run(config(tmp_path, "out", shard=f"{index}/{count}"))
    folder = tmp_path / "out" / "plain"
    alone, together = read_records(whole), read_records(folder)
    assert len(alone) == HISTORIES * QUESTIONS * CELLS
    assert {key: essence(one) for key, one in together.items()} == {key: essence(one) for key, one in alone.items()}
    assert sum(len(shard.read_bytes().splitlines()) for shard in (folder / "records").glob("*.jsonl")) == len(alone)
    (plan,), (planned,) = read_plans(folder), read_plans(whole)
    assert plan.run_id == planned.run_id and plan.cells == planned.cells and plan.stamps == planned.stamps
    assert merge([plan]) == merge([planned])
    manifest, wanted = read_manifest(folder), read_manifest(whole)
    assert manifest is not None and wanted is not None
    assert (manifest.run_id, manifest.expected, manifest.done) == (wanted.run_id, len(alone), len(alone))


def test_parts_report_as_one_process_does(tmp_path: Path, whole: Path) -> None:
    for index in (1, 2, 3):
        run(config(tmp_path, "out", shard=f"{index}/3", judge=group("judge", "lexical")))
    settings = config(tmp_path, "out", stages=["judge", "report"])
    assert compose_run(settings) == 0
    printed = (tmp_path / "out" / "plain" / "report" / "table1.md").read_text(encoding="utf-8")
    assert "PARTIAL" not in printed and "INCOMPLETE" not in printed


def test_a_part_that_never_began_is_missing_by_name(
    tmp_path: Path, whole: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = [Portion(index=index, count=3) for index in (1, 2, 3)]
    histories = {record.history_id for record in read_records(whole).values()}
    absent = next(part for part in parts if any(part.holds(history) for history in histories))
    for part in parts:
        if part != absent:
            run(config(tmp_path, "out", shard=str(part)))
    folder = tmp_path / "out" / "plain"
    expected = {key for cell in read_plans(folder)[0].cells for key in cell.keys}
    missing = expected - read_records(folder).keys()
    assert missing == {key for key, record in read_records(whole).items() if absent.holds(record.history_id)}
    assert read_manifest(folder) is None, "a run of which a part is missing has not finished"
    assert compose_run(config(tmp_path, "out", stages=["judge", "report"])) == 5
    assert f"{len(missing)} of {len(expected)} answers are missing" in capsys.readouterr().err


def test_a_part_without_histories_says_so_and_loads_no_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: Path
) -> None:
    histories = {record.history_id for record in read_records(whole).values()}
    empty = next(
        part
        for part in (Portion(index=index, count=40) for index in range(1, 41))
        if not any(part.holds(history) for history in histories)
    )
    monkeypatch.setattr("kvrelay.run.experiment.load_model", lambda *_: pytest.fail("a model was loaded"))
    said = run(config(tmp_path, "out", shard=str(empty)))
    assert f"0 answers planned, shard {empty} of {HISTORIES * QUESTIONS * CELLS}" in said[0]
    own = read_manifest(tmp_path / "out" / "plain", f"{read_plans(tmp_path / 'out' / 'plain')[0].run_id}{empty.suffix}")
    assert own is not None and own.expected == own.done == 0


def test_a_trimmed_history_is_stamped_whichever_part_it_is_in(tmp_path: Path) -> None:
    for index in (1, 2):
        settings = config(tmp_path, "out", shard=f"{index}/2")
        settings["dataset"]["max_history_tokens"] = 100
        run(settings)
    (plan,) = read_plans(tmp_path / "out" / "plain")
    questions = HISTORIES * QUESTIONS
    assert any(f"the histories of {questions} of {questions} questions were TRIMMED" in stamp for stamp in plan.stamps)
