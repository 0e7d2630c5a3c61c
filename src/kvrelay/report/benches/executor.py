"""SUR, sections 4.4, E and G: executors by fragmentation, on real supports, their errors, and where answers part."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kvrelay.report import reported
from kvrelay.report.caveats import NO_ERASURE, ONE_DEVICE, PACKED
from kvrelay.report.plots import Panel, Series, figure
from kvrelay.report.tables import Column, Row, Section, Table
from kvrelay.report.text import number

NAME = "executor"
EXECUTORS = {"interval": "Interval", "packed": "Packed", "auto": "Auto", "custom": "Custom (experimental)"}
FIELDS = (
    *("support", "states", "intervals", *(f"{name}_ms" for name in EXECUTORS)),
    *("packed_over_interval", "recovery_over_interval", "auto_over_better", "paper_packed_over_interval"),
)
ERRORS = ("layer", "states", "largest_state", "bound_rms", *(f"{name}_rms" for name in EXECUTORS))
RECOVERY = "Recovery is scoring, selection, shift and refresh; recovery timings exclude answers."
TARGETS = (
    "Our targets: packed at least {packed_over_interval_wanted} times as fast as interval at the most fragmented "
    "(reached: {packed_over_interval:.1f}), auto never below {auto_over_better_wanted} of the better one (least: "
    "{least_auto_over_better:.2f})."
)


def files(found: Mapping[str, Any], told: str) -> dict[str, bytes | str]:
    """Tables (md, csv, tex) and a figure from what the benchmark measured; ``told`` says of which model and context."""
    rows, errors = _timings(found), [_error(row) for row in found["layer_errors"]]
    foot = (
        f"{told} Medians of interleaved repetitions in ms, copies of caches left out.",
        TARGETS.format(**found["targets"]),
        *_controls(found),
        RECOVERY,
        "The bound of a layer's error: interval's own, and three times what rounding all attention outputs once does.",
        ONE_DEVICE,
        PACKED,
        NO_ERASURE,
    )
    title = "Executors: refresh of one budget in more and more intervals"
    main = Table(name=NAME, title=title, fields=FIELDS, sections=(_section(rows),), footer=foot)
    heading = "Layer errors of the executors against float32"
    layers = Table(
        name="executor_errors", title=heading, fields=ERRORS, sections=(_error_section(errors),), footer=foot
    )
    return {**main.files(), **layers.files(), **_figure(rows, told)}


def _timings(found: Mapping[str, Any]) -> list[Row]:
    paper, spent = reported.load().facts["sur"]["executor"], found["preparation"]["ms"]
    before = spent["scoring"] + spent["shift"]
    most = max(row["intervals"] for row in found["timings"] if not _real(row))
    rows: list[Row] = []
    for row in found["timings"]:
        times, published = row["ms"], None
        if _real(row):
            published = paper["refresh_of_real_supports"]
        elif row["intervals"] == most:
            published = paper["packed_over_interval_at_most"]
        rows.append(
            {
                **{name: row[name] for name in ("support", "states", "intervals")},
                **{f"{name}_ms": times[name] for name in EXECUTORS},
                "packed_over_interval": row["packed_over_interval"],
                "recovery_over_interval": (before + times["interval"]) / (before + times["packed"]),
                "auto_over_better": row["auto_over_better"],
                "paper_packed_over_interval": published,
            }
        )
    return rows


def _real(row: Mapping[str, Any]) -> bool:
    """Whether an allocator chose the support; the others are spread evenly."""
    return str(row["support"]).startswith("SUR")


def _section(rows: Sequence[Row]) -> Section:
    return Section(
        heading="Refresh, ms",
        columns=(
            Column(head="Support", text=lambda row: str(row["support"]), align="l"),
            Column(head="States", text=lambda row: str(row["states"])),
            Column(head="Intervals", text=lambda row: str(row["intervals"])),
            *(Column(head=label, text=_number(f"{name}_ms", 0)) for name, label in EXECUTORS.items()),
            Column(head="Packed, times faster", text=_number("packed_over_interval", 2)),
            Column(head="recovery, times faster", text=_number("recovery_over_interval", 2)),
            Column(head="auto / better", text=_number("auto_over_better", 2)),
            Column(head="Paper (Qwen3-8B, H100)", text=_number("paper_packed_over_interval", 2)),
        ),
        rows=tuple(rows),
    )


def _error(row: Mapping[str, Any]) -> Row:
    told = {name: row[name] for name in ("layer", "states", "largest_state", "bound_rms")}
    return {**told, **{f"{name}_rms": row["rms"][name] for name in EXECUTORS}}


def _error_section(rows: Sequence[Row]) -> Section:
    return Section(
        heading="Root mean square over refreshed slots",
        columns=(
            Column(head="Layer", text=lambda row: str(row["layer"])),
            Column(head="States", text=lambda row: str(row["states"]), align="l"),
            Column(head="Largest", text=_number("largest_state", 2)),
            Column(head="Bound", text=_number("bound_rms", 4)),
            *(Column(head=label, text=_number(f"{name}_rms", 4)) for name, label in EXECUTORS.items()),
        ),
        rows=tuple(rows),
    )


def _number(name: str, decimals: int) -> Callable[[Row], str]:
    return lambda row: number(row[name], decimals=decimals)


def _controls(found: Mapping[str, Any]) -> list[str]:
    cases, paper = found["controls"]["cases"], reported.load().facts["sur"]
    lines = [
        f"{EXECUTORS[name]} against interval, {cases} cases: "
        + ", ".join(f"{what} differ in {count}" for what, count in counts.items())
        + "."
        for name, counts in found["controls"]["disagreements"].items()
    ]
    prepared, equal = found["preparation"], all(found["preparation"]["bitwise_equal"].values())
    published = paper["executor"]
    lines.append(
        f"Preparation: serial {prepared['ms']['serial']:.1f} ms, overlapped {prepared['ms']['overlapped']:.1f} ms, "
        f"results bitwise {'equal' if equal else 'UNEQUAL'} (paper: {published['serial_preparation_ms']} and "
        f"{published['overlapped_preparation_ms']} ms)."
    )
    numerics = paper["numerics"]
    lines.append(
        f"Paper, layer {numerics['layer']}, {numerics['intervals']} intervals: largest value error "
        f"{numerics['custom_attention_v_error']} (custom) and {numerics['packed_sdpa_v_error']} (packed)."
    )
    return lines


def _figure(rows: Sequence[Row], told: str) -> dict[str, bytes]:
    even = [row for row in rows if not _real(row)]
    ticks = tuple((float(row["intervals"]), str(row["intervals"])) for row in even if row["intervals"] != 64)
    series = tuple(
        Series(name=label, points=tuple((float(row["intervals"]), row[f"{name}_ms"]) for row in even))
        for name, label in EXECUTORS.items()
    )
    panel = Panel(title="", x="intervals of one budget", y="refresh, ms", series=series, ticks=ticks, log=True)
    caption = f"Refresh time of one budget by its number of intervals. {told} {RECOVERY}"
    return figure("executor_fragmentation", [panel], rows, FIELDS, caption)
