"""One row a repaired cell: its measures, its differences from the baselines, its costs, the paper's numbers.

`kvrelay.stats.compare` makes the comparisons, as it does between positions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from kvrelay.report import reported
from kvrelay.report.given import Given
from kvrelay.report.names import cell_rank, memory
from kvrelay.report.text import precise
from kvrelay.stats.arms import AT_EQUAL_BUDGET, CELL, REPAIR, diagnostics, group_of, partner, split
from kvrelay.stats.bootstrap import estimate
from kvrelay.stats.compare import REPAIR_METRICS, CellSummary, Comparison, compare, summarise_cells
from kvrelay.stats.recovery import shares_of_replay

Row = Mapping[str, Any]
REPREFILL = "reprefill"
SHOWN = ("em", "f1", "nll", "kl", "leak")
"""Measures of a repaired answer, in the order of their columns."""
COMPARED = ("em", "f1", "nll", "kl")
_ENDS = ("difference", "low", "high", "low_t", "high_t", "n", "n_clusters", "n_missing", "n_unscored")
_MARKS = ("dagger", "degenerate")
_MOVES = ("repaired", "regressed", "ties")
PAPER = ("paper_em", "paper_minus_shift", "paper_minus_reprefill", "paper_repaired", "paper_regressed")
COSTS = ("refreshed", "n_suffix", "n_intervals", "refreshed_percent", "updates_percent", "pairs_percent")


def methods(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of repairs that a table may show as methods: no diagnostic, and nothing that repairs nothing."""
    return table[(table["allocator"] != "") & ~table["allocator"].isin(diagnostics(table))]


def no_methods(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of diagnostics."""
    return table[table["allocator"].isin(diagnostics(table))]


def against(given: Given) -> tuple[str, ...]:
    """What every repair is compared with: the baseline, and the edited text run afresh."""
    return tuple(dict.fromkeys((given.baseline, REPREFILL)))


def gap_fields(base: str, metrics: Sequence[str] = COMPARED) -> tuple[str, ...]:
    """CSV fields of the differences from one baseline; moves only where outcomes are right or wrong."""
    return tuple(
        f"{metric}_minus_{base}_{part}" for metric in metrics for part in (*_ENDS, *(_MOVES if metric == "em" else ()))
    )


def fields(given: Given) -> tuple[str, ...]:
    """CSV fields of `rows`."""
    return (
        *(*CELL, "n_expected", "n_missing", "n_unscored", "n_clusters", *SHOWN),
        *("n_em", "right", "n_kl", "kl_low", "kl_high", "n_leak", "answer_tokens"),
        *(name for base in against(given) for name in gap_fields(base)),
        *COSTS,
        *PAPER,
    )


def rows(table: pd.DataFrame, given: Given, datasets: frozenset[str] = frozenset()) -> tuple[Row, ...]:
    """A row for each cell of ``table``, in printed order; ``datasets`` are those that were pooled in it, if any."""
    gaps = {base: _gaps(table, given, REPAIR, base, COMPARED) for base in against(given)}
    parts = split(table, CELL)
    replays = {names: part for names, part in parts.items() if names[CELL.index("allocator")] == "replay"}
    found = []
    for plain in means(table):
        cell = tuple(plain[name] for name in CELL)
        row = {**plain, **_kl_interval(parts[cell], given), **_costs(parts[cell], _replay(cell, replays))}
        for base, found_gaps in gaps.items():
            for metric in COMPARED:
                row |= _gap(found_gaps.get((cell, metric)), base, metric)
        found.append(_exact(row | _paper(row, given, datasets)))
    return tuple(found)


def means(table: pd.DataFrame) -> tuple[Row, ...]:
    """Counts and means of each cell alone, in printed order."""
    parts = split(table, CELL)
    found = []
    for summary in summarise_cells(table, REPAIR_METRICS):
        cell = _cell(summary)
        found.append(_exact(dict(zip(CELL, cell, strict=True)) | _values(summary, parts[cell])))
    return tuple(sorted(found, key=cell_rank))


def beside(table: pd.DataFrame, given: Given, baseline: str, metrics: Sequence[str] = ("em", "kl")) -> tuple[Row, ...]:
    """Each allocator less ``baseline``, at the same budget and under the same executor."""
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for (cell, metric), c in _gaps(table, given, AT_EQUAL_BUDGET, baseline, metrics).items():
        blank = dict.fromkeys((*metrics, *(f"{name}_{baseline}" for name in metrics), *gap_fields(baseline, metrics)))
        row = found.setdefault(cell, blank | dict(zip(CELL, cell, strict=True)))
        row |= _gap(c, baseline, metric) | {f"{metric}_{baseline}": c.baseline_value, metric: c.value}
    return tuple(_exact(row) for row in sorted(found.values(), key=cell_rank))


def gap(row: Row, base: str, metric: str) -> dict[str, Any]:
    """One difference of a row, as `text.interval` and its neighbours read it."""
    stem = f"{metric}_minus_{base}_"
    return {"metric": metric, **{part: row.get(stem + part) for part in (*_ENDS, *_MARKS, *_MOVES)}}


def _gaps(
    table: pd.DataFrame, given: Given, arms: Sequence[str], base: str, metrics: Sequence[str]
) -> dict[tuple[tuple[str, ...], str], Comparison]:
    wanted = [metric for name in metrics for metric in REPAIR_METRICS if metric.name == name]
    drawn = {"seed": given.seed, "resamples": given.resamples}
    found = compare(table, arms=arms, baseline=base, metrics=wanted, tests=False, **drawn)
    return {(_cell(c), c.metric.name): c for c in found}


def _cell(item: CellSummary | Comparison) -> tuple[str, ...]:
    return tuple(getattr(item, name) for name in CELL)


def _values(summary: CellSummary, part: pd.DataFrame) -> dict[str, Any]:
    n_em, absent = summary.counted["em"], summary.n - summary.counted["em"]
    missing = min(absent, sum(summary.counts[status] for status in ("failed", "missing", "unjudged")))
    return {
        "n_expected": summary.n,
        "n_missing": missing,
        "n_unscored": absent - missing,
        "n_clusters": summary.n_clusters,
        **{name: summary.means[name] for name in SHOWN},
        "n_em": n_em,
        "right": round(float(part["em"].dropna().sum())) if n_em else None,
        "n_nll": summary.counted["nll"],
        "n_kl": summary.counted["kl"],
        "n_leak": summary.counted["leak"],
        "answer_tokens": summary.answer_tokens,
        "n_suffix": _mean(part, "n_suffix"),
    }


def _kl_interval(part: pd.DataFrame, given: Given) -> dict[str, Any]:
    known = part[part["kl"].notna()]
    named = ("low", "high", *_MARKS)
    if not len(known):
        return dict.fromkeys(f"kl_{name}" for name in named)
    drawn = {"seed": given.seed, "resamples": given.resamples}
    found = estimate(known["kl"].to_numpy(dtype=float), known["cluster"].tolist(), **drawn)
    return {f"kl_{name}": getattr(found, name) for name in named}


def _replay(cell: tuple[str, ...], replays: Mapping[tuple[str, ...], pd.DataFrame]) -> pd.DataFrame | None:
    """Replay of the same cases, under the same executor where it ran under several."""
    shared, arm = len(group_of(REPAIR)), cell[CELL.index("allocator") :]
    same = {names[shared:]: part for names, part in replays.items() if names[:shared] == cell[:shared]}
    base = partner(arm, same, "replay")
    return None if base is None else same[base]


def _costs(part: pd.DataFrame, replay: pd.DataFrame | None) -> dict[str, Any]:
    """Means of counts and shares of Replay; of Re-prefill none, which runs afresh and refreshes nothing in place."""
    shares = shares_of_replay(part, replay)
    if part["allocator"].iloc[0] == REPREFILL:
        shares = dict.fromkeys(shares)
    return {"refreshed": _mean(part, "refreshed"), "n_intervals": _mean(part, "n_intervals"), **shares}


def _mean(part: pd.DataFrame, name: str) -> float | None:
    known = part[name].dropna()
    return float(known.mean()) if len(known) else None


def _gap(c: Comparison | None, base: str, metric: str) -> dict[str, Any]:
    stem = f"{metric}_minus_{base}_"
    if c is None:
        return dict.fromkeys(stem + part for part in (*_ENDS, *_MARKS, *_MOVES))
    e, moves = c.estimate, c.moves
    counts = {"n": e.n if e else 0, "n_missing": c.n_missing, "n_unscored": c.n_unscored}
    named = ("low", "high", "low_t", "high_t", "n_clusters", *_MARKS)
    return {
        stem + part: value
        for part, value in {
            "difference": e.point if e else None,
            **{part: getattr(e, part) if e else None for part in named},
            **counts,
            "repaired": moves.gains if moves else None,
            "regressed": moves.losses if moves else None,
            "ties": moves.ties if moves else None,
        }.items()
    }


def _paper(row: Row, given: Given, datasets: frozenset[str]) -> dict[str, Any]:
    """Published numbers of the same model, data, allocator and budget, which are of whole caches; none where a name
    says not what it should."""
    numbers, changed = reported.load(), given.results.changed
    sets = datasets or frozenset([row["dataset"]])
    names = {name: row[name] for name in CELL}
    if memory(row) or any(reported.altered(changed, names | {"dataset": name}) for name in sets):
        return dict.fromkeys(PAPER)
    same = {"model": row["model"], "allocator": row["allocator"], "budget": row["budget"]}
    qa = dict(numbers.natural_qa(datasets=sets, **same))
    for base in against(given):
        if reported.altered(changed, {"allocator": base}):
            qa.pop(f"minus_{base}", None)
    if given.baseline != "shift":
        qa = {name: value for name, value in qa.items() if name == "minus_reprefill"}
    found = {f"paper_{name}": value for name, value in qa.items()}
    return dict.fromkeys(PAPER) | found | {"paper_em": numbers.deletion(dataset=row["dataset"], **same)}


def _exact(row: Row) -> Row:
    return {name: precise(value) for name, value in row.items()}
