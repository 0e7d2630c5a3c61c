"""The made questions, written as files in two published schemas and read by those data sets' own adapters."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from data_adapters.memory_lab.world import seeded
from data_adapters.multi_hop.adapter import MultiHop
from data_adapters.multi_hop.hotpotqa import HotpotQA
from data_adapters.multi_hop.lab.tales import GENERATOR_VERSION, Tale, tales
from data_adapters.multi_hop.location import EvidenceLocation
from data_adapters.multi_hop.musique import MuSiQue
from data_adapters.multi_hop.passages import PREAMBLE
from data_adapters.multi_hop.placements import place
from data_adapters.subset import require_choice, require_positive
from kvrelay.core.drafts import drafted
from kvrelay.core.errors import ConfigError
from kvrelay.core.example import CountTokens, Example

Schema = Literal["hotpotqa", "musique"]
SCHEMAS: tuple[Schema, ...] = ("hotpotqa", "musique")
LEAST_PASSAGES, MOST_PASSAGES = 6, 12
"""Support, what misleads and something else; and as many as there are names for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiHopLab:
    """Seeded questions of two and three hops for models that are too small for the published sets.

    ``passages`` are those of a context with the one that is deleted, which misleads: it names another maker of what the
    question asks about. The file lies in ``folder`` under a name that is a hash of its bytes. ``prompt`` is what
    follows the passages, with ``{question}`` filled in; empty keeps that of the published sets.
    """

    schema: Schema
    questions: int = 30
    passages: int = 8
    seed: int = 0
    prompt: str = ""
    folder: str = "outputs/data/multi_hop_lab"

    def __post_init__(self) -> None:
        key = f"dataset.lab_{self.schema}"
        require_choice("dataset.lab.schema", self.schema, SCHEMAS)
        require_positive(f"{key}.questions", self.questions)
        if not LEAST_PASSAGES <= self.passages <= MOST_PASSAGES:
            raise ConfigError(f"{key}.passages={self.passages}: wanted {LEAST_PASSAGES} to {MOST_PASSAGES}")
        if self.prompt and "{question}" not in self.prompt:
            raise ConfigError(f"{key}.prompt={self.prompt!r}: wanted {{question}} somewhere in it, or an empty text")

    def examples(self, count_tokens: CountTokens) -> Iterator[Example]:
        """Yield the three placements of each question, writing the file first where it is missing."""
        for plan in self.reader().deletions():
            yield from place(plan, PREAMBLE, self.prompt or None)

    def fingerprint(self) -> str:
        """sha256 over the file's bytes and the generator's version."""
        return hashlib.sha256(f"{GENERATOR_VERSION}\n".encode() + self._content()).hexdigest()

    def reader(self) -> MultiHop:
        """The published set's adapter on the file."""
        path = str(self.write())
        if self.schema == "hotpotqa":
            return HotpotQA(path=path, deletion="similar")
        return MuSiQue(path=path, deletion="similar")

    def write(self) -> Path:
        """The file, made whole by one rename. Its bytes depend on settings and words alone."""
        suffix = "json" if self.schema == "hotpotqa" else "jsonl"
        target = Path(self.folder) / f"{self.schema}-{self.fingerprint()[:16]}.{suffix}"
        if not target.is_file():
            with drafted(target) as draft:
                draft.write_bytes(self._content())
        return target

    def _content(self) -> bytes:
        told = tales(self.schema, self.questions, self.passages, self.seed)
        if self.schema == "hotpotqa":
            records = [_hotpot_record(tale, self._digits("id", i, 24)) for i, tale in enumerate(told)]
            return (json.dumps(records, indent=1) + "\n").encode()
        lines = [_musique_record(tale, self._number(i)) for i, tale in enumerate(told)]
        return "".join(json.dumps(line) + "\n" for line in lines).encode()

    def _digits(self, what: str, index: int, n: int) -> str:
        return f"{seeded(what, self.schema, self.seed, index).getrandbits(4 * n):0{n}x}"

    def _number(self, index: int) -> Callable[[int], int]:
        """Ids of the single-hop questions that a question was composed of."""
        return lambda step: index * 10 + step + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LocationLab(EvidenceLocation):
    """The evidence-location contexts of made questions; ``source`` is their schema."""

    questions: int = 30
    passages: int = 10
    lab_seed: int = 0
    folder: str = "outputs/data/multi_hop_lab"

    @property
    def key(self) -> str:
        return "dataset.lab_location"

    def adapter(self) -> MultiHop:
        require_choice(f"{self.key}.source", self.source, SCHEMAS)
        schema: Schema = "hotpotqa" if self.source == "hotpotqa" else "musique"
        lab = MultiHopLab(
            schema=schema, questions=self.questions, passages=self.passages, seed=self.lab_seed, folder=self.folder
        )
        return lab.reader()


def _hotpot_record(tale: Tale, id_: str) -> dict[str, object]:
    """HotpotQA's layout: sentences after the first begin with their space."""
    context = [[p.title, [p.sentences[0], *(f" {s}" for s in p.sentences[1:])]] for p in tale.paragraphs]
    facts = sorted((p.step, p.title) for p in tale.paragraphs if p.step is not None)
    return {
        "_id": id_,
        "question": tale.question,
        "answer": tale.answer,
        "type": tale.type,
        "level": "easy",
        "supporting_facts": [[title, 0] for _, title in facts],
        "context": context,
    }


def _musique_record(tale: Tale, number: Callable[[int], int]) -> dict[str, object]:
    """MuSiQue's layout: a paragraph is one text, and each hop names the paragraph that answers it."""
    place_of = {p.step: index for index, p in enumerate(tale.paragraphs) if p.step is not None}
    ids = [number(step) for step in range(len(tale.steps))]
    return {
        "id": f"{len(ids)}hop__{'_'.join(map(str, ids))}",
        "paragraphs": [
            {
                "idx": index,
                "title": p.title,
                "paragraph_text": " ".join(p.sentences),
                "is_supporting": p.step is not None,
            }
            for index, p in enumerate(tale.paragraphs)
        ],
        "question": tale.question,
        "question_decomposition": [
            {"id": ids[step], "question": asked, "answer": answer, "paragraph_support_idx": place_of[step]}
            for step, (asked, answer) in enumerate(tale.steps)
        ],
        "answer": tale.answer,
        "answer_aliases": [],
        "answerable": True,
    }
