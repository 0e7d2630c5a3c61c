"""Layouts of a report, one a module, found by its name: ``report.view=NAME``. A new view is a new file."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Protocol, cast

from kvrelay.core.errors import ConfigError
from kvrelay.report.given import Given, Layout

DEFAULT = "table1"


class View(Protocol):
    """What a view's module holds."""

    MAIN: str
    """Stem of the table that a reader opens first."""
    BASELINE: str
    """What the others are compared with where nobody says otherwise: a value of the first name of ``ARMS``."""
    ARMS: tuple[str, ...]
    """Names in which its arms differ: it shows rows of repair where the allocator is one of them, else the others."""
    ALLOCATORS: tuple[str, ...] | None
    """The allocators that it shows besides endpoints and baseline; None for all there are."""
    OWNS: tuple[str, ...]
    """Patterns of its files in the report's folder: what it no longer makes, it removes."""

    def render(self, given: Given) -> Layout: ...


def names() -> list[str]:
    """All views there are."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def find(name: str) -> View:
    """The view of that name. Raises `ConfigError` that lists those there are."""
    if name not in names():
        raise ConfigError(f"report.view = {name!r}: wanted one of {', '.join(names())} (key: report.view)")
    return cast(View, importlib.import_module(f"{__name__}.{name}"))
