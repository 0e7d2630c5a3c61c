"""The words of the made questions: people, places, works, and sentences that say something or nothing about them.

No value stands inside another one, and none is what a model would guess first.
"""

from __future__ import annotations

from dataclasses import dataclass

FORENAMES = (
    "Nora", "Tomas", "Priya", "Owen", "Greta", "Malik", "Stefan", "Carmen", "Hugo", "Wanda", "Felix", "Amara", "Jonas",
    "Petra", "Rafael", "Signe", "Leila", "Bruno", "Edith", "Kofi", "Marta", "Ilse", "Anders", "Beatriz", "Conrad",
)  # fmt: skip
SURNAMES = (
    "Lindqvist", "Hale", "Okafor", "Brandt", "Moreau", "Castell", "Varga", "Thorne", "Sandoval", "Kessler", "Ashdown",
    "Bianchi", "Novak", "Redfern", "Halloran", "Ostrova", "Pemberton", "Quill", "Tanaka", "Wexler", "Yarrow", "Zeller",
)  # fmt: skip
TOWNS = (
    "Tarnwick", "Ostby", "Velmora", "Dunmere", "Askerhill", "Sandrook", "Corvale", "Mistleby", "Pellham", "Norrview",
    "Greyford", "Lowenstead", "Brackwater", "Fenholt", "Marrowick", "Calder Bay",
)  # fmt: skip
COUNTIES = ("Ashmere", "Northfell", "Wendland", "Oxmoor", "Silverdale", "Kentigern", "Rothbury", "Eastmarch")
INSTRUMENTS = ("cello", "banjo", "oboe", "accordion", "trombone", "bassoon", "mandolin", "clarinet", "tuba")
NAMES = (
    "Larkspur", "Kestrel", "Juniper", "Harrow", "Copper", "Thistle", "Marlowe", "Amber", "Raven", "Willow", "Granite",
    "Saffron", "Heron", "Cobalt", "Hazel", "Linden", "Falcon", "Ivory", "Bramble", "Sorrel",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of work. ``noun`` follows its name; ``made`` is said with {work} and {person}, ``maker`` asks for it."""

    noun: str
    made: str
    maker: str
    job: str
    more: tuple[str, ...]


KINDS = (
    Kind(
        "Bridge", "The {work} was designed by {person}.", "designer", "an engineer",
        (
            "It carries a narrow road over a slow river.",
            "Its three arches are built of pale stone.",
            "Repairs in a dry summer closed it for eleven weeks.",
        ),
    ),
    Kind(
        "Society", "The {work} was founded by {person}.", "founder", "a teacher",
        (
            "Its members meet every second Thursday.",
            "It publishes a small yearbook with maps and letters.",
            "For a while it owned a reading room above a bakery.",
        ),
    ),
    Kind(
        "Theatre", "The {work} was built by {person}.", "builder", "a builder",
        (
            "Its stage is small and the seats are green.",
            "A fire damaged the roof, and plays went on in a tent.",
            "Most evenings it is sold out a week before.",
        ),
    ),
    Kind(
        "Quartet", "The {work} was composed by {person}.", "composer", "a composer",
        (
            "It has four movements and lasts about half an hour.",
            "The slow part is often played alone.",
            "Early listeners found the ending too loud.",
        ),
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Trait:
    """What is told of a person. ``said`` takes {person} and {value}, ``asked`` {maker} and {work}."""

    name: str
    said: str
    asked: str
    values: tuple[str, ...]


TRAITS = (
    Trait(
        "town",
        "{person} was born in the town of {value}.",
        "In which town was the {maker} of the {work} born?",
        TOWNS,
    ),
    Trait(
        "instrument",
        "{person} played the {value} in a family band.",
        "Which instrument did the {maker} of the {work} play?",
        INSTRUMENTS,
    ),
    Trait(
        "year",
        "{person} was born in the year {value}.",
        "In which year was the {maker} of the {work} born?",
        tuple(str(year) for year in range(1811, 1899, 3)),
    ),
)
COUNTY = "{town} lies in the county of {county}."
COUNTY_QUESTION = "In which county was the {maker} of the {work} born?"
OPENED = "The {work} was opened in {year}."
OPENED_QUESTION = "Which was opened first, the {first} or the {second}?"
CLAIMED = "A local guide says that the {work} is the one near {town} and that {person} was its {maker}."

LIFE = (
    "Letters to a sister tell of long winters and little money.",
    "Later years were spent in a house with a large garden.",
    "A portrait hangs in a corridor of the town hall.",
    "Friends remembered a dry humour and bad handwriting.",
    "Two notebooks were found in an attic long afterwards.",
    "A short street behind the station bears the name today.",
)
TOWN_LIFE = (
    "A market is held on the main square twice a week.",
    "The railway came late, and the old mills are flats now.",
    "Every autumn the river floods the lower meadows.",
    "Its baker is known far and wide for plum cake.",
)
