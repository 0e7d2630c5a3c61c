"""What a failed attempt means: whether to try again, to ask less at once, or to doubt that the server lives."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_FORM_STATUSES = frozenset({400, 422})
"""The server read the request and will not have it: repeating it changes nothing."""

_BUSY_STATUSES = frozenset({408, 409, 429})


class Failure(Exception):
    """An attempt that brought no body.

    ``words`` are what is written down; ``retried``: another attempt may succeed; ``slows``: fewer requests at once are
    due; ``breaks``: the server may be away; ``wait_s``: what the server asked to wait.
    """

    def __init__(
        self,
        words: str,
        *,
        reason: str = "transport_error",
        retried: bool = False,
        slows: bool = False,
        breaks: bool = False,
        wait_s: float | None = None,
    ) -> None:
        super().__init__(words)
        self.words = words
        self.reason = reason
        self.retried = retried
        self.slows = slows
        self.breaks = breaks
        self.wait_s = wait_s


def status_failure(status: int, words: str, wait_s: float | None, *, too_long: bool = False) -> Failure:
    """What an HTTP status says of the item; ``words`` begin with it and go on with the server's own."""
    if too_long:
        return Failure(words, reason="too_long")
    if status in _FORM_STATUSES:
        return Failure(words, reason="rejected")
    if status >= 500:
        return Failure(words, retried=True, slows=True, breaks=True, wait_s=wait_s)
    return Failure(words, retried=status in _BUSY_STATUSES, slows=status in (408, 429), wait_s=wait_s)


def retry_after_s(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds that ``Retry-After`` asks for, written as a number or as a date; None where it says nothing readable.

    Anything can stand in the header: years and numbers beyond every range too.
    """
    text = headers.get("retry-after")
    if text is None:
        return None
    try:
        seconds = float(text)
    except (ValueError, OverflowError):
        try:
            date = parsedate_to_datetime(text)
            aware = date if date.tzinfo else date.replace(tzinfo=UTC)
            seconds = (aware - (now or datetime.now(UTC))).total_seconds()
        except (ValueError, OverflowError, TypeError, IndexError):
            return None
    return None if math.isnan(seconds) else max(0.0, seconds)


def server_words(body: object) -> str:
    """OpenAI and vLLM write error.message (or message), FastAPI writes detail."""
    if not isinstance(body, Mapping):
        return body if isinstance(body, str) else ""
    inner = body.get("error", body)
    if isinstance(inner, Mapping):
        inner = inner.get("message") or inner.get("detail") or inner
    return str(inner)
