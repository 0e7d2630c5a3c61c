"""Progress on a terminal: one line that is written over; plain lines, one a minute, in a log."""

from __future__ import annotations

import sys
import time
from typing import TextIO

LOG_INTERVAL_S = 60.0
SCREEN_INTERVAL_S = 0.2


class Progress:
    """Counts units of work and says how many are left and how long they will take. Writes to stderr."""

    def __init__(self, total: int, what: str, stream: TextIO | None = None) -> None:
        self.total = total
        self.what = what
        self.done = 0
        self.failed = 0
        self.stream = stream or sys.stderr
        self.started = time.monotonic()
        self.shown = -LOG_INTERVAL_S
        self.screen = self.stream.isatty()

    def advance(self, done: int = 1, failed: int = 0, detail: str = "") -> None:
        """Count finished units and show them if it is time."""
        self.done += done
        self.failed += failed
        now = time.monotonic()
        interval = SCREEN_INTERVAL_S if self.screen else LOG_INTERVAL_S
        if now - self.shown >= interval or self.done >= self.total:
            self.shown = now
            self._write(self.line(now - self.started, detail))

    def line(self, elapsed_s: float, detail: str = "") -> str:
        """``[12/48 questions] 2.1 s each · 1 min 16 s left``; what takes less than a second as ``8.4 a second``."""
        each = elapsed_s / max(1, self.done)
        pace = f"{1.0 / each:.1f} a second" if 0.0 < each < 1.0 else f"{each:.1f} s each"
        left = duration((self.total - self.done) * each)
        failed = f" · {self.failed} FAILED" if self.failed else ""
        return f"[{self.done}/{self.total} {self.what}] {pace} · {left} left{failed} {detail}".rstrip()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the first unit began."""
        return time.monotonic() - self.started

    def close(self) -> None:
        """End the line that was written over."""
        if self.screen and self.done:
            self.stream.write("\n")
            self.stream.flush()

    def _write(self, line: str) -> None:
        if self.screen:
            self.stream.write(f"\r\x1b[2K{line}")
        else:
            self.stream.write(f"{line}\n")
        self.stream.flush()


def duration(seconds: float) -> str:
    """``45 s``, ``3 min 20 s``, ``2 h 05 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
