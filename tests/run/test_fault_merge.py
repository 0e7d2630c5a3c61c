"""Shards merged into Parquet: the same records, the same bytes, whatever the order and wherever the process dies."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import merge as merge_script
import pyarrow.parquet as pq
import pytest
from stored_records import ROOT, environment, fill, keys_in, record

from kvrelay.core.errors import AssetError, ConfigError
from kvrelay.run import merged
from kvrelay.run.compact import compact
from kvrelay.run.lines import encode
from kvrelay.run.record import ErrorInfo, Verdict
from kvrelay.run.store import (
    claim_folder,
    disagreements,
    read_records,
    read_verdicts,
    record_appender,
    shard_digests,
    verdict_appender,
)

FAILED: dict[str, Any] = {"status": "error", "error": ErrorInfo(kind="K", message="m")}


def pool(rng: random.Random) -> list[Any]:
    """Records that repeat, fail, differ and hold what text can hold."""
    odd = ["plain", "a\u2028b\r\n\x00", "\ud83d alone", "\ud83d\ude00", "=cmd|' /C calc'!A0", "<b>|`_$\\", "é漢🙂" * 50]
    made = [record(f"k{n % 9}", answer=rng.choice(odd), worker=str(n), notes={"n": n}) for n in range(30)]
    made += [record(f"k{n % 12}", worker=f"e{n}", **FAILED) for n in range(15)]
    return [*made, record("k0", reference_nll=0.1 + 0.2, slots_LH=[[1, 2], [3, 4]], choices={"a": "x"})]


def spread(folder: Path, records: list[Any], rng: random.Random) -> None:
    """The records in four shards of other names each time."""
    cuts = sorted(rng.sample(range(len(records) + 1), 3))
    for number, (start, end) in enumerate(zip([0, *cuts], [*cuts, len(records)], strict=True)):
        fill(folder, *records[start:end], worker=f"w{rng.random()}-{number}")


def judge(folder: Path, *verdicts: tuple[str, bool | None], worker: str = "j") -> None:
    with verdict_appender(folder, "j", worker=worker) as shard:
        for key, correct in verdicts:
            shard.append(
                Verdict(judge_id="j", item_key=key, correct=correct, reason="" if correct is not None else "empty")
            )


def content(folder: Path) -> Any:
    """All that a reader gets, in bytes."""
    found = (read_records(folder), read_verdicts(folder))
    lines = [{key: encode(one) for key, one in part.items()} for part in found]
    return lines, disagreements(folder)


def test_a_merged_folder_gives_the_same_records_whatever_the_order_of_shards(tmp_path: Path) -> None:
    rng, contents = random.Random(5), set()
    records = pool(rng)
    for trial in range(8):
        folder = tmp_path / str(trial)
        rng.shuffle(records)
        spread(folder, records, rng)
        judge(folder, ("i1", True), ("i2", None))
        judge(folder, ("i2", False), worker="k")
        before = content(folder)
        done = compact(folder, prune=trial % 2 == 1)
        assert content(folder) == before
        assert bool(list(folder.glob("*/*.jsonl"))) == (trial % 2 == 0)
        contents.add(tuple(one.content_sha256 for one in done))
        bodies = list(merged.read_bodies(folder / "answers.parquet"))
        contents.add(merged.content_of(bodies))
        assert done[0].rows == len(bodies) == len(set(bodies)) == 46 and done[0].keys == 12
    assert len(contents) == 2


def test_merging_again_changes_no_byte_and_new_shards_are_added(tmp_path: Path) -> None:
    rng = random.Random(6)
    spread(tmp_path, pool(rng), rng)
    compact(tmp_path)
    first = (tmp_path / "answers.parquet").read_bytes()
    shards = {path: path.read_bytes() for path in (tmp_path / "records").iterdir()}
    compact(tmp_path)
    assert (tmp_path / "answers.parquet").read_bytes() == first
    assert {path: path.read_bytes() for path in (tmp_path / "records").iterdir()} == shards
    compact(tmp_path, prune=True)
    assert (tmp_path / "answers.parquet").read_bytes() == first and not list((tmp_path / "records").iterdir())
    compact(tmp_path)
    assert (tmp_path / "answers.parquet").read_bytes() == first
    fill(tmp_path, record("new"), worker="later")
    assert len(read_records(tmp_path)) == 13
    compact(tmp_path, prune=True)
    assert len(read_records(tmp_path)) == 13 and "new" in read_records(tmp_path)


def test_the_file_has_columns_to_look_at_and_says_what_it_was_made_of(tmp_path: Path) -> None:
    shard = fill(tmp_path, record("a", answer="\ud83d yes"), record("b", **FAILED))
    judge(tmp_path, ("i", True))
    told = compact(tmp_path)
    table = pq.read_table(tmp_path / "answers.parquet")
    assert table["key"].to_pylist() == ["a", "b"] and table["answer"].to_pylist() == ["\\ud83d yes", None]
    assert table["cell_selector"].to_pylist() == ["s", "s"] and table["error"].to_pylist() == [None, "K: m"]
    assert pq.read_table(tmp_path / "verdicts.parquet")["correct"].to_pylist() == ["true"]
    said = json.loads(table.schema.metadata[b"kvrelay"])
    assert said["rows"] == 2 and said["schema_version"] == 1 and said["content_sha256"] == told[0].content_sha256
    digest = shard_digests(tmp_path)["records/w.jsonl"]
    assert said["sources"] == {"w.jsonl": {"bytes": shard.stat().st_size, "sha256": digest}}
    assert {"answers.parquet", "verdicts.parquet"} <= set(shard_digests(tmp_path))


def test_shards_that_hold_damage_stay_and_so_does_one_that_grew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    spoilt = fill(tmp_path, record("a"), record("b"), worker="spoilt")
    spoilt.write_bytes(spoilt.read_bytes().replace(b'"b"', b'"x"', 1))
    torn = fill(tmp_path, record("c"), record("d"), worker="torn")
    torn.write_bytes(torn.read_bytes()[:-5])
    growing = fill(tmp_path, record("e"), worker="growing")
    real = merged.write_merged

    def while_written(*given: Any) -> Any:
        fill(tmp_path, record("f"), worker="growing")
        return real(*given)

    monkeypatch.setattr("kvrelay.run.compact.write_merged", while_written)
    done = compact(tmp_path, prune=True)
    assert done[0].pruned == 0 and spoilt.exists() and torn.exists() and not growing.exists()
    assert set(read_records(tmp_path)) >= {"c", "e", "f"}
    for words in ("line 2", "a last line that is not whole", "grew while it was merged"):
        assert words in caplog.text


def test_a_writer_that_is_alive_goes_on_while_its_shard_is_merged_away(tmp_path: Path) -> None:
    with record_appender(tmp_path, worker="w") as shard:
        shard.append(record("a"))
        assert compact(tmp_path, prune=True)[0].pruned == 1 and not shard.path.exists()
        shard.append(record("b"))
    assert keys_in(shard.path) == ["b"] and list(read_records(tmp_path)) == ["a", "b"]


KILLED = """
import os, signal, sys
from pathlib import Path
from kvrelay.run.compact import compact
from kvrelay.run.lines import encode
folder, where = Path(sys.argv[1]), sys.argv[2]
real = {name: getattr(Path, name) for name in ("replace", "rename", "unlink")}
def dying(name):
    def call(path, *given, **named):
        before = where == f"before {name}"
        result = None if before else real[name](path, *given, **named)
        if before or where == f"after {name}":
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    return call
for name in real:
    setattr(Path, name, dying(name))
compact(folder, prune=True)
"""


@pytest.mark.parametrize(
    "where", [f"{when} {what}" for what in ("replace", "rename", "unlink") for when in ("before", "after")]
)
def test_a_kill_at_any_step_of_a_merge_loses_nothing(where: str, tmp_path: Path) -> None:
    rng = random.Random(9)
    spread(tmp_path, pool(rng), rng)
    before = content(tmp_path)
    command = [sys.executable, "-c", KILLED, str(tmp_path), where]
    assert subprocess.run(command, env=environment(), cwd=ROOT).returncode == -signal.SIGKILL
    assert (tmp_path / "answers.parquet").exists() == (where != "before replace")
    assert content(tmp_path) == before
    compact(tmp_path, prune=True)
    assert content(tmp_path) == before and not list((tmp_path / "records").glob("*.jsonl"))


def _inside_the_records(file: Path) -> int:
    group = pq.read_metadata(file).row_group(0)
    return int(group.column(group.num_columns - 1).data_page_offset) + 60


@pytest.mark.parametrize("fault", ["flipped", "cut", "empty", "foreign"])
def test_a_damaged_merged_file_is_named_and_the_shards_still_make_it(fault: str, tmp_path: Path) -> None:
    rng = random.Random(3)
    spread(tmp_path, pool(rng), rng)
    before = content(tmp_path)
    compact(tmp_path)
    file = tmp_path / "answers.parquet"
    data = bytearray(file.read_bytes())
    data[_inside_the_records(file)] ^= 1
    file.write_bytes({"flipped": bytes(data), "cut": bytes(data)[:-9], "empty": b"", "foreign": b"PAR1 no PAR1"}[fault])
    with pytest.raises(AssetError, match=r"answers\.parquet is damaged: .*delete it"):
        read_records(tmp_path)
    with pytest.raises(AssetError, match=r"answers\.parquet is damaged"):
        compact(tmp_path, prune=True)
    file.unlink()
    compact(tmp_path)
    assert content(tmp_path) == before


def test_every_flipped_bit_is_found_or_changes_no_record(tmp_path: Path) -> None:
    fill(tmp_path, *(record(f"k{n}", answer=f"said {n}") for n in range(3)))
    compact(tmp_path, prune=True)
    file = tmp_path / "answers.parquet"
    whole, wanted = file.read_bytes(), read_records(tmp_path)
    rng, found = random.Random(1), 0
    for place in sorted(rng.sample(range(len(whole)), 150)):
        spoilt = bytearray(whole)
        spoilt[place] ^= 1 << rng.randrange(8)
        file.write_bytes(spoilt)
        try:
            assert read_records(tmp_path) == wanted
        except AssetError as error:
            assert "answers.parquet is damaged" in str(error)
            found += 1
    assert found > 0


def test_a_merged_file_of_a_newer_schema_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, record("a"))
    with monkeypatch.context() as newer:
        newer.setattr(merged, "SCHEMA_VERSION", 2)
        compact(tmp_path)
    with pytest.raises(AssetError, match="written by a newer kvrelay"):
        compact(tmp_path)


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, record("a"))
    compact(tmp_path)
    before = (tmp_path / "answers.parquet").read_bytes()
    fill(tmp_path, record("b"), worker="v")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", full)
        with pytest.raises(AssetError, match=r"answers\.parquet: the disk is full"):
            compact(tmp_path, prune=True)
    assert (tmp_path / "answers.parquet").read_bytes() == before and len(read_records(tmp_path)) == 2
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_second_merge_beside_the_first_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, record("a"))
    real, other = merged.read_rows, tmp_path / "other"
    fill(other, record("z"))
    compact(other)

    def meanwhile(*given: Any) -> Any:
        yield from real(*given)
        shutil.copy(other / "answers.parquet", tmp_path / "answers.parquet")

    monkeypatch.setattr("kvrelay.run.compact.read_rows", meanwhile)
    with pytest.raises(AssetError, match="replaced by another process"):
        compact(tmp_path, prune=True)
    monkeypatch.undo()
    assert list(read_records(tmp_path)) == ["a", "z"]


def test_answers_and_verdicts_that_differ_under_one_key_are_named(tmp_path: Path) -> None:
    fill(tmp_path, record("a", answer="x"), record("b", answer="x"), record("c", **FAILED))
    fill(
        tmp_path, record("a", answer="y"), record("b", answer="x", notes={"n": 1}), record("c", answer="z"), worker="v"
    )
    judge(tmp_path, ("i", True), ("j", True), ("k", None))
    judge(tmp_path, ("i", False), ("j", True), ("k", True), worker="l")
    for _ in range(2):
        found = [(one.part, one.key, one.outcomes) for one in disagreements(tmp_path)]
        assert found == [("records", "a", ("x", "y")), ("verdicts", "i", ("False", "True"))]
        compact(tmp_path, prune=True)


def test_the_command_merges_says_so_and_asks_for_an_experiment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = {"out": str(tmp_path), "name": "e", "prune": True}
    with pytest.raises(AssetError, match=r"holds no experiment.*keys: out, name"):
        merge_script.run_merge(asked)
    claim_folder(tmp_path / "e", "e")
    assert merge_script.run_merge(asked) == [] and "nothing to merge" in capsys.readouterr().out
    fill(tmp_path / "e", record("a"), record("a"))
    merge_script.run_merge(asked)
    assert "answers.parquet: 1 records of 1 keys, 1 shards read, 1 of them removed; content " in capsys.readouterr().out
    with pytest.raises(ConfigError, match="key: prune"):
        merge_script.run_merge({**asked, "prune": "yes"})
