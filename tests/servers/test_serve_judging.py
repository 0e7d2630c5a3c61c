"""A run judged through `transformers serve`, which takes every demand for a form and holds replies to none."""

from __future__ import annotations

from pathlib import Path

import pytest
from judged_runs import answered, begin, copied, ended, facts, found_states, judge, lines, outcomes, sheet, wait_for
from real_server import RealServer

from kvrelay.run.store import read_judges

pytestmark = pytest.mark.serve
SETTING = "judge.smollm2_judge"
UNSCORED = {"malformed", "truncated", "empty"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six different answers, none of them judged."""
    return answered(tmp_path_factory.mktemp("answered"), questions=2)


@pytest.fixture
def model(serve: RealServer) -> str:
    """It calls a model by the folder that it was given."""
    return f"{SETTING}.model='{serve.model}'"


@pytest.fixture(scope="module")
def judged(run: Path, serve: RealServer, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    folder = copied(run, tmp_path_factory.mktemp("judged") / "run")
    status, out, err = judge(folder, f"{SETTING}.model='{serve.model}'", "stages=[judge,report]", url=serve.url)
    # the table is printed, and the status says that it is incomplete
    assert status in (0, 5), err
    return folder, out, err


def test_no_form_is_enforced_and_that_is_found_out(serve: RealServer, judged: tuple[Path, str, str]) -> None:
    folder, _, _ = judged
    assert serve.served() == [serve.model]
    probes = facts(folder).probes
    assert [(probe["constraint"], probe["found"]) for probe in probes[:2]] == [
        ("choice", "refused"),
        ("regex", "refused"),
    ]
    assert all("422" in probe["words"] for probe in probes[:2])
    assert [probe["constraint"] for probe in probes[2:]] == ["json_schema", "json_object", "none"]
    assert {probe["found"] for probe in probes[2:4]} <= {"ignored", "truncated"} and probes[4]["found"] == "free"
    assert facts(folder).identity["constraint"] == "none"


def test_every_answer_has_a_state_and_none_is_scored_wrong_for_its_judge(judged: tuple[Path, str, str]) -> None:
    """Free text of a model of this size is hardly ever a verdict: it is missing, not false."""
    folder, out, _ = judged
    states = found_states(folder)
    assert sum(states.values()) == len(sheet(folder).items) == 6
    assert set(states) <= {"correct", "wrong", *UNSCORED}
    for line in lines(folder):
        assert (line.correct is None) == bool(line.reason)
        assert line.correct is None or line.raw.strip()
        assert line.raw.strip() or line.reason in ("empty", "truncated")
    assert "a 135M model's verdicts mean nothing" in out and "form held to by the server: none" in out


def test_from_scratch_the_replies_are_the_same(
    serve: RealServer, model: str, run: Path, judged: tuple[Path, str, str], tmp_path: Path
) -> None:
    folder = copied(run, tmp_path / "run", judges=judged[0])
    status, _, err = judge(folder, model, f"{SETTING}.concurrency=1", url=serve.url)
    assert status == 0 and "0 judged before, 6 to judge" in err
    assert outcomes(folder) == outcomes(judged[0])


def test_what_was_asked_once_is_not_asked_again(serve: RealServer, model: str, judged: tuple[Path, str, str]) -> None:
    """Malformed is a state of the item's own: the same greedy judge would say it again."""
    before = lines(judged[0])
    status, _, err = judge(judged[0], model, url=serve.url)
    assert status == 0 and "6 judged before, 0 to judge" in err
    assert lines(judged[0]) == before


def test_a_killed_server_loses_nothing(
    serve: RealServer, model: str, run: Path, judged: tuple[Path, str, str], tmp_path: Path
) -> None:
    if not serve.is_ours:
        pytest.skip("this server is not ours to kill (KVRELAY_SERVE_RUN is not set)")
    folder = copied(run, tmp_path / "run", judges=judged[0])
    patience = [f"{SETTING}.breaker_after=2", f"{SETTING}.breaker_patience_s=2", f"{SETTING}.retries=1"]
    process = begin(folder, model, f"{SETTING}.concurrency=1", *patience, url=serve.url)
    wait_for(process, lambda: len(lines(folder)) >= 1)
    serve.kill()
    try:
        status, _, err = ended(process)
        assert status == 4 and "judge the rest with: python" in err, err
        kept = {key: told for key, told in outcomes(folder).items() if told[0] != "transport_error"}
        assert 1 <= len(kept) < 6
    finally:
        serve.start()
    status, _, err = judge(folder, model, url=serve.url)
    assert status == 0 and f"{len(kept)} judged before, {6 - len(kept)} to judge" in err
    assert outcomes(folder) == outcomes(judged[0])


@pytest.mark.parametrize("form", ["choice", "json_schema"])
def test_a_form_that_is_demanded_and_not_held_stops_the_judge(
    serve: RealServer, model: str, run: Path, tmp_path: Path, form: str
) -> None:
    folder = copied(run, tmp_path / "run")
    status, _, err = judge(folder, model, f"{SETTING}.constraint={form}", url=serve.url)
    assert status == 4
    assert (
        f"does not hold replies to judge.*.constraint={form}" in err and "set judge.*.constraint=none, or auto" in err
    )
    assert lines(folder) == [] and read_judges(folder) == []


def test_a_model_that_is_not_served(serve: RealServer, run: Path, tmp_path: Path) -> None:
    folder = copied(run, tmp_path / "run")
    status, _, err = judge(folder, url=serve.url)
    assert status == 4 and f"serves {serve.model}, not smollm2-judge" in err
    assert read_judges(folder) == []
