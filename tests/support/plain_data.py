"""A data set for tests of the run: as many histories and questions as asked for, one of them broken on demand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kvrelay.core.example import Choice, CountTokens, Example, Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainData:
    """``histories`` x ``questions`` examples; ``lines`` units a history; history ``empty`` has no text at all."""

    histories: int = 2
    questions: int = 2
    lines: int = 12
    empty: int | None = None
    long: int | None = None

    def examples(self, count_tokens: CountTokens) -> Iterator[Example]:
        for history in range(self.histories):
            lines = 0 if history == self.empty else 4000 if history == self.long else self.lines
            units = tuple(
                Unit(id=str(line), text=f"Item {line} of {history} is v{line}.\n", index_text=f"item {line}")
                for line in range(lines)
            )
            for question in range(self.questions):
                yield Example(
                    id=f"{history}-{question}",
                    cluster_id=str(history),
                    units=units,
                    question=f"What is item {question}?",
                    question_prompt=f"What is item {question}?",
                    references=(f"v{question}",),
                    question_type="plain",
                    choices=(Choice(label="a", text="v0"), Choice(label="b", text="v1")) if question else (),
                    gold_choice="b" if question else None,
                )

    def fingerprint(self) -> str:
        return repr(self)
