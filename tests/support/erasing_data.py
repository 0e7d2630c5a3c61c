"""A data set for tests of repair: one history in lines, of which one is deleted, in as many placements as asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kvrelay.core.example import CountTokens, Example, Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasingData:
    """``questions`` x ``places`` examples: line ``erased`` stands after ``place`` others and is deleted."""

    questions: int = 2
    places: tuple[int, ...] = (1, 4)
    lines: int = 8
    erase: tuple[str, ...] = ("erased",)
    slot: str | None = None

    def examples(self, count_tokens: CountTokens) -> Iterator[Example]:
        for question in range(self.questions):
            for place in self.places:
                lines = [
                    Unit(id=str(line), text=f"Item {line} of {question} is v{line}.\n", index_text=f"item {line}")
                    for line in range(self.lines)
                ]
                lines.insert(place, Unit(id="erased", text="Item 3 is wrong.\n", index_text="item 3"))
                yield Example(
                    id=f"{question}:{place}",
                    cluster_id=str(question),
                    units=tuple(lines),
                    question="What is item 5?",
                    question_prompt="What is item 5?",
                    references=("v5",),
                    question_type="plain",
                    deleted=self.erase,
                    slot=self.slot,
                    notes={"erased_value": "wrong"},
                )

    def fingerprint(self) -> str:
        return repr(self)
