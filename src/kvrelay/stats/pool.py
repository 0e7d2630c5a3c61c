"""Several data sets of one model as one: their cases are counted together, never their percentages averaged."""

from __future__ import annotations

import pandas as pd

POOLED = "pooled"


def pooled(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of models with two data sets or more, under one name; ids and clusters keep their data set's name.

    Only arms that every data set of the model has are kept, so that all pools of a model are over the same cases.
    """
    several = table.groupby("model")["dataset"].transform("nunique") > 1
    part = table[several].copy()
    arm = ["model", "allocator", "budget", "executor"]
    everywhere = part.groupby(arm)["dataset"].transform("nunique") == part.groupby("model")["dataset"].transform(
        "nunique"
    )
    part = part[everywhere].copy()
    for name in ("cluster", "example_id"):
        part[name] = part["dataset"] + "/" + part[name].where(part[name] != "", "")
    part.loc[part["cluster"].str.endswith("/"), "cluster"] = ""
    part["dataset"] = POOLED
    return part
