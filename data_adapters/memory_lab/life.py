"""The plot of one LongMemEval-like history: what a user tells over five months, and what is asked at the end."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from data_adapters.memory_lab.vocabulary import RELATIONS
from data_adapters.memory_lab.wording import (
    ATTRIBUTES,
    EVENTS,
    OFFERS,
    RELATION_REPLY,
    RELATION_TOLD,
    Attribute,
    Event,
    Offer,
)
from data_adapters.memory_lab.world import N_DAYS, Deck, Plot, Query, Round, Session, day_text
from kvrelay.core.errors import ConfigError

USER = ""
"""Stands for the user where a person's name would stand."""


def possessive(name: str) -> str:
    return f"{name}'s" if name else "my"


@dataclass(slots=True, kw_only=True)
class Life:
    """A plot in the making. Every (person, attribute) is told at most once, every value dealt once."""

    rng: random.Random
    deck: Deck
    cast: tuple[str, ...]
    days: list[int]
    relations: dict[str, str] = field(default_factory=dict)
    taken: set[tuple[str, str]] = field(default_factory=set)
    sessions: list[Session] = field(default_factory=list)

    def draw_days(self, n: int) -> list[int]:
        """The next ``n`` free days of the window, ascending."""
        if len(self.days) < n:
            raise ConfigError("a history has more sessions than the window has days; lower questions_per_history")
        return sorted(self.days.pop() for _ in range(n))

    def free_attribute(self, name: str) -> Attribute:
        """An attribute of a person that has not been told, and that one more person can have."""
        free = [a for a in ATTRIBUTES if (name, a.key) not in self.taken and (a.own or name != USER)]
        if not free:
            raise ConfigError("every fact about a person is used up; lower questions_per_history")
        return self.rng.choice(free)

    def free_offer(self) -> Offer:
        """A proposal that the assistant has not made."""
        free = [o for o in OFFERS if ("assistant", o.key) not in self.taken]
        if not free:
            raise ConfigError("every proposal of the assistant is used up; lower questions_per_history")
        offer = self.rng.choice(free)
        self.taken.add(("assistant", offer.key))
        return offer

    def free_event(self) -> Event:
        """A kind of event that has not been told of."""
        free = [e for e in EVENTS if ("event", e.key) not in self.taken]
        if not free:
            raise ConfigError("every kind of event is used up; lower questions_per_history")
        event = self.rng.choice(free)
        self.taken.add(("event", event.key))
        return event

    def tell(self, name: str, attribute: Attribute, day: int) -> str:
        """Plant a fact, return its value."""
        value = self.deck.deal(attribute.pool)
        self.taken.add((name, attribute.key))
        self._plant(name, attribute, day, self.rng.choice(attribute.tell), f"{name}/{attribute.key}", value)
        return value

    def change(self, name: str, attribute: Attribute, day: int) -> str:
        """Plant the update that contradicts a fact told before, return the new value."""
        value = self.deck.deal(attribute.pool)
        self._plant(name, attribute, day, attribute.change, f"{name}/{attribute.key}/new", value)
        return value

    def tell_rival(self, name: str, attribute: Attribute) -> None:
        """The same attribute of somebody else, so that the attribute alone does not lead to the answer."""
        others = [n for n in self.cast if n != name and (n, attribute.key) not in self.taken]
        if others:
            self.tell(self.rng.choice(others), attribute, self.draw_days(1)[0])

    def introduce(self, name: str) -> str:
        """Tell once what a person is to the user; return the relation."""
        if name not in self.relations:
            relation = next(r for r in RELATIONS if r not in self.relations.values())
            self.relations[name] = relation
            text = self.rng.choice(RELATION_TOLD).format(relation=relation, name=name)
            spoken = Round(user=text, assistant=RELATION_REPLY, fact=f"{name}/relation")
            self.sessions.append(Session(day=self.draw_days(1)[0], rounds=(spoken,)))
        return self.relations[name]

    def _plant(self, name: str, attribute: Attribute, day: int, template: str, fact: str, value: str) -> None:
        who = possessive(name)
        text = template.format(who=who, Who=who[0].upper() + who[1:], value=value)
        self.sessions.append(Session(day=day, rounds=(Round(user=text, assistant=attribute.reply, fact=fact),)))


def single_session_user(life: Life) -> Query:
    """A fact that the user told once."""
    name = life.rng.choice((*life.cast, USER))
    attribute = life.free_attribute(name)
    value = life.tell(name, attribute, life.draw_days(1)[0])
    life.tell_rival(name, attribute)
    text = attribute.ask.format(who=possessive(name))
    return Query(type="single-session-user", text=text, answer=value, evidence=(f"{name}/{attribute.key}",))


def single_session_assistant(life: Life) -> Query:
    """Something that the assistant proposed, beside a proposal of the same kind for somebody else."""
    offer = life.free_offer()
    whom, other = life.rng.sample(offer.whom, 2)
    value = _propose(life, offer, whom)
    _propose(life, offer, other)
    text, evidence = offer.ask.format(whom=whom), (f"assistant/{offer.key}/{whom}",)
    return Query(type="single-session-assistant", text=text, answer=value, evidence=evidence)


def _propose(life: Life, offer: Offer, whom: str) -> str:
    value = life.deck.deal(offer.pool)
    request, reply = offer.request.format(whom=whom), offer.reply.format(whom=whom, value=value)
    said = Round(user=request, assistant=reply, fact=f"assistant/{offer.key}/{whom}", teller="assistant")
    life.sessions.append(Session(day=life.draw_days(1)[0], rounds=(said,)))
    return value


def single_session_preference(life: Life) -> Query:
    """A wish for advice; the reference is a rubric, as in the real set, and needs a judge that reads."""
    favourites = [a for a in ATTRIBUTES if a.key in ("tea", "sport", "book") and (USER, a.key) not in life.taken]
    if not favourites:
        raise ConfigError("every preference is used up; lower questions_per_history or raise preference_every")
    attribute = life.rng.choice(favourites)
    value = life.tell(USER, attribute, life.draw_days(1)[0])
    text = f"I have a free evening. Which {attribute.key} would you suggest to me?"
    rubric = f"The user would like a suggestion that builds on {value}, the favourite {attribute.key} they spoke of."
    return Query(type="single-session-preference", text=text, answer=rubric, evidence=(f"{USER}/{attribute.key}",))


def multi_session(life: Life) -> Query:
    """Who somebody is was told in one session, what that person has in another."""
    name, rival = life.rng.sample(life.cast, 2)
    attribute = life.free_attribute(name)
    relation = life.introduce(name)
    life.introduce(rival)
    value = life.tell(name, attribute, life.draw_days(1)[0])
    if (rival, attribute.key) not in life.taken:
        life.tell(rival, attribute, life.draw_days(1)[0])
    text = attribute.ask.format(who=f"my {relation}'s")
    return Query(
        type="multi-session", text=text, answer=value, evidence=(f"{name}/relation", f"{name}/{attribute.key}")
    )


def knowledge_update(life: Life) -> Query:
    """A fact that was told and later contradicted; the newer one counts, whether the question says "now" or not."""
    name = life.rng.choice((*life.cast, USER))
    attribute = life.free_attribute(name)
    early, late = life.draw_days(2)
    stale, value = life.tell(name, attribute, early), life.change(name, attribute, late)
    ask = life.rng.choice((attribute.ask, attribute.ask_now))
    text, fact = ask.format(who=possessive(name)), f"{name}/{attribute.key}"
    return Query(type="knowledge-update", text=text, answer=value, stale=stale, evidence=(fact, f"{fact}/new"))


def temporal_reasoning(life: Life) -> Query:
    """Two dated events of a kind: the date of one, what happened on a date, or which came first."""
    event = life.free_event()
    days = life.draw_days(2)
    values = [_happen(life, event, day) for day in days]
    facts = tuple(f"event/{value}" for value in values)
    which = life.rng.randrange(2)
    form = life.rng.choice(("date", "value", "first"))
    if form == "first":
        return Query(type="temporal-reasoning", text=event.ask_first, answer=values[0], evidence=facts)
    when, value, evidence = day_text(days[which]), values[which], (facts[which],)
    if form == "date":
        text = event.ask_date.format(value=value)
        return Query(type="temporal-reasoning", text=text, answer=when, evidence=evidence)
    return Query(type="temporal-reasoning", text=event.ask_value.format(date=when), answer=value, evidence=evidence)


def _happen(life: Life, event: Event, day: int) -> str:
    value = life.deck.deal(event.pool)
    text = event.tell.format(date=day_text(day), value=value)
    spoken = Round(user=text, assistant=event.reply, fact=f"event/{value}")
    life.sessions.append(Session(day=day, rounds=(spoken,)))
    return value


def unanswerable(life: Life, kind: str) -> Query:
    """A question of the form of its kind about something that was never told; a near miss was."""
    if kind == "temporal-reasoning":
        return _unanswerable_date(life)
    name = life.rng.choice(life.cast)
    attribute = life.free_attribute(name)
    life.taken.add((name, attribute.key))
    near = life.free_attribute(name)
    life.tell(name, near, life.draw_days(1)[0])
    life.tell_rival(name, attribute)
    whose = f"my {life.introduce(name)}'s" if kind == "multi-session" else possessive(name)
    ask = attribute.ask_now if kind == "knowledge-update" else attribute.ask
    why = f"This cannot be answered: you spoke of {name}'s {near.key}, but never of {name}'s {attribute.key}."
    evidence = (f"{name}/{near.key}",)
    return Query(type=kind, text=ask.format(who=whose), answer=why, evidence=evidence, unanswerable=True)


def _unanswerable_date(life: Life) -> Query:
    event = life.free_event()
    (day,) = life.draw_days(1)
    told, missing = _happen(life, event, day), life.deck.deal(event.pool)
    text = event.ask_date.format(value=missing)
    why = f"This cannot be answered: you spoke of {told} on {day_text(day)}, but never of {missing}."
    return Query(type="temporal-reasoning", text=text, answer=why, evidence=(f"event/{told}",), unanswerable=True)


MAKERS: dict[str, Callable[[Life], Query]] = {
    "single-session-user": single_session_user,
    "multi-session": multi_session,
    "knowledge-update": knowledge_update,
    "temporal-reasoning": temporal_reasoning,
    "single-session-assistant": single_session_assistant,
    "single-session-preference": single_session_preference,
}


def plan_life(rng: random.Random, wanted: Sequence[tuple[str, bool]]) -> Plot:
    """The plot for questions of the ``wanted`` (type, unanswerable) kinds."""
    deck = Deck(rng)
    cast = tuple(deck.deal("name") for _ in range(4))
    life = Life(rng=rng, deck=deck, cast=cast, days=rng.sample(range(N_DAYS), N_DAYS))
    queries = tuple(unanswerable(life, kind) if missing else MAKERS[kind](life) for kind, missing in wanted)
    return Plot(sessions=tuple(life.sessions), queries=queries)
