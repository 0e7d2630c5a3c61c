"""The words of the made-up data: no value can be met where it is not the answer."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from data_adapters.memory_lab.preferences import CHANGE, FRIEND, LIKE, PURCHASE, REASONS, TASTES
from data_adapters.memory_lab.projects import PROJECTS
from data_adapters.memory_lab.small_talk import ROUNDS
from data_adapters.memory_lab.vocabulary import NAMES, POOLS, RELATIONS
from data_adapters.memory_lab.wording import ATTRIBUTES, EVENTS, OFFERS, RELATION_REPLY, RELATION_TOLD

VALUES = [*NAMES, *(value for pool in POOLS.values() for value in pool)]
TALK = [text for spoken in ROUNDS for text in spoken]
CHATTER = [text for project in PROJECTS for spoken in project.chatter for text in spoken]


def stands_in(word: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word.casefold())}(?!\w)", text.casefold()) is not None


def templates() -> Iterator[str]:
    """Every sentence that a value can be put into, without one."""
    for attribute in ATTRIBUTES:
        yield from (*attribute.tell, attribute.change, attribute.reply, attribute.ask, attribute.ask_now)
    for offer in OFFERS:
        yield from (*offer.whom, offer.request, offer.reply, offer.ask)
    for event in EVENTS:
        yield from (event.tell, event.reply, event.ask_date, event.ask_value, event.ask_first)
    for project in PROJECTS:
        yield project.name
        for detail in project.details:
            yield from (detail.noun, detail.request, detail.reply, detail.ask)
    for taste in TASTES:
        yield from (taste.key, taste.scenario)
    yield from (*LIKE, CHANGE, FRIEND, PURCHASE, *REASONS, *RELATION_TOLD, RELATION_REPLY, *RELATIONS)


def test_values_differ_and_none_stands_in_another() -> None:
    assert len({value.casefold() for value in VALUES}) == len(VALUES)
    inside = [(a, b) for a in VALUES for b in VALUES if a != b and a.casefold() in b.casefold()]
    assert inside == []


@pytest.mark.parametrize("texts", [TALK, CHATTER, list(templates())], ids=["small talk", "chatter", "templates"])
def test_no_value_stands_in_the_words_around_it(texts: list[str]) -> None:
    assert [(value, text) for value in VALUES for text in texts if stands_in(value, text)] == []


def test_no_small_talk_tells_a_date_or_a_relation() -> None:
    assert [text for text in (*TALK, *CHATTER) if re.search(r"\d", text)] == []
    assert [text for text in (*TALK, *CHATTER) if re.search(r"\bis called\b", text)] == []


def test_no_two_rounds_of_small_talk_are_alike() -> None:
    assert len(set(TALK)) == len(TALK)
    assert len(set(CHATTER)) == len(CHATTER)


def test_templates_name_pools_that_exist() -> None:
    pools = {a.pool for a in ATTRIBUTES} | {o.pool for o in OFFERS} | {e.pool for e in EVENTS}
    pools |= {t.pool for t in TASTES} | {d.pool for p in PROJECTS for d in p.details}
    assert pools <= {*POOLS, "name"}


def test_keys_that_name_facts_are_unique() -> None:
    for things in (ATTRIBUTES, OFFERS, EVENTS, TASTES):
        assert len({thing.key for thing in things}) == len(things)
    assert len({project.name for project in PROJECTS}) == len(PROJECTS)
    for project in PROJECTS:
        assert len({detail.noun for detail in project.details}) == len(project.details)
