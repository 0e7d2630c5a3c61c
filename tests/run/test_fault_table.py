"""docs/faults.md: its rows are numbered through, and every test that it names is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def test_every_row_is_whole_and_names_tests_that_exist() -> None:
    rows: dict[str, list[int]] = {}
    for match in re.finditer(r"^\| ([A-Z])(\d+) \|.*$", TEXT, re.MULTILINE):
        rows.setdefault(match[1], []).append(int(match[2]))
        assert NAMED.search(match[0]), f"{match[1]}{match[2]} names no test"
    assert {"S", "X", "J", "L"} <= rows.keys()
    assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in rows.values()), rows
    missing = []
    for file, name in NAMED.findall(TEXT):
        path = ROOT / file
        if not path.is_file() or f"\ndef {name}(" not in path.read_text(encoding="utf-8"):
            missing.append(f"{file}::{name}")
    assert missing == []


def test_every_test_of_faults_and_security_stands_in_the_table() -> None:
    """A fault that is made and not told of is one that nobody can look up."""
    named = {name for _, name in NAMED.findall(TEXT)}
    for file in (
        "run/test_fault_kills.py",
        "run/test_store_faults.py",
        "judges/test_judge_fault_rows.py",
        "judging/test_judging_kills.py",
    ):
        text = (ROOT / "tests" / file).read_text(encoding="utf-8")
        left = set(re.findall(r"^def (test_\w+)\(", text, re.MULTILINE)) - named - UNLISTED
        assert left == set(), file


UNLISTED = {
    "test_kill_at_random_moments_loses_nothing_and_doubles_nothing",  # the first fifteen of S1
    "test_a_full_disk_is_one_clear_error",  # S5 without a file system of its own
    "test_a_fragment_that_could_not_be_taken_back_spoils_itself_alone",  # S7 where even that fails
}
