"""On which line of which shard an answer or a verdict stands, for people who want to look at it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from kvrelay.run.lines import Record, decode, pieces
from kvrelay.run.record import RunRecord, Verdict


def record_places(folder: Path, records: Mapping[str, RunRecord]) -> dict[str, str]:
    """``records/w1.jsonl:12`` by key: the first line that holds this very record; none for one in a merged file."""
    return _places(folder, "records", records, RunRecord, "key")


def verdict_places(folder: Path, verdicts: Mapping[str, Verdict]) -> dict[str, str]:
    """The same of verdicts, by item key."""
    return _places(folder, "verdicts", verdicts, Verdict, "item_key")


def _places(folder: Path, part: str, wanted: Mapping[str, Record], schema: type[Record], key: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for path in sorted((folder / part).glob("*.jsonl")):
        with path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                for name, record in _records(line, schema, key, wanted):
                    if name not in found and record == wanted[name]:
                        found[name] = f"{part}/{path.name}:{number}"
    return found


def _records(line: bytes, schema: type[Record], key: str, wanted: Mapping[str, Record]) -> Iterator[tuple[str, Record]]:
    """Those of a line that somebody wants; a damaged one is none."""
    for piece in pieces(line):
        try:
            value = json.loads(piece)["record"]
            if value[key] in wanted:
                yield value[key], schema.model_validate(decode(piece))
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
