"""Everything that the tables, figures and the summary print, computed once: rows of plain values, stamps, footer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kvrelay.report import bounds, footer
from kvrelay.report.names import rank
from kvrelay.report.rows import ORDER, Row, alone, compared, group, row_key
from kvrelay.stats.compare import METRICS, CellSummary, Comparison, compare, summarise_cells
from kvrelay.stats.frame import Results


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """One experiment, ready to print. ``rows`` hold each comparison, and each cell that is compared with nothing."""

    results: Results
    cells: tuple[CellSummary, ...]
    comparisons: tuple[Comparison, ...]
    rows: tuple[Row, ...]
    baseline: str
    seed: int
    resamples: int
    commits: tuple[str, ...] = ()

    @property
    def headline(self) -> str:
        """The position of the main columns: ``roperelay`` where it was measured, else the first in the usual order."""
        positions = sorted({c.position for c in self.comparisons}, key=lambda name: rank("position", name))
        return "roperelay" if "roperelay" in positions or not positions else positions[0]

    @property
    def datasets(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row["dataset"] for row in self.rows))

    def of(self, metric: str, dataset: str | None = None) -> tuple[Row, ...]:
        """Rows of one measure, of one data set or of all."""
        return tuple(r for r in self.rows if r["metric"] == metric and dataset in (None, r["dataset"]))

    def footer(self, rows: Iterable[Row]) -> tuple[str, ...]:
        """What every table says below: what n is, the intervals, judges, clusters, inputs, and the marks in use."""
        shown = list(rows)
        few, flat = (any(row[mark] for row in shown) for mark in ("dagger", "degenerate"))
        return (
            *footer.method(self.results, self.datasets, seed=self.seed, resamples=self.resamples),
            *([bounds.NOTE] if self.results.bounded else []),
            *_papers(shown),
            *footer.marks(dagger=few, degenerate=flat),
            footer.inputs(self.results, self.commits),
        )


def make(
    results: Results, *, baseline: str = "original", seed: int = 0, resamples: int = 10_000, commits: Sequence[str] = ()
) -> Study:
    """Compute all cells and comparisons of an experiment."""
    cells = summarise_cells(results.table)
    found = compare(results.table, baseline=baseline, seed=seed, resamples=resamples)
    taken = {(*group(c), c.metric.name, position) for c in found for position in (c.baseline, c.position)}
    rows = [compared(c, results) for c in found]
    rows += [
        alone(cell, metric, results, baseline)
        for cell in cells
        for metric in METRICS
        if (*group(cell), metric.name, cell.position) not in taken
        and (metric.name == "accuracy" or cell.counted[metric.name])
    ]
    return Study(
        results=results,
        cells=tuple(sorted(cells, key=lambda cell: tuple(rank(kind, getattr(cell, kind)) for kind in ORDER))),
        comparisons=found,
        rows=tuple(sorted(bounds.with_bounds(rows, results), key=row_key)),
        baseline=baseline,
        seed=seed,
        resamples=resamples,
        commits=tuple(commits),
    )


def _papers(rows: Sequence[Row]) -> list[str]:
    sources = sorted({row["paper_source"] for row in rows if row["paper_source"]})
    return [f"Paper: RoPERelay, {', '.join(sources)}, same model, selector, data set and budget."] if sources else []
