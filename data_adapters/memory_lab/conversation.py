"""Fills a plot with small talk up to the wanted number of tokens."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence

from data_adapters.memory_lab.world import Round, Session
from kvrelay.core.errors import ConfigError

Size = Callable[[Session], int]
"""Tokens of a session as its schema's prompt shows it."""


def fill(planted: Sequence[Session], talk: Iterable[Session], size: Size, history_tokens: int) -> tuple[Session, ...]:
    """The planted sessions and as much small talk as brings them nearest to ``history_tokens``, in order of days.

    Raises `ConfigError` when the facts alone are longer than wanted, or the small talk is used up.
    """
    chosen, total = list(planted), sum(size(s) for s in planted)
    if total > history_tokens:
        raise ConfigError(
            f"history_tokens={history_tokens} is too small: the facts alone take {total}; "
            "raise history_tokens or lower questions_per_history"
        )
    for session in talk:
        length = size(session)
        if abs(total + length - history_tokens) >= abs(total - history_tokens):
            return tuple(sorted(chosen, key=lambda s: s.day))
        chosen.append(session)
        total += length
    raise ConfigError(f"history_tokens={history_tokens} is too large: small talk ends at {total}; lower history_tokens")


def small_talk(rng: random.Random, rounds: Sequence[tuple[str, str]], days: Sequence[int]) -> Iterator[Session]:
    """Sessions of one or two rounds on the given days, no round twice."""
    order = rng.sample(rounds, len(rounds))
    for day in days:
        if not order:
            return
        taken = [order.pop() for _ in range(min(len(order), rng.randint(1, 2)))]
        yield Session(day=day, rounds=tuple(Round(user=user, assistant=reply) for user, reply in taken))
