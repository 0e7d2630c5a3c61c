"""The words of the made records: three kinds of text, what is asked about each, and what an answer is held to."""

from __future__ import annotations

import random

from data_adapters.memory_lab.small_talk import ROUNDS
from data_adapters.memory_lab.vocabulary import NAMES, POOLS
from data_adapters.memory_lab.world import MONTHS, seeded

GENERATOR_VERSION = 1
"""Part of the data's fingerprint: another text is another data set."""

TASKS = {
    "report": "Below is a yearly report of a small institution. Write a summary of it for its board.",
    "news": "Below is a piece from a local paper. Write a summary of it for readers in a hurry.",
    "long_dialogue": "Below is a long talk between two people. Write a summary of what they said.",
}
REQUIREMENTS = {
    "report": (
        "Name the institution and the months that the report speaks of.",
        "Keep the numbers as they are.",
        "Leave nothing out that the board would have to decide on.",
    ),
    "news": (
        "Say what happened, where, when and to whom.",
        "Take no side.",
        "Write at least three sentences.",
    ),
    "long_dialogue": (
        "Say what each of the two wanted to know.",
        "Keep their agreements and leave out their small talk.",
        "Write at least three sentences.",
    ),
}
_LAST = "Would you send this summary off as it is, without a single change?"
CHECKLISTS = {
    "report": (
        "Could somebody who was never at the institution follow every sentence of the summary?",
        "Is the summary long enough to stand for the whole report, its last months included?",
        "Does every number, name and month in the summary stand in the report in the same way?",
        "Are all of the report's findings in the summary: visitors, costs, repairs and what is planned?",
        "Does the summary do everything that the requirements ask for?",
        _LAST,
    ),
    "news": (
        "Could somebody from another town follow every sentence of the summary?",
        "Is the summary long enough to stand for the whole piece?",
        "Is everything that the summary says also said in the piece, without opinion and without invention?",
        "Does the summary have all of the piece's events, with places, days and people?",
        "Does the summary do everything that the requirements ask for?",
        _LAST,
    ),
    "long_dialogue": (
        "Could somebody who knows neither of the two follow every sentence of the summary?",
        "Is the summary long enough to stand for the whole talk?",
        "Did the two really say everything that the summary says they did?",
        "Are all of the talk's subjects in the summary, and what each of the two said about them?",
        "Is the summary free of greetings, fillers and asides?",
        "Does the summary do everything that the requirements ask for?",
        _LAST,
    ),
}
_REPORT = (
    "In {month} the {workplace} in {town} counted {number} visitors, {few} more than in the same month a year before.",
    "The repair of the roof above the {colour} room took {few} weeks and cost {number} crowns.",
    "{name} left the board in {month}; {other} took over the accounts of the {workplace}.",
    "A course in {sport} on {street} was booked by {few} members and will be held again in {month}.",
    "The {instrument} that a member had lent was returned in {month}, and {number} crowns were paid for its care.",
    "Of {number} letters that came in, {few} complained about the noise from {street}.",
    "The café served {number} cups of {tea}, which paid for the heating in {month}.",
    "The board is asked to decide by {month} whether {number} crowns may go into a new door on {street}.",
)
_NEWS = (
    "On {few} {month} a van lost {number} crates of {tea} on {street}, and traffic stood still until noon.",
    "{name}, who works at the {workplace}, saw the driver run towards {town}.",
    "The council of {town} had voted for the repair of {street} in {month}, against {few} votes.",
    "A club for {sport} opened its doors in {month}; {number} people came on the first evening.",
    '"We heard a {instrument} from the open window," said {other}, who lives across the road.',
    "The {colour} bridge near the {workplace} stays shut until {month}, the town's engineer said.",
    "For {number} crowns a week {name} rents out a room on {street}, which {other} called a scandal.",
    "The market will move from {street} to the yard of the {workplace} on {few} {month}.",
)


def source_text(category: str, index: int, paragraphs: int, seed: int) -> str:
    """One text of a kind; a line a paragraph or turn."""
    rng = seeded("hello_lab", GENERATOR_VERSION, seed, index)
    if category == "long_dialogue":
        return _dialogue(rng, paragraphs)
    lines = _REPORT if category == "report" else _NEWS
    return "\n".join(_filled(rng, lines[number % len(lines)]) for number in range(paragraphs))


def _filled(rng: random.Random, line: str) -> str:
    name, other = rng.sample(NAMES, 2)
    words = {pool: rng.choice(values) for pool, values in POOLS.items()}
    numbers = {"number": rng.randrange(110, 990), "few": rng.randrange(3, 28)}
    return line.format(name=name, other=other, month=rng.choice(MONTHS), **numbers, **words)


def _dialogue(rng: random.Random, turns: int) -> str:
    one, other = rng.sample(NAMES, 2)
    rounds = rng.sample(ROUNDS, len(ROUNDS))
    spoken = [line for first, second in rounds for line in (f"{one}: {first}", f"{other}: {second}")]
    return "\n".join((spoken * (turns // len(spoken) + 1))[:turns])
