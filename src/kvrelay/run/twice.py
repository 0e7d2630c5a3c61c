"""What was done twice under one key and came out different: the outcome depends on more than its key says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kvrelay.run.lines import Record
from kvrelay.run.parts import Part


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """One key and its outcomes, sorted; ``part`` is ``records`` or ``verdicts``."""

    part: str
    key: str
    outcomes: tuple[str, ...]


def differing(part: Part[Record], folder: Path, outcome: Callable[[Record], str | None]) -> list[Disagreement]:
    """Keys with more than one outcome; None is no outcome."""
    first: dict[str, str] = {}
    several: dict[str, set[str]] = {}
    for record in part.stream(folder):
        if (found := outcome(record)) is not None:
            key = part.key(record)
            if first.setdefault(key, found) != found:
                several.setdefault(key, {first[key]}).add(found)
    return [Disagreement(part=part.folder, key=key, outcomes=tuple(sorted(several[key]))) for key in sorted(several)]
