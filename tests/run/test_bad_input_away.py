"""What is not on this machine: judges' servers, models and data of the hub. And runs that are told to stop."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from command_line import call, smoke, start
from compose import compose_run
from loopback import listing
from plain_config import group, plain_config

from kvrelay.core.errors import EndpointError
from kvrelay.run.store import read_manifest, read_records

MODEL = "Qwen/Qwen2.5-32B-Instruct"


def judged_at(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A configuration whose judge is there; nothing but the judge may be reached."""
    monkeypatch.setattr("kvrelay.run.experiment.load_model", lambda *_: pytest.fail("a model was loaded"))
    monkeypatch.setattr("kvrelay.run.experiment.claim_folder", lambda *_: pytest.fail("a folder was made"))
    judge = group("judge", "qwen25_32b")
    judge["qwen25_32b"] |= {"base_url": url, "retries": 0}
    return plain_config(tmp_path, judge=judge)


def refusal(config: dict[str, Any]) -> str:
    with pytest.raises(EndpointError) as caught:
        compose_run(config)
    assert caught.value.exit_code == 4 and "\n" not in str(caught.value)
    return str(caught.value)


def test_a_judge_that_refuses_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with listing(status=401) as url:
        said = refusal(judged_at(url, tmp_path, monkeypatch))
    assert url in said and "HTTP 401" in said and "judge.*.api_key_env" in said


def test_a_judge_that_serves_another_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with listing("small/model", "other/model") as url:
        said = refusal(judged_at(url, tmp_path, monkeypatch))
    assert f"serves small/model, other/model, not {MODEL}" in said
    assert "judge.*.model" in said and "judge.*.base_url" in said


def test_what_is_no_judge_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with listing(status=404) as url:
        said = refusal(judged_at(url, tmp_path, monkeypatch))
    assert "HTTP 404" in said and "judge.*.base_url" in said


@pytest.mark.parametrize(
    ("override", "status", "words"),
    [
        (
            "limit=null",
            4,
            ("EndpointError: qwen25_32b: judge's server at http://127.0.0.1:9/v1", "start the server there or change"),
        ),
        (
            "judge=[lexical]",
            3,
            ("AssetError: model llama31_8b:", "Put the model in a local folder", "model.llama31_8b.source=FOLDER"),
        ),
        (
            "stages=[run] model=tiny",
            3,
            ("AssetError: cannot get longmemeval_s_cleaned.json", "Place the file", "dataset.longmemeval_s.path="),
        ),
        (
            "stages=[run] model=tiny dataset=long_mt_bench_plus",
            3,
            ("AssetError: cannot get split 'test' of hub dataset panzs19/", "dataset.long_mt_bench_plus.path="),
        ),
    ],
    ids=["judge", "model", "data set", "another data set"],
)
def test_the_paper_profile_without_a_network_is_one_error_that_says_what_to_do(
    override: str, status: int, words: tuple[str, ...], tmp_path: Path
) -> None:
    given = ["experiment=table1", "profile=paper", f"out={tmp_path}/out", *override.split()]
    if "model=tiny" in given:
        given.append(f"+model.tiny.cache_folder={tmp_path}/models")
    found, out, err = call(*given, KVRELAY_JUDGE_URL="http://127.0.0.1:9/v1", HF_HOME=str(tmp_path / "hub"))
    (line,) = err.strip().split("\n")
    assert (found, out) == (status, "")
    assert all(part in line for part in words), line


def interrupted(process: subprocess.Popen[str], folder: Path, number: signal.Signals) -> str:
    """Stop a run as soon as an answer is on disk; what it said on stderr."""
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline and not read_records(folder):
        time.sleep(0.02)
    process.send_signal(number)
    _, err = process.communicate(timeout=120)
    return err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_told_to_stop_keeps_what_is_finished_and_goes_on_from_there(
    number: signal.Signals, tmp_path: Path
) -> None:
    overrides = [*smoke(tmp_path, 24), "selector=[bm25,h2o]"]
    folder = tmp_path / "out" / "smoke"
    process = start(*overrides)
    err = interrupted(process, folder, number)
    assert process.returncode == 130
    assert err.endswith("\ninterrupted; what is finished is kept, and the same command goes on from there\n")
    assert "Traceback" not in err
    kept = read_records(folder)
    assert 0 < len(kept) < 24 * 5 and read_manifest(folder) is None
    status, _, err = call(*overrides)
    assert status == 0 and f"{24 * 5} answers planned, {len(kept)} there already" in err
    after = read_records(folder)
    assert len(after) == 24 * 5 and all(after[key] == record for key, record in kept.items())
    lines = [line for shard in (folder / "records").glob("*.jsonl") for line in shard.read_bytes().splitlines()]
    assert len(lines) == len(after)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="there is no /proc to look into a process")
def test_a_run_that_is_told_to_stop_while_it_starts_shows_no_stack_trace(tmp_path: Path) -> None:
    process = start(*smoke(tmp_path, 1))
    while process.poll() is None and "libtorch" not in Path(f"/proc/{process.pid}/maps").read_text():
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert err == "\ninterrupted; what is finished is kept, and the same command goes on from there\n"


def test_a_reader_that_closes_the_pipe_is_no_stack_trace(tmp_path: Path) -> None:
    process = start(*smoke(tmp_path, 1), "selector=[bm25]")
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=120) == 141 and "Traceback" not in err
    assert read_manifest(tmp_path / "out" / "smoke") is not None


def test_a_terminal_without_the_tables_signs_still_gets_the_table(tmp_path: Path) -> None:
    status, out, err = call(*smoke(tmp_path, 1), "selector=[bm25]", PYTHONIOENCODING="ascii")
    assert status == 0 and "Traceback" not in err
    assert out.strip().endswith("table1.md")
