"""Which questions of a data set are asked, and the checks of the settings that say so."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from kvrelay.core.errors import ConfigError, DataError


def draw(ids: Sequence[str], limit: int | None, seed: int | None) -> frozenset[str]:
    """The ids that stay: all without a limit, the first ``limit`` without a seed, else a sample.

    The sample is the ``limit`` ids with the smallest sha256 of seed and id: it depends on neither file order nor
    library version, and a smaller sample of one seed lies within a larger one.
    """
    if limit is None:
        return frozenset(ids)
    return frozenset((ids if seed is None else sorted(ids, key=lambda id_: rank(seed, id_)))[:limit])


def rank(seed: int, name: str) -> str:
    """A place in a seeded random order: sha256 of seed and name."""
    return hashlib.sha256(f"{seed}\n{name}".encode("utf-8", "surrogatepass")).hexdigest()


def require_unique(seen: set[str], id_: str, where: str) -> None:
    """Remembers an id. Raises `DataError` where it was there before."""
    if id_ in seen:
        raise DataError(f"{where}: the id {id_!r} stands twice in the file")
    seen.add(id_)


def require_choice(key: str, value: object, allowed: Sequence[str]) -> None:
    """Raises `ConfigError` for a setting that is none of its values."""
    if value not in allowed:
        raise ConfigError(f"{key}={value!r}: wanted one of {', '.join(allowed)}")


def require_positive(key: str, value: int | None) -> None:
    """Raises `ConfigError` for a count that is neither absent nor a positive int."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise ConfigError(f"{key}={value!r}: wanted null (all) or an int of at least 1")
