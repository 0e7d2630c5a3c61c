"""The report stage: an experiment's folder in, tables, figures and numbers out. The same inputs give the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from kvrelay.core.errors import AssetError, ConfigError, IncompleteError
from kvrelay.report import mixed, repeated
from kvrelay.report.given import Given, Layout, Stored
from kvrelay.report.names import ENDPOINTS
from kvrelay.report.sources import commits, input_files
from kvrelay.report.summary import as_json, kept_parts, summary
from kvrelay.report.views import DEFAULT, View, find
from kvrelay.run.store import read_judges, read_plans, read_records, read_verdicts, write_atomic
from kvrelay.stats.arms import REPAIR, diagnostics
from kvrelay.stats.frame import NO_ARM, Results, cell_label, tidy
from kvrelay.stats.judged import bounded_stamp

SHOWN = 5


def main_table(folder: Path, view: str = DEFAULT) -> Path:
    """Where `write_report` puts the table that a reader opens first."""
    return folder / "report" / f"{find(view).MAIN}.md"


def write_report(
    folder: Path,
    *,
    view: str = DEFAULT,
    baseline: str | None = None,
    seed: int = 0,
    resamples: int = 10_000,
    max_unjudged: int | None = None,
) -> Path:
    """Write ``folder``/report in the layout of a view of `kvrelay.report.views` and return its main table.

    ``folder`` is one experiment's: runs, records and verdicts; without a ``baseline`` the view's own is taken. Before
    anything is written it raises `AssetError` for a folder without a run, `ConfigError` for a view that nobody knows or
    where nothing stands at ``baseline``, and `InvariantError` if arms of a pair differ in more than they may; after
    everything is written, `IncompleteError` if an answer is missing, failed, not judged or without a reply, or if more
    answers than ``max_unjudged`` (None: any number) lack a verdict that a judge of the view could have given.
    """
    module = find(view)
    sources = input_files(folder)
    if not (plans := read_plans(folder)):
        raise AssetError(
            f"report: {folder} holds no run plan (runs/*.json); run the experiment first (keys: out, name)"
        )
    records = read_records(folder)
    stored = Stored(plans=plans, records=records, verdicts=read_verdicts(folder), judges=read_judges(folder))
    results = tidy(plans, records, stored.verdicts, stored.judges)
    asked = module.BASELINE if baseline is None else baseline
    _check_baseline(results, module, asked)
    results = results.within(_shown(results.table, module, asked)).borne(max_unjudged)
    again = repeated.stamps(folder, set(results.table["key"]))
    results = replace(results, told=(*results.told, *again))
    drawn: dict[str, Any] = {"seed": seed, "resamples": resamples, "max_unjudged": max_unjudged}
    given = Given(results=results, baseline=asked, stored=stored, commits=tuple(commits(folder)), **drawn)
    main = main_table(folder, view)
    inside = mixed.files(records[key] for key in sorted(set(results.table["key"]) & records.keys()))
    layout = module.render(given)
    files = {**inside, **_files(view, given, layout, sources, main.parent)}
    owned = (*module.OWNS, f"{mixed.NAME}.*", f"{mixed.NAME}_*")
    for stale in sorted({path for part in owned for path in main.parent.glob(part)}):
        if stale.name not in files:
            stale.unlink()
    for name, data in files.items():
        write_atomic(main.parent / name, data)
    _raise_if_incomplete(results, layout.owed, main)
    return main


def _shown(table: pd.DataFrame, view: View, baseline: str) -> pd.Series:
    """The rows that a view is about; runs for other views of the folder may be unfinished all the same."""
    shown: pd.Series = (table["allocator"] != "") == ("allocator" in view.ARMS)
    if view.ALLOCATORS is None:
        return shown
    return shown & table["allocator"].isin([*view.ALLOCATORS, *ENDPOINTS, baseline])


def _check_baseline(results: Results, view: View, baseline: str) -> None:
    """One arm alone is compared with nothing; several without the one to compare with are a typing error."""
    kind, repaired = view.ARMS[0], results.table["allocator"] != ""
    there = set(results.table.loc[repaired if "allocator" in view.ARMS else ~repaired, kind])
    known = sorted(there - (beside := diagnostics(results.table)))
    if there and not known:
        raise ConfigError(
            f"report: only diagnostics were run ({', '.join(sorted(there & beside))}), which no table shows as a "
            f"method; run at least one method beside them, {view.BASELINE} first of all (key: allocator)"
        )
    if not known:
        raise ConfigError(
            f"report: this experiment has no answers for the view {view.MAIN}, which compares {kind}s; choose another "
            "(key: report.view)"
        )
    if len(known) > 1 and baseline not in known:
        where = "at this position" if kind == "position" else f"with this {kind}"
        raise ConfigError(
            f"report.baseline = {baseline}: no answers stand {where}; wanted one of {', '.join(known)} "
            "(key: report.baseline)"
        )


def _files(view: str, given: Given, layout: Layout, sources: dict[str, str], folder: Path) -> dict[str, bytes | str]:
    """The main table last, so that whoever sees it sees the others."""
    old = folder / "summary.json"
    kept = kept_parts(old.read_text(encoding="utf-8") if old.exists() else None, given)
    made = layout.files()
    main = {name: made.pop(name) for name in list(made) if name.startswith(f"{find(view).MAIN}.")}
    told = as_json(summary(view, given, layout, sources, kept))
    return {"sources.json": as_json(sources), **made, "summary.json": told, **main}


def _named(row: pd.Series) -> str:
    """An answer that is not there; a case that no arm has once for all of them."""
    if row["reason"] == NO_ARM:
        return f"{cell_label({**row, **dict.fromkeys(REPAIR, '')})}, {row['example_id']}: {NO_ARM}"
    return f"{cell_label(row)}, {row['example_id']}: {row['status']} ({row['reason']})"


def _raise_if_incomplete(results: Results, owed: Sequence[str], main: Path) -> None:
    rows = results.incomplete
    told = [f"report {main} is written, but"]
    if len(rows):
        named = list(dict.fromkeys(_named(row) for _, row in rows.iterrows()))
        more = f"; and {len(named) - SHOWN} more, under `failed` in summary.json" if len(named) > SHOWN else ""
        told.append(
            f"{len(rows)} of {len(results.table)} answers are missing, failed or not judged: "
            f"{'; '.join(named[:SHOWN])}{more}. Give the run and judge commands again; what is done is not repeated"
        )
    if results.bounded:
        told.append(f"{bounded_stamp(results.table)}. Judge them again, or bear so many (key: report.max_unjudged)")
    told += owed
    if len(told) > 1:
        raise IncompleteError(". And ".join([" ".join(told[:2]), *told[2:]]))
