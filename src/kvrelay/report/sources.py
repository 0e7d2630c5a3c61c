"""Which files a report was made from: each input's path in the experiment's folder and its sha256."""

from __future__ import annotations

import hashlib
import json
import logging
from pathlib import Path

LOG = logging.getLogger(__name__)
PARTS = ("runs", "records", "verdicts", "provenance")


def input_files(folder: Path) -> dict[str, str]:
    """sha256 of every plan, manifest, shard, merged and provenance file by path; hidden (half-written) ones not."""
    files = [path for part in PARTS for path in (folder / part).glob("*.json*") if not path.name.startswith(".")]
    files = sorted([*files, *folder.glob("*.parquet")])
    return {path.relative_to(folder).as_posix(): _sha256(path) for path in files}


def commits(folder: Path) -> list[str]:
    """Commits that the runs' provenance names, shortened, with a + where the tree was dirty; unknown ones left out."""
    found = set()
    for path in sorted((folder / "provenance").glob("*.json")):
        try:
            git = json.loads(path.read_bytes()).get("git", {})
        except (ValueError, AttributeError) as error:
            LOG.warning("%s is damaged and left out: %s; the run's command writes it anew", path, error)
            continue
        if len(commit := str(git.get("commit", ""))) == 40:
            found.add(commit[:12] + ("+" if git.get("dirty") is True else ""))
    return sorted(found)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
