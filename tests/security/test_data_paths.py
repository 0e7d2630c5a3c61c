"""Names in records and links in data folders lead nowhere: nothing is read or written beside what was named."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from compose import compose_run, recognised
from given_data import given
from plain_config import group, plain_config

from data_adapters.files import Source
from data_adapters.links import own
from data_adapters.located import files_at, files_with
from data_adapters.multi_hop.recognise import find
from kvrelay.core.errors import AssetError
from kvrelay.run.store import read_records

CLIMBING = ("../../../outside", "/etc/outside", "..\\a/../../b", "nul\x00byte")


def tree(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


@pytest.mark.parametrize("name", CLIMBING)
def test_ids_of_records_name_no_files(name: str, tmp_path: Path) -> None:
    """An id from a data set goes through answering, judging and the report and stays a text."""
    config = plain_config(tmp_path, selector=group("selector", "bm25"), position=group("position", "original"))
    config |= {"only_selectors": {}, "only_positions": {}}
    config["dataset"] = {"g": given(prefix=name, numbered=False, cluster=name), "max_history_tokens": None}
    compose_run({**config, "name": "first"} | {"stages": ["run", "judge", "report"]})
    found = read_records(tmp_path / "out" / "first")
    assert [record.example_id for record in found.values()] == [name]
    compose_run({**config, "name": "second", "dataset": {"g": given(), "max_history_tokens": None}})

    def shape(experiment: str) -> set[str]:
        names = tree(tmp_path / "out" / experiment)
        return {
            part for one in names for part in [one] if not one.startswith(("records/", "verdicts/", "runs/", "prov"))
        }

    assert shape("first") == shape("second")
    assert {path.name for path in tmp_path.iterdir()} == {"out", "models"}


def link(folder: Path, target: Path, name: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).symlink_to(target)
    return folder / name


def test_a_link_out_of_a_data_folder_is_refused(tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text(json.dumps([{"question_id": "q", "haystack_sessions": []}]))
    folder = tmp_path / "data"
    link(folder, secret, "longmemeval_s.json")
    source = Source(setting="dataset.x.path", path=str(folder), hub_id="a/b", revision=None)
    refused = r"is a link to .*secret\.json, outside of .*name that file itself"
    for read in (
        lambda: source.file(["longmemeval_s.json"]),
        lambda: list(files_at(folder, (".json",))),
        lambda: list(files_with(folder, (".json",), ("haystack",))),
        lambda: find(folder, "iirc"),
        lambda: recognised(str(folder)),
    ):
        with pytest.raises(AssetError, match=refused):
            read()
    assert Source(setting="s", path=str(folder / "longmemeval_s.json"), hub_id="", revision=None).file([]).exists()


def test_links_inside_a_folder_and_in_the_hubs_cache_are_followed(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("[]")
    assert own(link(tmp_path, tmp_path / "a.json", "b.json"), tmp_path).name == "b.json"
    blobs, snapshot = tmp_path / "hub" / "blobs", tmp_path / "hub" / "snapshots" / "rev"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    (blobs / "abc").write_text("[]")
    assert own(link(snapshot, blobs / "abc", "c.json"), snapshot).exists()
    with pytest.raises(AssetError, match="is a link"):
        own(link(snapshot, tmp_path / "a.json", "d.json"), snapshot)


def test_a_link_that_climbs_through_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "away").mkdir()
    (tmp_path / "away" / "dev.json").write_text("[]")
    folder = tmp_path / "data"
    folder.mkdir()
    os.symlink("../away", folder / "sub")
    source = Source(setting="s", path=str(folder), hub_id="", revision=None)
    with pytest.raises(AssetError, match="is a link"):
        source.file(["dev.json"])


def test_other_files_of_a_folder_may_be_anything(tmp_path: Path) -> None:
    """Only what would be opened is looked at."""
    link(tmp_path / "data", tmp_path / "elsewhere.txt", "notes.txt")
    found: list[Any] = list(files_at(tmp_path / "data", (".json",)))
    assert found == []
