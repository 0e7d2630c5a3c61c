"""Answer-only exact match and F1, each question by the official normalisation of its data set (SUR, section A.5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

from judges.normalise import drop, drop_f1, first_number, hotpot_f1, musique_f1, plain_value, squad
from judges.unavailable import states_unavailable
from kvrelay.core.errors import ConfigError
from kvrelay.judging.local import LocalJudge, Ruling, settled_here
from kvrelay.judging.protocol import BlindItem

RULES_VERSION = 1
"""Part of the judge's id: a changed rule is a changed judge."""


class _Rule(NamedTuple):
    form: Callable[[str], str]
    f1: Callable[[str, str], float]


_HOTPOT, _MUSIQUE, _DROP = _Rule(squad, hotpot_f1), _Rule(squad, musique_f1), _Rule(drop, drop_f1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortAnswer:
    """Right is an answer that equals a reference after normalisation; the best reference counts for EM and for F1.

    A question's type tells its rule: ``drop_types`` are IIRC's, ``musique_types`` MuSiQue's; types that begin with
    ``value_prefix`` ask for one value, which is compared without commas and a final full stop, and whose lenient
    score takes the first run of digits instead (``em_lenient``); all others follow HotpotQA and 2WikiMultiHopQA.
    ``first_line`` drops what an answer says after its first line; without it every word of an answer counts.
    Unanswerable questions get no verdict, but ``abstained`` in their scores.
    """

    first_line: bool = True
    drop_types: tuple[str, ...] = ("span", "value", "binary")
    musique_types: tuple[str, ...] = ("2hop", "3hop", "4hop")
    value_prefix: str = "niah"

    def __post_init__(self) -> None:
        if not self.value_prefix:
            raise ConfigError("judge.*.value_prefix is empty and would hold for every type; wanted a prefix, as niah")

    def settled(self, name: str) -> LocalJudge:
        """Nothing can be missing, and the settings are the whole identity."""
        types = {"drop_types": sorted(self.drop_types), "musique_types": sorted(self.musique_types)}
        settings = asdict(self) | types
        return settled_here(name, {"rules": "short_answer", "version": RULES_VERSION, **settings}, self.decide)

    def decide(self, item: BlindItem) -> Ruling:
        """Right, wrong, or unscored: ``choice``, ``unanswerable``, ``rubric`` and ``no_reference`` are none such."""
        answer = self._answer(item.candidate)
        if item.gold_choice is not None:
            return Ruling(correct=None, reason="choice")
        if item.unanswerable:
            # the official script writes such a gold answer as the word none
            abstained = drop(answer) == "none" or states_unavailable(item.candidate)
            return Ruling(correct=None, reason="unanswerable", scores={"abstained": float(abstained)})
        if item.checklist:
            return Ruling(correct=None, reason="rubric")
        references = [reference for reference in item.references if reference.strip()]
        if not references:
            return Ruling(correct=None, reason="no_reference")
        scores = self._scores(answer, references, item.question_type)
        return Ruling(correct=scores["em"] == 1.0, scores=scores)

    def _answer(self, candidate: str) -> str:
        """The answer that is scored: a model that goes on does so on a new line."""
        answer = candidate.strip()
        return answer.partition("\n")[0].strip() if self.first_line else answer

    def _scores(self, answer: str, references: Sequence[str], question_type: str) -> dict[str, float]:
        if question_type.startswith(self.value_prefix):
            return {
                "em": float(plain_value(answer) in map(plain_value, references)),
                "f1": max(musique_f1(answer, reference) for reference in references),
                "em_lenient": float(first_number(answer) in filter(None, map(first_number, references))),
            }
        rule = self._rule(question_type)
        return {
            "em": float(rule.form(answer) in map(rule.form, references)),
            "f1": max(rule.f1(answer, reference) for reference in references),
        }

    def _rule(self, question_type: str) -> _Rule:
        if question_type in self.drop_types:
            return _DROP
        return _MUSIQUE if question_type in self.musique_types else _HOTPOT
