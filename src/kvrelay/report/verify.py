"""What must hold of repaired records and of the numbers made from them before a report is believed (SUR, section F).

Every arm present for every case, exact allowances, equal denominators, counts pooled as integers, repaired less
regressed equal to the difference. A report that fails a check is stamped with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from kvrelay.report.recovered import Row
from kvrelay.stats.arms import REPAIR, group_of, memory, split
from kvrelay.stats.frame import NO_ARM, Results, cell_label
from kvrelay.stats.pool import POOL, POOLED

BASIS_POINTS = 10_000
SHOWN = 3
REPLAY_KL = {"float32": 1e-4, "float64": 1e-4}
REPLAY_KL_HALF = 1e-2
"""Nats a token that Replay of a whole cache may lie from Re-prefill, by number format: the states are the same, but
from kernels that add up in another order. A divergence grows with the square of the logits' error: errors of 1e-3
in float32 make about 1e-6, and of 0.1 in half precision about 5e-3. The larger one also where no plan tells the format.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One property, over how many things it was tried, and which of them lack it."""

    name: str
    n: int
    failed: tuple[str, ...]

    @property
    def stamp(self) -> str:
        """What every table says if it failed; else empty."""
        if not self.failed:
            return ""
        more = f" and {len(self.failed) - SHOWN} more" if len(self.failed) > SHOWN else ""
        return f"VERIFY FAILED, {self.name}: {'; '.join(self.failed[:SHOWN])}{more}"


def verify(
    results: Results,
    table: pd.DataFrame,
    rows: Sequence[Row],
    *,
    compared: Sequence[Row] = (),
    placements: bool = False,
) -> tuple[Check, ...]:
    """Check the records of ``table``, the printed ``rows``, and rows of differences alone (``compared``).

    ``placements``: the cases of a cluster share one edited text.
    """
    known = table[table["requested"].notna()]
    checks = [
        _check("every arm has every case", *_coverage(table)),
        _check("refreshed = requested = allowance", *_allowances(known, results.budgets)),
        _check("at most twice the budget's share of causal pairs", *_pairs(known)),
        _check("equal denominators within a data set", *_denominators(rows)),
        _check("replay = re-prefill on whole caches", *_replays(known, results.dtypes)),
        _check("pooled counts are sums of integers", *_pools(rows)),
        _check("repaired - regressed = difference", *_moves([*rows, *compared])),
    ]
    if placements:
        checks.append(_check("one edited text for all placements", *_edits(known)))
    return tuple(checks)


def stamps(checks: Iterable[Check]) -> tuple[str, ...]:
    """Stamps of those that failed."""
    return tuple(check.stamp for check in checks if check.failed)


def as_plain(checks: Iterable[Check]) -> list[dict[str, Any]]:
    """The outcome for summary.json."""
    return [
        {"check": check.name, "tried": check.n, "passed": not check.failed, "failed": list(check.failed)}
        for check in checks
    ]


def allowance(budget: str, n_suffix: int, settings: Mapping[str, Mapping[str, Any]]) -> int | None:
    """States that a budget of this name allows of S: floor(S * bp / 10000), or a number of its own.

    The plan's settings count where they tell; else the name (p05, t64) does. None where neither says.
    """
    told = settings.get(budget, {})
    share, count = told.get("share"), told.get("count")
    if budget == "0":
        return 0
    if budget == "suffix":
        return n_suffix
    if share is None and count is None and budget[1:].isdigit():
        share = int(budget[1:]) / 100 if budget[0] == "p" else None
        count = int(budget[1:]) if budget[0] == "t" else None
    if share is not None:
        return n_suffix * round(float(share) * BASIS_POINTS) // BASIS_POINTS
    return None if count is None else min(n_suffix, int(count))


Tried = tuple[int, list[str]]


def _check(name: str, n: int, failed: Sequence[str]) -> Check:
    return Check(name=name, n=n, failed=tuple(failed))


def _coverage(table: pd.DataFrame) -> Tried:
    failed, tried = [], 0
    for group in split(table, group_of(REPAIR)).values():
        unseen = set(group.loc[group["reason"] == NO_ARM, "example_id"])
        bare = cell_label({**group.iloc[0], **dict.fromkeys(REPAIR, "")})
        failed += [f"{bare}, {case}: {NO_ARM}" for case in sorted(unseen)]
        arms = {arm: set(rows["example_id"]) for arm, rows in split(group, REPAIR).items()}
        answered = group[~group["status"].isin(["missing", "failed"])]
        there = {arm: set(rows["example_id"]) for arm, rows in split(answered, REPAIR).items()}
        cases = set().union(*arms.values())
        tried += len(arms)
        lack = {arm: len(cases - unseen - there.get(arm, set())) for arm in arms}
        failed += [f"{bare} · {_arm(arm)} lacks {n} of {len(cases)} cases" for arm, n in lack.items() if n]
    return tried, failed


def _allowances(known: pd.DataFrame, settings: Mapping[str, Mapping[str, Any]]) -> Tried:
    failed = []
    for row in known.to_dict("records"):
        wanted = allowance(row["budget"], int(row["n_suffix"]), settings)
        seen = (int(row["refreshed"]), int(row["requested"]))
        if seen[0] != seen[1] or wanted not in (None, seen[1]):
            told = "" if wanted is None else f", allowed {wanted} of {int(row['n_suffix'])}"
            failed.append(f"{_place(row)}: refreshed {seen[0]}, requested {seen[1]}{told}")
    return len(known), failed


def _pairs(known: pd.DataFrame) -> Tried:
    failed = [
        f"{_place(row)}: {int(row['causal_pairs'])} of {int(row['replay_pairs'])} pairs for "
        f"{int(row['refreshed'])} of {int(row['n_suffix'])} states"
        for row in known.to_dict("records")
        if row["causal_pairs"] * row["n_suffix"] > 2 * row["refreshed"] * row["replay_pairs"]
    ]
    return len(known), failed


def _edits(known: pd.DataFrame) -> Tried:
    cases = split(known[known["edited"] != ""], ("model", "dataset", "cluster"))
    texts = {names: rows["edited"].nunique() for names, rows in cases.items()}
    return len(texts), [f"{' · '.join(names)}: {n} edited texts" for names, n in texts.items() if n > 1]


def _denominators(rows: Sequence[Row]) -> Tried:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(" · ".join(_where(row)), []).append(row)
    failed = []
    for name, part in groups.items():
        for count, measure in (("n_em", "exact match"), ("n_nll", "NLL"), ("n_kl", "KL")):
            if len(seen := {row[count] for row in part}) > 1:
                failed.append(f"{name}: {measure} over {', '.join(map(str, sorted(seen)))} cases")
    return len(groups), failed


def _replays(known: pd.DataFrame, dtypes: Mapping[str, str]) -> Tried:
    """Replay recomputes all that is stale, so that on a whole cache it is Re-prefill but for rounding."""
    replays = known[(known["allocator"] == "replay") & known["kl"].notna()]
    whole = [row for row in replays.to_dict("records") if not memory(row)]
    bounds = [REPLAY_KL.get(dtypes.get(row["model"], ""), REPLAY_KL_HALF) for row in whole]
    return len(whole), [
        f"{_place(row)}: KL {row['kl']:.2g} nats a token, at most {bound:g} is rounding"
        for row, bound in zip(whole, bounds, strict=True)
        if not row["kl"] <= bound
    ]


def _pools(rows: Sequence[Row]) -> Tried:
    pools = [row for row in rows if row["dataset"] == POOLED]
    failed = []
    for pool in pools:
        same = (*POOL, *REPAIR)
        parts = [r for r in rows if r["dataset"] != POOLED and all(r[name] == pool[name] for name in same)]
        right, n = (sum(part[name] or 0 for part in parts) for name in ("right", "n_em"))
        mean = 100.0 * right / n if n else None
        if (pool["right"] or 0, pool["n_em"]) != (right, n) or not _equal(mean, pool["em"]):
            failed.append(f"{_place(pool)}: {pool['right']} of {pool['n_em']} pooled, {right} of {n} by data set")
    return len(pools), failed


def _moves(rows: Sequence[Row]) -> Tried:
    failed, tried = [], 0
    for row in rows:
        for name in [name for name in row if name.startswith("em_minus_") and name.endswith("_difference")]:
            stem = name.removesuffix("difference")
            gains, losses, n = (row[stem + part] for part in ("repaired", "regressed", "n"))
            if row[name] is not None:
                tried += 1
                if not _equal(100.0 * (gains - losses) / n, row[name]):
                    failed.append(f"{_place(row)}: {gains} - {losses} of {n} against {row[name]}")
    return tried, failed


def _equal(one: float | None, other: float | None) -> bool:
    """Equal to the 12 digits that are kept of printed numbers, one of them lost in the difference."""
    if one is None or other is None:
        return one is other
    return abs(one - other) <= 1e-9 * max(1.0, abs(one))


def _place(row: Mapping[Any, Any]) -> str:
    example = f", {row['example_id']}" if "example_id" in row else ""
    return f"{' · '.join(_where(row))} · {_arm(tuple(row[name] for name in REPAIR))}{example}"


def _where(row: Mapping[Any, Any]) -> tuple[str, ...]:
    """Model and data set, and the cache that was edited where it is not a whole one that stands as it stood."""
    return row["model"], row["dataset"], *memory(row).values()


def _arm(names: tuple[str, ...]) -> str:
    return " · ".join(name for name in names if name)
