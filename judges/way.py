"""One item's attempts, its waits, and what is left of its time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from judges.failures import Failure
from judges.job import Exchange
from judges.pacing import Limits, jittered


class Way:
    """Lives in one event loop. ``key`` seeds the item's draws, so that its waits are its own and the same each time."""

    def __init__(self, limits: Limits, key: str) -> None:
        self.attempts = 0
        self.last_error = ""
        self._limits = limits
        self._left_s = limits.timeout_s
        self._dice = random.Random(key)

    @asynccontextmanager
    async def counted(self) -> AsyncIterator[None]:
        """Time of the item's own. The client's timeout restarts with every byte, so a slow drip outlives it; this
        deadline is total. Raises ``TimeoutError``."""
        clock = asyncio.get_running_loop().time
        start = clock()
        try:
            async with asyncio.timeout(self._left_s):
                yield
        finally:
            self._left_s -= clock() - start

    async def rest(self, seconds: float) -> None:
        """A wait of the item's own; what it leaves is for the next attempt to find too short."""
        clock = asyncio.get_running_loop().time
        start = clock()
        await asyncio.sleep(seconds)
        self._left_s -= clock() - start

    def wait(self, failure: Failure) -> tuple[float, str]:
        """Seconds until the next attempt, and why there is none (the empty string where there is)."""
        asked = failure.wait_s
        if asked is not None and asked > self._limits.retry_after_limit_s:
            return 0.0, f"asks to wait {asked:.0f} s, beyond judge.*.retry_after_limit_s; left for the next run"
        wait_s = (asked or 0.0) + jittered(self._limits, self.attempts, self._dice)
        late = f"no time left for a wait of {wait_s:.1f} s within judge.*.timeout_s"
        return wait_s, late if wait_s >= self._left_s else ""

    def timed_out(self) -> Failure:
        words = f"no whole reply within {self._limits.timeout_s:g} s (judge.*.timeout_s)"
        return Failure(words, slows=True, breaks=True)

    def told(self, **outcome: Any) -> Exchange:
        spent = round(self._limits.timeout_s - self._left_s, 3)
        return Exchange(attempts=self.attempts, last_error=self.last_error, seconds=spent, **outcome)
