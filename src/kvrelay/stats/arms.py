"""What makes two cells arms of one comparison: the names in which they may differ, and which is the baseline."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

import pandas as pd

CELL = ["model", "dataset", "selector", "retention", "position", "allocator", "budget", "executor"]
POSITION = ("position",)
"""Arms of relocation: one cache at different positions."""
REPAIR = ("allocator", "budget", "executor")
"""Arms of repair: one deletion, mended in different places, to a different extent, in a different way."""
AT_EQUAL_BUDGET = ("allocator",)
"""Arms of repair that refresh the same number of states in the same way."""
MEMORY = ("selector", "retention", "position")
"""What a deletion starts from: the states that were kept, and where they stand."""
DIAGNOSTICS = frozenset({"oracle"})
"""Allocators that read what no method may read, whatever a record says: they never stand in a table as one."""

Arm = tuple[str, ...]


def group_of(arms: Sequence[str]) -> list[str]:
    """The names that the arms of a comparison share."""
    return [name for name in CELL if name not in arms]


def split(table: pd.DataFrame, names: Sequence[str]) -> dict[Arm, pd.DataFrame]:
    """The rows by these names, in their alphabetical order."""
    return {cast(Arm, key): rows for key, rows in table.groupby(list(names), sort=True)}


def memory(row: Mapping[Any, Any] | pd.Series) -> dict[str, str]:
    """Those of a row's `MEMORY` names that tell it from a whole cache whose states stand where they stood.

    A selector that keeps everything does so at any retention, and one that keeps nothing too.
    """
    names = {name: str(row[name]) for name in MEMORY}
    if names["selector"] == "full":
        names = {"position": names["position"]}
    if names.get("retention") == "nothing":
        del names["retention"]
    if names["position"] == "original":
        del names["position"]
    return names


def diagnostics(table: pd.DataFrame) -> frozenset[str]:
    """Allocators of ``table`` that are diagnostics: by their name, or because a record says that they are."""
    told = table.loc[table["diagnostic"].fillna(False).astype(bool), "allocator"]
    return frozenset(told) | (DIAGNOSTICS & frozenset(table["allocator"]))


def partner(arm: Arm, candidates: Collection[Arm], baseline: str) -> Arm | None:
    """The baseline's arm that ``arm`` is compared with, or None: of several, the one that shares most other names.

    An endpoint that ran under two executors is compared with each executor's arms under the same one.
    """
    named = sorted(other for other in candidates if other[0] == baseline)
    if not named:
        return None
    return max(named, key=lambda other: sum(a == b for a, b in zip(arm[1:], other[1:], strict=True)))
