"""Contrasts of a repair's effect between matched cases of one source question (SUR, sections D.1 and D.2).

The effect of a repair r on a case is score(r) - score(shift). The side contrast is the effect where the evidence
stands after the deletion less the effect where it stands before; the tail contrast is the effect with a long tail less
that with a short one. Each is taken within a source question first, then averaged over questions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from kvrelay.stats.bootstrap import Estimate, estimate
from kvrelay.stats.compare import Metric

SIDES = ("suffix", "prefix")
TAILS = ("short", "long")
WEIGHTS: Mapping[str, Mapping[str, float]] = {
    **{f"side, {tail} tail": {f"suffix-{tail}": 1.0, f"prefix-{tail}": -1.0} for tail in TAILS},
    "side, both tails": {f"{side}-{tail}": 0.5 if side == "suffix" else -0.5 for side in SIDES for tail in TAILS},
    **{f"tail, evidence in {side}": {f"{side}-long": 1.0, f"{side}-short": -1.0} for side in SIDES},
    "tail, both sides": {f"{side}-{tail}": 0.5 if tail == "long" else -0.5 for side in SIDES for tail in TAILS},
}
"""Contrast to the weight of each kind of case in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """One contrast of one arm's effect on one measure; ``n_incomplete`` source questions lack a case that it needs."""

    name: str
    estimate: Estimate | None
    n_incomplete: int


def contrasts(
    arm: pd.DataFrame, shift: pd.DataFrame, metric: Metric, *, seed: int = 0, resamples: int = 10_000
) -> tuple[Contrast, ...]:
    """All contrasts of one arm over the cases that the arm and Shift both have, a source question a cluster."""
    effects = _effects(arm, shift, metric)
    kinds = [kind for kind in dict.fromkeys(arm["question_type"]) if kind in WEIGHTS["side, both tails"]]
    return tuple(
        _contrast(name, weights, effects, metric.scale, seed, resamples)
        for name, weights in WEIGHTS.items()
        if set(weights) <= set(kinds)
    )


def _effects(arm: pd.DataFrame, shift: pd.DataFrame, metric: Metric) -> pd.DataFrame:
    """Mean effect by source question (rows) and kind of case (columns); NaN where a case has none."""
    here, there = (rows.set_index("example_id")[metric.column].astype("Float64") for rows in (arm, shift))
    effect = (here - there).rename("effect")
    cases = arm.set_index("example_id")[["cluster", "question_type"]].join(effect)
    known = cases[cases["cluster"] != ""].assign(effect=cases["effect"].astype("float64"))
    return known.pivot_table(index="cluster", columns="question_type", values="effect", aggfunc=_mean, dropna=False)


def _mean(values: pd.Series) -> float:
    """NaN as soon as one case is unknown: the same cases must stand on both sides of a contrast."""
    return float(values.mean(skipna=False))


def _contrast(
    name: str, weights: Mapping[str, float], effects: pd.DataFrame, scale: float, seed: int, resamples: int
) -> Contrast:
    needed: Sequence[str] = list(weights)
    if not set(needed) <= set(effects.columns):
        return Contrast(name=name, estimate=None, n_incomplete=len(effects))
    complete = effects[list(needed)].dropna()
    values = sum(complete[kind] * weight for kind, weight in weights.items())
    incomplete = len(effects) - len(complete)
    if not len(complete):
        return Contrast(name=name, estimate=None, n_incomplete=incomplete)
    clusters = [str(cluster) for cluster in complete.index]
    found = estimate(pd.Series(values).to_numpy(dtype=float), clusters, seed=seed, resamples=resamples, scale=scale)
    return Contrast(name=name, estimate=found, n_incomplete=incomplete)
