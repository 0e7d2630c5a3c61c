"""The nouns of a made-up conversation, and where its chance comes from."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass
from datetime import date, timedelta

from data_adapters.memory_lab.vocabulary import NAMES, POOLS
from kvrelay.core.errors import ConfigError

FIRST_DAY = date(2026, 2, 2)
MONTHS = ("January", "February", "March", "April", "May", "June", "July")
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
N_DAYS = 150
"""Sessions fall on different days of this window; questions are asked after its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """A user's message and the reply. ``fact`` is what a reader learns here, ``teller`` who says it."""

    user: str
    assistant: str
    fact: str | None = None
    teller: str = "user"


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Rounds of one sitting, ``day`` days after `FIRST_DAY` (or its rank, where the schema has no dates)."""

    day: int
    rounds: tuple[Round, ...]

    @property
    def facts(self) -> tuple[str, ...]:
        return tuple(r.fact for r in self.rounds if r.fact is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A question about a history. ``evidence`` names the facts that it needs, ``stale`` the value that was replaced.

    Of an unanswerable question ``evidence`` names what comes nearest, and ``answer`` explains what is missing.
    ``options`` are the texts of a multiple choice, the right one first.
    """

    type: str
    text: str
    answer: str
    evidence: tuple[str, ...]
    stale: str | None = None
    unanswerable: bool = False
    options: tuple[str, ...] = ()
    topic: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """What must be told and what is asked, before small talk fills it up."""

    sessions: tuple[Session, ...]
    queries: tuple[Query, ...]
    title: str = ""


def seeded(*parts: object) -> random.Random:
    """A generator of its own for each thing that is drawn: the same in every process."""
    digest = hashlib.sha256("\x1f".join(str(p) for p in parts).encode()).digest()
    return random.Random(int.from_bytes(digest, "big"))


def day_text(day: int) -> str:
    """A day of the window as people write it: ``14 March``."""
    when = FIRST_DAY + timedelta(days=day)
    return f"{when.day} {MONTHS[when.month - 1]}"


def stamp(day: int, minute: int) -> str:
    """A day and a minute of it as LongMemEval writes them: ``2026/03/14 (Sat) 09:27``. No locale has a say."""
    when = FIRST_DAY + timedelta(days=day)
    clock = f"{minute // 60:02d}:{minute % 60:02d}"
    return f"{when.year}/{when.month:02d}/{when.day:02d} ({WEEKDAYS[when.weekday()]}) {clock}"


class Deck:
    """Deals names and values, each once in a history."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._left = {key: rng.sample(values, len(values)) for key, values in {**POOLS, "name": NAMES}.items()}

    def deal(self, pool: str) -> str:
        """The next value of a pool. Raises `ConfigError` when a history asks for more than there are."""
        if not self._left[pool]:
            raise ConfigError(f"the words of pool {pool!r} are used up; lower questions_per_history")
        return self._left[pool].pop()
