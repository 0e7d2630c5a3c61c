"""How a key comes to have two values, of which the earlier is deleted: the records' wording, one entry a construction.

A construction is a calibration matter: where the record that stays carries key and value word by word, a model may
read it although its states are stale, and then Shift needs no repair. What makes states stale where it counts is a tie
that runs from the record that stays into what stands before it, where the deleted record stood.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

Name = Literal["explicit", "list", "block", "heading", "update", "alias"]
NAMES: tuple[str, ...] = get_args(Name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Construction:
    """Templates over {key}, {value}, {noun}, {other} (a name that is no record's key), {erased} and {kept} (the values)
    and {erased_hook} and {kept_hook} (two colours).

    ``lead`` stands right before the first of ``erased`` and ``kept``, ``table`` right after it; ``row`` is a record of
    another key; ``ask`` is the beginning of a record, up to the value. Empty parts are left out.
    """

    erased: str
    kept: str
    row: str
    ask: str
    lead: str = ""
    table: tuple[str, ...] = ()


SENTENCE = "The pass {noun} for {key} is {value}.\n"
CONSTRUCTIONS: Mapping[str, Construction] = {
    # Two full records of one key.
    "explicit": Construction(
        erased=SENTENCE,
        kept=SENTENCE,
        row=SENTENCE,
        ask="The pass {noun} for {key} is",
    ),
    # A list under its key; what stays moves up into the place of what is deleted.
    "list": Construction(
        lead="{key}:",
        erased=" pass {noun} {value}\n",
        kept=" pass {noun} {value}\n",
        row="{key}: pass {noun} {value}\n",
        ask="{key}: pass {noun}",
    ),
    # The same in lines: a record's own line does not hold its key.
    "block": Construction(
        lead="{key}:\n",
        erased="pass {noun} {value}\n",
        kept="pass {noun} {value}\n",
        row="{key}:\npass {noun} {value}\n",
        ask="{key}:\npass {noun}",
    ),
    # What is deleted holds the first value and the heading under which the second one stood.
    "heading": Construction(
        lead="{key}:",
        erased=" pass {noun} {value}\n{other}:",
        kept=" pass {noun} {value}\n",
        row="{key}: pass {noun} {value}\n",
        ask="{key}: pass {noun}",
    ),
    # The later record speaks of itself as a repetition of the earlier one.
    "update": Construction(
        erased=SENTENCE,
        kept="Once more for {key}, as before: the pass {noun} is still {value}.\n",
        row=SENTENCE,
        ask="The pass {noun} for {key} is",
    ),
    # The deleted line says which of two rows counts; a later line says it anew.
    "alias": Construction(
        erased="The key of {key} hangs on the {erased_hook} hook.\n",
        kept="The key of {key} hangs on the {kept_hook} hook.\n",
        table=(
            "The {erased_hook} hook holds pass {noun} {erased}.\n",
            "The {kept_hook} hook holds pass {noun} {kept}.\n",
        ),
        row=SENTENCE,
        ask="The pass {noun} for {key} is",
    ),
}
