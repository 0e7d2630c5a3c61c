"""One case: names and values drawn, records written, filler put around them, all to a number of tokens."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from data_adapters.erasing_niah.constructions import Construction
from data_adapters.erasing_niah.filler import Filler
from data_adapters.erasing_niah.vocabulary import HOOKS, NAME_ENDS, NAME_STARTS, VALUE_WORDS
from kvrelay.core.errors import ConfigError
from kvrelay.core.example import CountTokens, Unit

LEAD, ERASED, KEPT, TABLE, ROW = "lead", "erased", "kept", "table", "row"


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """What chance decides of one case. Values begin with unlike digits or letters, so that no two share a prefix."""

    key: str
    other: str
    rows: tuple[tuple[str, str], ...]
    erased: str
    kept: str
    erased_hook: str
    kept_hook: str
    row_depths: tuple[float, ...]

    @classmethod
    def of(cls, rng: random.Random, *, words: bool, digits: int, distractors: int) -> Draw:
        names = _names(rng, distractors + 2)
        values = _values(rng, distractors + 2, words, digits)
        hooks = rng.sample(HOOKS, 2)
        return cls(
            key=names[0],
            other=names[1],
            rows=tuple(zip(names[2:], values[2:], strict=True)),
            erased=values[0],
            kept=values[1],
            erased_hook=hooks[0],
            kept_hook=hooks[1],
            row_depths=tuple(rng.random() for _ in range(distractors)),
        )


def _names(rng: random.Random, n: int) -> list[str]:
    starts = rng.sample(NAME_STARTS, n)
    ends = [end for _ in range(n) for end in rng.sample(NAME_ENDS, len(NAME_ENDS))][:n]
    return [start + end for start, end in zip(starts, ends, strict=True)]


def _values(rng: random.Random, n: int, words: bool, digits: int) -> list[str]:
    if words:
        return rng.sample(VALUE_WORDS, n)
    return [first + "".join(rng.choices("0123456789", k=digits - 1)) for first in rng.sample("123456789", n)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where the records stand: depths are shares of the filler before a record, from 0 to 1.

    ``near`` puts the record that stays right after the deleted one; ``mirrored`` swaps the two, so that the answer
    stands in the exact prefix.
    """

    erase_depth: float
    keep_depth: float
    near: bool
    mirrored: bool


def write(construction: Construction, draw: Draw, noun: str) -> dict[str, list[str]]:
    """The records' texts by role."""
    common = {
        "key": draw.key,
        "other": draw.other,
        "noun": noun,
        "erased": draw.erased,
        "kept": draw.kept,
        "erased_hook": draw.erased_hook,
        "kept_hook": draw.kept_hook,
    }
    return {
        LEAD: [construction.lead.format(**common)] if construction.lead else [],
        ERASED: [construction.erased.format(**common, value=draw.erased)],
        KEPT: [construction.kept.format(**common, value=draw.kept)],
        TABLE: [row.format(**common) for row in construction.table],
        ROW: [construction.row.format(**common | {"key": key, "value": value}) for key, value in draw.rows],
    }


def units_of(
    records: dict[str, list[str]], draw: Draw, layout: Layout, n_tokens: int, filler: Filler, rng: random.Random
) -> tuple[Unit, ...]:
    """The history's units in order; all but the erased one hold at most ``n_tokens`` tokens together.

    Raises `ConfigError` where the records alone hold more.
    """
    stay = [text for role, texts in records.items() if role != ERASED for text in texts]
    left = n_tokens - _count(stay, filler.count_tokens)
    if left < 0:
        raise ConfigError(
            f"records of {n_tokens - left} tokens do not fit in {n_tokens}; lengthen dataset.*.lengths or lower "
            "dataset.*.distractors"
        )
    passages = filler.passages(left, rng)
    placed = sorted(_placed(records, draw, layout), key=lambda one: one[0])
    found: list[Unit] = []
    done = 0
    for depth, group in placed:
        until = round(depth * len(passages))
        found += [_unit(f"text-{index}", passages[index]) for index in range(done, until)]
        found += [_unit(name, text) for name, text in group]
        done = max(done, until)
    return tuple(found + [_unit(f"text-{index}", passages[index]) for index in range(done, len(passages))])


def _placed(records: dict[str, list[str]], draw: Draw, layout: Layout) -> Iterator[tuple[float, list[tuple[str, str]]]]:
    """(depth, named texts that stand together), in no order."""
    first, second = (KEPT, ERASED) if layout.mirrored else (ERASED, KEPT)
    opening = [*_named(records, LEAD), *_named(records, first), *_named(records, TABLE)]
    closing = _named(records, second)
    if layout.near:
        yield layout.erase_depth, opening + closing
    else:
        yield layout.erase_depth, opening
        yield layout.keep_depth, closing
    for depth, row in zip(draw.row_depths, _named(records, ROW), strict=True):
        yield depth, [row]


def _named(records: dict[str, list[str]], role: str) -> list[tuple[str, str]]:
    texts = records[role]
    return [(role if role in (LEAD, ERASED, KEPT) else f"{role}-{index}", text) for index, text in enumerate(texts)]


def _unit(name: str, text: str) -> Unit:
    return Unit(id=name, text=text, index_text=text, evidence=name == KEPT)


def _count(texts: Sequence[str], count_tokens: CountTokens) -> int:
    return sum(map(count_tokens, texts))
