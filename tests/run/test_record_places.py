"""On which line a record stands: the one that counts, in the first shard that holds it, whatever else stands there."""

from __future__ import annotations

from pathlib import Path

from kvrelay.run.lines import encode
from kvrelay.run.places import record_places, verdict_places
from kvrelay.run.record import ErrorInfo
from kvrelay.run.store import read_records, read_verdicts, write_atomic
from tests.stats.golden_study import study_files

SMALL = {("talks", "bm25", "original"): "01", ("talks", "bm25", "roperelay"): "11"}


def shard(folder: Path, name: str, *lines: bytes) -> None:
    write_atomic(folder / name, b"".join(lines))


def test_the_record_that_counts_is_found_past_what_does_not(tmp_path: Path) -> None:
    """Shard b: a failed try, a damaged line, the answer; shard c: the same answer again, after a torn line."""
    one, two, *_ = study_files(SMALL).records.values()
    failed = one.model_copy(update={"status": "error", "error": ErrorInfo(kind="X", message="no"), "answer": None})
    damaged = encode(two).replace(b"an answer", b"an Answer")
    shard(tmp_path, "records/b.jsonl", encode(failed), damaged, encode(one))
    shard(tmp_path, "records/c.jsonl", encode(one), encode(two), b'{"crc":"')
    found = read_records(tmp_path)
    assert found == {key: record for key, record in sorted({one.key: one, two.key: two}.items())}
    assert record_places(tmp_path, found) == {one.key: "records/b.jsonl:3", two.key: "records/c.jsonl:2"}


def test_glued_lines_are_one_line(tmp_path: Path) -> None:
    one, two, *_ = study_files(SMALL).records.values()
    shard(tmp_path, "records/w.jsonl", encode(one).rstrip(b"\n") + encode(two))
    places = record_places(tmp_path, {one.key: one, two.key: two})
    assert places == {one.key: "records/w.jsonl:1", two.key: "records/w.jsonl:1"}


def test_verdicts_are_found_by_their_items(tmp_path: Path) -> None:
    verdicts = list(study_files(SMALL).verdicts.values())
    shard(tmp_path, "verdicts/j.w.jsonl", *map(encode, verdicts))
    wanted = read_verdicts(tmp_path)
    assert verdict_places(tmp_path, wanted) == {
        verdict.item_key: f"verdicts/j.w.jsonl:{number}" for number, verdict in enumerate(verdicts, start=1)
    }


def test_only_what_is_wanted_is_found(tmp_path: Path) -> None:
    one, two, *_ = study_files(SMALL).records.values()
    shard(tmp_path, "records/w.jsonl", encode(one), encode(two))
    assert record_places(tmp_path, {two.key: two}) == {two.key: "records/w.jsonl:2"}
    other = two.model_copy(update={"answer": "another"})
    assert record_places(tmp_path, {two.key: other}) == {}
    assert record_places(tmp_path / "nowhere", {two.key: two}) == {}
