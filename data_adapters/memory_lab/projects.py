"""What a human and a bot make together: the sentences of the Long-MT-Bench+-like column."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """One thing that gets settled. ``{value}`` is a word of ``pool``; ``noun`` names the thing in a question."""

    pool: str
    noun: str
    request: str
    reply: str
    ask: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A session's subject, as questions call it, its details, and exchanges that settle nothing."""

    name: str
    details: tuple[Detail, ...]
    chatter: tuple[tuple[str, str], ...]


LINK_REQUEST = "Let {noun} in {project} be the same as {other_noun} in {other_project}."
LINK_REPLY = "Agreed, the same thing for both. That is easy to remember."
REVISION_REQUEST = "I have changed my mind about {noun} in {project}. Please choose another one."
REVISION_OPENING = "All right, something else."

PROJECTS: tuple[Project, ...] = (
    Project(
        name="the sailor story",
        details=(
            Detail(
                pool="pet",
                noun="the sailor's parrot",
                request="Let us write a story about a sailor. What is the parrot called?",
                reply="The sailor's parrot is called {value}. It can count to nine.",
                ask="What is the sailor's parrot called?",
            ),
            Detail(
                pool="town",
                noun="the sailor's home town",
                request="Where is the sailor from?",
                reply="The sailor's home town is {value}, a place with one street and no church.",
                ask="What is the sailor's home town?",
            ),
            Detail(
                pool="object",
                noun="the sailor's treasure",
                request="What does the sailor find in the chest?",
                reply="The sailor's treasure is a {value}. Nobody knows who put it into the chest.",
                ask="What is the sailor's treasure?",
            ),
        ),
        chatter=(
            (
                "How long should the story be?",
                "Two pages are enough. Each scene gets half a page, the end a little more.",
            ),
            (
                "Should the story be funny or sad?",
                "Begin with a joke and end on a quiet note. Readers remember the last line.",
            ),
            ("Write me a first line.", "The sea was so calm that evening that even the gulls stood still and waited."),
        ),
    ),
    Project(
        name="the harvest dinner",
        details=(
            Detail(
                pool="dish",
                noun="the main dish",
                request="I am planning a harvest dinner. What should the main dish be?",
                reply="The main dish of the harvest dinner is {value}. It serves twelve people.",
                ask="What is the main dish of the harvest dinner?",
            ),
            Detail(
                pool="tea",
                noun="the tea",
                request="Which tea goes with the harvest dinner?",
                reply="The tea of the harvest dinner is {value}. Serve it in the big pot.",
                ask="Which tea do we serve at the harvest dinner?",
            ),
            Detail(
                pool="name",
                noun="the guest of honour",
                request="Who should sit at the head of the table?",
                reply="The guest of honour at the harvest dinner is {value}. Keep the seat by the stove free.",
                ask="Who is the guest of honour at the harvest dinner?",
            ),
        ),
        chatter=(
            ("How many chairs do I need?", "Count the guests and add two. Somebody always brings a friend."),
            (
                "When should I lay the table?",
                "In the morning, so that you have the afternoon for the kitchen and for yourself.",
            ),
            ("What if it rains?", "Put the table under a roof and keep a pile of blankets at the door."),
        ),
    ),
    Project(
        name="the island trip",
        details=(
            Detail(
                pool="street",
                noun="the hotel street",
                request="Now help me with a trip to an island. Where is the hotel?",
                reply="The hotel of the island trip is in {value}. You can walk there from the pier.",
                ask="In which street is the hotel of the island trip?",
            ),
            Detail(
                pool="place",
                noun="the first stop",
                request="What do we see first on the island?",
                reply="The first stop of the island trip is the {value}. It opens at nine.",
                ask="What is the first stop of the island trip?",
            ),
            Detail(
                pool="object",
                noun="the souvenir",
                request="What can we bring home from the island?",
                reply="The souvenir of the island trip is a {value}. They are made by hand there.",
                ask="What is the souvenir of the island trip?",
            ),
        ),
        chatter=(
            (
                "What should I pack for the trip?",
                "Good shoes, a jumper and a small bag. Leave the big suitcase at home.",
            ),
            ("Is the crossing rough?", "It can be. Sit in the middle of the ship and look at the horizon."),
            ("Do I need cash on the trip?", "A little. The bus and the kiosk at the pier take coins only."),
        ),
    ),
    Project(
        name="the school play",
        details=(
            Detail(
                pool="title",
                noun="the title",
                request="My class wants to put on a play. What is its title?",
                reply="The title of the school play is {value}. It has five scenes.",
                ask="What is the title of the school play?",
            ),
            Detail(
                pool="name",
                noun="the main part",
                request="What is the main character of the play called?",
                reply="The main part of the school play is called {value}, a clever baker's child.",
                ask="What is the main part of the school play called?",
            ),
            Detail(
                pool="animal",
                noun="the animal on stage",
                request="The children want an animal on stage. Which one?",
                reply="The animal on stage in the school play is a {value}. Two children share the costume.",
                ask="Which animal is on stage in the school play?",
            ),
        ),
        chatter=(
            ("How do we paint the scenery?", "On old bed sheets. They are light and can be rolled up after the show."),
            (
                "Some children are shy. What can they do?",
                "They can do the lights, the curtain and the sound. A play needs those too.",
            ),
            ("How often should the class practise?", "Twice a week for a month, and every day in the last week."),
        ),
    ),
    Project(
        name="the board game",
        details=(
            Detail(
                pool="workplace",
                noun="the starting square",
                request="I want to invent a board game. Where do the players start?",
                reply="The starting square of the board game is the {value}. All players begin there.",
                ask="What is the starting square of the board game?",
            ),
            Detail(
                pool="colour",
                noun="the winning card",
                request="Which card wins the board game?",
                reply="The winning card of the board game is the {value} one. There is only one of it.",
                ask="What colour is the winning card of the board game?",
            ),
            Detail(
                pool="animal",
                noun="the thief",
                request="Who steals the coins in the board game?",
                reply="The thief of the board game is a {value}. It moves when somebody rolls a six.",
                ask="Which animal is the thief of the board game?",
            ),
        ),
        chatter=(
            ("How many people can play?", "Two to five. With five it takes about an hour, with two only half of that."),
            ("Do we need dice?", "One is enough. Let the players roll it on a cloth, that is quieter."),
            (
                "How do I test the rules?",
                "Play it once with friends and say nothing. Write down each question they ask.",
            ),
        ),
    ),
    Project(
        name="the village garden",
        details=(
            Detail(
                pool="crop",
                noun="the first crop",
                request="We share a village garden. What do we plant first?",
                reply="The first crop of the village garden is {value}. Sow it in two long rows.",
                ask="What is the first crop of the village garden?",
            ),
            Detail(
                pool="name",
                noun="the keeper of the key",
                request="Who should keep the key of the garden gate?",
                reply="The keeper of the key of the village garden is {value}, who lives next door.",
                ask="Who is the keeper of the key of the village garden?",
            ),
            Detail(
                pool="colour",
                noun="the shed",
                request="How shall we paint the shed in the village garden?",
                reply="The shed of the village garden is {value}. Two tins of paint will do.",
                ask="What colour is the shed of the village garden?",
            ),
        ),
        chatter=(
            ("How deep should we dig?", "As deep as the blade of a spade. Take the large stones out on the way."),
            (
                "The soil is full of clay. What now?",
                "Mix sand and old leaves into it, and do not walk on it when it is wet.",
            ),
            ("When do we water the beds?", "Early in the morning, so that the sun does not take half of it away."),
        ),
    ),
    Project(
        name="the radio show",
        details=(
            Detail(
                pool="sport",
                noun="the first topic",
                request="I have been given a radio show. What is the first topic?",
                reply="The first topic of the radio show is {value}. Invite somebody who knows it well.",
                ask="What is the first topic of the radio show?",
            ),
            Detail(
                pool="language",
                noun="the greeting",
                request="In which language do we greet the listeners of the radio show?",
                reply="The greeting of the radio show is in {value}. Say it twice and slowly.",
                ask="In which language is the greeting of the radio show?",
            ),
            Detail(
                pool="object",
                noun="the prize",
                request="What can the listeners of the radio show win?",
                reply="The prize of the radio show is a {value}. It goes to the tenth caller.",
                ask="What is the prize of the radio show?",
            ),
        ),
        chatter=(
            (
                "How close should I be to the microphone?",
                "A hand's width away. Any closer and your breath is louder than your voice.",
            ),
            ("What if nobody calls?", "Have a friend ready to call, and a short tale of your own to tell."),
            ("How long may a talk be?", "Four minutes at most, then a song. Listeners like a change."),
        ),
    ),
)
