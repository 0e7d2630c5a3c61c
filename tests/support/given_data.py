"""A data set for tests of bad input: the texts, questions and replies that a test gives, as they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kvrelay.core.example import Choice, CountTokens, Example, Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenData:
    """One history of ``texts``, one unit each, and an example a question; ids begin with ``prefix``."""

    texts: tuple[str, ...] = ("My cup is blue.\n",)
    questions: tuple[str, ...] = ("What colour?",)
    reference: str = "blue"
    replies: tuple[str, ...] = ()
    unanswerable: bool = False
    prefix: str = "e"
    numbered: bool = True
    cluster: str = "c"

    def examples(self, count_tokens: CountTokens) -> Iterator[Example]:
        units = tuple(Unit(id=str(index), text=text, index_text=text) for index, text in enumerate(self.texts))
        for index, question in enumerate(self.questions):
            yield Example(
                id=f"{self.prefix}{index if self.numbered else ''}",
                cluster_id=self.cluster,
                units=units,
                question=question,
                question_prompt=question,
                references=(self.reference,),
                question_type="given",
                choices=tuple(Choice(label="abcd"[index], text=text) for index, text in enumerate(self.replies)),
                gold_choice="a" if self.replies else None,
                unanswerable=self.unanswerable,
            )

    def fingerprint(self) -> str:
        return repr(self)


def given(**fields: object) -> dict[str, object]:
    """Its configuration."""
    return {"_target_": "given_data.GivenData", **fields}
