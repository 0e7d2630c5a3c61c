"""The settings of a run that belong to no component: the root keys of ``conf/config.yaml``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from kvrelay.core.errors import ConfigError
from kvrelay.run.portion import Portion

LEAST_RESAMPLES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """``name`` names the experiment and its folder ``out/name``; ``limit`` is the number of questions a data set.

    ``shard`` is ``i/n``: of the histories, shared out by a hash of each, only the i-th of n parts (`Portion`).
    ``offline`` refuses whatever would need a network.
    ``only_positions`` and ``only_selectors`` thin the grid: {selector: positions} and {position: selectors} that make
    sense together (a full cache has nothing to compact); so does ``only_budgets`` {allocator: budgets}, where states
    are refreshed after a deletion. ``decode_batch_rows`` bounds the rows that decode together; 1 decodes every row
    alone. ``max_history_tokens`` trims longer histories; without it they are refused.
    ``choice_by="texts"`` answers multiple choice with the reply whose text is most likely (mean over its tokens) in
    place of a generated letter, which a small model draws blindly. ``mixed_cache`` records, layer by layer, how far
    refreshed states end from clean ones and how much they read from stale ones (a diagnostic: each refresh runs twice).
    ``keep_caches`` is a folder for the caches that selectors kept, one file each, for analyses; answers are the same.
    """

    name: str
    out: str = "outputs"
    limit: int | None = None
    shard: str | None = None
    offline: bool = False
    max_new_tokens: int = 512
    score_references: bool = True
    choice_by: Literal["answer", "texts"] = "answer"
    decode_batch_rows: int = 16
    max_history_tokens: int | None = field(default=None, metadata={"key": "dataset.max_history_tokens"})
    only_positions: dict[str, list[str]] = field(default_factory=dict)
    only_selectors: dict[str, list[str]] = field(default_factory=dict)
    only_budgets: dict[str, list[str]] = field(default_factory=dict)
    gate: bool = True
    mixed_cache: bool = False
    retry_errors: bool = True
    keep_caches: str | None = None
    stamps: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        counts = {
            "limit": self.limit,
            "max_new_tokens": self.max_new_tokens,
            "decode_batch_rows": self.decode_batch_rows,
            "dataset.max_history_tokens": self.max_history_tokens,
        }
        for key, value in counts.items():
            if value is not None and value < 1:
                raise ConfigError(f"{key} = {value}: wanted at least 1 (key: {key})")
        Portion.of(self.shard)
        if self.name in ("", ".", "..") or "/" in self.name or "\0" in self.name:
            raise ConfigError(f"name = {self.name!r}: wanted a plain name for the experiment's folder (key: name)")
        if self.keep_caches is not None and (not self.keep_caches.strip() or "\0" in self.keep_caches):
            raise ConfigError(f"keep_caches = {self.keep_caches!r}: wanted a folder, or null (key: keep_caches)")
        if not self.out.strip() or "\0" in self.out:
            raise ConfigError(f"out = {self.out!r}: wanted a folder for the results (key: out, or OUT= for make)")


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSettings:
    """What one call of the command does: which stages, or only a plan; and the user's own records, if any.

    ``data_as`` is put before the name of the data set that recognises the records (``location_``: the same files read
    for another experiment).
    """

    stages: tuple[Literal["run", "judge", "report"], ...] = ("run", "judge", "report")
    dry_run: bool = False
    data: str | None = None
    data_as: str = ""

    def __post_init__(self) -> None:
        if not self.stages:
            raise ConfigError("stages = []: nothing is to be done; wanted some of run, judge, report (key: stages)")
        if self.data is not None and not self.data.strip():
            raise ConfigError("data is empty; wanted a file or folder of records, or null (key: data, DATA= for make)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSettings:
    """``view`` names the report's layout, a module of `kvrelay.report.views`. ``baseline`` is what the others are
    compared with (a position, or an allocator where caches are repaired); None is the view's own. ``seed`` draws the
    bootstrap's resamples. ``max_unjudged`` is the number of answers that a report bears without a verdict that their
    judge could have given; with more, accuracy is only bounded and the report is incomplete. None bears all.
    """

    view: str = "table1"
    baseline: str | None = None
    resamples: int = 10_000
    seed: int = 0
    max_unjudged: int | None = None

    def __post_init__(self) -> None:
        if self.resamples < LEAST_RESAMPLES:
            raise ConfigError(
                f"report.resamples = {self.resamples}: a 95 % interval wants at least {LEAST_RESAMPLES} "
                "(key: report.resamples)"
            )
        if self.seed < 0:
            raise ConfigError(f"report.seed = {self.seed}: wanted 0 or more (key: report.seed)")
        if self.max_unjudged is not None and self.max_unjudged < 0:
            raise ConfigError(
                f"report.max_unjudged = {self.max_unjudged}: wanted 0 or more, or null for no limit "
                "(key: report.max_unjudged)"
            )
