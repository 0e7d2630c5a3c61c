"""Telling the four data sets apart by what a file's first record holds, whatever the file is called."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from data_adapters.fields import Fields
from data_adapters.located import HEAD_BYTES, files_at
from data_adapters.multi_hop.layouts import is_ircot
from data_adapters.parse import records
from kvrelay.core.errors import AssetError

SUFFIXES = (".json", ".jsonl", ".parquet")

KEYS = {
    "iirc": {"questions", "links", "text"},
    "musique": {"paragraphs", "question"},
    "twowikimultihopqa": {"context", "supporting_facts", "evidences"},
    "hotpotqa": {"context", "supporting_facts", "level"},
}
"""What records of each data set hold, in the order in which they are asked for: some have all of another's keys."""

_HOTPOT_ID = re.compile(r"[0-9a-f]{24}")
_WIKI_ID = re.compile(r"[0-9a-f]{32}")
_MUSIQUE_ID = re.compile(r"[234]hop\d*__.*")


def find(given: Path, name: str) -> Path | None:
    """The first file at ``given`` (itself, or in a folder, by name) whose first record is one of the named data set."""
    return next((path for path in files_at(given, SUFFIXES) if dataset_of(path) == name), None)


def dataset_of(path: Path) -> str | None:
    """hotpotqa, twowikimultihopqa, musique, iirc, or None."""
    first = next(_first_record(path), None)
    if first is None:
        return None
    if is_ircot(first):
        return _by_id(first)
    return next((name for name, wanted in KEYS.items() if wanted <= first.values.keys()), None)


def _by_id(record: Fields) -> str | None:
    id_ = str(record.values["question_id"])
    if record.values.get("pinned_contexts"):
        return "iirc"
    tests = {"musique": _MUSIQUE_ID, "hotpotqa": _HOTPOT_ID, "twowikimultihopqa": _WIKI_ID}
    return next((name for name, pattern in tests.items() if pattern.fullmatch(id_)), None)


def _first_record(path: Path) -> Iterator[Fields]:
    """At most one; a file of another kind gives none."""
    if path.suffix not in SUFFIXES:
        return
    if path.suffix != ".parquet":
        with path.open("rb") as stream:
            # articles of a gigabyte are one JSON object, which only a reader of questions must not decode
            if b'"question' not in stream.read(HEAD_BYTES):
                return
    try:
        yield next(records(path))
    except (AssetError, StopIteration):
        return
