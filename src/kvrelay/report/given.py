"""What every view of an experiment is made from, and what it gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kvrelay.report.tables import Table
from kvrelay.stats.frame import Results


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """An experiment's outcomes, what the others are compared with, and how the bootstrap draws."""

    results: Results
    baseline: str
    seed: int = 0
    resamples: int = 10_000
    commits: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A view's files and numbers. ``stamps`` are those of the results and what the view found to be wrong with them."""

    tables: tuple[Table, ...]
    figures: Mapping[str, bytes] = field(default_factory=dict)
    part: Mapping[str, Any] = field(default_factory=dict)
    """Its part of summary.json."""
    stamps: tuple[str, ...] = ()

    def files(self) -> dict[str, bytes | str]:
        """File name to content."""
        files: dict[str, bytes | str] = dict(self.figures)
        for table in self.tables:
            files |= table.files()
        return files
