"""The words that facts are made of: pools of values, names of people and what they are to the user.

No value stands inside another one, none is used in small talk, and none is what a model would guess first, so that an
answer that contains the value was read in the history.
"""

from __future__ import annotations

NAMES = (
    "Nora", "Ilse", "Tomas", "Priya", "Owen", "Greta", "Malik", "Yuki", "Stefan", "Carmen", "Dalia", "Hugo",
    "Wanda", "Felix", "Amara", "Jonas", "Petra", "Rafael", "Signe", "Leila", "Bruno", "Edith", "Kofi", "Marta",
)  # fmt: skip

RELATIONS = ("neighbour", "colleague", "cousin", "flatmate", "dentist", "landlord", "trainer", "boss", "editor")

POOLS: dict[str, tuple[str, ...]] = {
    "pet": (
        "Biscuit", "Pretzel", "Bramble", "Domino", "Truffle", "Zorro", "Noodle", "Marble", "Tango", "Widget",
        "Sherlock", "Inkspot", "Velvet", "Sputnik", "Duchess", "Gizmo", "Rumba", "Rascal", "Comet", "Bandit",
    ),
    "street": (
        "Ferry Lane", "Copper Row", "Lantern Hill", "Juniper Road", "Anchor Street", "Violet Alley", "Quarry Road",
        "Pigeon Square", "Thistle Way", "Harbour Steps", "Cobbler Lane", "Orchard Terrace", "Raven Court",
    ),
    "workplace": (
        "salt mill", "tram depot", "bird clinic", "map archive", "rope factory", "glass workshop", "cheese dairy",
        "radio station", "seed library", "button museum", "kite shop", "clock tower", "fish market",
    ),
    "instrument": (
        "cello", "banjo", "oboe", "accordion", "trombone", "bassoon", "mandolin", "clarinet", "tuba", "harpsichord",
    ),
    "language": (
        "Estonian", "Basque", "Swahili", "Icelandic", "Tagalog", "Welsh", "Finnish", "Catalan", "Maltese", "Nepali",
    ),
    "tea": ("rooibos", "oolong", "lapsang", "fennel", "nettle", "lemongrass", "hibiscus", "sencha", "elderflower"),
    "sport": (
        "fencing", "archery", "curling", "kayaking", "bouldering", "badminton", "rowing", "judo", "squash", "handball",
    ),
    "colour": ("turquoise", "maroon", "lilac", "crimson", "ivory", "indigo", "orange", "olive", "lavender", "beige"),
    "town": (
        "Tarnwick", "Ostby", "Velmora", "Dunmere", "Askerhill", "Sandrook", "Corvale", "Mistleby", "Harrowgate",
        "Pellham", "Norrview", "Greyford",
    ),
    "crop": ("celery", "leeks", "parsnips", "radishes", "artichokes", "turnips", "spinach", "pumpkins", "asparagus"),
    "title": (
        "Nine Cold Rivers", "The Paper Bridge", "A Spoon for Winter", "The Last Tram", "Moss and Thunder",
        "The Glass Orchard", "Seven Loud Owls", "The Tin Captain", "Letters to Saturn", "The Velour Thief",
    ),
    "restaurant": (
        "Blue Ladle", "Casa Morena", "Tin Kettle", "Golden Radish", "Salty Spoon", "Hungry Heron", "Little Oven",
        "Red Pepperpot", "Old Customs House", "Walnut Room",
    ),
    "dish": (
        "plum tart", "barley stew", "onion pie", "lentil curry", "carrot dumplings", "almond cake", "bean goulash",
        "pear crumble", "potato waffles", "mushroom risotto", "rhubarb soup", "cheese fritters",
    ),
    "place": (
        "aquarium", "castle", "planetarium", "windmill", "rose garden", "salt cave", "opera house", "ice rink",
        "observatory", "lighthouse", "puppet theatre", "botanical garden", "silver mine", "flea market",
    ),
    "animal": ("badger", "pelican", "beaver", "hedgehog", "lynx", "walrus", "magpie", "tortoise", "newt", "stork"),
    "object": (
        "brass lantern", "wooden flute", "red umbrella", "leather globe", "silk scarf", "rusty key", "stone chess set",
        "pocket compass", "copper bell", "feather hat",
    ),
}  # fmt: skip
