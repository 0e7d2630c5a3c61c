"""The way of each item through a server, in one event loop: turns, attempts, waits, and one deadline an item."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from judges.failures import Failure
from judges.pacing import Breaker, Gate, Limits, jittered
from judges.said import Api, Said
from judges.transport import Connection
from kvrelay.core.errors import EndpointError

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """What the server said, or the reason and its words where it gave no reply.

    ``last_error`` tells of a failed attempt even where a later one succeeded. ``seconds`` are the item's own: requests
    and the waits between them, not the queue before its turn.
    """

    said: Said | None = None
    reason: str = ""
    detail: str = ""
    attempts: int = 0
    last_error: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(Generic[Item, Result]):
    """What is asked about an item and how the answer is read: all that an engine knows of the work."""

    api: Api
    request: Callable[[Item], Mapping[str, Any] | Exchange]
    """The body to send; an `Exchange` where nothing need be asked."""
    read: Callable[[Exchange, Item], Result]
    """Must take any reply. An `EndpointError` that it raises ends the whole run."""
    key: Callable[[Item], str]
    """Seeds the item's waits."""
    again: Callable[[Result], bool] = lambda result: False
    """Whether a result is worth asking once more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class News(Generic[Result]):
    """What the loop tells its caller: an item is back (with its result unless it was given up), or the run is over."""

    item_back: bool = True
    results: tuple[Result, ...] = ()
    error: BaseException | None = None


class Flight(Generic[Item, Result]):
    """The items that are under way. Every method runs in the loop's thread; ``tell`` carries the news out of it."""

    def __init__(
        self, connection: Connection, limits: Limits, job: Job[Item, Result], tell: Callable[[News[Result]], None]
    ) -> None:
        self.gate = Gate(limits.concurrency)
        self._connection, self._limits, self._job, self._tell = connection, limits, job, tell
        self._breaker = Breaker(limits)
        self._tasks: set[asyncio.Task[Result]] = set()
        self._asking: set[asyncio.Task[Any]] = set()
        self._recovery: asyncio.Task[None] | None = None
        self._stopping = False

    def begin(self, item: Item) -> None:
        if self._stopping:
            self._tell(News())
            return
        task = asyncio.get_running_loop().create_task(self._bring(item))
        self._tasks.add(task)
        # here and not in the task's own code, which one that is cancelled before its first step never enters
        task.add_done_callback(self._landed)

    def stop(self) -> None:
        """Begin nothing more. Requests that are out may come back; items that wait are given up."""
        self._stopping = True
        for task in self._tasks - self._asking - {asyncio.current_task()}:
            task.cancel()

    async def end(self) -> None:
        """Drop everything."""
        left = [*self._tasks, *([self._recovery] if self._recovery else [])]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _bring(self, item: Item) -> Result:
        try:
            return await self._result(item)
        except Exception:
            # now, not when the caller has heard of it: the place that this item left must not be taken
            self.stop()
            raise

    def _landed(self, task: asyncio.Task[Result]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            self._tell(News())
        elif (error := task.exception()) is not None:
            self._tell(News(error=error))
        else:
            self._tell(News(results=(task.result(),)))

    async def _result(self, item: Item) -> Result:
        asked = self._job.request(item)
        if isinstance(asked, Exchange):
            return self._job.read(asked, item)
        way = _Way(self._limits, self._job.key(item))
        result = self._job.read(await self._exchange(asked, way), item)
        if self._job.again(result) and not self._stopping:
            way.last_error = "asked again: no readable verdict"
            result = self._job.read(await self._exchange(asked, way), item)
        return result

    async def _exchange(self, body: Mapping[str, Any], way: _Way) -> Exchange:
        for left in range(self._limits.retries, -1, -1):
            try:
                return way.told(said=await self._attempt(body, way))
            except Failure as failure:
                way.last_error = failure.words
                if not failure.retried or not left:
                    return way.told(reason=failure.reason, detail=failure.words)
                wait_s, hindrance = way.wait(failure)
                if hindrance:
                    return way.told(reason=failure.reason, detail=f"{failure.words} ({hindrance})")
            if self._stopping:
                raise asyncio.CancelledError
            async with way.counted():
                await asyncio.sleep(wait_s)
        raise AssertionError("the last attempt returns")

    async def _attempt(self, body: Mapping[str, Any], way: _Way) -> Said:
        """One request in its turn, and what the others learn from it. Waiting for the turn is not the item's time."""
        mark = await self.gate.enter(first=way.attempts > 0)
        task = asyncio.current_task()
        assert task is not None
        self._asking.add(task)
        way.attempts += 1
        try:
            async with way.counted():
                answer = await self._connection.post(self._job.api, body)
        except (Failure, TimeoutError) as error:
            failure = error if isinstance(error, Failure) else way.timed_out()
            self._learn(failure, mark)
            raise failure from None
        finally:
            self._asking.discard(task)
            self.gate.leave()
        self.gate.succeeded()
        self._breaker.succeeded()
        return answer

    def _learn(self, failure: Failure, mark: int) -> None:
        if failure.slows:
            self.gate.slow(mark)
        if not failure.breaks:
            self._breaker.answered()
        elif self._breaker.failed() and not self.gate.shut:
            self.gate.shut = True
            self._recovery = asyncio.get_running_loop().create_task(self._recover(failure))

    async def _recover(self, failure: Failure) -> None:
        """Leave the server alone, look at it after growing pauses, and open the gate when it answers."""
        clock = asyncio.get_running_loop().time
        while (pause_s := self._breaker.pause(clock())) is not None:
            await asyncio.sleep(pause_s)
            if await self._connection.is_healthy():
                self._breaker.answered()
                self.gate.open()
                return
        self.stop()
        self._tell(News(item_back=False, error=EndpointError(self._connection.given_up(failure.words, self._limits))))


class _Way:
    """One item's attempts, its draws, and what is left of its time."""

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
