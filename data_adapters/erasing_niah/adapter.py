"""Same-key deletions: of two values of one key the earlier is deleted, and the later one is asked for (SUR, A.5)."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Literal, get_args

from data_adapters.erasing_niah.cases import ERASED, Draw, Layout, units_of, write
from data_adapters.erasing_niah.constructions import CONSTRUCTIONS, NAMES, Name
from data_adapters.erasing_niah.filler import Filler, stock
from data_adapters.erasing_niah.vocabulary import HOOKS, NAME_ENDS, NAME_STARTS, SHORT, VALUE_WORDS
from data_adapters.subset import require_choice, require_positive
from kvrelay.core.errors import ConfigError
from kvrelay.core.example import CountTokens, Example

Value = Literal["number", "word"]
Gap = Literal["near", "far"]
KEY = "dataset.*erasing_niah"
WORDS = (NAME_STARTS, NAME_ENDS, VALUE_WORDS, HOOKS, SHORT)
MOST_DISTRACTORS = 7
"""Two values and those of the other records begin with nine different digits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasingNIAH:
    """``lengths`` x ``cases_per_length`` seeded cases of one construction.

    A length counts tokens of the edited history: of all units but the deleted one, each tokenised by itself. Depths
    are shares of the filler; case i takes the i-th pair of ``erase_depths`` and ``keep_depths``, in turn. ``gap``
    near puts the second record right after the first, whatever its depth. ``distractors`` are records of other keys.
    ``mirrored`` puts the record that stays first: its states are exact, and Shift should answer as Re-prefill does.
    ``prompt`` is what follows the history; its {question} is the beginning of a record, to be gone on with.

    Cases of equal seed, length and number have the same names, values and order of filler in every construction.
    """

    construction: Name = "list"
    lengths: tuple[int, ...] = (1024, 2048, 4096, 8192, 16384, 32768)
    cases_per_length: int = 16
    erase_depths: tuple[float, ...] = (0.1, 0.25, 0.4, 0.55)
    keep_depths: tuple[float, ...] = (0.35, 0.55, 0.75, 0.9)
    gap: Gap = "near"
    mirrored: bool = False
    distractors: int = 6
    value: Value = "number"
    digits: int = 4
    sentences_per_unit: int = 6
    preamble: str = ""
    prompt: str = "\n{question}"
    seed: int = 0

    def __post_init__(self) -> None:
        require_choice(f"{KEY}.construction", self.construction, NAMES)
        require_choice(f"{KEY}.gap", self.gap, get_args(Gap))
        require_choice(f"{KEY}.value", self.value, get_args(Value))
        require_positive(f"{KEY}.cases_per_length", self.cases_per_length)
        require_positive(f"{KEY}.sentences_per_unit", self.sentences_per_unit)
        if not 3 <= self.digits <= 9:
            raise ConfigError(f"{KEY}.digits={self.digits}: wanted 3 to 9")
        if not 0 <= self.distractors <= MOST_DISTRACTORS:
            raise ConfigError(f"{KEY}.distractors={self.distractors}: wanted 0 to {MOST_DISTRACTORS}")
        self._check_lengths()
        self._check_depths()
        if "\0" not in _filled(self.prompt, "\0"):
            raise ConfigError(f"{KEY}.prompt={self.prompt!r}: wanted {{question}} somewhere in it")

    def examples(self, count_tokens: CountTokens) -> Iterator[Example]:
        """Yield the cases length by length. Raises `ConfigError` for a length that the records alone exceed."""
        filler = Filler(seed=self.seed, sentences=self.sentences_per_unit, count_tokens=count_tokens)
        for length in self.lengths:
            for number in range(self.cases_per_length):
                yield self._case(length, number, filler)

    def fingerprint(self) -> str:
        """sha256 over the settings and all words."""
        said = [asdict(self), asdict(CONSTRUCTIONS[self.construction]), stock(self.seed), WORDS]
        return hashlib.sha256(repr(said).encode()).hexdigest()

    def _case(self, length: int, number: int, filler: Filler) -> Example:
        rng = random.Random(f"{self.seed}/{length}/{number}")
        words = self.value == "word"
        draw = Draw.of(rng, words=words, digits=self.digits, distractors=self.distractors)
        construction = CONSTRUCTIONS[self.construction]
        layout = self._layout(number)
        units = units_of(write(construction, draw, self.value), draw, layout, length, filler, rng)
        question = construction.ask.format(key=draw.key, noun=self.value)
        name = f"niah-{length}-{number}"
        return Example(
            id=name,
            cluster_id=name,
            units=units,
            question=question,
            question_prompt=_filled(self.prompt, question),
            references=(draw.kept,),
            question_type=f"niah-{length}",
            preamble=self.preamble,
            deleted=(ERASED,),
            notes={
                "erased_value": draw.erased,
                "construction": self.construction,
                "mirrored": self.mirrored,
                "gap": self.gap,
                "length": length,
                "edited_tokens": sum(filler.count_tokens(unit.text) for unit in units if unit.id != ERASED),
                "erase_depth": layout.erase_depth,
                "keep_depth": layout.keep_depth,
            },
        )

    def _layout(self, number: int) -> Layout:
        erase, keep = list(zip(self.erase_depths, self.keep_depths, strict=True))[number % len(self.erase_depths)]
        near = self.gap == "near"
        return Layout(erase_depth=erase, keep_depth=erase if near else keep, near=near, mirrored=self.mirrored)

    def _check_lengths(self) -> None:
        if not self.lengths or min(self.lengths) < 1 or len(set(self.lengths)) < len(self.lengths):
            raise ConfigError(f"{KEY}.lengths={self.lengths}: wanted different numbers of tokens, at least 1 each")

    def _check_depths(self) -> None:
        pairs = list(zip(self.erase_depths, self.keep_depths, strict=False))
        sound = all(0 <= erase <= keep <= 1 for erase, keep in pairs)
        if not pairs or not sound or len(self.erase_depths) != len(self.keep_depths):
            raise ConfigError(
                f"{KEY}.erase_depths={self.erase_depths}, keep_depths={self.keep_depths}: wanted as many of one as of "
                "the other, each pair ascending, from 0 to 1"
            )


def _filled(prompt: str, question: str) -> str:
    try:
        return prompt.format(question=question)
    except (LookupError, ValueError) as error:
        raise ConfigError(f"{KEY}.prompt={prompt!r}: wanted {{question}} alone in braces") from error
