"""Provenance: the code's state is told exactly, and nothing private is told at all."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from stored_records import environment

from kvrelay.run import provenance as module
from kvrelay.run.provenance import git_state, hardware, packages, provenance

UNKNOWN = {"commit": "unknown", "dirty": "unknown", "diff_sha256": "unknown"}


def git(folder: Path, *arguments: str) -> str:
    settings = ["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false"]
    command = ["git", *settings, "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    top = tmp_path / "repository"
    (top / "package").mkdir(parents=True)
    (top / "package" / "code.py").write_text("a = 1\n")
    (top / ".gitignore").write_text("outputs/\n.venv/\n")
    git(top, "init", "-q")
    git(top, "add", ".")
    git(top, "commit", "-q", "-m", "one")
    return top


def test_a_clean_tree(repository: Path) -> None:
    (repository / "outputs").mkdir()
    (repository / "outputs" / "big.txt").write_text("ignored")
    commit = git(repository, "rev-parse", "HEAD").strip()
    assert git_state(repository / "package") == {"commit": commit, "dirty": False, "diff_sha256": None}


def test_every_change_of_code_is_another_hash_and_the_same_change_the_same(repository: Path) -> None:
    package = repository / "package"
    states = []
    for change in (
        lambda: (package / "code.py").write_text("a = 2\n"),
        lambda: (package / "code.py").write_text("a = 3\n"),
        lambda: (package / "é new.py").write_text("b = 1\n"),
        lambda: (package / "é new.py").write_text("b = 2\n"),
        lambda: git(repository, "add", "."),
        lambda: (package / "code.py").unlink(),
    ):
        change()
        assert git_state(package)["dirty"] is True
        assert git_state(package) == git_state(repository)
        states.append(git_state(package)["diff_sha256"])
    assert len(set(states)) == len(states)
    git(repository, "reset", "-q", "--hard")
    (package / "code.py").write_text("a = 2\n")
    assert git_state(package)["diff_sha256"] == states[0]


def test_a_surrounding_git_command_does_not_mislead(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = git_state(repository)
    monkeypatch.setenv("GIT_DIR", "/nowhere/.git")
    assert git_state(repository) == state


def test_outside_of_git_it_is_unknown(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plain").mkdir()
    assert git_state(tmp_path / "plain") == UNKNOWN
    assert git_state(tmp_path / "nowhere") == UNKNOWN
    git(tmp_path / "plain", "init", "-q")
    assert git_state(tmp_path / "plain") == UNKNOWN
    installed = repository / ".venv" / "kvrelay"
    installed.mkdir(parents=True)
    assert git_state(installed) == UNKNOWN
    monkeypatch.setenv("PATH", str(tmp_path / "plain"))
    assert git_state(repository) == UNKNOWN


def test_it_tells_code_packages_machine_and_what_it_was_given() -> None:
    facts = provenance({"seed": 0}, models={"m": {"dtype": "float32"}}, data={"d": {"sha256": "x"}}, judges={"j": 1})
    assert facts["settings"] == {"seed": 0} and facts["models"] == {"m": {"dtype": "float32"}}
    assert facts["data"] == {"d": {"sha256": "x"}} and facts["judges"] == {"j": 1}
    assert facts["python"] == ".".join(map(str, sys.version_info[:3]))
    assert facts["packages"]["pydantic"] == __import__("pydantic").VERSION
    assert set(facts["git"]) == set(UNKNOWN)
    assert facts["created"].endswith("+00:00")
    assert json.loads(json.dumps(facts)) == facts


def test_nothing_private_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.setenv("USER", "adalovelace")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-marker-key")
    monkeypatch.setenv("SLURM_JOB_USER", "adalovelace")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "41")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    settings = {"out": "/home/ada/results", "data": ["file:///home/ada/x.json", "/data/ada"], "home": "/home/ada"}
    facts = provenance(settings)
    assert facts["settings"] == {"out": "~/results", "data": ["file://~/x.json", "/data/ada"], "home": "~"}
    told = json.dumps(facts)
    for secret in ("/home/ada", "adalovelace", "sk-marker-key", f'"{socket.gethostname()}"'):
        assert secret not in told
    assert facts["environment"]["SLURM_ARRAY_TASK_ID"] == "41" and facts["environment"]["HF_HUB_OFFLINE"] == "1"
    assert set(facts["environment"]) <= set(module.ENVIRONMENT)


def test_other_paths_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    settings = {"a": "/scratch/home/ada/x", "b": "/home/adam/x", "c": "/home/ada-old", "n": 3, "none": None}
    assert provenance(settings)["settings"] == settings


def test_a_home_at_the_root_hides_no_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/")
    assert provenance({"data": "/a/b.json"})["settings"] == {"data": "/a/b.json"}


def test_the_machine_and_torch_only_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert hardware()["cores"] >= 1 and hardware()["cpu"]
    monkeypatch.setitem(sys.modules, "torch", None)
    assert set(hardware()) == {"cpu", "cores"}


def test_packages_are_sorted_and_importing_needs_no_torch() -> None:
    assert list(packages()) == sorted(packages())
    code = "import kvrelay.run.provenance, sys; print('torch' in sys.modules)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment())
    assert done.stdout.strip() == "False"
