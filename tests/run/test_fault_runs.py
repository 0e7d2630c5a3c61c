"""Damage, clocks, merges and rivals, on the whole path: the same command makes good what is wrong and nothing else."""

from __future__ import annotations

import ast
import json
import zlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from compose import compose_run
from plain_config import ROOT, group, plain_config

from kvrelay.core.errors import AssetError
from kvrelay.run import store
from kvrelay.run.compact import compact
from kvrelay.run.store import read_manifest, read_plans, read_records, read_verdicts, record_appender


def few(tmp_path: Path, **changes: Any) -> dict[str, Any]:
    return plain_config(tmp_path, **{"selector": group("selector", "bm25", "snapkv"), **changes})


def lines_of(folder: Path) -> list[bytes]:
    return [line for shard in sorted(folder.glob("*.jsonl")) for line in shard.read_bytes().split(b"\n") if line]


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    assert compose_run(few(tmp_path)) == 0
    return tmp_path / "out" / "plain"


@pytest.mark.parametrize("part", ["records", "verdicts"])
def test_a_damaged_line_is_named_set_aside_and_redone_by_the_same_command(
    part: str, finished: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    (shard,) = (finished / part).glob("*.jsonl")
    kept = {**read_records(finished), **read_verdicts(finished)}
    table = (finished / "report" / "table1.md").read_bytes()
    lines = shard.read_bytes().split(b"\n")
    spoilt = lines[2].replace(b":", b";", 3)
    shard.write_bytes(b"\n".join([*lines[:2], spoilt, *lines[3:]]))
    before = shard.read_bytes()
    assert compose_run(few(tmp_path)) == 0
    assert f"{shard}:3 is damaged and set aside" in caplog.text
    assert shard.read_bytes() == before
    (aside,) = (finished / "quarantine").iterdir()
    assert aside.read_bytes() == spoilt + b"\n" and aside.name.startswith(f"{part}.{shard.name}.line3.")
    after = {**read_records(finished), **read_verdicts(finished)}
    assert after.keys() == kept.keys()
    changed = [key for key in kept if after[key] != kept[key]]
    assert len(lines_of(finished / part)) == len(lines) - 1 + 1 and len(changed) <= 1
    assert "INCOMPLETE" not in capsys.readouterr().out
    now = (finished / "report" / "table1.md").read_bytes()
    assert now.split(b"Inputs")[0] == table.split(b"Inputs")[0]


def test_a_damaged_manifest_is_named_and_written_anew_by_the_same_command(
    finished: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = read_manifest(finished)
    assert whole is not None
    for path in (finished / "manifest.json", finished / "runs" / f"{whole.run_id}.manifest.json"):
        path.write_bytes(path.read_bytes()[:40])
    assert read_manifest(finished) is None and "manifest.json is damaged and counts as missing" in caplog.text
    assert compose_run(few(tmp_path)) == 0
    again = read_manifest(finished)
    assert again is not None and (again.done, again.expected, again.failed) == (whole.done, whole.expected, [])
    assert read_manifest(finished, whole.run_id) == again
    assert len(lines_of(finished / "records")) == 20


def test_a_damaged_plan_blocks_the_report_and_is_written_anew_by_its_own_command(
    finished: Path, tmp_path: Path
) -> None:
    (plan,) = read_plans(finished)
    (finished / "runs" / f"{plan.run_id}.json").write_text("{")
    with pytest.raises(AssetError, match=rf"{plan.run_id}\.json is damaged: .*give its command again"):
        compose_run(few(tmp_path, stages=["report"]))
    assert compose_run(few(tmp_path)) == 0
    assert read_plans(finished)[0].cells == plan.cells


def test_records_of_a_newer_schema_are_refused_before_a_model_is_loaded(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvrelay.run.experiment.load_model", lambda *_: pytest.fail("a model was loaded"))
    (shard,) = (finished / "records").glob("*.jsonl")
    first, *others = shard.read_bytes().split(b"\n")
    value = json.loads(first)["record"] | {"schema_version": 2, "surplus": 1}
    body = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()
    shard.write_bytes(b"\n".join([b'{"crc":"%08x","record":%s}' % (zlib.crc32(body), body), *others]))
    before = shard.read_bytes()
    with pytest.raises(
        AssetError, match=r"jsonl:1 was written by a newer kvrelay \(schema 2; this one reads up to 1\)"
    ):
        compose_run(few(tmp_path))
    assert shard.read_bytes() == before


def test_a_merged_run_is_complete_for_the_same_command_and_gives_the_same_tables(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = {path: path.read_bytes() for path in (finished / "report").glob("*.csv")}
    kept = read_records(finished)
    compact(finished, prune=True)
    assert lines_of(finished / "records") == lines_of(finished / "verdicts") == []
    assert compose_run(few(tmp_path)) == 0
    assert "20 answers planned, 20 there already" in capsys.readouterr().err
    assert read_records(finished) == kept and lines_of(finished / "records") == []
    assert {path: path.read_bytes() for path in (finished / "report").glob("*.csv")} == tables and tables
    sources = json.loads((finished / "report" / "sources.json").read_text())
    assert {"answers.parquet", "verdicts.parquet"} <= sources.keys()


def test_an_answer_that_came_out_differently_is_stamped_on_every_table(finished: Path, tmp_path: Path) -> None:
    record = next(one for one in read_records(finished).values() if one.status == "ok")
    with record_appender(finished) as shard:
        shard.append(record.model_copy(update={"answer": "zz another"}))
    assert compose_run(few(tmp_path, stages=["judge", "report"])) == 0
    words = "NOT DETERMINISTIC: 1 answer(s) given twice with different outcomes, of which one counts"
    for name in ("table1.md", "table1.tex"):
        assert words in (finished / "report" / name).read_text(encoding="utf-8").replace(r"\_", "_")
    assert words in (finished / "report" / "summary.json").read_text(encoding="utf-8")


class Clock(datetime):
    """A clock that a test sets."""

    shown = datetime(2030, 1, 1, tzinfo=UTC)

    @classmethod
    def now(cls, tz: Any = None) -> datetime:
        return cls.shown


def test_a_clock_that_jumps_back_brings_no_older_settings_into_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three settings of one cell, at 2030, 2020 and 2040: the one that was run last counts, every time."""
    monkeypatch.setattr(store, "datetime", Clock)
    folder = tmp_path / "out" / "plain"
    for year, window in ((2030, 4), (2020, 5), (2040, 6), (2010, 7)):
        Clock.shown = datetime(year, 1, 1, tzinfo=UTC)
        changed = group("selector", "bm25", "snapkv")
        changed["snapkv"]["window"] = window
        assert compose_run(few(tmp_path, selector=changed)) == 0
        newest = read_plans(folder)[-1]
        assert newest.settings["selector"]["snapkv"]["window"] == window
        summary = json.loads((folder / "report" / "summary.json").read_text())
        found = {cell["selector"]: cell["n"] for cell in summary["cells"]}
        assert found == {"bm25": 4, "snapkv": 4} and not summary["failed"]


def test_nothing_else_asks_what_time_it_is() -> None:
    """Durations are read from clocks that nobody can set; the time of day in few places."""
    asked = set()
    for top in ("src/kvrelay", "judges", "data_adapters", "scripts"):
        for path in (ROOT / top).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and ast.unparse(node.func) in (
                    *("time.time", "time.time_ns", "datetime.now", "datetime.utcnow", "datetime.today", "date.today"),
                    *("datetime.datetime.now", "time.localtime", "time.gmtime", "time.ctime", "time.strftime"),
                ):
                    asked.add(path.relative_to(ROOT).as_posix())
    assert "src/kvrelay/run/store.py" in asked
    assert asked <= WRITTEN | COMPARED.keys()


WRITTEN = {
    "src/kvrelay/run/provenance.py",
    "src/kvrelay/judging/audit.py",
    "src/kvrelay/judging/local.py",
    "scripts/jobs.py",
}
"""Where the time of day is written down; of what a judge was written at, `in_order` makes the order."""
COMPARED = {
    "src/kvrelay/run/store.py": "only with what the same folder holds, and never to go back",
    "judges/failures.py": "a server's date for the next try, bounded by the longest wait",
    "scripts/sweeps.py": "a guess at who is at work, shown and never acted upon",
}
