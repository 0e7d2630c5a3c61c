"""How a person tells a fact, changes it and asks for it: the sentences of the LongMemEval-like column."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute:
    """Something that a person has one of. ``{who}`` becomes "Nora's" or "my", ``{value}`` a word of ``pool``."""

    key: str
    pool: str
    tell: tuple[str, ...]
    change: str
    reply: str
    ask: str
    ask_now: str
    own: bool = False
    """Whether the user may have it too: small models answer questions about "my" things badly, so only a few."""


ATTRIBUTES: tuple[Attribute, ...] = (
    Attribute(
        key="dog",
        pool="pet",
        tell=(
            "I took a walk with {who} dog. {Who} dog is called {value}.",
            "{Who} dog is called {value}, and it is huge.",
        ),
        change="{Who} old dog has a new home. {Who} new dog is called {value}.",
        reply="That is a fine name. I hope it likes long walks.",
        ask="What is the name of {who} dog?",
        ask_now="What is the name of {who} new dog?",
    ),
    Attribute(
        key="cat",
        pool="pet",
        tell=(
            "{Who} cat is called {value}. It slept on my coat.",
            "I fed {who} cat today. {Who} cat is called {value}.",
        ),
        change="{Who} old cat ran away. {Who} new cat is called {value}.",
        reply="A good name. Cats do as they please.",
        ask="What is the name of {who} cat?",
        ask_now="What is the name of {who} new cat?",
    ),
    Attribute(
        key="flat",
        pool="street",
        tell=(
            "{Who} flat is in {value}, on the third floor.",
            "I helped to paint {who} flat. {Who} flat is in {value}.",
        ),
        change="{Who} new flat is in {value}. All the boxes have been moved there.",
        reply="A good address makes life easier.",
        ask="In which street is {who} flat?",
        ask_now="In which street is {who} new flat?",
    ),
    Attribute(
        key="job",
        pool="workplace",
        tell=("{Who} job is at the {value}, five days a week.", "{Who} job is at the {value} and starts at seven."),
        change="{Who} new job is at the {value}. The old job is over.",
        reply="Work is easier when one likes the place.",
        ask="Where is {who} job?",
        ask_now="Where is {who} new job?",
    ),
    Attribute(
        key="instrument",
        pool="instrument",
        tell=("{Who} instrument is the {value}. I heard it through the wall.", "{Who} instrument is the {value}."),
        change="{Who} new instrument is the {value}. The old one has been sold.",
        reply="Half an hour a day does wonders.",
        ask="Which instrument is {who} instrument?",
        ask_now="Which instrument is {who} new instrument?",
        own=True,
    ),
    Attribute(
        key="language",
        pool="language",
        tell=("{Who} evening class is in {value}.", "{Who} evening class is in {value}, twice a week."),
        change="{Who} evening class is now in {value}. The other language was too hard.",
        reply="Small steps every day are best.",
        ask="What language is {who} evening class in?",
        ask_now="What language is {who} evening class in now?",
    ),
    Attribute(
        key="tea",
        pool="tea",
        tell=("{Who} favourite tea is {value}.", "I bought a tin of tea. {Who} favourite tea is {value}."),
        change="{Who} favourite tea is now {value}. The old one tasted dull after a while.",
        reply="Use water that has stopped boiling.",
        ask="What is {who} favourite tea?",
        ask_now="What is {who} favourite tea now?",
        own=True,
    ),
    Attribute(
        key="sport",
        pool="sport",
        tell=("{Who} favourite sport is {value}.", "{Who} favourite sport is {value}, and every Sunday is taken."),
        change="{Who} favourite sport is now {value}. The old club has closed.",
        reply="Do not forget to stretch before and after.",
        ask="What is {who} favourite sport?",
        ask_now="What is {who} favourite sport now?",
        own=True,
    ),
    Attribute(
        key="parents",
        pool="town",
        tell=("{Who} parents live in {value}, four hours by train.", "{Who} parents live in {value}."),
        change="{Who} parents have moved. {Who} parents live in {value} now.",
        reply="It is good to have family to visit.",
        ask="In which town do {who} parents live?",
        ask_now="In which town do {who} parents live now?",
    ),
    Attribute(
        key="garden",
        pool="crop",
        tell=(
            "A lot grows in {who} garden. In {who} garden grow {value}.",
            "In {who} garden grow {value}, far too many for one.",
        ),
        change="{Who} garden has been dug over. In {who} garden grow {value} now.",
        reply="Fresh from the bed they taste best.",
        ask="What grows in {who} garden?",
        ask_now="What grows in {who} garden now?",
    ),
    Attribute(
        key="book",
        pool="title",
        tell=("{Who} favourite book is {value}.", "I was lent a book. {Who} favourite book is {value}."),
        change="{Who} favourite book is now {value}. The old one has been given away.",
        reply="A book that one reads twice is a good book.",
        ask="What is {who} favourite book?",
        ask_now="What is {who} favourite book now?",
        own=True,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """Something that the assistant proposes, twice: once for each of two people or occasions ``whom``."""

    key: str
    pool: str
    whom: tuple[str, str]
    request: str
    reply: str
    ask: str


OFFERS: tuple[Offer, ...] = (
    Offer(
        key="boat",
        pool="pet",
        whom=("blue boat", "rubber boat"),
        request="I need a name for my {whom}. Do you have an idea?",
        reply="The best name for your {whom} is {value}. It is short and easy to paint.",
        ask="According to you, what is the best name for my {whom}?",
    ),
    Offer(
        key="dinner",
        pool="dish",
        whom=("guests", "team"),
        request="What could I cook for my {whom} on Sunday?",
        reply="The best dish for your {whom} is {value}. You can make it the day before.",
        ask="According to you, what is the best dish for my {whom}?",
    ),
    Offer(
        key="restaurant",
        pool="restaurant",
        whom=("birthday", "farewell party"),
        request="Where should I book a table for my {whom}?",
        reply="The best restaurant for your {whom} is the {value}. They have a quiet room.",
        ask="According to you, what is the best restaurant for my {whom}?",
    ),
    Offer(
        key="outing",
        pool="place",
        whom=("day off", "first date"),
        request="Where can I go on my {whom}?",
        reply="The best place for your {whom} is the {value}. It is open until six.",
        ask="According to you, what is the best place for my {whom}?",
    ),
    Offer(
        key="present",
        pool="object",
        whom=("aunt", "uncle"),
        request="What can I give my {whom} at the end of the year?",
        reply="The best present for your {whom} is a {value}. It will please for years.",
        ask="According to you, what is the best present for my {whom}?",
    ),
    Offer(
        key="logo",
        pool="animal",
        whom=("choir", "chess club"),
        request="We need an animal for the flag of my {whom}. Which one would you take?",
        reply="The best animal for the flag of your {whom} is the {value}. It is easy to draw.",
        ask="According to you, what is the best animal for the flag of my {whom}?",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened on one day, with a place or thing of ``pool``."""

    key: str
    pool: str
    tell: str
    reply: str
    ask_date: str
    ask_value: str
    ask_first: str


EVENTS: tuple[Event, ...] = (
    Event(
        key="visit",
        pool="place",
        tell="Today, on {date}, I visited the {value}.",
        reply="That sounds like a good day out.",
        ask_date="On which date did I visit the {value}?",
        ask_value="Which place did I visit on {date}?",
        ask_first="Which place did I visit first?",
    ),
    Event(
        key="cooking",
        pool="dish",
        tell="Today, on {date}, I cooked {value} for the first time.",
        reply="Well done. Next time it will take you half as long.",
        ask_date="On which date did I cook {value}?",
        ask_value="What did I cook on {date}?",
        ask_first="What did I cook first?",
    ),
    Event(
        key="purchase",
        pool="object",
        tell="Today, on {date}, I bought a {value} at the flea stalls.",
        reply="A good find. Old things last long.",
        ask_date="On which date did I buy the {value}?",
        ask_value="What did I buy on {date}?",
        ask_first="What did I buy first?",
    ),
)

RELATION_TOLD = (
    "My {relation} is called {name}.",
    "I have been talking to my {relation}. My {relation} is called {name}.",
)
RELATION_REPLY = "It is good to know people by their name."
