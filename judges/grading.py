"""One checklist, one answer: what is asked of the judge's model, and what its grades make of the verdict."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from judges.checklist import PARSER_VERSION, of_category, parse_grades, rescaled, weighted
from judges.prompt import Prompt, mend
from kvrelay.core.errors import ConfigError
from kvrelay.judging.protocol import BlindItem
from kvrelay.run.record import SCORED, Verdict, digest

GRADING_VERSION = 1
"""How a request is put together and grades are added up. Part of every judge's id."""

NO_CHECKLIST = "no_checklist"
"""Why an item is unscored that gives nothing to grade by."""
ITEM = "item_"
"""Grades stand in a verdict's scores as item_1, item_2 …, in the checklist's order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grading:
    """The rules of a checklist judge. Entries are numbered from 1.

    ``weights`` (by category, each summing to 100) give HelloEval's score; without them there is none.
    ``category_keys`` says by which of their names an item's category goes there. ``named_items`` are entries whose
    grade is a score of its own: name to category to the entry's number. ``max_candidate_words`` cuts longer answers.
    """

    accept_fence: bool = True
    max_candidate_words: int | None = None
    weights: Mapping[str, tuple[float, ...]] | None = None
    category_keys: Mapping[str, str] = field(default_factory=dict)
    named_items: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    where: str = "judge.*.weights"
    """The setting that the weights came from, as messages name it."""

    def messages(self, prompt: Prompt, item: BlindItem) -> list[dict[str, str]]:
        """The instruction, then the rubric with the item as JSON below it."""
        user = f"{prompt.rubric}\n\n{self.payload(item)}"
        return [{"role": "system", "content": prompt.system}, {"role": "user", "content": user}]

    def payload(self, item: BlindItem) -> str:
        """What is graded and by what, as one JSON object; ``<|`` is escaped as in `judges.prompt.payload`."""
        fields = {
            "task": item.question,
            "material": list(item.references),
            "candidate": self._candidate(item),
            "checklist": [{"id": number, "text": text} for number, text in enumerate(item.checklist, start=1)],
        }
        return mend(json.dumps(fields, ensure_ascii=False)).replace("<|", "\\u003c|")

    def check(self, item: BlindItem) -> None:
        """Raises `DataError` or `ConfigError` before anything is asked, where the grades could not be added up."""
        self._added(item, [1.0] * len(item.checklist))

    def graded(self, text: str, item: BlindItem) -> dict[str, Any]:
        """Fields of a verdict from a reply's text: the grades, or ``malformed``. Sums are `summed`'s."""
        ids = range(1, len(item.checklist) + 1)
        grades, parse = parse_grades(text, ids, accept_fence=self.accept_fence)
        scores = {f"{ITEM}{number}": grade for number, grade in zip(ids, grades or (), strict=False)}
        return {
            "correct": None,
            "reason": "malformed" if grades is None else SCORED,
            "parse": parse,
            "scores": scores,
        }

    def summed(self, item: BlindItem, verdict: Verdict) -> Verdict:
        """The verdict with what its grades add up to, where there are any; and how long the candidate was."""
        scores = dict(verdict.scores)
        if verdict.reason == SCORED:
            scores |= self._added(item, [scores[f"{ITEM}{n}"] for n in range(1, len(item.checklist) + 1)])
        return verdict.model_copy(update={"scores": scores, "usage": {**verdict.usage, **self._cut(item)}})

    def identity(self) -> dict[str, Any]:
        """What is hashed into the judge's id, beside what any judge on a server is."""
        return {
            "grading_version": GRADING_VERSION,
            "parser_version": PARSER_VERSION,
            "accept_fence": self.accept_fence,
            "max_candidate_words": self.max_candidate_words,
            "weights_sha256": None if self.weights is None else digest({n: list(w) for n, w in self.weights.items()}),
            "category_keys": dict(self.category_keys),
            "named_items": {name: dict(entries) for name, entries in self.named_items.items()},
        }

    def _added(self, item: BlindItem, grades: Sequence[float]) -> dict[str, float]:
        found = {"quality": math.fsum(grades) / len(grades)}
        for name, entries in self.named_items.items():
            number = entries.get(item.question_type)
            if number is not None:
                if not 1 <= number <= len(grades):
                    raise ConfigError(
                        f"judge.*.named_items.{name}.{item.question_type} = {number}: the checklist has "
                        f"{len(grades)} entries"
                    )
                found[name] = grades[number - 1]
        if self.weights is not None:
            category = self.category_keys.get(item.question_type, item.question_type)
            score = weighted(grades, of_category(dict(self.weights), category, len(grades), self.where))
            # twelve digits: weights are floats, and a full mark must be 100
            score = round(score, 12)
            found |= {"helloeval": score, "helloeval_rescaled": rescaled(score)}
        return found

    def _candidate(self, item: BlindItem) -> str:
        limit = self.max_candidate_words
        if limit is None:
            return item.candidate
        last = next(islice(re.finditer(r"\S+", item.candidate), limit - 1, None), None)
        return item.candidate[: last.end()] if last and item.candidate[last.end() :].strip() else item.candidate

    def _cut(self, item: BlindItem) -> dict[str, Any]:
        words = len(item.candidate.split())
        cut = self.max_candidate_words is not None and words > self.max_candidate_words
        return {"candidate_words": words, **({"candidate_cut_to": self.max_candidate_words} if cut else {})}


def entries(item: BlindItem) -> tuple[BlindItem, ...]:
    """The same answer with one entry of its checklist each."""
    return tuple(
        replace(item, key=digest([item.key, number]), checklist=(text,))
        for number, text in enumerate(item.checklist, start=1)
    )


def joined(item: BlindItem, parts: Sequence[Verdict]) -> Verdict:
    """The verdict of a checklist whose entries were asked for one by one, in their order.

    It is graded only if all are; else it has the reason of the first that is not, one that will be tried again before
    the others.
    """
    first = parts[0]
    failed = sorted((part for part in parts if part.reason != SCORED), key=lambda part: part.is_final)
    lenient = sorted({part.parse for part in parts} - {"strict"})
    told = {
        "item_key": item.key,
        "raw": "\n".join(part.raw for part in parts),
        "usage": _usage([part.usage for part in parts]),
    }
    if failed:
        return failed[0].model_copy(update={**told, "scores": {}})
    scores = {f"{ITEM}{number}": part.scores[f"{ITEM}1"] for number, part in enumerate(parts, start=1)}
    return first.model_copy(update={**told, "scores": scores, "parse": lenient[0] if lenient else "strict"})


def _usage(usages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Counts and times added up; of what is said in words the first."""
    total: dict[str, Any] = {"calls": len(usages)}
    for usage in usages:
        for name, value in usage.items():
            if isinstance(value, bool) or not isinstance(value, int | float):
                total.setdefault(name, value)
            else:
                total[name] = total.get(name, 0) + value
    return total
