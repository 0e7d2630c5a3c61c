"""Repair locality: the smallest measured budget at which an allocator reaches a target quality (SUR, section A.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kvrelay.report.names import ENDPOINTS, cell_rank, label, memory, rank
from kvrelay.report.recovered import REPREFILL, Row
from kvrelay.report.tables import Column, Section
from kvrelay.report.text import NOTHING
from kvrelay.stats.arms import REPAIR, group_of

EM_TARGET = 0.95
"""Share of Re-prefill's exact match that counts as reached."""
KL_TARGET = 0.95
"""Share of Shift's KL from Re-prefill that must be gone: Re-prefill's own is zero, so that it cannot be a base."""


def localities(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """By allocator and executor: the first budget that reaches each target, None where none does, and the targets.

    Budgets are shares of the suffix, Shift being 0 % of any allocator. A target of zero or of an arm that was not
    measured is None, and so is its budget.
    """
    found = []
    for place, part in _places(rows).items():
        ends = {row["allocator"]: row for row in part if row["allocator"] in ENDPOINTS}
        targets = _targets(ends)
        for arm, cells in _arms(part).items():
            ladder = [*([ends["shift"]] if "shift" in ends else []), *cells]
            found.append(
                {
                    **dict(zip(group_of(REPAIR), place, strict=True)),
                    "allocator": arm[0],
                    "executor": arm[1],
                    **{f"{name}_target": target for name, target in targets.items()},
                    "em_budget": _first(ladder, targets["em"], lambda row, t: row["em"] is not None and row["em"] >= t),
                    "kl_budget": _first(ladder, targets["kl"], lambda row, t: row["kl"] is not None and row["kl"] <= t),
                    "largest": cells[-1]["budget"],
                }
            )
    return found


def section(rows: Sequence[Row]) -> Section | None:
    """The table of `localities`, or nothing without a target."""
    shown = [row for row in localities(rows) if row["em_target"] is not None or row["kl_target"] is not None]
    if not shown:
        return None
    heads = {"dataset": "Data set", "model": "Model", "allocator": "Allocator", "executor": "Executor"}
    columns = [
        Column(head=head, text=_named(kind), align="l")
        for kind, head in heads.items()
        if kind != "executor" or len({row["executor"] for row in shown}) > 1
    ]
    if any(memory(row) for row in shown):
        columns.insert(2, Column(head="Cache", text=_cache, align="l"))
    columns += [Column(head=f"{head} target", text=_budget(name)) for name, head in (("em", "EM"), ("kl", "KL"))]
    note = (
        f"Smallest measured budget with at least {100 * EM_TARGET:.0f} % of Re-prefill's exact match, and with at most "
        f"{100 - 100 * KL_TARGET:.0f} % of Shift's KL. Point estimates; > where the largest measured one does not."
    )
    return Section(heading="Repair locality", columns=tuple(columns), rows=tuple(shown), note=note, repeats=True)


def _places(rows: Sequence[Row]) -> dict[tuple[str, ...], list[Row]]:
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in sorted(rows, key=cell_rank):
        found.setdefault(tuple(row[name] for name in group_of(REPAIR)), []).append(row)
    return found


def _arms(rows: Sequence[Row]) -> dict[tuple[str, str], list[Row]]:
    """Cells whose budget is a share of the suffix, smallest first."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in sorted(rows, key=lambda row: rank("budget", row["budget"])):
        if row["allocator"] not in ENDPOINTS and row["budget"].startswith("p"):
            found.setdefault((row["allocator"], row["executor"]), []).append(row)
    return dict(sorted(found.items(), key=lambda item: (rank("allocator", item[0][0]), item[0][1])))


def _targets(ends: Mapping[str, Row]) -> dict[str, float | None]:
    em = ends[REPREFILL]["em"] if REPREFILL in ends else None
    kl = ends["shift"]["kl"] if "shift" in ends else None
    return {"em": EM_TARGET * em if em else None, "kl": (1 - KL_TARGET) * kl if kl else None}


def _first(ladder: Sequence[Row], target: float | None, reaches: Any) -> str | None:
    if target is None:
        return None
    return next((row["budget"] for row in ladder if reaches(row, target)), None)


def _named(kind: str) -> Any:
    return lambda row: label(kind, row[kind])


def _cache(row: Row) -> str:
    return memory(row) or label("selector", "full")


def _budget(name: str) -> Any:
    def text(row: Row) -> str:
        if row[f"{name}_target"] is None:
            return NOTHING
        reached = row[f"{name}_budget"]
        return label("budget", reached) if reached else f"> {label('budget', row['largest'])}"

    return text
