"""``scripts/sheet.py``: a sheet written, its labels taken in, corrected sheets, and what is said of wrong calls."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from sheet import run_sheet

from kvrelay.core.errors import AssetError, ConfigError
from kvrelay.judging import local
from kvrelay.run.lines import encode
from kvrelay.run.record import Verdict
from kvrelay.run.store import read_judges, read_verdicts, write_atomic, write_plan
from kvrelay.stats.frame import tidy
from tests.judging.test_human_sheet import as_file, labelled, rows_of, study
from tests.stats.golden_study import Files

ROOT = Path(__file__).resolve().parents[2]


def on_disk(files: Files, folder: Path) -> Path:
    for plan in files.plans:
        write_plan(folder, plan)
    write_atomic(folder / "records" / "w.jsonl", b"".join(map(encode, files.records.values())))
    return folder


def test_the_command_exports_and_imports(tmp_path: Path) -> None:
    files = study()
    folder, file = on_disk(files, tmp_path / "run"), tmp_path / "labels.csv"
    plain = {"run": str(folder), "sheet": str(file)}
    assert run_sheet({**plain, "mode": "export", "n": 10}) == f"10 of 24 distinct answers: {file}"
    with pytest.raises(ConfigError, match="the file is there"):
        run_sheet({**plain, "mode": "export"})
    rows = [
        {**row, "correct": "01"[place % 2] if place < 6 else ""} for place, row in enumerate(rows_of(file.read_bytes()))
    ]
    file.write_bytes(as_file(rows))
    for _ in range(2):  # the second time adds nothing
        assert run_sheet({**plain, "mode": "import"}).endswith(": 6 labels, 3 right, 3 wrong")
    (facts,) = read_judges(folder)
    found = read_verdicts(folder)
    assert facts.name == "human" and len(found) == 6
    assert sum(path.read_bytes().count(b"\n") for path in (folder / "verdicts").glob("*.jsonl")) == 6
    table = tidy(files.plans, files.records, found, [facts], judge=facts.id).table
    assert table["status"].value_counts().to_dict() == {"unjudged": 18, "scored": 6}
    assert int(table["correct"].sum()) == 3


def test_a_corrected_sheet_replaces_the_first(tmp_path: Path) -> None:
    files = study()
    folder, file = on_disk(files, tmp_path / "run"), tmp_path / "labels.csv"
    plain = {"run": str(folder), "sheet": str(file), "mode": "import", "labeller": "anna"}
    for said in ("1", "0"):
        file.write_bytes(labelled(files, lambda _, said=said: said))  # type: ignore[misc]
        run_sheet(plain)
    found: dict[str, Verdict] = read_verdicts(folder)
    table = tidy(files.plans, files.records, found, read_judges(folder)).table
    assert len(found) == 48 and int(table["correct"].sum()) == 0


def test_a_corrected_sheet_counts_though_the_clock_was_turned_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = study()
    folder, file = on_disk(files, tmp_path / "run"), tmp_path / "labels.csv"
    for said, year in (("1", 2030), ("0", 2026)):

        class Clock(datetime):
            @classmethod
            def now(cls, tz: Any = None, year: int = year) -> datetime:  # type: ignore[override]
                return datetime(year, 1, 1, tzinfo=tz)

        monkeypatch.setattr(local, "datetime", Clock)
        file.write_bytes(labelled(files, lambda _, said=said: said))  # type: ignore[misc]
        run_sheet({"run": str(folder), "sheet": str(file), "mode": "import", "labeller": "anna"})
    first, second = read_judges(folder)
    assert (first.created[:4], second.created) == ("2030", "2030-01-01T00:00:00.000001+00:00")
    table = tidy(files.plans, files.records, read_verdicts(folder), read_judges(folder)).table
    assert int(table["correct"].sum()) == 0


@pytest.mark.parametrize("mode", ["export", "import"])
def test_a_folder_without_a_run_is_told(tmp_path: Path, mode: str) -> None:
    with pytest.raises(AssetError, match="it holds no run"):
        run_sheet({"mode": mode, "run": str(tmp_path), "sheet": str(tmp_path / "x.csv")})
    with pytest.raises(AssetError, match="there is no such file"):
        run_sheet({"mode": "import", "run": str(on_disk(study(), tmp_path)), "sheet": str(tmp_path / "x.csv")})
    with pytest.raises(ConfigError, match="mode"):
        run_sheet({"mode": "both", "run": str(tmp_path), "sheet": "x"})


def test_the_command_line(tmp_path: Path) -> None:
    files = study()
    folder, file = on_disk(files, tmp_path / "run"), tmp_path / "labels.csv"

    def call(*arguments: str) -> tuple[int, str]:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
        environment.pop("HYDRA_FULL_ERROR", None)
        command = [sys.executable, str(ROOT / "scripts" / "sheet.py"), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=240)
        return done.returncode, done.stdout + done.stderr

    where = (f"run='{folder}'", f"sheet='{file}'")
    assert call("export", *where, "n=5") == (0, f"5 of 24 distinct answers: {file}\n")
    status, said = call("import", *where)
    assert status == 3 and "DataError: the sheet has no label" in said and "Traceback" not in said
    status, said = call("export", where[1])
    assert status == 2 and "run" in said and "Traceback" not in said
