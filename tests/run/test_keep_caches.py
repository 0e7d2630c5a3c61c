"""``keep_caches``: every cache that a selector kept becomes one file; answers are those of a run without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compose import compose_run
from plain_config import group, plain_config
from safetensors import safe_open

from kvrelay.backend.cachefile import load_cache
from kvrelay.core.errors import ConfigError
from kvrelay.run.store import read_records


def config(tmp_path: Path, **changes: Any) -> dict[str, Any]:
    return plain_config(tmp_path, selector=group("selector", "bm25", "pyramidkv", "full"), stages=["run"], **changes)


def test_each_kept_cache_is_one_file_and_the_answers_are_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "caches"
    assert compose_run(config(tmp_path, name="without")) == 0
    assert compose_run(config(tmp_path, name="kept", keep_caches=str(folder))) == 0
    one, other = (read_records(tmp_path / "out" / name) for name in ("without", "kept"))
    assert [record.answer for record in one.values()] == [record.answer for record in other.values()]
    assert list(one) == list(other)
    files = sorted(folder.glob("*.safetensors"))
    digests = {load_cache(path).content_digest() for path in files}
    recorded = {(record.kept_sha256, record.values_sha256) for record in other.values()}
    assert digests == recorded and len(files) >= len(digests) > 0
    before = {path: path.stat().st_mtime_ns for path in files}
    assert compose_run(config(tmp_path, name="again", keep_caches=str(folder))) == 0
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_a_selection_that_serves_all_questions_is_kept_once_a_history(tmp_path: Path) -> None:
    folder = tmp_path / "caches"
    assert compose_run(config(tmp_path, name="kept", keep_caches=str(folder))) == 0
    selections: dict[bool, int] = {True: 0, False: 0}
    for path in folder.glob("*.safetensors"):
        with safe_open(path, framework="pt") as file:
            selections['"question": ""' in file.metadata()["about"]] += 1
    # two histories of two questions: bm25 reads the question, full and pyramidkv do not
    assert selections == {True: 2 * 2, False: 2 * 2}


def test_a_disk_that_takes_no_caches_costs_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[int] = []

    def full(*given: Any) -> Path:
        calls.append(1)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("kvrelay.run.keeping.save_cache", full)
    assert compose_run(config(tmp_path, keep_caches=str(tmp_path / "caches"))) == 0
    assert len(calls) == 1 and caplog.text.count("no more caches are kept") == 1
    assert all(record.status == "ok" for record in read_records(tmp_path / "out" / "plain").values())


def test_a_folder_without_a_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="key: keep_caches"):
        compose_run(config(tmp_path, keep_caches=" "))
