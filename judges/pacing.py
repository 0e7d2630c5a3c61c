"""How hard a server is asked: limits, requests at once, waits between tries, and when it is left alone."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from dataclasses import dataclass

from kvrelay.core.errors import ConfigError

LONGEST_WAIT_S = 30.0
"""Doubling waits stop growing here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a client may ask of a server; the fields of the same names in ``conf/judge`` say what each is for.

    Raises `ConfigError` for values out of range.
    """

    concurrency: int = 16
    timeout_s: float = 120.0
    retries: int = 4
    retry_wait_s: float = 0.5
    retry_after_limit_s: float = 60.0
    breaker_after: int = 8
    breaker_wait_s: float = 1.0
    breaker_patience_s: float = 900.0

    def __post_init__(self) -> None:
        for name, bound in {"concurrency": 1, "retries": 0, "breaker_after": 1}.items():
            if getattr(self, name) < bound:
                raise ConfigError(f"judge.*.{name} is {getattr(self, name)}; wanted at least {bound}")
        for name in ("timeout_s", "retry_wait_s", "breaker_wait_s", "breaker_patience_s"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"judge.*.{name} is {getattr(self, name)}; wanted more than 0 seconds")
        if not self.retry_after_limit_s >= 0:
            raise ConfigError(f"judge.*.retry_after_limit_s is {self.retry_after_limit_s}; wanted at least 0 seconds")


class Gate:
    """Lets as many requests through as the server bears: halved when it is slow, one more after a round of successes.

    Lives in one event loop. Places are given in the order of asking, except that ``first`` goes before all others.
    """

    def __init__(self, most: int) -> None:
        self.limit = most
        self.running = 0
        self.slowed = 0
        """How often the limit was halved: also the mark by which an attempt knows whether it began before the last."""
        self.shut = False
        self._most = most
        self._successes = 0
        self._queue: deque[asyncio.Future[None]] = deque()

    async def enter(self, *, first: bool = False) -> int:
        """Wait for a place; the mark to give to `slow` if this attempt turns out to be one too many."""
        if self._has_room() and not self._queue:
            self.running += 1
            return self.slowed
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        (self._queue.appendleft if first else self._queue.append)(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.leave()
            raise
        return self.slowed

    def leave(self) -> None:
        self.running -= 1
        self._admit()

    def succeeded(self) -> None:
        """One more place after as many successes as there are places."""
        self._successes += 1
        if self._successes >= self.limit and self.limit < self._most:
            self.limit, self._successes = self.limit + 1, 0

    def slow(self, mark: int) -> None:
        """Halve, unless that has been done since the attempt began: one halving a round trip, and never below 1."""
        if mark == self.slowed:
            self.limit, self._successes, self.slowed = max(1, self.limit // 2), 0, self.slowed + 1

    def open(self) -> None:
        self.shut = False
        self._admit()

    def _has_room(self) -> bool:
        return not self.shut and self.running < self.limit

    def _admit(self) -> None:
        while self._queue and self._has_room():
            place = self._queue.popleft()
            if not place.done():
                self.running += 1
                place.set_result(None)


class Breaker:
    """Counts failures in a row over all items, and says how long to leave a failing server alone."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._row = 0
        self._pauses = 0
        self._since: float | None = None
        """When the server was first left alone since its last success."""

    def succeeded(self) -> None:
        self._row, self._pauses, self._since = 0, 0, None

    def answered(self) -> None:
        """A refusal is a sign of life, though no success."""
        self._row = 0

    def failed(self) -> bool:
        """Whether this failure is one too many."""
        self._row += 1
        return self._row >= self._limits.breaker_after

    def pause(self, now_s: float) -> float | None:
        """Seconds until the server is to be looked at again, twice as many each time; None where patience has ended."""
        self._row = 0
        self._since = now_s if self._since is None else self._since
        left = self._since + self._limits.breaker_patience_s - now_s
        if left <= 0:
            return None
        self._pauses += 1
        return min(_doubled(self._limits.breaker_wait_s, self._pauses - 1), left)


def jittered(limits: Limits, attempt: int, dice: random.Random) -> float:
    """Seconds to wait after a failed attempt (counted from 1): uniform from 0 to a bound that doubles, so that items
    that failed together do not come back together."""
    return dice.uniform(0.0, _doubled(limits.retry_wait_s, attempt - 1))


def _doubled(seconds: float, times: int) -> float:
    return max(seconds, min(LONGEST_WAIT_S, seconds * 2.0 ** min(times, 60)))
