"""Many items against one server: one event loop in one thread, items read as needed, results as they come."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Generic

from judges.flight import Flight
from judges.job import Exchange, Item, Job, News, Result
from judges.pacing import Limits
from judges.transport import Endpoint

__all__ = ["Engine", "Exchange", "Job", "Limits"]

AHEAD = 2
"""Items taken up for each request at once: one out, one ready for when it is back."""

LOOK_S = 0.2
"""How long a signal may go unseen while nothing comes back."""


class Engine(Generic[Item, Result]):
    """Asks a server about items. It knows nothing of templates or verdicts: a `Job` makes requests and reads replies.

    Usable again and again, one run at a time.
    """

    def __init__(self, endpoint: Endpoint, limits: Limits, job: Job[Item, Result]) -> None:
        self._endpoint, self._limits, self._job = endpoint, limits, job
        self._thread: _LoopThread[Item, Result] | None = None

    def run(self, items: Iterable[Item]) -> Iterator[Result]:
        """One result an item, in the order in which they come.

        ``items`` is read in the caller's thread, never more than ``AHEAD`` times the concurrency beyond what has been
        handed over; a caller that is slow holds the server's work back, so memory does not grow with the items.
        Where going on is useless, or the caller is interrupted, what is at the server is waited for and handed over
        before the error is raised. Closing the iterator drops it.
        """
        waiting, out = iter(items), 0
        with _LoopThread(self._endpoint, self._limits, self._job) as thread:
            self._thread = thread
            try:
                while True:
                    for item in islice(waiting, AHEAD * self._limits.concurrency - out):
                        out += 1
                        thread.begin(item)
                    if not out:
                        return
                    news = thread.news()
                    out -= news.item_back
                    if news.error is not None:
                        raise news.error
                    # Python looks for signals at calls and jumps: there is none between these two
                    del thread.inbox[0]
                    yield from news.results
            except (Exception, KeyboardInterrupt):
                # an interrupt may have hit between an item and its count, so that the count is worth nothing here
                thread.stop()
                while not (news := thread.news()).drained:
                    del thread.inbox[0]
                    yield from news.results
                raise

    def pace(self) -> str:
        """How many requests are out, and how often the server had to be spared."""
        flight = self._thread.flight if self._thread else None
        if flight is None:
            return ""
        slowed = f", slowed {flight.gate.slowed}x" if flight.gate.slowed else ""
        away = ", server away" if flight.gate.shut else ""
        return f"{flight.gate.running} of {flight.gate.limit} in flight{slowed}{away}"


class _LoopThread(Generic[Item, Result]):
    """A background thread with an event loop, a client and a flight, for as long as the ``with`` block lasts."""

    def __init__(self, endpoint: Endpoint, limits: Limits, job: Job[Item, Result]) -> None:
        self.flight: Flight[Item, Result] | None = None
        self.inbox: deque[News[Result]] = deque()
        """What the loop has told, oldest first. Read before it is taken out, so that an interrupt loses nothing."""
        self._endpoint, self._limits, self._job = endpoint, limits, job
        # a bell, not a box: a ring that an interrupt swallows matters to nobody who looks into the box first; nor can
        # it be left locked, as whatever is built on a condition can
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._fault: BaseException | None = None
        self._loop = asyncio.new_event_loop()
        self._closing = asyncio.Event()
        # a daemon: an interpreter that has to end does not wait for a server
        self._thread = threading.Thread(target=self._work, name="judge", daemon=True)

    def __enter__(self) -> _LoopThread[Item, Result]:
        self._thread.start()
        try:
            self._wait(lambda: self.flight is not None)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join()
        self._loop.close()
        self.flight = None

    def begin(self, item: Item) -> None:
        assert self.flight is not None
        self._loop.call_soon_threadsafe(self.flight.begin, item)

    def stop(self) -> None:
        assert self.flight is not None
        self._loop.call_soon_threadsafe(self.flight.stop)

    def news(self) -> News[Result]:
        """Wait for the oldest news, and leave it in the box. Raises what ended the loop itself, again and again, since
        nothing more will come."""
        self._wait(lambda: bool(self.inbox))
        return self.inbox[0]

    def _wait(self, come: Callable[[], bool]) -> None:
        while not come():
            if self._fault is not None:
                raise self._fault
            # a signal that comes just before the thread sleeps does not wake it: such a one is seen at the next look
            with suppress(Empty):
                self._bell.get(timeout=LOOK_S)

    def _tell(self, news: News[Result]) -> None:
        self.inbox.append(news)
        self._ring()

    def _ring(self) -> None:
        """Once is enough until it is heard: who hears it looks into the box afterwards."""
        if self._bell.empty():
            self._bell.put(None)

    def _work(self) -> None:
        try:
            self._loop.run_until_complete(self._fly())
        except BaseException as error:
            self._fault = error
            self._ring()

    async def _fly(self) -> None:
        async with self._endpoint.connected() as connection:
            self.flight = flight = Flight(connection, self._limits, self._job, self._tell)
            self._ring()
            await self._closing.wait()
            await flight.end()
