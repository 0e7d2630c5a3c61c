"""Several data sets of one model as one: their cases are counted together, never their percentages averaged."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from kvrelay.stats.arms import MEMORY, REPAIR, split

POOLED = "pooled"
POOL = ["model", *MEMORY]
"""The names that all rows of a pool share."""


Pooled = Mapping[tuple[str, ...], frozenset[str]]
"""The data sets of each pool, by the values of `POOL`."""


def pooled_sets(table: pd.DataFrame) -> dict[tuple[str, ...], frozenset[str]]:
    """The data sets there are at each of `POOL`'s names."""
    return {names: frozenset(part["dataset"]) for names, part in split(table, POOL).items()}


def pooled(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of models with two data sets or more, under one name; ids and clusters keep their data set's name.

    Only arms that every data set of the model has are kept, so that all pools of a model are over the same cases.
    Caches that other selectors, retentions or positions made are pools of their own.
    """
    sets = table.groupby(POOL)["dataset"].transform("nunique")
    part = table[sets > 1]
    everywhere = part.groupby([*POOL, *REPAIR])["dataset"].transform("nunique") == sets[sets > 1]
    part = part[everywhere].copy()
    for name in ("cluster", "example_id"):
        part[name] = part["dataset"] + "/" + part[name].where(part[name] != "", "")
    part.loc[part["cluster"].str.endswith("/"), "cluster"] = ""
    part["dataset"] = POOLED
    return part
