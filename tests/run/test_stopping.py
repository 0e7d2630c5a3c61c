"""Signals of a scheduler wait for the item in work; none of them becomes a failed example."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from command import told
from compose import compose
from plain_config import plain_config

from kvrelay.run.stopping import POSTPONED, finished_first
from kvrelay.run.store import read_manifest, read_records


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, *POSTPONED)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def raising(error: BaseException) -> Callable[..., None]:
    def handler(*_: Any) -> None:
        raise error

    return handler


@pytest.mark.parametrize("number", POSTPONED)
def test_a_signal_is_obeyed_after_the_work_in_hand(number: signal.Signals) -> None:
    handler = raising(RuntimeError("the node is taken"))
    signal.signal(number, handler)
    done = []
    with pytest.raises(RuntimeError, match="the node is taken"), finished_first():
        os.kill(os.getpid(), number)
        done.append("first")
        os.kill(os.getpid(), number)
        done.append("second")
    assert done == ["first", "second"]
    assert signal.getsignal(number) is handler


def test_several_signals_are_obeyed_in_their_order() -> None:
    came: list[int] = []
    for number in POSTPONED:
        signal.signal(number, lambda number, frame: came.append(number))
    with finished_first():
        for number in (signal.SIGUSR2, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
            os.kill(os.getpid(), number)
        assert came == []
    assert came == [signal.SIGUSR2, signal.SIGTERM, signal.SIGUSR1]


def test_an_error_inside_is_not_lost_where_no_signal_came() -> None:
    with pytest.raises(LookupError), finished_first():
        raise LookupError


def test_other_threads_change_no_handler() -> None:
    handler = raising(RuntimeError())
    signal.signal(signal.SIGTERM, handler)
    found: list[Any] = []

    def work() -> None:
        with finished_first():
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [handler]


def signalled(tmp_path: Path, number: int) -> dict[str, Any]:
    config = plain_config(tmp_path)
    config["selector"] = {
        "signalled": {"_target_": "signalled.Signalled", "number": int(number), "question": "1-0"},
    }
    config["dataset"]["plain"].update(histories=3)
    return config


@pytest.mark.parametrize("number", POSTPONED)
def test_an_example_never_fails_because_the_scheduler_wants_the_node(tmp_path: Path, number: signal.Signals) -> None:
    """A launcher's handler that raises an ordinary exception: questions are in the order 0-0, 0-1, 1-0 …"""
    signal.signal(number, raising(RuntimeError("not requeued")))
    _, experiment, _ = compose(signalled(tmp_path, number))
    with pytest.raises(RuntimeError, match="not requeued"):
        experiment.run(lambda line: None)
    kept = read_records(experiment.folder)
    assert {record.status for record in kept.values()} == {"ok"}
    assert {record.example_id for record in kept.values()} == {"0-0", "0-1", "1-0"}, "the one in work was finished"
    assert read_manifest(experiment.folder) is None
    _, again, _ = compose(signalled(tmp_path, number))
    again.run(lambda line: None)
    after = read_records(experiment.folder)
    assert len(after) == 3 * 2 * 2 and all(after[key] == record for key, record in kept.items())


@pytest.mark.parametrize("number", POSTPONED)
def test_a_command_that_is_told_to_stop_exits_as_interrupted(
    number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    signal.signal(number, signal.SIG_DFL)
    with pytest.raises(SystemExit) as caught, told():
        os.kill(os.getpid(), number)
    assert caught.value.code == 130
    assert capsys.readouterr().err.startswith("\ninterrupted; what is finished is kept")


def test_a_launchers_own_handler_is_called_and_may_exit() -> None:
    called: list[int] = []

    def requeue(number: int, frame: Any) -> None:
        called.append(number)
        raise SystemExit(-1)

    signal.signal(signal.SIGUSR2, requeue)
    with pytest.raises(SystemExit) as caught, told():
        os.kill(os.getpid(), signal.SIGUSR2)
    assert (caught.value.code, called) == (-1, [signal.SIGUSR2])


@pytest.mark.parametrize(
    "error", [subprocess.CalledProcessError(1, "scontrol requeue"), RuntimeError("timed-out too many times")]
)
def test_a_launcher_that_cannot_requeue_is_an_interruption_and_no_failure(
    error: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    signal.signal(signal.SIGUSR2, raising(error))
    with pytest.raises(SystemExit) as caught, told():
        try:
            os.kill(os.getpid(), signal.SIGUSR2)
        except Exception:
            pytest.fail("what is interrupted could take this for its own failure")
    assert caught.value.code == 130
    assert f"interrupted ({error})" in capsys.readouterr().err
