"""Files of the project that no module imports: pins, names, lengths, what must not stand in them, and the Makefile."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
PIN = re.compile(r"([A-Za-z0-9._-]+)==(\S+)")
LINES_AT_MOST = 350
VAGUE = {"util", "utils", "helper", "helpers", "manager", "managers", "common", "misc"}


@cache
def files() -> tuple[Path, ...]:
    """Everything that is in git or would be added to it."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this is no git checkout")
    return tuple(path for name in listed.split("\0") if name and (path := ROOT / name).is_file())


def pins(lines: list[str]) -> dict[str, str]:
    """Versions by normalised name; every line must be exact."""
    found = {}
    for line in lines:
        match = PIN.fullmatch(line.strip())
        assert match, f"{line!r} is no exact pin"
        found[re.sub(r"[-_.]+", "-", match[1]).lower()] = match[2]
    return found


def lock(name: str = "requirements.lock") -> list[str]:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def project() -> dict[str, object]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_environment_yml_has_the_pins_of_the_lock() -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    python, pip, listed = environment["dependencies"]
    assert (python, pip) == ("python=3.11", "pip")
    assert listed == {"pip": lock()}


def test_pyproject_has_the_pins_of_the_lock() -> None:
    about = project()["project"]
    assert isinstance(about, dict)
    wanted = pins(about["dependencies"]) | pins(about["optional-dependencies"]["dev"])
    locked = pins(lock())
    assert wanted == {name: locked.get(name) for name in wanted}
    assert about["requires-python"] == ">=3.11"
    assert set(pins(lock("requirements-nodeps.lock"))).isdisjoint(locked)


def test_files_beside_the_code_travel_with_the_package() -> None:
    tools = project()["tool"]
    assert isinstance(tools, dict)
    declared = tools["setuptools"]["package-data"]
    folders = {"kvrelay": ROOT / "src" / "kvrelay", "judges": ROOT / "judges", "data_adapters": ROOT / "data_adapters"}
    for package, folder in folders.items():
        beside = [path for path in files() if path.is_relative_to(folder) and path.suffix != ".py"]
        for path in beside:
            name = path.relative_to(folder).as_posix()
            assert any(fnmatch(name, pattern) for pattern in declared.get(package, [])), f"{path} is not packaged"


def test_every_folder_of_code_is_a_package() -> None:
    for top in ("src/kvrelay", "data_adapters", "judges"):
        folders = {path.parent for path in files() if path.suffix == ".py" and path.is_relative_to(ROOT / top)}
        assert [folder for folder in sorted(folders) if not (folder / "__init__.py").is_file()] == []


def test_python_files_are_short_and_named_for_what_they_hold() -> None:
    code = [path for path in files() if path.suffix == ".py"]
    assert [path.name for path in code if path.stem in VAGUE] == []
    lengths = {path.relative_to(ROOT).as_posix(): path.read_bytes().count(b"\n") for path in code}
    assert {name: length for name, length in lengths.items() if length > LINES_AT_MOST} == {}


def test_test_modules_have_names_of_their_own() -> None:
    names = [path.name for path in files() if path.is_relative_to(ROOT / "tests") and path.name.startswith("test_")]
    assert sorted(names) == sorted(set(names))


# Put together from parts, so that this file does not hold what it looks for.
FORBIDDEN = {
    "a path of one machine": r"(?<![\w.~-])/(?:work|tmp|root|home|Users)/" + r"(?!ada)\w",
    "a registry": "|".join(
        rf"{re.escape(host)}\.org"
        for host in ("pypi", "files.pythonhosted", "registry.npmjs", "deb.debian", "download.pytorch")
    ),
    "an index of packages": "--(?:extra-)?" + "index-url",
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_names_a_machine_or_a_registry(what: str) -> None:
    pattern = re.compile(FORBIDDEN[what])
    found = []
    for path in files():
        text = path.read_bytes().decode("utf-8", "replace")
        found += [f"{path.relative_to(ROOT)}: {line.strip()[:90]}" for line in text.split("\n") if pattern.search(line)]
    assert found == []


def test_the_forbidden_is_recognised() -> None:
    for what, text in {
        "a path of one machine": "in " + "/work" + "/main/x",
        "a registry": "https://" + "pypi" + ".org/simple",
        "an index of packages": "--extra-" + "index-url x",
    }.items():
        assert re.search(FORBIDDEN[what], text)


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    if shutil.which("make") is None:
        pytest.skip("there is no make here")
    # Without what a make around the tests hands down: its own variables would win over those given here.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(["make", *arguments], capture_output=True, text=True, cwd=ROOT, env=environment)


def test_make_lists_every_target_and_does_so_by_default() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][a-z0-9-]*):", text, re.MULTILINE))
    listed = make().stdout
    assert make("help").stdout == listed
    assert {line.split()[0] for line in listed.splitlines()[1:]} == targets
    assert {"env", "test", "check", "smoke", "reproduce-table1", "clean"} <= targets


def test_make_hands_its_variables_to_the_run() -> None:
    done = make("reproduce-table1", "PY=echo", "DATA=a b.json", "LIMIT=3", "OUT=o", "ARGS=seed=1 x=[a,b]")
    command = 'scripts/run.py experiment=table1 profile=laptop out="o" data="a b.json" limit=3 seed=1 x=[a,b]'
    assert done.stdout == f"{command}\n"
    assert make("reproduce-table1", "PY=echo", "PROFILE=paper").stdout == (
        'scripts/run.py experiment=table1 profile=paper out="outputs"\n'
    )


def test_make_takes_judges_for_table_12() -> None:
    command = 'scripts/run.py experiment=table12 profile=laptop_table12 out="outputs"'
    assert make("reproduce-table12", "PY=echo").stdout == f"{command}\n"
    assert make("reproduce-table12", "PY=echo", "JUDGES=a,b", "LIMIT=3").stdout == f"{command} limit=3 judge=[a,b]\n"


@pytest.mark.parametrize("target", ["reproduce-table1", "smoke", "test", "check", "bench-grid"])
def test_make_fails_where_its_command_fails(target: str) -> None:
    done = make(target, "PY=false")
    assert done.returncode != 0 and done.stdout == ""


def test_make_tells_of_a_python_that_is_too_old(tmp_path: Path) -> None:
    old = tmp_path / "python"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    done = make("env", f"VENV={tmp_path}/venv", f"PYTHON={old}")
    assert done.returncode != 0 and "older than Python 3.11" in done.stderr
    none = make("env", f"VENV={tmp_path}/venv", "PYTHON=")
    assert none.returncode != 0 and "needs Python 3.11" in none.stderr
    assert not (tmp_path / "venv").exists()
