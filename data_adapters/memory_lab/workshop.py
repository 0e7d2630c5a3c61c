"""The plot of one Long-MT-Bench+-like conversation: a few projects in turn, then questions about them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from data_adapters.memory_lab.projects import (
    LINK_REPLY,
    LINK_REQUEST,
    REVISION_OPENING,
    REVISION_REQUEST,
    Detail,
    Project,
)
from data_adapters.memory_lab.small_talk import ROUNDS
from data_adapters.memory_lab.world import Deck, Plot, Query, Round, Session
from kvrelay.core.errors import ConfigError

N_PROJECTS = 4
"""Projects of a conversation; each fills one session, and a last session looks back at them."""

SPAN = 100
"""An exchange stands at a place of its own; those from ``i * SPAN`` on belong to session ``i``."""


@dataclass(frozen=True, slots=True)
class Item:
    """One detail of one project of the conversation."""

    project: Project
    detail: Detail

    @property
    def fact(self) -> str:
        return f"{self.project.name}/{self.detail.noun}"

    def matches(self, other: Item) -> bool:
        """Whether the two can be made equal: they stand in different sessions and take the same kind of value."""
        return self.project != other.project and self.detail.pool == other.detail.pool


@dataclass(slots=True, kw_only=True)
class Workshop:
    """A plot in the making. ``open`` are details that no question needs yet, ``last`` what the last session says."""

    rng: random.Random
    deck: Deck
    values: dict[Item, str]
    open: list[Item]
    linked: set[Item] = field(default_factory=set)
    last: list[Round] = field(default_factory=list)

    def take(self, fits: Callable[[Item], bool]) -> Item:
        """An open detail that fits. Raises `ConfigError` where there is none."""
        fitting = [item for item in self.open if fits(item)]
        if not fitting:
            raise ConfigError("no detail of the projects is left to ask for; lower questions_per_history")
        item = self.rng.choice(fitting)
        self.open.remove(item)
        return item


def retrospection(shop: Workshop) -> Query:
    """What was settled once."""
    item = shop.take(lambda item: True)
    return Query(type="retrospection", text=item.detail.ask, answer=shop.values[item], evidence=(item.fact,))


def revision(shop: Workshop) -> Query:
    """What was settled, and settled anew in the last session."""
    item = shop.take(lambda item: True)
    value, names = shop.deck.deal(item.detail.pool), {"noun": item.detail.noun, "project": item.project.name}
    request, reply = REVISION_REQUEST.format(**names), f"{REVISION_OPENING} {item.detail.reply.format(value=value)}"
    new = f"{item.fact}/new"
    shop.last.append(Round(user=request, assistant=reply, fact=new, teller="assistant"))
    evidence, stale = (item.fact, new), shop.values[item]
    return Query(type="revision", text=item.detail.ask, answer=value, stale=stale, evidence=evidence)


def conjunction(shop: Workshop) -> Query:
    """A detail that was only said to equal one of another session: two sessions answer the question."""
    item = shop.take(lambda item: any(item.matches(other) for other in shop.open))
    source = shop.take(item.matches)
    shop.linked.add(item)
    text = {
        "noun": item.detail.noun,
        "project": item.project.name,
        "other_noun": source.detail.noun,
        "other_project": source.project.name,
    }
    link = f"{item.fact}/link"
    shop.last.append(Round(user=LINK_REQUEST.format(**text), assistant=LINK_REPLY, fact=link))
    answer, evidence = shop.values[source], (source.fact, link)
    return Query(type="conjunction", text=item.detail.ask, answer=answer, evidence=evidence)


MAKERS: dict[str, Callable[[Workshop], Query]] = {
    "conjunction": conjunction,
    "revision": revision,
    "retrospection": retrospection,
}


def plan_workshop(rng: random.Random, projects: Sequence[Project], wanted: Sequence[str]) -> Plot:
    """The plot for questions of the ``wanted`` kinds about the projects, in their order."""
    deck = Deck(rng)
    items = [Item(project, detail) for project in projects for detail in project.details]
    shop = Workshop(rng=rng, deck=deck, values={i: deck.deal(i.detail.pool) for i in items}, open=list(items))
    made: dict[int, Query] = {}
    # Conjunctions first: they are the only ones that need two details of one kind.
    for index in sorted(range(len(wanted)), key=lambda i: list(MAKERS).index(wanted[i])):
        made[index] = MAKERS[wanted[index]](shop)
    rng.shuffle(shop.last)
    return Plot(sessions=tuple(_sessions(shop, projects)), queries=tuple(made[i] for i in range(len(wanted))))


def _sessions(shop: Workshop, projects: Sequence[Project]) -> Iterator[Session]:
    """Each exchange at its place: a project's details in their order, what the last session says at the end."""
    for number, project in enumerate(projects):
        told = [item for item in shop.values if item.project == project and item not in shop.linked]
        yield from _spread(shop.rng, number, [_settled(item, shop.values[item]) for item in told])
    yield from _spread(shop.rng, len(projects), shop.last)


def _settled(item: Item, value: str) -> Round:
    reply = item.detail.reply.format(value=value)
    return Round(user=item.detail.request, assistant=reply, fact=item.fact, teller="assistant")


def _spread(rng: random.Random, number: int, rounds: Sequence[Round]) -> Iterator[Session]:
    places = sorted(rng.sample(range(number * SPAN, (number + 1) * SPAN), len(rounds)))
    for place, spoken in zip(places, rounds, strict=True):
        yield Session(day=place, rounds=(spoken,))


def chatter(rng: random.Random, projects: Sequence[Project], planted: Sequence[Session]) -> Iterator[Session]:
    """Exchanges that settle nothing, at free places: first about the projects in turn, then about anything."""
    taken = {session.day for session in planted}
    own = [(number, *texts) for number, project in enumerate(projects) for texts in project.chatter]
    other = [(rng.randrange(len(projects) + 1), *texts) for texts in rng.sample(ROUNDS, len(ROUNDS))]
    for number, human, bot in [*rng.sample(own, len(own)), *other]:
        place = rng.choice([p for p in range(number * SPAN, (number + 1) * SPAN) if p not in taken])
        taken.add(place)
        yield Session(day=place, rounds=(Round(user=human, assistant=bot),))
