"""Recognising a data set by what its files contain, so that a user can name a file and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from data_adapters.links import own

HEAD_BYTES = 1 << 18
"""Enough to meet the first record's keys, even where a whole conversation stands before some of them."""


def files_at(given: Path, suffixes: Sequence[str]) -> Iterator[Path]:
    """The file ``given``, or the files of a folder by name. Raises `AssetError` at a link out of the folder."""
    if not given.is_dir():
        yield from [given] if given.suffix in suffixes else []
        return
    for path in sorted(given.iterdir()):
        if path.suffix in suffixes and path.is_file():
            yield own(path, given)


def files_with(given: Path, suffixes: Sequence[str], words: Sequence[str]) -> Iterator[Path]:
    """Files at ``given`` (itself, or those in a folder, by name) that begin with all the words; no suffix is ''."""
    for path in files_at(given, suffixes):
        with path.open("rb") as stream:
            head = stream.read(HEAD_BYTES).decode("utf-8", "replace")
        if all(word in head for word in words):
            yield path
