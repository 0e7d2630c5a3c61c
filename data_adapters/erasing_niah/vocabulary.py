"""Words of the cases: made-up names and values for the records, and plain country life for the text around them.

The three kinds never meet: no filler word is part of a name, a value or a record, and filler holds no digits.
"""

from __future__ import annotations

NAME_STARTS = (
    "Amber", "Birch", "Calder", "Dun", "Els", "Fair", "Glen", "Har", "Iron", "Kel", "Lin", "Mar", "Nor", "Os", "Pem",
    "Quil", "Rother", "Sel", "Thorn", "Ul", "Ver", "Whit", "Yar", "Zel",
)  # fmt: skip
NAME_ENDS = ("bury", "combe", "don", "ford", "holm", "ley", "mere", "stead", "ton", "wick")
VALUE_WORDS = (
    "anchor", "bronze", "cobalt", "dragon", "ember", "falcon", "garnet", "helmet", "indigo", "jasmine", "kernel",
    "lobster", "magnet", "nectar", "onyx", "pepper", "quartz", "rocket", "saffron", "turtle", "umbrella", "velvet",
    "walnut", "yarrow", "zipper",
)  # fmt: skip
"""Each begins with a letter of its own, so that no value is the beginning of another."""

WHO = (
    "the baker", "a shepherd", "the old ferryman", "our neighbour", "the librarian", "a carpenter", "the young painter",
    "the postman", "an innkeeper", "the weaver", "a miller", "the schoolteacher", "two cousins", "the bell ringer",
    "a travelling cook", "the beekeeper", "my grandmother", "the night watchman", "a potter", "the apprentice",
)  # fmt: skip
DID = (
    "walked past", "looked over", "talked about", "swept around", "painted", "remembered", "cleaned", "described",
    "sketched", "waited near", "watched", "repaired", "praised", "returned to", "leaned against", "dreamed of",
)  # fmt: skip
WHAT = (
    "the stone bridge", "an empty orchard", "the long hedge", "a quiet harbour", "the wooden gate", "an old barn",
    "the narrow lane", "a field of clover", "the market square", "the village well", "a row of lindens",
    "the mossy wall", "the broken fence", "a boat by the shore", "the chapel steps", "the vegetable patch",
)  # fmt: skip
WHEN = (
    "before the rain came", "while the bells rang", "on a mild evening", "as the fog lifted", "without any hurry",
    "after the harvest", "in the early light", "when the wind turned", "until the lamps were lit", "during the thaw",
    "with a basket of pears", "for the sake of company", "under a pale sky", "just as supper was served",
)  # fmt: skip
SCENES = (
    "the kettle", "the river", "the orchard", "a thin mist", "the bread", "an old song", "the garden path",
    "a flock of starlings", "the evening", "the hay", "the shutters", "a warm breeze",
)  # fmt: skip
SEEMED = (
    "seemed calmer than usual", "smelled of rain and apples", "lay still for a while", "reminded everyone of summer",
    "was slow to warm", "kept the children busy", "drifted towards the hills", "made the afternoon feel longer",
)  # fmt: skip
SHORT = (
    "It rained.", "Nobody minded.", "The day went on.", "Snow fell.", "The dog slept.", "They laughed.", "Smoke rose.",
    "The path was muddy.", "Soon it was dark.", "The wind dropped.", "Crows called.", "All was well.",
)  # fmt: skip
"""Sentences that fill the last few tokens."""
HOOKS = ("red", "blue", "green", "yellow", "black", "white")
