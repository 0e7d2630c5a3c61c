"""From a seed to records: two works of one name, their makers, what is told of each, and a question about one.

Every question comes with a passage that misleads: a second work whose name and relation are the question's own, made by
somebody else. It supports nothing and holds no answer, so that an adapter may delete it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice

from data_adapters.memory_lab.world import seeded
from data_adapters.multi_hop.lab.words import (
    CLAIMED,
    COUNTIES,
    COUNTY,
    COUNTY_QUESTION,
    FORENAMES,
    KINDS,
    LIFE,
    NAMES,
    OPENED,
    OPENED_QUESTION,
    SURNAMES,
    TOWN_LIFE,
    TRAITS,
    Kind,
    Trait,
)

GENERATOR_VERSION = 1
"""Raised when plots change; changed words are noticed without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paragraph:
    """``step`` is the hop that it answers, counted from 0; None where it supports nothing."""

    title: str
    sentences: tuple[str, ...]
    step: int | None = None


@dataclass(frozen=True, slots=True)
class Tale:
    """``steps`` are (question, answer) of its hops; ``type`` is bridge or comparison."""

    question: str
    answer: str
    type: str
    steps: tuple[tuple[str, str], ...]
    paragraphs: tuple[Paragraph, ...]


@dataclass(slots=True)
class _World:
    """Names that one question has not used yet."""

    rng: random.Random
    forenames: list[str]
    surnames: list[str]
    names: list[str]
    towns: list[str]
    values: dict[str, list[str]]

    @classmethod
    def drawn(cls, rng: random.Random) -> _World:
        values = {trait.name: rng.sample(trait.values, len(trait.values)) for trait in TRAITS}
        forenames, surnames, names = (rng.sample(pool, len(pool)) for pool in (FORENAMES, SURNAMES, NAMES))
        return cls(rng, forenames, surnames, names, values["town"], values)

    def person(self) -> str:
        return f"{self.forenames.pop()} {self.surnames.pop()}"

    def work(self, kind: Kind) -> str:
        return f"{self.names.pop()} {kind.noun}"

    def about_work(self, kind: Kind, *facts: str) -> tuple[str, ...]:
        return (*facts, *self.rng.sample(kind.more, 2))

    def about_person(self, person: str, kind: Kind, fact: str) -> tuple[str, ...]:
        return (f"{person} was {kind.job}.", fact, *self.rng.sample(LIFE, 2))


def tales(schema: str, questions: int, passages: int, seed: int) -> Iterator[Tale]:
    """Records of HotpotQA's kinds (each fourth a comparison) or of MuSiQue's (each fourth of three hops)."""
    for number in range(questions):
        world = _World.drawn(seeded("multi_hop", schema, seed, number))
        fourth = number % 4 == 3
        if fourth and schema == "hotpotqa":
            yield _comparison(world, passages)
        else:
            yield _bridge(world, passages, three_hops=fourth)


def _bridge(world: _World, passages: int, three_hops: bool) -> Tale:
    """Who made the work, and what is told of that person; with three hops, where the town of birth lies."""
    kind = world.rng.choice(KINDS)
    trait = TRAITS[0] if three_hops else world.rng.choice(TRAITS)
    work, maker, value = world.work(kind), world.person(), world.values[trait.name].pop()
    told = [
        Paragraph(title=work, sentences=world.about_work(kind, kind.made.format(work=work, person=maker)), step=0),
        Paragraph(title=maker, sentences=world.about_person(maker, kind, _said(trait, maker, value)), step=1),
    ]
    second = trait.asked.replace("the {maker} of the {work}", "#1")
    steps = [(f"Who was the {kind.maker} of the {work}?", maker), (second, value)]
    question, answer = trait.asked.format(maker=kind.maker, work=work), value
    if three_hops:
        answer = world.rng.choice(COUNTIES)
        sentences = (COUNTY.format(town=value, county=answer), *world.rng.sample(TOWN_LIFE, 2))
        told.append(Paragraph(title=value, sentences=sentences, step=2))
        steps.append(("In which county does #2 lie?", answer))
        question = COUNTY_QUESTION.format(maker=kind.maker, work=work)
    others = chain([_misleading(world, kind, trait, work)], _others(world, kind, trait))
    return _mixed(world, Tale(question, answer, "bridge", tuple(steps), (*told, *islice(others, passages - len(told)))))


def _comparison(world: _World, passages: int) -> Tale:
    """Which of two works was opened first; a third was opened before both."""
    kind = world.rng.choice(KINDS[:3])
    works = [world.work(kind) for _ in range(3)]
    year = world.rng.randrange(1850, 1930, 7)
    years = (year, year + 21, year - 24)
    opened = [
        Paragraph(
            title=work,
            sentences=world.about_work(kind, OPENED.format(work=work, year=year)),
            step=step if step < 2 else None,
        )
        for step, (work, year) in enumerate(zip(works, years, strict=True))
    ]
    first, second = world.rng.sample(works[:2], 2)
    question = OPENED_QUESTION.format(first=first, second=second)
    steps = [(f"When was the {work} opened?", str(year)) for work, year in zip(works[:2], years[:2], strict=True)]
    others = islice(_others(world, kind, TRAITS[2]), passages - len(opened))
    return _mixed(world, Tale(question, works[0], "comparison", tuple(steps), (*opened, *others)))


def _mixed(world: _World, tale: Tale) -> Tale:
    """The same with its paragraphs in a drawn order."""
    return replace(tale, paragraphs=tuple(world.rng.sample(tale.paragraphs, len(tale.paragraphs))))


def _misleading(world: _World, kind: Kind, trait: Trait, work: str) -> Paragraph:
    """A passage that names another maker of a work of that name, and tells of that person what the question asks."""
    town, person, value = world.towns.pop(), world.person(), world.values[trait.name].pop()
    claim = CLAIMED.format(work=work, town=town, maker=kind.maker, person=person)
    told = (claim, _said(trait, person, value), world.rng.choice(kind.more))
    return Paragraph(title=f"{work} ({town})", sentences=told)


def _others(world: _World, kind: Kind, trait: Trait) -> Iterator[Paragraph]:
    """Works and people of the same kinds that the question does not speak of."""
    while True:
        work, person, value = world.work(kind), world.person(), world.values[trait.name].pop()
        yield Paragraph(title=work, sentences=world.about_work(kind, kind.made.format(work=work, person=person)))
        yield Paragraph(title=person, sentences=world.about_person(person, kind, _said(trait, person, value)))


def _said(trait: Trait, person: str, value: str) -> str:
    return trait.said.format(person=person, value=value)
