"""The data that the project makes itself, written as files in three published schemas and read by their adapters."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from data_adapters.memory_lab.columns import SCHEMAS, Recipe, Schema, files
from data_adapters.memory_lab.small_talk import ROUNDS
from data_adapters.subset import require_choice, require_positive
from kvrelay.core.errors import ConfigError
from kvrelay.core.example import CountTokens, DatasetAdapter, Example


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLab:
    """Seeded conversations for models and machines that are too small for the published sets.

    ``history_tokens`` are counted by the model's own tokenizer over a history as its prompt shows it. The files lie
    in a folder of ``folder`` whose name is a hash of all settings, of the words used and of the tokenizer's counts;
    they are written once and read by the data set's own adapter. The questions of a history are one cluster, for they
    share its text. ``prompt`` is what follows the history, with ``{question}``, ``{date}`` and ``{options}`` (a line
    each) filled in; empty keeps the data set's own prompt. The bare question, which retrievers and judges see, is the
    same either way. A multiple choice whose prompt shows no options says so in ``notes["options_shown"]``: then the
    options' texts can be compared as answers, while their letters mean nothing.
    """

    schema: Schema
    histories: int = 30
    history_tokens: int = 1200
    questions_per_history: int = 2
    seed: int = 0
    unanswerable_every: int = 0
    preference_every: int = 0
    prompt: str = ""
    folder: str = "outputs/data/memory_lab"

    def __post_init__(self) -> None:
        require_choice("dataset.lab.schema", self.schema, SCHEMAS)
        for name in ("histories", "history_tokens", "questions_per_history"):
            require_positive(f"{self._key}.{name}", getattr(self, name))
        for name in ("unanswerable_every", "preference_every"):
            every = getattr(self, name)
            if every < 0 or (every and self.schema != "longmemeval"):
                raise ConfigError(f"{self._key}.{name}={every}: wanted 0, or n for each n-th question of longmemeval")
        _check_prompt(f"{self._key}.prompt", self.prompt)

    def examples(self, count_tokens: CountTokens) -> Iterator[Example]:
        """Yield the questions history by history, writing the files first where they are missing."""
        for example in self._reader(self.write(count_tokens)).examples(count_tokens):
            yield replace(self._prompted(example), cluster_id=example.history_id)

    def fingerprint(self) -> str:
        """sha256 over the settings, the facts, the questions and the words: all but the tokenizer's counts."""
        return self._recipe.digest()

    def write(self, count_tokens: CountTokens) -> Path:
        """The folder with the files, made whole by one rename. Its bytes depend on settings and tokenizer alone."""
        name = hashlib.sha256(repr((self.fingerprint(), [count_tokens(t) for r in ROUNDS for t in r])).encode())
        target = Path(self.folder) / f"{self.schema}-{name.hexdigest()[:16]}"
        if target.is_dir():
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(dir=target.parent, prefix=".making-"))
        try:
            for file_name, content in files(self._recipe, count_tokens).items():
                (fresh / file_name).write_bytes(content)
            _install(fresh, target)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
        return target

    @property
    def _key(self) -> str:
        return f"dataset.lab_{self.schema}"

    @property
    def _recipe(self) -> Recipe:
        return Recipe(
            schema=self.schema,
            histories=self.histories,
            history_tokens=self.history_tokens,
            questions_per_history=self.questions_per_history,
            seed=self.seed,
            unanswerable_every=self.unanswerable_every,
            preference_every=self.preference_every,
        )

    def _reader(self, folder: Path) -> DatasetAdapter:
        """The published set's adapter on these files; imported late, so that one broken adapter breaks one column."""
        if self.schema == "longmemeval":
            from data_adapters.longmemeval import LongMemEval

            return LongMemEval(path=str(folder), variant="s")
        if self.schema == "personamem":
            from data_adapters.personamem import PersonaMem

            return PersonaMem(path=str(folder), size="32k")
        from data_adapters.long_mt_bench_plus import LongMTBenchPlus

        return LongMTBenchPlus(path=str(folder))

    def _prompted(self, example: Example) -> Example:
        if not self.prompt:
            return example
        options = "\n".join(f"({choice.label}) {choice.text}" for choice in example.choices)
        prompt = self.prompt.format(question=example.question, date=example.question_date, options=options)
        notes = {**example.notes, "options_shown": options in prompt} if example.choices else example.notes
        return replace(example, question_prompt=prompt, notes=notes)


def _check_prompt(key: str, prompt: str) -> None:
    try:
        filled = prompt.format(question="\0", date="", options="")
    except (LookupError, ValueError) as error:
        raise ConfigError(f"{key}={prompt!r}: wanted {{question}}, {{date}}, {{options}} alone in braces") from error
    if prompt and "\0" not in filled:
        raise ConfigError(f"{key}={prompt!r}: wanted {{question}} somewhere in it, or an empty text")


def _install(fresh: Path, target: Path) -> None:
    """Rename, unless another process was first: its files are the same."""
    try:
        os.rename(fresh, target)
    except OSError:
        if not target.is_dir():
            raise
