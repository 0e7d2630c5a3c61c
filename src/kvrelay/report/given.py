"""What every view of an experiment is made from, and what it gives back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kvrelay.report.tables import Table
from kvrelay.run.record import JudgeFacts, RunPlan, RunRecord, Verdict
from kvrelay.stats.frame import Results, tidy


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What an experiment's folder holds, for views that join it in another way than `Given.results` does."""

    plans: Sequence[RunPlan] = ()
    records: Mapping[str, RunRecord] = field(default_factory=dict)
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    judges: Sequence[JudgeFacts] = ()

    def under(self, judge: str) -> Results:
        """The outcomes with the verdicts of one judge (an id) alone."""
        return tidy(self.plans, self.records, self.verdicts, self.judges, judge=judge)


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """An experiment's outcomes, what the others are compared with, and how the bootstrap draws."""

    results: Results
    baseline: str
    stored: Stored = field(default_factory=Stored)
    seed: int = 0
    resamples: int = 10_000
    commits: tuple[str, ...] = ()
    max_unjudged: int | None = None
    """So many answers may lack a verdict (None: any number), of every judge that a view shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A view's files and numbers. ``stamps`` are those of the results and what the view found to be wrong with them."""

    tables: tuple[Table, ...]
    figures: Mapping[str, bytes] = field(default_factory=dict)
    part: Mapping[str, Any] = field(default_factory=dict)
    """Its part of summary.json."""
    stamps: tuple[str, ...] = ()
    owed: tuple[str, ...] = ()
    """What makes it incomplete beside the gaps of `Given.results`: a sentence each, without its full stop."""

    def files(self) -> dict[str, bytes | str]:
        """File name to content."""
        files: dict[str, bytes | str] = dict(self.figures)
        for table in self.tables:
            files |= table.files()
        return files
