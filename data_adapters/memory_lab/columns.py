"""From a recipe to the bytes of a column's files: plots, small talk, schema."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Literal

from data_adapters.memory_lab import schemas
from data_adapters.memory_lab.conversation import fill, small_talk
from data_adapters.memory_lab.life import plan_life
from data_adapters.memory_lab.persona import MAKERS as PERSONA_KINDS
from data_adapters.memory_lab.persona import plan_persona
from data_adapters.memory_lab.projects import PROJECTS, Project
from data_adapters.memory_lab.schemas import Story
from data_adapters.memory_lab.small_talk import ROUNDS
from data_adapters.memory_lab.workshop import N_PROJECTS, SPAN, chatter, plan_workshop
from data_adapters.memory_lab.world import N_DAYS, Plot, Session, seeded
from kvrelay.core.example import CountTokens

Schema = Literal["longmemeval", "long_mt_bench_plus", "personamem"]
SCHEMAS: tuple[Schema, ...] = ("longmemeval", "long_mt_bench_plus", "personamem")

GENERATOR_VERSION = 1
"""Raised when filling, order or file layout change; changed words and plots are noticed without it."""

LIFE_KINDS = (
    "single-session-user",
    "multi-session",
    "knowledge-update",
    "temporal-reasoning",
    "single-session-assistant",
)
ABSTENTION_KINDS = ("single-session-user", "multi-session", "knowledge-update", "temporal-reasoning")
WORKSHOP_KINDS = ("retrospection", "revision", "conjunction", "retrospection", "revision")
"""At most one conjunction in five: more would ask for projects with more details of one kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """All that decides a column's content beside the tokenizer. ``…_every`` n makes each n-th question so; 0 none."""

    schema: Schema
    histories: int
    history_tokens: int
    questions_per_history: int
    seed: int
    unanswerable_every: int = 0
    preference_every: int = 0

    def digest(self) -> str:
        """sha256 over the recipe, its plots and the small talk: other words are other data."""
        parts = [GENERATOR_VERSION, json.dumps(asdict(self), sort_keys=True), ROUNDS, PROJECTS]
        plots = [plot(self, number) for number in range(self.histories)]
        return hashlib.sha256(repr([*parts, *plots]).encode()).hexdigest()


def kinds(recipe: Recipe) -> list[tuple[str, bool]]:
    """(type, unanswerable) of every question of the column, in order."""
    cycles = {"longmemeval": LIFE_KINDS, "long_mt_bench_plus": WORKSHOP_KINDS, "personamem": tuple(PERSONA_KINDS)}
    plain, missing = itertools.cycle(cycles[recipe.schema]), itertools.cycle(ABSTENTION_KINDS)
    chosen: list[tuple[str, bool]] = []
    for number in range(1, recipe.histories * recipe.questions_per_history + 1):
        if recipe.unanswerable_every and number % recipe.unanswerable_every == 0:
            chosen.append((next(missing), True))
        elif recipe.preference_every and number % recipe.preference_every == 0:
            chosen.append(("single-session-preference", False))
        else:
            chosen.append((next(plain), False))
    return chosen


def plot(recipe: Recipe, number: int) -> Plot:
    """What the history of this number tells and asks. No tokenizer has a say in it."""
    n = recipe.questions_per_history
    wanted = kinds(recipe)[number * n : (number + 1) * n]
    rng = seeded("plot", recipe.schema, recipe.seed, number)
    names = [kind for kind, _ in wanted]
    if recipe.schema == "longmemeval":
        return plan_life(rng, wanted)
    if recipe.schema == "personamem":
        return plan_persona(rng, names)
    return plan_workshop(rng, projects(recipe, number), names)


def projects(recipe: Recipe, number: int) -> list[Project]:
    """The projects of one conversation, in the order of its sessions."""
    return seeded("projects", recipe.seed, number).sample(PROJECTS, N_PROJECTS)


def story(recipe: Recipe, number: int, count_tokens: CountTokens) -> Story:
    """A plot filled up to the wanted tokens, as the schema's prompt shows them."""
    planned = plot(recipe, number)
    rng = seeded("talk", recipe.schema, recipe.seed, number)

    def size(session: Session) -> int:
        if recipe.schema == "longmemeval":
            return count_tokens(schemas.dated_text(session))
        if recipe.schema == "personamem":
            return count_tokens(schemas.block_text(session, planned.title))
        return count_tokens("".join(schemas.exchange_text(spoken) + "\n\n" for spoken in session.rounds))

    talk: Iterator[Session]
    if recipe.schema == "long_mt_bench_plus":
        talk = chatter(rng, projects(recipe, number), planned.sessions)
    else:
        taken = {session.day for session in planned.sessions}
        talk = small_talk(rng, ROUNDS, [d for d in rng.sample(range(N_DAYS), N_DAYS) if d not in taken])
    sessions = fill(planned.sessions, talk, size, recipe.history_tokens)
    return Story(number=number, sessions=sessions, queries=planned.queries, title=planned.title)


def files(recipe: Recipe, count_tokens: CountTokens) -> dict[str, bytes]:
    """The column's files, under the names that the published data sets use."""
    stories = [story(recipe, number, count_tokens) for number in range(recipe.histories)]
    rngs = [seeded("file", recipe.schema, recipe.seed, number) for number in range(recipe.histories)]
    if recipe.schema == "longmemeval":
        records = [r for told, rng in zip(stories, rngs, strict=True) for r in schemas.longmemeval(told, rng)]
        return {"longmemeval_s.json": schemas.json_array(records)}
    if recipe.schema == "long_mt_bench_plus":
        lines = [schemas.long_mt_bench_plus(told, SPAN) for told in stories]
        return {"long_mt_bench_plus.jsonl": schemas.json_lines(lines)}
    rows, contexts, letters = [], [], gold_letters(recipe)
    for told, rng in zip(stories, rngs, strict=True):
        own = list(itertools.islice(letters, len(told.queries)))
        table, context = schemas.personamem(told, own, rng, count_tokens)
        rows.extend(table)
        contexts.append(context)
    return {"questions_32k.csv": schemas.csv_table(rows), "shared_contexts_32k.jsonl": schemas.json_lines(contexts)}


def gold_letters(recipe: Recipe) -> Iterator[str]:
    """Right letters without end: every four questions use each letter once, in a drawn order."""
    rng = seeded("letters", recipe.seed)
    while True:
        yield from rng.sample(schemas.LETTERS, len(schemas.LETTERS))
