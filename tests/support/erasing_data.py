"""A data set for tests of repair: one history in lines, of which one is deleted, in as many placements as asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from kvrelay.core.example import CountTokens, Example, Turn, Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasingData:
    """``questions`` x ``places`` examples: line ``erased`` stands after ``place`` others and is deleted."""

    questions: int = 2
    places: tuple[int, ...] = (1, 4)
    lines: int = 8
    erase: tuple[str, ...] = ("erased",)
    slot: str | None = None
    layout: Literal["document", "chat"] = "document"
    double: bool = False
    hollow: bool = False

    def examples(self, count_tokens: CountTokens) -> Iterator[Example]:
        for question in range(self.questions):
            for place in self.places:
                lines = [
                    Unit(id=str(line), text=said, index_text=f"item {line}", turns=_turn(said))
                    for line in range(self.lines)
                    for said in [f"Item {line} of {question} is v{line}.\n"]
                ]
                text = "" if self.hollow else "Item 3 is wrong.\n"
                for _ in range(1 + self.double):
                    lines.insert(place, Unit(id="erased", text=text, index_text="item 3", turns=_turn(text)))
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
                    layout=self.layout,
                    notes={"erased_value": "wrong"},
                )

    def fingerprint(self) -> str:
        return repr(self)


def _turn(text: str) -> tuple[Turn, ...]:
    return (Turn(role="user", content=text),)
