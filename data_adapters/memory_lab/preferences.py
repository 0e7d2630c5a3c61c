"""What a persona likes, gives up and asks about: the sentences of the PersonaMem-like column."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Taste:
    """A kind of thing that a persona has a favourite of. ``a`` is the noun with its article."""

    key: str
    pool: str
    a: str
    scenario: str


TASTES: tuple[Taste, ...] = (
    Taste(key="tea", pool="tea", a="a tea", scenario="My hotel serves tea at breakfast. Which tea should I order?"),
    Taste(
        key="sport",
        pool="sport",
        a="a sport",
        scenario="A sports club opens near me. Which sport should I sign up for?",
    ),
    Taste(
        key="instrument",
        pool="instrument",
        a="an instrument",
        scenario="A music school offers a free lesson. Which instrument should I pick?",
    ),
    Taste(
        key="language",
        pool="language",
        a="a language",
        scenario="My company pays for a language course. Which language should I pick?",
    ),
    Taste(
        key="dish", pool="dish", a="a dish", scenario="My aunt wants to cook for me. Which dish should I ask her for?"
    ),
    Taste(
        key="colour",
        pool="colour",
        a="a colour",
        scenario="I am going to paint my new kitchen. Which colour should I take?",
    ),
    Taste(
        key="vegetable",
        pool="crop",
        a="a vegetable",
        scenario="There is one bed left in the garden. Which vegetable should I grow?",
    ),
    Taste(
        key="animal",
        pool="animal",
        a="an animal",
        scenario="I want to print an animal on my shirt. Which animal should I take?",
    ),
    Taste(
        key="book", pool="title", a="a book", scenario="I have a long train ride ahead. Which book should I take along?"
    ),
    Taste(
        key="town",
        pool="town",
        a="a town",
        scenario="I have a free weekend and a train ticket. Which town should I visit?",
    ),
)

REASONS: tuple[str, ...] = (
    "it became too expensive",
    "a friend had bad luck with it",
    "it reminded me of my old boss",
    "I grew bored with it",
    "it made me sneeze",
    "my doctor advised against it",
    "everybody was talking about it",
    "it took too much time",
)

LIKE = (
    "My favourite {key} is {value}, and has been for years.",
    "You should know that my favourite {key} is {value}.",
)
LIKE_REPLY = "Thank you for telling me. I will keep that in mind when we plan your week."
CHANGE = "I have given up {old}, because {reason}. My favourite {key} is {value} now."
CHANGE_REPLY = "Tastes change, and that is fine. I will think of it from now on."
FRIEND = "My friend's favourite {key} is {value}. I do not see why."
FRIEND_REPLY = "It would be dull if all people liked the same things."

PURCHASE = "At the flea stalls I bought a {value} for my hall."
PURCHASE_REPLY = "A nice find. Things with a past make a hall look friendly."
