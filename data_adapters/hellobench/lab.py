"""Small records of the project's own in HelloBench's schema, written as its file and read by its adapter."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from data_adapters.hellobench.adapter import HelloBench
from data_adapters.hellobench.lab_texts import CHECKLISTS, GENERATOR_VERSION, REQUIREMENTS, TASKS, source_text
from data_adapters.subset import require_positive
from kvrelay.core.drafts import drafted
from kvrelay.core.errors import ConfigError
from kvrelay.core.example import CountTokens, Example

KEY = "dataset.lab_hellobench"


@dataclass(frozen=True, slots=True, kw_only=True)
class HelloLab:
    """Seeded texts to summarise, of three kinds in turn, for models that are too small for the published ones.

    ``paragraphs`` are those of a source text (of a dialogue its turns), some 40 tokens each. ``prompt`` is put in place
    of the set's requirements behind the text, for models that cannot follow a list; empty keeps them. The file lies in
    ``folder`` under a name that is a hash of its bytes.
    """

    records: int = 12
    paragraphs: int = 20
    seed: int = 0
    prompt: str = ""
    folder: str = "outputs/data/hello_lab"

    def __post_init__(self) -> None:
        require_positive(f"{KEY}.records", self.records)
        require_positive(f"{KEY}.paragraphs", self.paragraphs)
        if self.prompt and not self.prompt.strip():
            raise ConfigError(f"{KEY}.prompt={self.prompt!r}: wanted an instruction, or an empty text")

    def examples(self, count_tokens: CountTokens) -> Iterator[Example]:
        """Yield the records, writing the file first where it is missing."""
        for example in HelloBench(task="summarization", path=str(self.write())).examples(count_tokens):
            if not self.prompt:
                yield example
            else:
                yield replace(example, question=self.prompt.strip(), question_prompt=f"\n[Text End]\n{self.prompt}")

    def fingerprint(self) -> str:
        """sha256 over the file's bytes and the generator's version."""
        return hashlib.sha256(f"{GENERATOR_VERSION}\n".encode() + self._content()).hexdigest()

    def write(self) -> Path:
        """The file, made whole by one rename. Its bytes depend on settings and words alone."""
        target = Path(self.folder) / f"summarization-{self.fingerprint()[:16]}.jsonl"
        if not target.is_file():
            with drafted(target) as draft:
                draft.write_bytes(self._content())
        return target

    def _content(self) -> bytes:
        kinds = list(TASKS)
        told = [_record(index, kinds[index % len(kinds)], self.paragraphs, self.seed) for index in range(self.records)]
        return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in told).encode()


def _record(index: int, category: str, paragraphs: int, seed: int) -> dict[str, object]:
    source = source_text(category, index, paragraphs, seed)
    wanted = "".join(f"{number}. {text}\n" for number, text in enumerate(REQUIREMENTS[category], start=1))
    checklist = CHECKLISTS[category]
    return {
        "id": f"summarization_{index:03d}",
        "category": category,
        "instruction": f"{TASKS[category]}\n[Text Start]:\n{source}\n[Text End]\n[Requirements]:\n{wanted}",
        "checklists": list(checklist),
        "formatted_checklists": json.dumps(
            [{"checklist_id": number, "checklist_content": text} for number, text in enumerate(checklist)]
        ),
        "num_checklist": len(checklist),
        "raw_text": source,
        "requirements": list(REQUIREMENTS[category]),
    }
