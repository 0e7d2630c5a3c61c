"""What the four adapters share: a sample of questions, one deletion each, three placements, the ones left out."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from data_adapters.files import Source, fingerprint
from data_adapters.multi_hop.passages import SourceQuestion
from data_adapters.multi_hop.placements import CHOICES, LEAST_KEPT, Choice, Deletion, place, plan_deletion
from data_adapters.subset import draw, require_choice, require_positive, require_unique
from kvrelay.core.errors import ConfigError, DataError
from kvrelay.core.example import CountTokens, Example

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiHop:
    """Questions of one data set, each asked three times: after its deleted passage stood in front, amid, and late.

    ``limit`` counts source questions that can be asked, a third of the examples; ``shuffle_seed`` makes them a sample.
    ``deletion_seed`` and ``deletion`` choose the deleted passage, ``max_passages`` (the deleted one included) makes
    contexts short: see `plan_deletion`. A subclass says where its files are and what a record means.
    """

    path: str | None = None
    revision: str | None = None
    limit: int | None = None
    shuffle_seed: int | None = None
    deletion_seed: int = 0
    deletion: Choice = "seeded"
    max_passages: int | None = None

    def __post_init__(self) -> None:
        require_positive(f"{self.key}.limit", self.limit)
        require_choice(f"{self.key}.deletion", self.deletion, CHOICES)
        if self.max_passages is not None and self.max_passages <= LEAST_KEPT:
            raise ConfigError(
                f"{self.key}.max_passages={self.max_passages}: wanted null (all) or at least {LEAST_KEPT + 1}"
            )

    @property
    def name(self) -> str:
        """The data set's name: that of its config, and the first half of a cluster's id."""
        raise NotImplementedError

    def files(self) -> tuple[Path, ...]:
        """Every file that is read."""
        raise NotImplementedError

    def questions(self) -> Iterator[SourceQuestion]:
        """Every question of the files that has a gold answer, in their order. Raises `DataError` for a bad record."""
        raise NotImplementedError

    def examples(self, count_tokens: CountTokens) -> Iterator[Example]:
        """Yield the three placements of each question; lengths in tokens play no part."""
        for plan in self.deletions():
            yield from place(plan)

    def fingerprint(self) -> str:
        """sha256 over the files that are read."""
        return fingerprint(self.files())

    def deletions(self) -> list[Deletion]:
        """The sampled questions with what is deleted from each. Raises `DataError` where none can be asked."""
        left_out: Counter[str] = Counter()
        plans: dict[str, Deletion] = {}
        for question in self.checked():
            plan = plan_deletion(question, self.deletion_seed, self.deletion, self.max_passages)
            if isinstance(plan, str):
                left_out[plan] += 1
            else:
                plans[question.id] = plan
        reasons = ", ".join(f"{count} with {reason}" for reason, count in sorted(left_out.items()))
        if not plans:
            raise DataError(f"{self._where()}: no question can be asked after a deletion: {reasons or 'no records'}")
        chosen = draw(list(plans), self.limit, self.shuffle_seed)
        _LOG.info("%s: %d of %d questions; left out: %s", self.key, len(chosen), len(plans), reasons or "none")
        return [plan for id_, plan in plans.items() if id_ in chosen]

    def checked(self) -> Iterator[SourceQuestion]:
        """The questions, no id twice."""
        seen: set[str] = set()
        for question in self.questions():
            require_unique(seen, question.id, f"{self._where()}: question {question.id}")
            yield question

    @property
    def key(self) -> str:
        """The config key of this data set, as error messages name it."""
        return f"dataset.{self.name}"

    def source(self, hub_id: str) -> Source:
        return Source(setting=f"{self.key}.path", path=self.path, hub_id=hub_id, revision=self.revision)

    def _where(self) -> str:
        return ", ".join(str(path) for path in self.files())
