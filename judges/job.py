"""What an engine is told of its work, and what it tells of each item's way through a server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from judges.said import Api, Said

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
    """What the loop tells its caller: an item is back (with its result unless it was given up), the run is over, or,
    after a stop, that nothing is under way any more and no result will come."""

    item_back: bool = True
    results: tuple[Result, ...] = ()
    error: BaseException | None = None
    drained: bool = False
