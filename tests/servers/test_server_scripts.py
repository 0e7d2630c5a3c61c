"""The scripts that start and stop servers: what they start is found, told about and ended; nothing else is."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(
    not Path("/proc/self/stat").exists() or not all(map(shutil.which, ("bash", "curl", "setsid"))),
    reason="the servers' scripts need Linux, bash, curl and setsid",
)

SERVER = """
import subprocess, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"])
print("child", child.pid, flush=True)
HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
"""Answers /health and has a child of its own, as vLLM's engine is."""


class Daemon:
    """The functions of daemon.sh for one folder and one port, each in a shell of its own."""

    def __init__(self, run: Path) -> None:
        self.run = run
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]

    def call(self, function: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        names = f'NAME=fake RUN="{self.run}" URL=http://127.0.0.1:{self.port}'
        script = f'set -euo pipefail; . scripts/servers/daemon.sh; {names}; {function} "$@"'
        command = ["bash", "-c", script, "daemon", *arguments]
        given = {**os.environ, **environment}
        return subprocess.run(command, cwd=ROOT, env=given, capture_output=True, text=True, timeout=60)

    def start(self, code: str = SERVER, **environment: str) -> subprocess.CompletedProcess[str]:
        return self.call("start_daemon", sys.executable, "-c", code, str(self.port), **environment)

    def stop(self, **environment: str) -> subprocess.CompletedProcess[str]:
        return self.call("stop_daemon", **environment)

    def pids(self) -> tuple[int, int]:
        """The server's and its child's."""
        log = (self.run / "log").read_text()
        return int((self.run / "pid").read_text().split()[0]), int(log.split("child ")[1].split()[0])


def lives(pid: int) -> bool:
    """Whether a process runs; one that ended and was not collected does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def wait_until(holds: Callable[[], bool]) -> None:
    for _ in range(200):
        if holds():
            return
        time.sleep(0.05)
    raise AssertionError("waited ten seconds in vain")


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    one = Daemon(tmp_path / "run here")
    yield one
    assert one.stop().returncode == 0


def test_a_server_is_started_and_ended_with_its_children(daemon: Daemon) -> None:
    started = daemon.start()
    assert started.returncode == 0, started.stderr
    assert f"fake answers at http://127.0.0.1:{daemon.port}/v1" in started.stderr and started.stdout == ""
    server, child = daemon.pids()
    assert lives(server) and lives(child)
    again = daemon.start()
    assert again.returncode == 1 and f"fake runs already (process {server})" in again.stderr
    assert lives(server)
    stopped = daemon.stop()
    assert stopped.returncode == 0 and f"(process {server})" in stopped.stderr
    assert not lives(server) and not lives(child)
    assert not (daemon.run / "pid").exists()
    assert daemon.stop().stderr == ""


def test_children_of_a_killed_server_are_ended_too(daemon: Daemon) -> None:
    assert daemon.start().returncode == 0
    server, child = daemon.pids()
    os.kill(server, signal.SIGKILL)
    wait_until(lambda: not lives(server))
    assert lives(child)
    assert daemon.start().returncode == 0  # clears up first
    assert not lives(child)
    fresh, _ = daemon.pids()
    assert fresh != server and lives(fresh)


def test_a_server_that_dies_at_the_start_is_told_with_its_log(daemon: Daemon) -> None:
    died = daemon.start("import sys; sys.exit('heads must be wider')")
    assert died.returncode == 1
    assert "heads must be wider" in died.stderr and died.stderr.endswith("fake died while it started\n")
    assert not (daemon.run / "pid").exists()


def test_a_server_that_never_answers_is_given_up_and_ended(daemon: Daemon) -> None:
    silent = "import os, time; print('child', os.getpid(), flush=True); time.sleep(120)"
    slow = daemon.start(silent, START_LIMIT_S="1")
    assert slow.returncode == 1 and "did not answer" in slow.stderr and "within 1 s (START_LIMIT_S)" in slow.stderr
    assert not lives(int((daemon.run / "log").read_text().split()[1]))


def test_one_that_will_not_end_is_made_to(daemon: Daemon) -> None:
    stubborn = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + SERVER
    assert daemon.start(stubborn).returncode == 0
    server, child = daemon.pids()
    assert daemon.stop(STOP_LIMIT_S="1").returncode == 0
    assert not lives(server) and not lives(child)


def test_a_taken_port_is_told_and_its_owner_left_alone(daemon: Daemon, tmp_path: Path) -> None:
    assert daemon.start().returncode == 0
    other = Daemon(tmp_path / "other")
    other.port = daemon.port
    refused = other.start()
    assert refused.returncode == 1 and "another server answers" in refused.stderr
    assert not (other.run / "pid").exists()
    assert lives(daemon.pids()[0])


def test_a_process_that_only_bears_the_number_is_left_alone(daemon: Daemon) -> None:
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"], start_new_session=True)
    try:
        daemon.run.mkdir()
        (daemon.run / "pid").write_text(f"{bystander.pid} 12345\n")
        assert daemon.stop().returncode == 0
        assert bystander.poll() is None
        assert not (daemon.run / "pid").exists()
        (daemon.run / "pid").write_text("")  # torn
        assert daemon.stop().returncode == 0
    finally:
        bystander.kill()
        bystander.wait()


@pytest.mark.parametrize("script", ["vllm.sh", "serve.sh", "test.sh"])
def test_a_wrong_call_is_told_how_to_call(script: str) -> None:
    path = ROOT / "scripts" / "servers" / script
    for arguments in ([], ["begin"], ["start"]):
        done = subprocess.run([path, *arguments], capture_output=True, text=True, timeout=20)
        assert done.returncode == 2 and "usage: " in done.stderr
