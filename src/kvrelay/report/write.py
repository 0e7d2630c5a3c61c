"""The report stage: an experiment's folder in, tables, figures and numbers out. The same inputs give the same bytes."""

from __future__ import annotations

from pathlib import Path

from kvrelay.core.errors import AssetError, ConfigError, IncompleteError
from kvrelay.report.figures import forest
from kvrelay.report.names import MEASURES
from kvrelay.report.sources import commits, input_files
from kvrelay.report.study import Study, make
from kvrelay.report.summary import as_json, summary
from kvrelay.report.table1 import table1
from kvrelay.report.table8 import table8
from kvrelay.run.store import read_plans, read_records, read_verdicts, write_atomic
from kvrelay.stats.frame import CELL, Results, tidy

SHOWN = 5


def main_table(folder: Path) -> Path:
    """Where `write_report` puts the table that a reader opens first."""
    return folder / "report" / "table1.md"


def write_report(folder: Path, *, baseline: str = "original", seed: int = 0, resamples: int = 10_000) -> Path:
    """Write ``folder``/report and return its main table.

    ``folder`` is one experiment's: runs, records and verdicts. Before anything is written it raises `AssetError` for a
    folder without a run, `ConfigError` where nothing stands at ``baseline`` and `InvariantError` if arms of a pair
    differ in more than their positions; after everything is written, `IncompleteError` if an answer is missing,
    failed or not judged.
    """
    sources = input_files(folder)
    if not (plans := read_plans(folder)):
        raise AssetError(
            f"report: {folder} holds no run plan (runs/*.json); run the experiment first (keys: out, name)"
        )
    results = tidy(plans, read_records(folder), read_verdicts(folder))
    _check_baseline(results, baseline)
    study = make(results, baseline=baseline, seed=seed, resamples=resamples, commits=commits(folder))
    main = main_table(folder)
    files = _files(study, sources)
    for stale in sorted(set(main.parent.glob("forest_*")) - {main.parent / name for name in files}):
        stale.unlink()
    for name, data in files.items():
        write_atomic(main.parent / name, data)
    _raise_if_incomplete(results, main)
    return main


def _check_baseline(results: Results, baseline: str) -> None:
    """One position alone is compared with nothing; several without the one to compare with are a typing error."""
    positions = sorted(set(results.table["position"]))
    if len(positions) > 1 and baseline not in positions:
        raise ConfigError(
            f"report.baseline = {baseline}: no answers stand at this position; wanted one of {', '.join(positions)} "
            "(key: report.baseline)"
        )


def _files(study: Study, sources: dict[str, str]) -> dict[str, bytes | str]:
    files: dict[str, bytes | str] = {"sources.json": as_json(sources)}
    for metric in MEASURES:
        files |= forest(study, metric)
    files |= table8(study).files()
    files["summary.json"] = as_json(summary(study, sources))
    return files | table1(study).files()


def _raise_if_incomplete(results: Results, main: Path) -> None:
    rows = results.incomplete
    if not len(rows):
        return
    named = [
        f"{' · '.join(row[CELL])}, {row['example_id']}: {row['status']} ({row['reason']})"
        for _, row in rows.head(SHOWN).iterrows()
    ]
    more = f"; and {len(rows) - SHOWN} more, under `failed` in summary.json" if len(rows) > SHOWN else ""
    raise IncompleteError(
        f"report {main} is written, but {len(rows)} of {len(results.table)} answers are missing, failed or not judged: "
        f"{'; '.join(named)}{more}. Give the run and judge commands again; what is done is not repeated"
    )
