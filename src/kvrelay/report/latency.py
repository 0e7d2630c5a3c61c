"""Post-edit latency by stage, and how much faster than re-prefilling (SUR, section B.2): rows and tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd

from kvrelay.report import caveats, footer, reported
from kvrelay.report.columns import Place, by_place, counted, fixed, place, who
from kvrelay.report.given import Given
from kvrelay.report.names import ENDPOINTS, cell_rank, label, memory, rank
from kvrelay.report.recovered import Row
from kvrelay.report.tables import Column, Section, Table
from kvrelay.report.text import NOTHING, number, precise
from kvrelay.stats.arms import CELL
from kvrelay.stats.measures import RECOVERY
from kvrelay.stats.pool import POOL, Pooled
from kvrelay.stats.recovery import Recovery, recoveries, with_times

HEADS = dict(zip(RECOVERY, ("selection", "shift", "refresh", "question", "decoding"), strict=True))
FIELDS = (
    *(*CELL, "n", "n_shared", *RECOVERY, "total_s", "answer_tokens", "n_paired", "ratio_of_means"),
    *("paired_ratio", "paired_low", "paired_high", "paper_lowest", "paper_highest"),
)
RATIOS = (
    "Speed over Re-prefill. Means: its mean seconds over those of the arm, as published. Paired: geometric mean of the "
    "cases' own ratios, first within a cluster (the cases of one source question), then over clusters, with the t "
    "interval of the clusters' mean logarithms. Both over the cases timed in both arms."
)
UNTIMED = (
    "No latency table: in no case did the answers of all arms decode alone, and shared times are nobody's "
    "(key: decode_batch_rows=1)."
)
PAPER = "Paper: SUR, section 4.3: 1.16 to 1.43 times over its two models at 5 %, interval executor, ratio of means."


def rows(table: pd.DataFrame, given: Given, sets: Pooled) -> list[Row]:
    """A row for each cell with a timed case; ``sets`` are the data sets that were pooled, by `POOL`'s names."""
    found = [_row(recovery, given, sets) for recovery in recoveries(table)]
    return sorted(found, key=cell_rank)


def tables(
    name: str, times: Sequence[Row], quality: Sequence[Row], given: Given, stamps: tuple[str, ...]
) -> list[Table]:
    """One table: executors beside each other, then each cell by stage. None where nothing was timed."""
    if not times:
        return []
    shown = [*(_overview(key, part) for key, part in by_place(times)), *(_stages(k, p) for k, p in by_place(times))]
    papers = [PAPER] if any(row["paper_lowest"] is not None for row in times) else []
    executors = {row["executor"] for row in times}
    foot = (
        caveats.POST_EDIT,
        RATIOS,
        caveats.ONE_DEVICE,
        *papers,
        *caveats.common({row["allocator"] for row in quality}, executors),
        footer.inputs(given.results, given.commits),
    )
    title = f"Post-edit latency: experiment {given.results.experiment}"
    return [Table(name=name, title=title, fields=FIELDS, sections=tuple(shown), stamps=stamps, footer=foot)]


def untimed(table: pd.DataFrame, times: Sequence[Row]) -> tuple[str, ...]:
    """Why there is no latency table, where answers have times but none of them counts."""
    return (UNTIMED,) if not times and len(with_times(table)) else ()


def _row(recovery: Recovery, given: Given, sets: Pooled) -> Row:
    names = dict(zip(CELL, recovery.cell, strict=True))
    paired = recovery.paired
    low, high = _paper(names, given, sets) or (None, None)
    row = {
        **names,
        "n": recovery.n,
        "n_shared": recovery.n_shared,
        **recovery.means_s,
        "total_s": recovery.total_s,
        "answer_tokens": recovery.answer_tokens,
        "n_paired": recovery.n_paired,
        "ratio_of_means": recovery.ratio_of_means,
        "paired_ratio": paired.ratio if paired else None,
        "paired_low": paired.low if paired else None,
        "paired_high": paired.high if paired else None,
        "paper_lowest": low,
        "paper_highest": high,
    }
    return {name: precise(value) for name, value in row.items()}


def _paper(names: Mapping[str, str], given: Given, sets: Pooled) -> tuple[float, float] | None:
    """The published range, beside the interval executor over all of the paper's data sets and nowhere else."""
    pooled = sets.get(tuple(names[name] for name in POOL), frozenset())
    said = [{**names, "dataset": dataset} for dataset in pooled or {names["dataset"]}]
    changed = given.results.changed
    if memory(names) or any(reported.altered(changed, one) for one in said) or "allocator.reprefill" in changed:
        return None
    same = {name: names[name] for name in ("model", "allocator", "budget", "executor")}
    return reported.load().speedup(datasets=pooled, **same)


def _overview(key: Place, rows: Sequence[Row]) -> Section:
    """A row an allocator and budget; the executors' seconds and ratios stand in columns of their own."""
    executors = sorted({row["executor"] for row in rows} - {""}, key=lambda name: rank("executor", name)) or [""]
    arms: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        names = {"allocator": row["allocator"], "budget": row["budget"], "executor": ""}
        arms.setdefault((row["allocator"], row["budget"]), names)[f"on {row['executor']}"] = row
    pivoted = tuple(arms.values())
    columns = [*who(pivoted), *(column for executor in executors for column in _of_executor(executor, rows))]
    return Section(heading=f"{place(key)}: by executor", columns=tuple(columns), rows=pivoted, repeats=True)


def _of_executor(executor: str, rows: Sequence[Row]) -> Iterator[Column]:
    over = label("executor", executor)
    for head, text in (("s", _seconds), ("× means", _means), ("× paired", _pair)):
        yield Column(head=head, text=partial(_at, executor, text), over=over)
    if any(row["paper_lowest"] is not None and row["executor"] == executor for row in rows):
        yield Column(head="Paper", text=partial(_at, executor, _published), over=over)


def _stages(key: Place, rows: Sequence[Row]) -> Section:
    columns = [
        *who(rows),
        *(Column(head=head, text=fixed(stage, 3), over="Mean seconds") for stage, head in HEADS.items()),
        Column(head="total", text=_seconds, over="Mean seconds"),
        Column(head="answer tokens", text=fixed("answer_tokens", 1)),
        Column(head="means", text=_means, over="× Re-prefill"),
        Column(head="paired", text=_pair, over="× Re-prefill"),
        Column(head="n", text=counted("n")),
    ]
    shared = sum(row["n_shared"] for row in rows)
    note = f"{shared} answers are not timed, as not all arms of their case decoded alone." if shared else ""
    heading = f"{place(key)}: by stage (refresh: of Re-prefill the whole edited text)"
    return Section(heading=heading, columns=tuple(columns), rows=tuple(rows), note=note)


def _at(executor: str, text: Any, row: Row) -> str:
    """An arm's text under an executor; an endpoint that needs none stands under each."""
    found = row.get(f"on {executor}", row.get("on ") if row["allocator"] in ENDPOINTS else None)
    return text(found) if found is not None else NOTHING


def _seconds(row: Row) -> str:
    return number(row["total_s"], decimals=3)


def _means(row: Row) -> str:
    return number(row["ratio_of_means"], decimals=2)


def _pair(row: Row) -> str:
    if row["paired_ratio"] is None:
        return NOTHING
    ends = [number(row[f"paired_{end}"], decimals=2) for end in ("low", "high")]
    return f"{number(row['paired_ratio'], decimals=2)}" + (f" [{', '.join(ends)}]" if NOTHING not in ends else "")


def _published(row: Row) -> str:
    if row["paper_lowest"] is None:
        return NOTHING
    return f"{row['paper_lowest']:.2f}–{row['paper_highest']:.2f}"
