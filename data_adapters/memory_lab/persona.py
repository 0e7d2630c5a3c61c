"""The plot of one PersonaMem-like history: a persona whose tastes change, then messages with four replies each."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from data_adapters.memory_lab.preferences import (
    CHANGE,
    CHANGE_REPLY,
    FRIEND,
    FRIEND_REPLY,
    LIKE,
    LIKE_REPLY,
    PURCHASE,
    PURCHASE_REPLY,
    REASONS,
    TASTES,
    Taste,
)
from data_adapters.memory_lab.world import N_DAYS, Deck, Plot, Query, Round, Session
from kvrelay.core.errors import ConfigError


@dataclass(slots=True, kw_only=True)
class Persona:
    """A plot in the making. A taste serves one question; values and reasons are dealt once."""

    rng: random.Random
    deck: Deck
    tastes: list[Taste]
    reasons: list[str]
    days: list[int]
    sessions: list[Session] = field(default_factory=list)

    def draw_days(self, n: int) -> list[int]:
        """The next ``n`` free places in the history, ascending."""
        return sorted(self.days.pop() for _ in range(n))

    def say(self, day: int, user: str, reply: str, fact: str) -> None:
        self.sessions.append(Session(day=day, rounds=(Round(user=user, assistant=reply, fact=fact),)))

    def next_taste(self) -> Taste:
        """A taste without a question. Raises `ConfigError` when no taste, or no reason to change it, is left."""
        if not (self.tastes and self.reasons):
            raise ConfigError("every taste of the persona is asked for; lower questions_per_history")
        return self.tastes.pop()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """A favourite that was replaced: what it was, what it is, why, what a friend likes, what never came up."""

    taste: Taste
    old: str
    new: str
    reason: str
    friends: str
    unseen: tuple[str, str]

    @property
    def facts(self) -> tuple[str, str, str]:
        return f"{self.taste.key}/old", f"{self.taste.key}/new", f"{self.taste.key}/friend"


def shift(persona: Persona) -> Shift:
    """Tell a favourite, later its replacement, and at any time what a friend likes."""
    taste = persona.next_taste()
    values = [persona.deck.deal(taste.pool) for _ in range(5)]
    done = Shift(
        taste=taste,
        old=values[0],
        new=values[1],
        reason=persona.reasons.pop(),
        friends=values[2],
        unseen=(values[3], values[4]),
    )
    early, late = persona.draw_days(2)
    like = persona.rng.choice(LIKE).format(key=taste.key, value=done.old)
    change = CHANGE.format(key=taste.key, old=done.old, reason=done.reason, value=done.new)
    friend = FRIEND.format(key=taste.key, value=done.friends)
    persona.say(early, like, LIKE_REPLY, done.facts[0])
    persona.say(late, change, CHANGE_REPLY, done.facts[1])
    persona.say(persona.draw_days(1)[0], friend, FRIEND_REPLY, done.facts[2])
    return done


def _query(kind: str, done: Shift, text: str, options: Sequence[str], evidence: Sequence[str], answer: str) -> Query:
    return Query(
        type=kind,
        text=text,
        answer=answer,
        stale=done.old if answer == done.new else None,
        options=tuple(options),
        evidence=tuple(evidence),
        topic=done.taste.key,
    )


def _of_values(kind: str, done: Shift, text: str, reply: str) -> Query:
    """A question whose replies differ in one word: the favourite, the old one, a friend's, one never told."""
    values = (done.new, done.old, done.friends, done.unseen[0])
    return _query(kind, done, text, [reply.format(value=v) for v in values], done.facts[:2], done.new)


def recall(persona: Persona) -> Query:
    done = shift(persona)
    key = done.taste.key
    text = f"What is my favourite {key} at the moment?"
    return _of_values("recall_user_shared_facts", done, text, f"Your favourite {key} is {{value}}.")


def recommendation(persona: Persona) -> Query:
    done = shift(persona)
    text = f"Please recommend {done.taste.a} that suits me."
    return _of_values("provide_preference_aligned_recommendations", done, text, "I would recommend {value} to you.")


def scenario(persona: Persona) -> Query:
    done = shift(persona)
    text, reply = done.taste.scenario, "In your place I would choose {value} there."
    return _of_values("generalizing_to_new_scenarios", done, text, reply)


def evolution(persona: Persona) -> Query:
    done = shift(persona)
    old, new, (other, _) = done.old, done.new, done.unseen
    pairs = ((old, new), (new, old), (old, other), (other, new))
    text = f"How has my favourite {done.taste.key} changed?"
    options = [f"It changed from {a} to {b}." for a, b in pairs]
    return _query("track_full_preference_evolution", done, text, options, done.facts[:2], done.new)


def reason(persona: Persona) -> Query:
    done = shift(persona)
    others = persona.rng.sample([r for r in REASONS if r != done.reason], 3)
    options = [f"You gave it up because {_to_you(r)}." for r in (done.reason, *others)]
    text = f"Why did I give up {done.old}?"
    kind = "recalling_the_reasons_behind_previous_updates"
    return _query(kind, done, text, options, done.facts[1:2], _to_you(done.reason))


def new_idea(persona: Persona) -> Query:
    done = shift(persona)
    values = (done.unseen[0], done.new, done.old, done.friends)
    text = f"Suggest {done.taste.a} that we have not talked about yet."
    options = [f"You could give {v} a try." for v in values]
    return _query("suggest_new_ideas", done, text, options, done.facts, done.unseen[0])


def purchase(persona: Persona) -> Query:
    values = [persona.deck.deal("object") for _ in range(4)]
    persona.say(persona.draw_days(1)[0], PURCHASE.format(value=values[0]), PURCHASE_REPLY, "purchase")
    return Query(
        type="recalling_facts_mentioned_by_the_user",
        text="What did I buy at the flea stalls?",
        answer=values[0],
        options=tuple(f"You bought a {v} there." for v in values),
        evidence=("purchase",),
        topic="purchase",
    )


def _to_you(clause: str) -> str:
    """A reason of the user as the assistant repeats it."""
    swapped = {"I": "you", "me": "you", "my": "your"}
    return " ".join(swapped.get(word, word) for word in clause.split(" "))


MAKERS: dict[str, Callable[[Persona], Query]] = {
    "recall_user_shared_facts": recall,
    "track_full_preference_evolution": evolution,
    "recalling_the_reasons_behind_previous_updates": reason,
    "provide_preference_aligned_recommendations": recommendation,
    "generalizing_to_new_scenarios": scenario,
    "suggest_new_ideas": new_idea,
    "recalling_facts_mentioned_by_the_user": purchase,
}


def plan_persona(rng: random.Random, wanted: Sequence[str]) -> Plot:
    """The plot for questions of the ``wanted`` types. Its title is what each block's system message tells."""
    deck = Deck(rng)
    name, workplace = deck.deal("name"), deck.deal("workplace")
    persona = Persona(
        rng=rng,
        deck=deck,
        tastes=rng.sample(TASTES, len(TASTES)),
        reasons=rng.sample(REASONS, len(REASONS)),
        days=rng.sample(range(N_DAYS), N_DAYS),
    )
    queries = tuple(MAKERS[kind](persona) for kind in wanted)
    title = f"Name: {name}\n{name} is {rng.randint(24, 67)} years old and works at the {workplace}."
    return Plot(sessions=tuple(persona.sessions), queries=queries, title=title)
