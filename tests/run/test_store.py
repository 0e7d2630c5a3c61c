"""The store: what was acknowledged is still there, what is damaged is named and redone, and nothing counts twice."""

from __future__ import annotations

import json
import os
import random
import zlib
from pathlib import Path
from typing import Any

import pytest
from stored_records import fill, keys_in, record

from kvrelay.core.errors import AssetError, InvariantError
from kvrelay.run.quarantine import place_of
from kvrelay.run.record import ErrorInfo, Verdict
from kvrelay.run.store import read_records, read_verdicts, record_appender, verdict_appender


def verdict(item_key: str, correct: bool | None, **fields: Any) -> Verdict:
    return Verdict(judge_id="j", item_key=item_key, correct=correct, **fields)


def spoil(path: Path, number: int, line: bytes) -> None:
    lines = path.read_bytes().split(b"\n")
    lines[number] = line
    path.write_bytes(b"\n".join(lines))


def test_records_come_back_as_they_were(tmp_path: Path) -> None:
    odd = record(
        "odd",
        question="line\u2028and\u2029and\x85and\r\nand\x0b\x0cand\x00 é 漢 🙂",
        answer="\ud83d alone, and \ud83d\ude00 in halves",
        reference_nll=0.1 + 0.2,
        slots_LH=[[1, 2], [3, 4]],
        choices={"a": "x"},
        notes={"rate": 1e-300, "deep": [{"n": None}]},
    )
    path = fill(tmp_path, odd, record("plain"))
    assert path.read_bytes().count(b"\n") == 2
    path.read_bytes().decode("utf-8")
    found = read_records(tmp_path)
    assert list(found) == ["odd", "plain"]
    assert found["plain"] == record("plain")
    assert found["odd"] == odd.model_copy(update={"answer": "\ud83d alone, and 😀 in halves"})


def test_a_line_carries_the_crc32_of_its_canonical_json(tmp_path: Path) -> None:
    wrapped = json.loads(fill(tmp_path, record("é")).read_bytes())
    body = json.dumps(wrapped["record"], sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    assert wrapped["crc"] == f"{zlib.crc32(body.encode()):08x}"
    assert wrapped["record"]["key"] == "é" and wrapped["record"]["schema_version"] == 1


def test_an_empty_shard_leaves_no_file_and_a_0_byte_shard_is_no_fault(tmp_path: Path) -> None:
    assert not fill(tmp_path).exists()
    (tmp_path / "records" / "other.jsonl").touch()
    assert read_records(tmp_path) == {}
    assert read_records(tmp_path / "nowhere") == {}


def test_every_process_gets_a_name_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ARRAY_JOB_ID", "ARRAY_TASK_ID", "JOB_ID", "PROCID"):
        monkeypatch.delenv(f"SLURM_{name}", raising=False)
    one, two = record_appender(tmp_path), record_appender(tmp_path)
    assert one.path != two.path and f"-{os.getpid()}-" in one.worker
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    assert record_appender(tmp_path).worker.startswith("77-")
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "70")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "5")
    assert record_appender(tmp_path).worker.startswith("70_5-")
    shard = verdict_appender(tmp_path, "gpt/oss: 20b#../x", worker="w")
    assert shard.path == tmp_path / "verdicts" / "gpt-oss-20b-..-x.w.jsonl"


def test_a_torn_tail_is_passed_over_and_cut_off(tmp_path: Path) -> None:
    path = fill(tmp_path, record("a"), record("b"))
    whole = path.read_bytes()
    second = whole.index(b"\n") + 1
    for size in [*range(second, len(whole) - 1, 37), len(whole) - 1]:
        path.write_bytes(whole[:size])
        assert list(read_records(tmp_path)) == ["a"]
        fill(tmp_path, record("c"))
        assert keys_in(path) == ["a", "c"]
        fragment = whole[second:size]
        assert not fragment or place_of(path, "torn", fragment).read_bytes() == fragment
    path.write_bytes(whole[: second - 1])
    assert read_records(tmp_path) == {}
    fill(tmp_path, record("c"))
    assert keys_in(path) == ["c"]


def test_a_torn_tail_longer_than_a_block_is_cut_off(tmp_path: Path) -> None:
    path = fill(tmp_path, record("a"), record("b", answer="x" * 300_000))
    path.write_bytes(path.read_bytes()[:-1])
    fill(tmp_path, record("c"))
    assert keys_in(path) == ["a", "c"]


def damaged_lines() -> dict[str, Any]:
    def flipped(line: bytes) -> bytes:
        return line.replace(b'"question":"q"', b'"question":"z"')

    return {
        "torn": lambda line: line[: len(line) // 2],
        "flipped": flipped,
        "glued to its own fragment": lambda line: line[:40] + flipped(line),
        "no crc": lambda line: line.replace(b'"crc"', b'"sum"'),
        "bare": lambda line: b"[1, 2]",
        "binary": lambda line: b"\x00\xff\xfe\x00",
        "deep": lambda line: b"[" * 100_000,
        "nan": lambda line: line.replace(b'"n_history":0', b'"n_history":NaN'),
    }


@pytest.mark.parametrize("fault", damaged_lines())
def test_a_damaged_line_in_the_middle_is_named_and_spoils_nothing_else(
    fault: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = fill(tmp_path, record("a"), record("b"), record("c"))
    before = path.read_bytes().split(b"\n")[1]
    after = damaged_lines()[fault](before)
    assert after != before
    spoil(path, 1, after)
    assert list(read_records(tmp_path)) == ["a", "c"]
    assert f"{path}:2 is damaged" in caplog.text and f"{path} holds 1 damaged line(s)" in caplog.text
    aside = place_of(path, "line2", after + b"\n")
    assert aside.read_bytes() == after + b"\n" and os.listdir(tmp_path / "quarantine") == [aside.name]
    shard = path.read_bytes()
    fill(tmp_path, record("b"), worker="next")
    caplog.clear()
    assert list(read_records(tmp_path)) == ["a", "b", "c"]
    assert "is damaged" not in caplog.text and f"{path} holds 1 damaged line(s)" in caplog.text
    assert path.read_bytes() == shard and os.listdir(tmp_path / "quarantine") == [aside.name]


@pytest.mark.parametrize(
    ("glue", "kept", "lost"),
    [
        (lambda a, b, c: a + b + c, "abc", False),
        (lambda a, b, c: a + a + c, "ac", False),
        (lambda a, b, c: a[:50] + b + c, "bc", True),
        (lambda a, b, c: a + b[:-9] + c, "ac", True),
        (lambda a, b, c: a + b + c[:-1], "ab", True),
        (lambda a, b, c: a[:4] + c, "c", True),
        (lambda a, b, c: b"\x00" * 512 + b, "b", True),
    ],
)
def test_of_glued_lines_every_sound_record_is_read(
    glue: Any, kept: str, lost: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = fill(tmp_path, *(record(key, answer='said {"crc":"0", "record": {}}') for key in "abc"))
    line = glue(*path.read_bytes().split(b"\n")[:3]) + b"\n"
    path.write_bytes(line)
    assert "".join(read_records(tmp_path)) == kept
    assert f"{path}:1" in caplog.text and "glued together" in caplog.text
    assert place_of(path, "line1", line).exists() == lost


def test_a_folder_that_cannot_be_written_is_read_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(path: Path, data: bytes) -> Path:
        raise AssetError("read-only")

    path = fill(tmp_path, record("a"), record("b"))
    spoil(path, 0, b"spoilt")
    monkeypatch.setattr("kvrelay.run.quarantine.write_atomic", refuse)
    assert list(read_records(tmp_path)) == ["b"]
    assert f"{path}:1 is damaged" in caplog.text


def test_an_unknown_field_is_a_damaged_line_that_names_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = fill(tmp_path, record("a"))
    _rewrite(path, surplus=1)
    assert read_records(tmp_path) == {}
    assert "surplus" in caplog.text


def test_a_newer_schema_is_refused_by_file_and_line(tmp_path: Path) -> None:
    path = fill(tmp_path, record("a"), record("b"))
    _rewrite(path, schema_version=2)
    with pytest.raises(AssetError, match=r"w\.jsonl:1 was written by a newer kvrelay \(schema 2"):
        read_records(tmp_path)


def _rewrite(path: Path, **fields: Any) -> None:
    """Change the first record and give it a right checksum."""
    value = json.loads(path.read_bytes().split(b"\n")[0])["record"] | fields
    body = json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
    spoil(path, 0, b'{"record":%s,"crc":"%08x"}' % (body, zlib.crc32(body)))


def test_crlf_blank_lines_and_other_spacing_are_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = fill(tmp_path, record("a"), record("b"))
    lines = [json.dumps(json.loads(line)).encode() for line in path.read_bytes().split(b"\n") if line]
    path.write_bytes(b"\r\n".join([lines[0], b"", lines[1], b""]))
    assert list(read_records(tmp_path)) == ["a", "b"]
    assert caplog.text == ""


def test_the_merge_does_not_depend_on_the_order_of_shards_and_lines(tmp_path: Path) -> None:
    rng = random.Random(7)
    failed = {"status": "error", "error": ErrorInfo(kind="K", message="m"), "answer": "!"}
    pool = [record(f"k{number % 5}", answer=rng.choice("xyz"), worker=str(number)) for number in range(20)]
    pool += [record(f"k{number % 7}", worker=f"e{number}", **failed) for number in range(14)]
    merged = []
    for trial in range(12):
        rng.shuffle(pool)
        folder = tmp_path / str(trial)
        cuts = sorted(rng.sample(range(len(pool) + 1), 3))
        for number, (start, end) in enumerate(zip([0, *cuts], [*cuts, len(pool)], strict=True)):
            fill(folder, *pool[start:end], worker=f"w{rng.random()}{number}")
        merged.append(read_records(folder))
    assert all(list(one.items()) == list(merged[0].items()) for one in merged)
    assert [one.status for one in merged[0].values()] == ["ok"] * 5 + ["error"] * 2
    oks = [one for one in pool if one.status == "ok" and one.key == "k0"]
    least = min(oks, key=lambda one: json.dumps(one.model_dump(mode="json"), sort_keys=True, separators=(",", ":")))
    assert merged[0]["k0"] == least


def test_a_scored_verdict_stands_before_an_unscored_one(tmp_path: Path) -> None:
    for worker, verdicts in {
        "a": [verdict("i1", None, reason="malformed"), verdict("i2", True)],
        "b": [verdict("i1", True), verdict("i2", None, reason="empty"), verdict("i3", None, reason="empty")],
    }.items():
        with verdict_appender(tmp_path, "j", worker=worker) as shard:
            for one in verdicts:
                shard.append(one)
    found = read_verdicts(tmp_path)
    assert {key: one.correct for key, one in found.items()} == {"i1": True, "i2": True, "i3": None}


def test_a_number_that_is_not_finite_is_refused_and_leaves_no_trace(tmp_path: Path) -> None:
    with record_appender(tmp_path, worker="w") as shard:
        shard.append(record("a"))
        with pytest.raises(InvariantError, match="record bad cannot be written as JSON"):
            shard.append(record("bad", reference_nll=float("nan")))
        shard.append(record("b"))
    assert keys_in(shard.path) == ["a", "b"]


def test_a_final_unscored_verdict_stands_before_one_that_is_to_be_tried_again(tmp_path: Path) -> None:
    """Otherwise an item whose reply is truncated for good would be asked again on every run."""
    told = {"judge_id": "j", "item_key": "k", "correct": None}
    for worker, reason in (("a", "transport_error"), ("b", "truncated"), ("c", "transport_error")):
        with verdict_appender(tmp_path, "j", worker=worker) as appender:
            appender.append(Verdict(**told, reason=reason))
    assert read_verdicts(tmp_path)["k"].reason == "truncated"
    with verdict_appender(tmp_path, "j", worker="d") as appender:
        appender.append(Verdict(**{**told, "correct": False}))
    assert read_verdicts(tmp_path)["k"].correct is False
