"""Forest plot: each paired difference with its interval and the zero line, a panel a data set."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from kvrelay.report.names import MEASURES, label, rank
from kvrelay.report.rows import Row
from kvrelay.report.study import Study
from kvrelay.report.style import BAND, COLUMN_IN, INK, MARKERS, MUTED, NO_DATES, OKABE_ITO, PAGE_IN, PAPER, RULE
from kvrelay.report.tables import md_escape
from kvrelay.report.text import DAGGER

FIELDS = (
    *("dataset", "model", "selector", "retention", "position", "metric", "unit", "difference"),
    *("low", "high", "low_t", "high_t", "n", "n_clusters", "paper_difference"),
)
Line = tuple[str, str, str]
"""Selector, retention and position: what shares a line of the plot; models stand side by side on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    lines: tuple[Line, ...]
    models: tuple[str, ...]
    datasets: tuple[str, ...]

    def height(self, line: Line, model: str) -> float:
        """Vertical place: lines run downwards, models are spread within a line."""
        spread = 0.5 * (self.models.index(model) - (len(self.models) - 1) / 2) / max(1, len(self.models) - 1)
        return self.lines.index(line) + spread * (len(self.models) > 1)


def forest(study: Study, metric: str = "accuracy") -> dict[str, bytes]:
    """``forest_<metric>`` as pdf, png, csv (the data) and md (the caption); empty if nothing can be drawn."""
    rows = [row for row in study.of(metric) if row["difference"] is not None]
    if not rows:
        return {}
    name = f"forest_{metric}"
    with rc_context(PAPER):
        figure = _draw(study, metric, rows)
        files = {f"{name}.{kind}": _saved(figure, kind) for kind in ("pdf", "png")}
    return files | {f"{name}.csv": _data(rows), f"{name}.md": _caption(study, metric, rows).encode()}


def _draw(study: Study, metric: str, rows: Sequence[Row]) -> Figure:
    layout = _Layout(
        lines=tuple(sorted({_line(row) for row in rows}, key=_line_key)),
        models=tuple(dict.fromkeys(row["model"] for row in rows)),
        datasets=tuple(dict.fromkeys(row["dataset"] for row in rows)),
    )
    names = [_line_label(study, line, layout.lines) for line in layout.lines]
    columns = len(layout.datasets)
    width = PAGE_IN if columns > 1 else COLUMN_IN + 0.05 * max(0, max(map(len, names)) - 16)
    height = 1.15 + len(layout.lines) * (0.19 + 0.09 * len(layout.models))
    figure = Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(wspace=0.04))
    axes = figure.subplots(1, columns, sharey=True, squeeze=False)[0]
    for axis, dataset in zip(axes, layout.datasets, strict=True):
        _panel(axis, layout, dataset, [row for row in rows if row["dataset"] == dataset])
    axes[0].set_yticks(range(len(names)), names)
    axes[0].set_ylim(len(names) - 0.5, -0.5)
    unit = "percentage points" if rows[0]["unit"] == "pp" else "nats a token"
    figure.supxlabel(f"{_measure(metric)}: difference from {label('position', study.baseline)}, {unit}", fontsize=7)
    _legend(figure, layout, rows)
    return figure


def _panel(axis: Axes, layout: _Layout, dataset: str, rows: Sequence[Row]) -> None:
    for i in range(0, len(layout.lines), 2):
        axis.axhspan(i - 0.5, i + 0.5, color=BAND, zorder=0, linewidth=0)
    axis.axvline(0.0, color=INK, linewidth=0.8, zorder=1)
    axis.grid(axis="x", color=RULE, linewidth=0.4, alpha=0.6, zorder=0.5)
    axis.set_axisbelow(True)
    for row in rows:
        _mark(axis, layout, row)
    axis.set_xlim(*_limits(rows))
    axis.xaxis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 2.5, 5, 10]))
    axis.set_title(label("dataset", dataset), loc="left", pad=12)
    axis.annotate(_counts(rows), (0, 1), (0, 3), "axes fraction", "offset points", color=MUTED, fontsize=6.2)


def _limits(rows: Sequence[Row]) -> tuple[float, float]:
    """Room for zero, points, percentile intervals and the paper; a long cluster-t bar may leave the panel."""
    names = ("difference", "low", "high", "paper_difference")
    ends = [0.0, *(row[name] for row in rows for name in names if row[name] is not None)]
    low, high = min(ends), max(ends)
    reach = (high - low) or 1.0
    bars = [row[name] for row in rows for name in ("low_t", "high_t") if row[name] is not None]
    low, high = max(min([low, *bars]), low - reach / 2), min(max([high, *bars]), high + reach / 2)
    room = 0.06 * (high - low) or 1.0
    return low - room, high + room


def _counts(rows: Sequence[Row]) -> str:
    n, clusters = (sorted({row[name] for row in rows}) for name in ("n", "n_clusters"))
    spans = ["–".join(map(str, dict.fromkeys((values[0], values[-1])))) for values in (n, clusters)]
    few = DAGGER if any(row["dagger"] for row in rows) else ""
    return f"n = {spans[0]}, {spans[1]} {'cluster' if spans[1] == '1' else 'clusters'}{few}"


def _mark(axis: Axes, layout: _Layout, row: Row) -> None:
    index = layout.models.index(row["model"])
    colour, marker = OKABE_ITO[index % len(OKABE_ITO)], MARKERS[index % len(MARKERS)]
    y = layout.height(_line(row), row["model"])
    known = row["low"] is not None
    if known:
        axis.plot([row["low_t"], row["high_t"]], [y, y], color=colour, linewidth=0.7, zorder=2)
        axis.plot([row["low"], row["high"]], [y, y], color=colour, linewidth=1.8, solid_capstyle="butt", zorder=3)
    face = colour if known else "white"
    axis.plot(row["difference"], y, marker, color=colour, markerfacecolor=face, markersize=4.4, zorder=4)
    if row["paper_difference"] is not None:
        axis.plot(row["paper_difference"], y, "x", color=INK, markersize=4.2, markeredgewidth=0.9, zorder=5)


def _legend(figure: Figure, layout: _Layout, rows: Sequence[Row]) -> None:
    handles = [
        Line2D(
            [], [], color=OKABE_ITO[i % 7], marker=MARKERS[i % 7], linestyle="", markersize=4.2, label=label("model", m)
        )
        for i, m in enumerate(layout.models)
    ]
    if any(row["low"] is not None for row in rows):
        handles.append(Line2D([], [], color=MUTED, linewidth=1.8, label="95 % percentile"))
        handles.append(Line2D([], [], color=MUTED, linewidth=0.7, label="95 % cluster-t"))
    if any(row["low"] is None for row in rows):
        handles.append(
            Line2D([], [], color=MUTED, marker="o", markerfacecolor="white", linestyle="", label="no interval")
        )
    if any(row["paper_difference"] is not None for row in rows):
        handles.append(Line2D([], [], color=INK, marker="x", linestyle="", markersize=4.2, label="paper"))
    per_row = len(handles) if len(layout.datasets) > 1 else 3
    figure.legend(handles=handles, loc="outside upper center", ncols=per_row, handlelength=1.6, columnspacing=1.4)


def _line(row: Row) -> Line:
    return row["selector"], row["retention"], row["position"]


def _line_key(line: Line) -> tuple[tuple[int, int, str], ...]:
    return tuple(rank(kind, name) for kind, name in zip(("selector", "retention", "position"), line, strict=True))


def _line_label(study: Study, line: Line, lines: Sequence[Line]) -> str:
    selector, retention, position = line
    parts = [label("selector", selector)]
    if len({other[1] for other in lines}) > 1:
        parts.append(label("retention", retention))
    if position != study.headline:
        parts.append(label("position", position))
    return ", ".join(parts)


def _measure(metric: str) -> str:
    return re.sub(r", (accuracy in )?%$|, nats a token$", "", MEASURES[metric])


def _caption(study: Study, metric: str, rows: Sequence[Row]) -> str:
    text = (
        f"{_measure(metric)}: paired difference of {label('position', study.headline)} (other positions by name) from "
        f"{label('position', study.baseline)}, experiment {study.results.experiment}. Thick bars: percentile interval; "
        "thin bars: cluster-t interval, which may leave the panel; hollow: no interval from one cluster."
    )
    stamps = [stamp if stamp.endswith(".") else f"{stamp}." for stamp in study.results.stamps]
    return md_escape(" ".join([text, *stamps, *study.footer(rows)])) + "\n"


def _data(rows: Sequence[Row]) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(FIELDS)
    writer.writerows(["" if row[name] is None else row[name] for name in FIELDS] for row in rows)
    return out.getvalue().encode()


def _saved(figure: Figure, kind: str) -> bytes:
    out = io.BytesIO()
    figure.savefig(out, format=kind, metadata=NO_DATES[kind])
    return out.getvalue()
