"""The way of each item through a server, in one event loop: turns, attempts, and what all learn from each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Generic

from judges.failures import Failure
from judges.job import Exchange, Item, Job, News, Result
from judges.pacing import Breaker, Gate, Limits
from judges.said import Said
from judges.transport import Connection
from judges.way import Way
from kvrelay.core.errors import EndpointError


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
        """Begin nothing more. Requests that are out may come back; items that wait are given up. When the last is
        back, that is told: also where this is said again after it."""
        self._stopping = True
        for task in self._tasks - self._asking - {asyncio.current_task()}:
            task.cancel()
        self._tell_if_drained()

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
        self._tell_if_drained()

    def _tell_if_drained(self) -> None:
        """The tasks are counted here, where no signal can come between an item and its count."""
        if self._stopping and not self._tasks:
            self._tell(News(item_back=False, drained=True))

    async def _result(self, item: Item) -> Result:
        asked = self._job.request(item)
        if isinstance(asked, Exchange):
            return self._job.read(asked, item)
        way = Way(self._limits, self._job.key(item))
        result = self._job.read(await self._exchange(asked, way), item)
        if not self._job.again(result):
            return result
        if self._stopping:
            raise asyncio.CancelledError
        way.last_error = "asked again: no readable verdict"
        return self._job.read(await self._exchange(asked, way), item)

    async def _exchange(self, body: Mapping[str, Any], way: Way) -> Exchange:
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
            await way.rest(wait_s)
        raise AssertionError("the last attempt returns")

    async def _attempt(self, body: Mapping[str, Any], way: Way) -> Said:
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
