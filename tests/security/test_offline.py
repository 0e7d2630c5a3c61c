"""``offline=true``: a run that needs no network works with every socket closed; one that does is refused at once."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import ROOT, smoke
from offline import cut_off, is_here

CLOSED = """
import runpy, socket, sys
touched = sys.argv.pop(1)
def refuse(*given, **named):
    with open(touched, "a") as file:
        file.write(f"{given[1:]}\\n")
    raise OSError("the test closed all sockets")
for name in ("connect", "connect_ex", "sendto", "bind"):
    setattr(socket.socket, name, refuse)
for name in ("getaddrinfo", "gethostbyname", "create_connection"):
    setattr(socket, name, refuse)
sys.argv[0] = "scripts/run.py"
sys.path.insert(0, "scripts")
runpy.run_path("scripts/run.py", run_name="__main__")
"""


def environment(tmp_path: Path) -> dict[str, str]:
    """Of a user who has set nothing, with an empty cache of the hub."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "TRANSFORMERS_"))}
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return {**plain, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "HF_HOME": str(tmp_path / "hub")}


def test_a_laptop_run_touches_no_socket(tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    command = [sys.executable, "-c", CLOSED, str(touched), *smoke(tmp_path, 1), "offline=true"]
    command += ["selector=[full,bm25]"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment(tmp_path), timeout=240)
    assert done.returncode == 0, done.stderr
    assert "# Table 1" in done.stdout or "table1.md" in done.stdout
    assert not touched.exists(), touched.read_text()
    (provenance,) = (tmp_path / "out" / "smoke" / "provenance").glob("*.json")
    assert json.loads(provenance.read_text())["environment"]["HF_HUB_OFFLINE"] == "1"
    assert json.loads(provenance.read_text())["settings"]["offline"] is True


@pytest.mark.parametrize(
    ("overrides", "status", "key", "words"),
    [
        (["model=llama31_8b"], 3, "model.llama31_8b.source", "meta-llama/Llama-3.1-8B-Instruct is on the hub"),
        (["dataset=[longmemeval_s]"], 3, "dataset.longmemeval_s.path", "asks for xiaowu0162/longmemeval-cleaned"),
        (["dataset=[location_musique]"], 3, "dataset.location_musique.path", "asks for dgslibisey/MuSiQue"),
        (
            ["judge=[qwen25_32b]", "judge.qwen25_32b.base_url=https://api.example.com/v1"],
            2,
            "judge.qwen25_32b.base_url",
            "",
        ),
    ],
)
def test_what_needs_a_network_is_refused_before_anything_is_loaded(
    overrides: list[str], status: int, key: str, words: str, tmp_path: Path
) -> None:
    given = [*smoke(tmp_path, 1)[2:], "experiment=smoke", "offline=true", *overrides]
    code = "import sys; sys.modules['torch'] = None\n" + CLOSED  # whoever imports torch now fails otherwise
    command = [sys.executable, "-c", code, str(tmp_path / "touched"), *given]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment(tmp_path), timeout=240)
    assert done.returncode == status, done.stderr
    assert "offline = true" in done.stderr and f"keys: offline, {key}" in done.stderr and words in done.stderr
    assert not (tmp_path / "touched").exists() and not (tmp_path / "out").exists()


GUARDED = """
import json, socket, sys
sys.path.insert(0, "scripts")
from offline import cut_off
listener = socket.create_server(("127.0.0.1", 0))
cut_off({"offline": json.loads(sys.argv[1])})
socket.create_connection(listener.getsockname()).close()
socket.getaddrinfo("localhost", 80)
for attempt in (
    lambda: socket.create_connection(("192.0.2.1", 9), timeout=0.01),
    lambda: socket.getaddrinfo("example.invalid", 443),
    lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("192.0.2.1", 9)),
):
    try:
        attempt()
        print("let through")
    except OSError as error:
        print(error)
"""


def test_a_connection_that_a_library_tries_all_the_same_is_not_let_through(tmp_path: Path) -> None:
    def said(offline: str) -> list[str]:
        command = [sys.executable, "-c", GUARDED, offline]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment(tmp_path), timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    guarded = said("true")
    assert len(guarded) == 3 and all("offline = true lets no connection to" in line for line in guarded)
    assert not any("offline = true" in line for line in said("false"))


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("127.0.0.1", True),
        ("127.8.9.10", True),
        ("::1", True),
        ("localhost", True),
        (None, True),
        (b"localhost", True),
        ("fe80::1%eth0", False),
        ("10.0.0.1", False),
        ("localhost.example.com", False),
        ("127.0.0.1.example.com", False),
        ("0.0.0.0", False),
    ],
)
def test_which_hosts_are_this_machine(host: object, here: bool) -> None:
    assert is_here(host) == here


def test_a_repository_in_the_hubs_cache_is_as_good_as_a_local_folder(tmp_path: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, 'scripts')\nfrom offline import cut_off\n"
        "cut_off({'offline': True, 'model': {'m': {'source': 'org/model'}}, "
        "'dataset': {'d': {'path': None, 'hub_id': 'org/data'}, 'max_history_tokens': None}})\nprint('taken')"
    )
    for kind in ("models--org--model", "datasets--org--data"):
        snapshot = tmp_path / "hub" / "hub" / kind / "snapshots" / "rev"
        snapshot.mkdir(parents=True)
        (snapshot / "file.json").write_text("{}")
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment(tmp_path), timeout=60)
    assert done.stdout == "taken\n", done.stderr


def test_without_the_key_nothing_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    cut_off({"offline": False, "model": {"m": {"source": "org/model"}}})
    assert "HF_HUB_OFFLINE" not in os.environ
    assert socket.getaddrinfo("127.0.0.1", 80)
