"""How long an answer after a deletion takes, by stage, and what is recomputed for it (SUR, sections B.2 and G.1)."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from kvrelay.stats.arms import CELL, REPAIR, group_of, partner, split
from kvrelay.stats.latency import RatioEstimate, clustered_ratio
from kvrelay.stats.measures import RECOVERY


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """Mean seconds over the timed cases of one cell, and how much faster it is than re-prefilling the same cases.

    As the paper has it, ``ratio_of_means`` is the mean of re-prefill over that of the arm; ``paired`` the geometric
    mean of the cases' own ratios, within a cluster and then over clusters. Both are over the ``n_paired`` cases that
    were timed in both arms.
    """

    cell: tuple[str, ...]
    n: int
    n_shared: int
    """Answers of cases whose arms did not all decode alone, and are left out."""
    means_s: dict[str, float]
    total_s: float
    answer_tokens: float
    n_paired: int
    ratio_of_means: float | None
    paired: RatioEstimate | None


def recoveries(table: pd.DataFrame, *, baseline: str = "reprefill") -> tuple[Recovery, ...]:
    """Times of all cells that have a timed case. A case is timed only where the answers of all its arms decoded alone:
    one that happened to be left over from a batch is no timing beside others that shared it.
    """
    answered = with_times(table)
    found: list[Recovery] = []
    for names, group in split(answered, group_of(REPAIR)).items():
        alone = (group["batch_rows"] == 1).groupby(group["example_id"]).transform("all")
        timed_s = group.assign(total_s=group[RECOVERY].sum(axis=1), alone=alone)
        arms = {arm: rows.set_index("example_id") for arm, rows in split(timed_s, REPAIR).items()}
        for arm, rows in arms.items():
            timed = rows[rows["alone"]]
            if len(timed):
                base = partner(arm, arms, baseline)
                other = None if base is None else arms[base][arms[base]["alone"]]
                found.append(_recovery((*names, *arm), timed, len(rows) - len(timed), other))
    return tuple(found)


def with_times(table: pd.DataFrame) -> pd.DataFrame:
    """Rows whose record holds the time of every stage."""
    return table[table[RECOVERY].notna().all(axis=1) & (table[RECOVERY].sum(axis=1) > 0)]


def _recovery(cell: tuple[str, ...], timed: pd.DataFrame, shared: int, base: pd.DataFrame | None) -> Recovery:
    both = [] if base is None else sorted(set(timed.index) & set(base.index))
    ratio, paired = None, None
    if base is not None and both:
        here, there = timed.loc[both, "total_s"], base.loc[both, "total_s"]
        ratio = float(there.mean() / here.mean())
        paired = clustered_ratio(
            {str(case): float(s) for case, s in here.items()},
            {str(case): float(s) for case, s in there.items()},
            {str(case): str(name) for case, name in timed.loc[both, "cluster"].items()},
        )
    names = dict(zip((*group_of(REPAIR), *REPAIR), cell, strict=True))
    return Recovery(
        cell=tuple(names[name] for name in CELL),
        n=len(timed),
        n_shared=shared,
        means_s={stage: float(timed[stage].mean()) for stage in RECOVERY},
        total_s=float(timed["total_s"].mean()),
        answer_tokens=float(timed["answer_tokens"].mean()),
        n_paired=len(both),
        ratio_of_means=ratio,
        paired=paired,
    )


def shares_of_replay(rows: pd.DataFrame, replay: pd.DataFrame | None) -> dict[str, float | None]:
    """What one cell recomputes, in per cent of Replay: states, token-layer updates and causal query-key pairs.

    Ratios of totals over the cell's cases. Token-layer updates are those of the Replay arm for the same cases, where
    there is one; pairs are those within the suffix, in one layer.
    """
    known = rows[rows["n_suffix"] > 0]
    return {
        "refreshed_percent": _percent(known["refreshed"].sum(), known["n_suffix"].sum()),
        "pairs_percent": _percent(known["causal_pairs"].sum(), known["replay_pairs"].sum()),
        "updates_percent": _updates(known, replay),
    }


def _updates(rows: pd.DataFrame, replay: pd.DataFrame | None) -> float | None:
    if replay is None:
        return None
    whole = replay.set_index("example_id")["token_layer_updates"].dropna()
    here = rows.set_index("example_id")["token_layer_updates"].dropna()
    both = sorted(set(whole.index) & set(here.index))
    return _percent(here.loc[both].sum(), whole.loc[both].sum())


def _percent(part: float, whole: float) -> float | None:
    return 100.0 * float(part) / float(whole) if whole > 0 else None
