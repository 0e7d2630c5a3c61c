"""Columns that the tables of repair share, over the rows of `recovered`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import groupby

from kvrelay.report import footer
from kvrelay.report.caveats import common
from kvrelay.report.given import Given
from kvrelay.report.names import ENDPOINTS, label, memory
from kvrelay.report.recovered import Row, gap
from kvrelay.report.tables import Column
from kvrelay.report.text import NOTHING, count, decimals_of, interval, number
from kvrelay.stats.arms import MEMORY
from kvrelay.stats.bootstrap import WARN_BELOW

HEADS = {"em": "EM", "f1": "F1", "nll": "NLL", "kl": "KL", "leak": "Leak"}
PLACE = ("dataset", "model", *MEMORY)
UNITS = (
    "EM and F1: exact match and token F1 in per cent, of those that have a verdict. Leak: answers that hold the "
    "deleted value, %. NLL: of the reference, nats a token. KL: from Re-prefill over its own answer, nats a token. "
    "Differences in percentage points or nats; for NLL, KL and leak lower is better."
)
COUNTED = (
    "n: of a value, the answers that have it; of a difference, the pairs that both do, and its values are over these."
)
BESIDE = "cluster-t, one degree of freedom less than clusters, stands in the CSV"
MOVES = "repaired: wrong in the one compared with and right here; regressed: the reverse; net is their difference."


def who(rows: Sequence[Row], *, dataset: bool = False, model: bool = False) -> list[Column]:
    """Columns that say whose row it is; budget and executor only where something differs in them."""
    budgets = {row["budget"] for row in rows if row["allocator"] not in ENDPOINTS}
    shown = {
        "dataset": dataset,
        "model": model,
        "allocator": True,
        "budget": bool(budgets),
        "executor": len({row["executor"] for row in rows if row["executor"]}) > 1,
    }
    heads = {"dataset": "Data set", "model": "Model", "allocator": "Allocator", "budget": "Budget"}
    return [
        Column(head=heads.get(kind, "Executor"), text=partial(_name, kind), align="l")
        for kind, wanted in shown.items()
        if wanted
    ]


def several(rows: Iterable[Row], name: str) -> bool:
    """Whether rows differ in a name; an endpoint without an executor makes no difference."""
    return len({row[name] for row in rows if row[name] not in ("", None)}) > 1


def value(metric: str, over: str = "") -> Column:
    """A cell's mean."""
    return Column(head=HEADS[metric], text=lambda row: plain(row, metric, metric), over=over)


def plain(row: Row, name: str, metric: str) -> str:
    """A number with the decimals of its measure."""
    return number(row[name], decimals=decimals_of({"metric": metric}))


def inside(key: str, name: str, row: Row) -> str:
    """A number of the cell that a pivoted row holds under ``key``, if it holds one."""
    return plain(row[key], name, name) if key in row else NOTHING


def measured(rows: Iterable[Row], metrics: Sequence[str]) -> list[str]:
    """Those of the measures that a row has."""
    shown = list(rows)
    return [metric for metric in metrics if any(row.get(metric) is not None for row in shown)]


def differences(base: str, metric: str, over: str) -> list[Column]:
    """A difference from ``base`` with its percentile interval."""

    def difference(row: Row) -> str:
        found = gap(row, base, metric)
        return number(found["difference"], decimals=decimals_of(found), signed=True)

    return [
        Column(head=f"Δ {HEADS[metric]}", text=difference, over=over),
        Column(head="95 %", text=lambda row: interval(gap(row, base, metric), "low", "high"), over=over),
    ]


def compared(bases: Sequence[str], metric: str) -> list[Column]:
    """Differences from each of ``bases`` in one measure; for exact match with moves; and the number of pairs."""
    found = []
    for base in bases:
        over = f"minus {label('allocator', base)}"
        found += differences(base, metric, over)
        found += moves(base, over) if metric == "em" else []
        found.append(Column(head="n", text=counted(f"{metric}_minus_{base}_n"), over=over))
    return found


def moves(base: str, over: str) -> list[Column]:
    """Counts of repaired and regressed cases against ``base``."""
    stem = f"em_minus_{base}_"
    return [Column(head=part, text=counted(stem + part), over=over) for part in ("repaired", "regressed")]


def counted(name: str) -> Callable[[Row], str]:
    """A whole number."""
    return lambda row: count(row[name])


def fixed(name: str, decimals: int, *, signed: bool = False) -> Callable[[Row], str]:
    """A number with so many decimals."""
    return lambda row: number(row[name], decimals=decimals, signed=signed)


def kl_interval(row: Row) -> str:
    """The interval of a mean KL, which is itself a difference from Re-prefill; Re-prefill has none."""
    ends = {name: row[f"kl_{name}"] for name in ("low", "high", "dagger", "degenerate")}
    difference = None if row["allocator"] == "reprefill" else row["kl"]
    return interval({"metric": "kl", "difference": difference, **ends}, "low", "high").replace("+", "")


Place = tuple[str, ...]
"""What all rows of a section share: the values of `PLACE`."""


def place_of(row: Row) -> Place:
    """Where a row belongs."""
    return tuple(row[name] for name in PLACE)


def by_place(rows: Sequence[Row]) -> list[tuple[Place, list[Row]]]:
    """Rows by data set, model and the cache that was edited, in their printed order."""
    return [(key, list(part)) for key, part in groupby(rows, key=place_of)]


def place(key: Place) -> str:
    """A section's heading; the cache is named only where it is not a whole one that stands as it stood."""
    names = dict(zip(PLACE, key, strict=True))
    told = (label("dataset", names["dataset"]), label("model", names["model"]), memory(names))
    return ", ".join(part for part in told if part)


def weak(rows: Iterable[Row]) -> str:
    """A warning where the percentile interval covers too little."""
    few = sorted({row["n_clusters"] for row in rows if row["n_clusters"] and row["n_clusters"] < WARN_BELOW})
    if not few:
        return ""
    return f"Fewer than {WARN_BELOW} clusters ({', '.join(map(str, few))}): percentile intervals are too narrow."


def below(given: Given, rows: Sequence[Row], *lines: str, papers: Sequence[str] = ()) -> tuple[str, ...]:
    """The footer of a table of repairs: measures, method, marks, caveats that apply, inputs."""
    measured_on = set(given.results.table["dataset"])
    shown = [name for name in dict.fromkeys(row["dataset"] for row in rows) if name in measured_on]
    marks = ("dagger", "degenerate")
    flags = {mark: any(value for row in rows for name, value in row.items() if name.endswith(mark)) for mark in marks}
    return (
        UNITS,
        *lines,
        *footer.method(
            given.results, shown, seed=given.seed, resamples=given.resamples, counted=COUNTED, beside=BESIDE
        ),
        *papers,
        *footer.marks(**flags),
        *common({row["allocator"] for row in rows}, {row["executor"] for row in rows}),
        footer.inputs(given.results, given.commits),
    )


def _name(kind: str, row: Row) -> str:
    return label(kind, row[kind])
