"""HelloBench (Que et al., 2024, arXiv 2409.16191) as histories: a source text is kept or evicted, its task is not."""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from data_adapters.files import Source, fingerprint
from data_adapters.hellobench.records import (
    CATEGORIES,
    LENGTHS,
    HelloRecord,
    Joined,
    Task,
    canonical,
    read_categories,
    read_checklists,
    read_records,
)
from data_adapters.hellobench.source import Parts, parts
from data_adapters.located import files_with
from data_adapters.subset import draw, require_choice, require_positive
from kvrelay.core.errors import AssetError, ConfigError, DataError
from kvrelay.core.example import CountTokens, Example, Unit

WITH_SOURCE = ("summarization", "text_completion")
"""Tasks whose instruction holds a text; the others give nothing to select from."""
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class HelloBench:
    """One example a record. The history is the source text, a unit a paragraph; the instruction around it is protected
    before it and asked after it, and the judge sees it whole, as its own prompt does.

    ``path`` is a file or folder on this machine: the set is on no hub. ``checklists_path`` and ``categories_path`` are
    for files that lack them. ``length`` takes a file of heuristic_text_generation that asks for so many words.
    ``strata`` are borders in tokens of the source text (two borders make one stratum, the last one is outside), and
    ``per_stratum`` how many records of each are drawn; ``limit`` draws from what is left. ``shuffle_seed`` makes either
    a sample.
    """

    task: Task = "summarization"
    path: str | None = None
    checklists_path: str | None = None
    categories_path: str | None = None
    length: str | None = None
    categories: tuple[str, ...] = ()
    limit: int | None = None
    strata: tuple[int, ...] | None = None
    per_stratum: int | None = None
    shuffle_seed: int | None = None

    def __post_init__(self) -> None:
        require_choice(f"{self._key}.task", self.task, tuple(CATEGORIES))
        require_positive(f"{self._key}.limit", self.limit)
        require_positive(f"{self._key}.per_stratum", self.per_stratum)
        if self.length is not None:
            require_choice(f"{self._key}.length", self.length, LENGTHS)
        for category in self.categories:
            canonical(category, self.task, f"{self._key}.categories")
        borders = list(self.strata or ())
        if borders != sorted(set(borders)) or len(borders) == 1 or any(border < 0 for border in borders):
            raise ConfigError(f"{self._key}.strata={borders}: wanted null, or two borders in tokens or more, rising")
        if self.per_stratum is not None and not borders:
            raise ConfigError(f"{self._key}.per_stratum={self.per_stratum} without strata: set {self._key}.strata")

    @staticmethod
    def located(given: Path) -> dict[str, str] | None:
        """Fields that point this adapter at a file or folder that holds its records; None if it does not."""
        return _located(given, "summarization")

    def examples(self, count_tokens: CountTokens) -> Iterator[Example]:
        """Yield the records in the file's order. Raises `ConfigError` for a task without a source text."""
        if self.task not in WITH_SOURCE:
            raise ConfigError(
                f"{self._key}.task={self.task}: its instructions hold no source text, so that there is no history to "
                f"select from; wanted one of {', '.join(WITH_SOURCE)}"
            )
        read = [(record, parts(record)) for record in self.records()]
        sizes = {record.id: count_tokens(split.source) for record, split in read}
        kept = self._drawn(sizes)
        _LOG.info("%s: %d of %d records", self._key, len(kept), len(read))
        for record, split in read:
            if record.id in kept:
                yield _example(record, split, sizes[record.id], self._stratum(sizes[record.id]))

    def records(self) -> list[HelloRecord]:
        """All records of the task's file, of the wanted categories, whether they hold a source text or not."""
        joined = Joined(
            checklists=read_checklists(self.checklists_path, self.task, f"{self._key}.checklists_path")
            if self.checklists_path
            else {},
            categories=read_categories(self.categories_path, self.task) if self.categories_path else {},
        )
        wanted = {canonical(category, self.task, self._key) for category in self.categories or CATEGORIES[self.task]}
        found = [one for one in read_records(self._file(), self.task, joined) if one.category in wanted]
        if not found:
            raise DataError(f"{self._file()}: no record of the categories {', '.join(sorted(wanted))}")
        return found

    def fingerprint(self) -> str:
        """sha256 over every file that is read."""
        beside = [Path(path).expanduser() for path in (self.checklists_path, self.categories_path) if path]
        files = [file / f"{self.task}_checklist.json" if file.is_dir() else file for file in beside]
        return fingerprint([self._file(), *files])

    @property
    def _key(self) -> str:
        return f"dataset.hellobench_{self.task}"

    def _file(self) -> Path:
        name = f"{self.task}_{self.length}.jsonl" if self.length else f"{self.task}.jsonl"
        if self.path is None:
            raise AssetError(
                f"{self._key}.path is null, and HelloBench is on no hub: get {name} from its authors' repository "
                f"(data/) and set {self._key}.path to the file or its folder (make: DATA=)"
            )
        return Source(setting=f"{self._key}.path", path=self.path, hub_id="", revision=None).file((name,))

    def _stratum(self, tokens: int) -> str | None:
        """The stratum of a text by its length: ``4096-8191``; none where it is outside of all."""
        borders = self.strata or ()
        index = bisect_right(borders, tokens)
        return f"{borders[index - 1]}-{borders[index] - 1}" if 0 < index < len(borders) else None

    def _drawn(self, sizes: dict[str, int]) -> frozenset[str]:
        if not self.strata:
            return draw(list(sizes), self.limit, self.shuffle_seed)
        strata: dict[str, list[str]] = {}
        for id_, tokens in sizes.items():
            if (stratum := self._stratum(tokens)) is not None:
                strata.setdefault(stratum, []).append(id_)
        self._require_enough(strata)
        chosen = [id_ for ids in strata.values() for id_ in draw(ids, self.per_stratum, self.shuffle_seed)]
        return draw([id_ for id_ in sizes if id_ in chosen], self.limit, self.shuffle_seed)

    def _require_enough(self, strata: dict[str, list[str]]) -> None:
        borders = self.strata or ()
        wanted = self.per_stratum or 1
        counts = {f"{low}-{high - 1}": 0 for low, high in pairwise(borders)}
        counts |= {name: len(ids) for name, ids in strata.items()}
        if any(count < wanted for count in counts.values()):
            told = ", ".join(f"{count} of {name} tokens" for name, count in counts.items())
            raise DataError(
                f"{self._key}: too few source texts in a stratum ({told}); wanted {wanted} of each (keys: "
                f"{self._key}.strata, .per_stratum)"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class TextCompletion(HelloBench):
    """The task that goes on from a story, or imitates one."""

    task: Task = "text_completion"

    @staticmethod
    def located(given: Path) -> dict[str, str] | None:
        """As for the summaries."""
        return _located(given, "text_completion")


def _located(given: Path, task: str) -> dict[str, str] | None:
    words = ('"instruction"', '"num_checklist"', f'"{task}_')
    found = next(files_with(given, (".jsonl", ".json"), words), None)
    return None if found is None else {"path": str(found)}


def _example(record: HelloRecord, split: Parts, tokens: int, stratum: str | None) -> Example:
    """``rubric``: the reference is what the answer is judged by, and no answer whose likelihood could be measured."""
    return Example(
        id=record.id,
        cluster_id=record.id,
        units=tuple(_units(split.paragraphs)),
        preamble=split.head,
        question=split.tail.strip(),
        question_prompt=split.tail,
        references=(record.instruction,),
        question_type=record.category,
        checklist=record.checklist,
        notes={"rubric": True, "source_tokens": tokens, **({"stratum": stratum} if stratum else {})},
    )


def _units(paragraphs: Sequence[str]) -> Iterator[Unit]:
    for number, text in enumerate(paragraphs, start=1):
        yield Unit(id=f"paragraph-{number:04d}", text=text, index_text=text.strip())
