"""Figures of repair: a measure against the budget, quality against latency, contrasts, a measure against length."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib import rc_context
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import NullLocator

from kvrelay.report.style import COLUMN_IN, INK, MARKERS, NO_DATES, OKABE_ITO, PAGE_IN, PAPER, RULE
from kvrelay.report.tables import md_escape

DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One line or cloud of points: places, heights, intervals where there are any."""

    name: str
    points: tuple[tuple[float, float], ...]
    bars: tuple[tuple[float, float] | None, ...] = ()
    joined: bool = True
    level: bool = False
    """A horizontal line at its one point's height: an endpoint that no budget moves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One pair of axes."""

    title: str
    x: str
    y: str
    series: tuple[Series, ...]
    ticks: tuple[tuple[float, str], ...] = ()
    sideways: bool = False
    """Bars lie along x and ticks along y: a forest of estimates around zero."""
    log: bool = False


def figure(
    name: str, panels: Sequence[Panel], rows: Sequence[Mapping[str, Any]], fields: Sequence[str], told: str
) -> dict[str, bytes]:
    """``name`` as pdf, png, csv (``rows``) and md (the caption); nothing without a point."""
    drawn = [panel for panel in panels if any(series.points for series in panel.series)]
    if not drawn:
        return {}
    with rc_context(PAPER | {"axes.spines.left": True}):
        made = _draw(drawn)
        files = {f"{name}.{kind}": _saved(made, kind) for kind in ("pdf", "png")}
    return files | {f"{name}.csv": _data(rows, fields), f"{name}.md": (md_escape(told) + "\n").encode()}


def _draw(panels: Sequence[Panel]) -> Figure:
    columns = min(len(panels), 2)
    lines = -(-len(panels) // columns)
    names = list(dict.fromkeys(series.name for panel in panels for series in panel.series))
    tall = max(2.3, *(0.6 + 0.17 * len(panel.ticks) for panel in panels if panel.sideways), 0.0)
    keys = -(-len(names) // 4) * 0.16
    size = (PAGE_IN if columns > 1 else COLUMN_IN * 1.3, lines * tall + keys + 0.3)
    made = Figure(figsize=size, layout=ConstrainedLayoutEngine(wspace=0.04, hspace=0.04))
    axes = made.subplots(lines, columns, squeeze=False)
    for axis, panel in zip(axes.flat, panels, strict=False):
        _panel(axis, panel, names)
    for axis in list(axes.flat)[len(panels) :]:
        axis.set_visible(False)
    handles: dict[str, Artist] = {}
    for axis in axes.flat:
        handles |= dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    made.legend(list(handles.values()), list(handles), loc="outside upper center", ncols=min(4, len(handles) or 1))
    return made


def _panel(axis: Axes, panel: Panel, names: Sequence[str]) -> None:
    axis.grid(axis="x" if panel.sideways else "y", color=RULE, linewidth=0.4, alpha=0.6)
    axis.set_axisbelow(True)
    for series in panel.series:
        _series(axis, panel, series, names.index(series.name))
    if panel.log:
        axis.set_xscale("log")
        axis.xaxis.set_minor_locator(NullLocator())
    if panel.sideways:
        axis.axvline(0.0, color=INK, linewidth=0.8, zorder=1)
        axis.set_yticks([at for at, _ in panel.ticks], [text for _, text in panel.ticks])
        axis.invert_yaxis()
    elif panel.ticks:
        axis.set_xticks([at for at, _ in panel.ticks], [text for _, text in panel.ticks])
    axis.set_xlabel(panel.x)
    axis.set_ylabel(panel.y)
    axis.set_title(panel.title, loc="left")


def _series(axis: Axes, panel: Panel, series: Series, index: int) -> None:
    turn = index // len(OKABE_ITO)
    colour, marker = OKABE_ITO[index % len(OKABE_ITO)], MARKERS[(index + turn) % len(MARKERS)]
    dash = DASHES[turn % len(DASHES)]
    if series.level:
        axis.axhline(series.points[0][1], color=colour, linewidth=0.9, linestyle=(0, (5, 2)), label=series.name)
        return
    for (x, y), bar in zip(series.points, series.bars or [None] * len(series.points), strict=True):
        if bar is not None:
            at = ([bar[0], bar[1]], [y, y]) if panel.sideways else ([x, x], [bar[0], bar[1]])
            axis.plot(*at, color=colour, linewidth=0.9, alpha=0.7)
    xs, ys = zip(*series.points, strict=True) if series.points else ((), ())
    style = dash if series.joined else ""
    axis.plot(xs, ys, marker=marker, linestyle=style, color=colour, markersize=3.6, linewidth=1.1, label=series.name)


def _data(rows: Sequence[Mapping[str, Any]], fields: Sequence[str]) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(fields)
    writer.writerows(["" if row.get(name) is None else row[name] for name in fields] for row in rows)
    return out.getvalue().encode()


def _saved(made: Figure, kind: str) -> bytes:
    out = io.BytesIO()
    made.savefig(out, format=kind, metadata=NO_DATES[kind])
    return out.getvalue()
