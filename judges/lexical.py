"""A judge that needs no server: exact match, token F1 and containment, and the objective rules for choices."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from judges.choices import is_gold, official_choice, sound_choice
from judges.unavailable import states_unavailable
from kvrelay.core.errors import ConfigError
from kvrelay.judging.local import LocalJudge, Ruling, settled_here
from kvrelay.judging.protocol import BlindItem

RULES_VERSION = 1
"""Part of the judge's id: a changed rule is a changed judge."""

_ARTICLES = frozenset({"a", "an", "the"})
_APOSTROPHES = "’‘ʼ"


@dataclass(frozen=True, slots=True, kw_only=True)
class LexicalJudge:
    """Scores by tokens after SQuAD's normalisation. Raises `ConfigError` for settings out of range.

    ``rule`` decides answers with references: ``contains`` (a reference's tokens stand in the answer, one after the
    other), ``exact``, or ``f1_at_least`` (``f1_threshold``). ``choice_rule`` decides multiple choice.
    ``max_candidate_tokens`` scores only the first words of an answer against its references.
    Types whose reference is a rubric are beyond a lexical judge and stay unscored.
    """

    rule: Literal["contains", "exact", "f1_at_least"] = "contains"
    f1_threshold: float = 0.5
    choice_rule: Literal["sound", "official"] = "sound"
    max_candidate_tokens: int | None = None
    rubric_types: tuple[str, ...] = ("single-session-preference",)

    def __post_init__(self) -> None:
        if self.rule not in ("contains", "exact", "f1_at_least"):
            raise ConfigError(f"judge.*.rule is {self.rule!r}; wanted contains, exact or f1_at_least")
        if self.choice_rule not in ("sound", "official"):
            raise ConfigError(f"judge.*.choice_rule is {self.choice_rule!r}; wanted sound or official")
        if not 0 < self.f1_threshold <= 1:
            raise ConfigError(f"judge.*.f1_threshold is {self.f1_threshold}; wanted more than 0 and at most 1")
        if self.max_candidate_tokens is not None and self.max_candidate_tokens < 1:
            raise ConfigError(
                f"judge.*.max_candidate_tokens is {self.max_candidate_tokens}; wanted at least 1, or null"
            )

    def settled(self, name: str) -> LocalJudge:
        """Nothing can be missing, and the settings are the whole identity."""
        settings = asdict(self) | {"rubric_types": sorted(self.rubric_types)}
        return settled_here(name, {"rules": "lexical", "version": RULES_VERSION, **settings}, self.decide)

    def decide(self, item: BlindItem) -> Ruling:
        """True, false, or unscored: ``rubric`` and ``no_reference`` are what this judge cannot decide."""
        if item.gold_choice is not None:
            return self._by_choice(item, item.gold_choice)
        if item.unanswerable:
            return Ruling(correct=states_unavailable(item.candidate))
        if item.question_type in self.rubric_types or item.checklist:
            return Ruling(correct=None, reason="rubric")
        references = [tokens for tokens in map(normalised, item.references) if tokens]
        if not references:
            return Ruling(correct=None, reason="no_reference")
        return self._by_references(item, references)

    def _by_references(self, item: BlindItem, references: Sequence[Sequence[str]]) -> Ruling:
        candidate = normalised(" ".join(item.candidate.split()[: self.max_candidate_tokens]))
        scores = {
            "em": float(any(candidate == reference for reference in references)),
            "f1": max(token_f1(candidate, reference) for reference in references),
            "contains": float(any(contains(candidate, reference) for reference in references)),
        }
        decided = {
            "contains": scores["contains"] == 1.0,
            "exact": scores["em"] == 1.0,
            "f1_at_least": scores["f1"] >= self.f1_threshold,
        }
        return Ruling(correct=decided[self.rule], scores=scores)

    def _by_choice(self, item: BlindItem, gold: str) -> Ruling:
        official = official_choice(item.candidate, gold)
        sound = is_gold(sound_choice(item.candidate, item.choices), gold, item.choices)
        correct = sound if self.choice_rule == "sound" else official
        return Ruling(correct=correct, scores={"official": float(official), "sound": float(sound)})


def normalised(text: str) -> list[str]:
    """Tokens of a text: folded case, no punctuation or symbols, no articles. On ASCII it is SQuAD's normalisation.

    Beyond ASCII: compatibility forms are unified, curly apostrophes vanish like straight ones, and other marks
    (dashes, guillemets, ellipses) part words, as they are often written without spaces.
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    return [token for token in "".join(map(_mark_removed, folded)).split() if token not in _ARTICLES]


def _mark_removed(character: str) -> str:
    if unicodedata.category(character)[0] not in "PS":
        return character
    return "" if character.isascii() or character in _APOSTROPHES else " "


def token_f1(candidate: Sequence[str], reference: Sequence[str]) -> float:
    """Harmonic mean of precision and recall over the multisets of tokens; 0 where they share none."""
    shared = sum((Counter(candidate) & Counter(reference)).values())
    return 2 * shared / (len(candidate) + len(reference)) if shared else 0.0


def contains(candidate: Sequence[str], reference: Sequence[str]) -> bool:
    """Whether the reference's tokens stand in the candidate, one after the other."""
    width = len(reference)
    return any(candidate[i : i + width] == reference for i in range(len(candidate) - width + 1))
