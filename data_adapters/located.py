"""Recognising a data set by what its files contain, so that a user can name a file and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

HEAD_BYTES = 1 << 18
"""Enough to meet the first record's keys, even where a whole conversation stands before some of them."""


def files_with(given: Path, suffixes: Sequence[str], words: Sequence[str]) -> Iterator[Path]:
    """Files at ``given`` (itself, or those in a folder, by name) that begin with all the words; no suffix is ''."""
    files = sorted(path for path in given.iterdir() if path.is_file()) if given.is_dir() else [given]
    for path in files:
        if path.suffix in suffixes:
            with path.open("rb") as stream:
                head = stream.read(HEAD_BYTES).decode("utf-8", "replace")
            if all(word in head for word in words):
                yield path
