"""Schedulers stop processes by signals; what is in work is finished before one is obeyed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

POSTPONED = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
"""Preemption, cancellation and time limits. SIGINT is a person who wants the machine now."""


@contextmanager
def finished_first() -> Iterator[None]:
    """Inside, the signals of `POSTPONED` are only noted; at the end their own handlers are called, in the order of
    arrival.

    So a handler that raises, whoever installed it, raises between two items and never inside one, where the exception
    would pass for a failure of the item. Python runs handlers in the main thread alone; in others nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: dict[int, FrameType | None] = {}

    def note(number: int, frame: FrameType | None) -> None:
        came.setdefault(number, frame)

    before = {number: signal.signal(number, note) for number in POSTPONED}
    try:
        yield
    finally:
        for number, handler in before.items():
            # None: it was not installed from Python, and cannot be put back from there
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        for one in came:
            signal.raise_signal(one)
