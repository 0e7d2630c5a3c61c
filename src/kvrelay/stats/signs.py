"""The same paired difference under two judges: do they agree on its sign, and question by question on what moved?

Only questions count whose two answers both judges gave a verdict on, so that both gains are over the same pairs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import pandas as pd

from kvrelay.core.errors import InvariantError
from kvrelay.stats.arms import CELL, POSITION, group_of, split
from kvrelay.stats.bootstrap import Estimate, cluster_sums, estimates

MOVES = ("repaired", "tie", "regressed")
"""What the second arm made of a question: wrong to right, the same, right to wrong."""
Moves = tuple[tuple[int, int, int], tuple[int, int, int], tuple[int, int, int]]
"""Questions by what the first judge saw (rows) and the second (columns), in the order of `MOVES`."""
NO_MOVES: Moves = ((0, 0, 0), (0, 0, 0), (0, 0, 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class SignPair:
    """One comparison of a position with the baseline under two judges; differences in percentage points."""

    model: str
    dataset: str
    selector: str
    retention: str
    position: str
    baseline: str
    n_expected: int
    """Questions of either arm; those beyond ``n`` lack an answer or a verdict."""
    n: int
    moves: Moves = NO_MOVES
    first: Estimate | None = None
    second: Estimate | None = None
    apart: Estimate | None = None
    """The first judge's difference less the second's, paired by question."""

    @property
    def signs(self) -> tuple[int, int] | None:
        """-1, 0 or 1 under each judge, from whole numbers of questions; None without a pair."""
        if not self.n:
            return None
        by_first = [sum(row) for row in self.moves]
        by_second = [sum(row[i] for row in self.moves) for i in range(3)]
        return _sign(by_first[0] - by_first[2]), _sign(by_second[0] - by_second[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class SignCounts:
    """How many comparisons have which signs under two judges; a difference of exactly zero has the sign zero."""

    n: int
    both_up: int
    both_down: int
    both_zero: int
    one_zero: int
    opposite: int

    @property
    def same(self) -> int:
        return self.both_up + self.both_down + self.both_zero


def ratings(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One row an answer with a column a judge: 1.0 right, 0.0 wrong, NaN without a verdict; ``answered`` says whether
    there is an answer at all.

    ``tables`` are those of `stats.frame.tidy` under each judge. Raises `InvariantError` where they hold other answers.
    """
    shared = [*CELL, "key", "example_id", "cluster"]
    first = next(iter(tables.values()))
    found = first[shared].assign(answered=~first["status"].isin(["missing", "failed"]))
    for judge, table in tables.items():
        if not table["key"].equals(first["key"]):
            raise InvariantError(f"agreement: the answers that {judge} judged are not those of the others")
        found[judge] = table["correct"].astype("Float64").to_numpy(dtype=np.float64, na_value=np.nan)
    return found


def sign_pairs(
    table: pd.DataFrame, first: str, second: str, *, baseline: str, seed: int = 0, resamples: int = 10_000
) -> tuple[SignPair, ...]:
    """Every position against the baseline under two judges; ``table`` is that of `ratings`."""
    found = []
    for names, group in split(table, group_of(POSITION)).items():
        arms = {name: rows.set_index("example_id") for (name,), rows in split(group, POSITION).items()}
        shared: dict[str, Any] = dict(zip(group_of(POSITION), names, strict=True))
        shared = {name: value for name, value in shared.items() if name in _NAMES}
        for position, rows in arms.items():
            if baseline in arms and position != baseline:
                sides = [arms[baseline].add_suffix("_a"), rows.add_suffix("_b")]
                joined = pd.concat(sides, axis=1).sort_index()
                pair = SignPair(**shared, position=position, baseline=baseline, n_expected=len(joined), n=0)
                found.append(_measured(pair, joined, first, second, seed, resamples))
    return tuple(found)


_NAMES = frozenset(SignPair.__dataclass_fields__)


def _measured(pair: SignPair, joined: pd.DataFrame, first: str, second: str, seed: int, resamples: int) -> SignPair:
    moved = {judge: (joined[f"{judge}_b"] - joined[f"{judge}_a"]).to_numpy(float) for judge in (first, second)}
    complete = ~np.isnan(moved[first]) & ~np.isnan(moved[second])
    if not complete.any():
        return pair
    one, other = moved[first][complete], moved[second][complete]
    clusters = joined.loc[complete, "cluster_a"].tolist()
    counts = np.zeros((3, 3), dtype=int)
    np.add.at(counts, ((1 - one).astype(int), (1 - other).astype(int)), 1)
    sums = [cluster_sums(values, clusters) for values in (one, other, one - other)]
    gains = estimates(sums, seed=seed, resamples=resamples, scales=[100.0] * len(sums))
    return replace(pair, n=len(one), moves=_moves(counts), first=gains[0], second=gains[1], apart=gains[2])


def sign_counts(pairs: tuple[SignPair, ...]) -> SignCounts:
    """Over the comparisons that have a pair."""
    signs = [pair.signs for pair in pairs if pair.signs is not None]
    return SignCounts(
        n=len(signs),
        both_up=sum(sign == (1, 1) for sign in signs),
        both_down=sum(sign == (-1, -1) for sign in signs),
        both_zero=sum(sign == (0, 0) for sign in signs),
        one_zero=sum((a == 0) != (b == 0) for a, b in signs),
        opposite=sum(a * b < 0 for a, b in signs),
    )


def summed(pairs: tuple[SignPair, ...]) -> Moves:
    """The 3x3 counts of many comparisons."""
    return reduce(lambda total, pair: _moves(np.array(total) + np.array(pair.moves)), pairs, NO_MOVES)


def _moves(counts: np.ndarray) -> Moves:
    return tuple(tuple(int(count) for count in row) for row in counts)  # type: ignore[return-value]


def _sign(net: int) -> int:
    return (net > 0) - (net < 0)
