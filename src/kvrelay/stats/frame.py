"""From plans, records and verdicts to one tidy table: a row for each cell and example, nothing left out in silence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from kvrelay.core.errors import DataError
from kvrelay.run.record import RETRIED_REASONS, Cell, JudgeFacts, RunPlan, RunRecord, Verdict, digest, item_key
from kvrelay.stats.arms import CELL, POSITION, REPAIR, group_of, split
from kvrelay.stats.judged import bounded_stamp, caveats, unjudged
from kvrelay.stats.measures import ITEMS, NUMBERS, OUTCOMES, measures, outcome
from kvrelay.stats.plans import Plans, merge, name_examples
from kvrelay.stats.receipts import check_pairs

GROUP = group_of(POSITION)
"""The names that two positions of one cache share."""
_TEXT = [
    *(*CELL, "key", "pair_key", "batch", "example_id", "cluster", "question_type", "status", "reason", "stop"),
    *("edited", "parse", "item"),
]
NO_ARM = "no record in any arm"
"""Why a case of a deletion is missing that no arm has."""
_VOLATILE = {"run_id", "worker", "timings", "peak_memory_bytes", "batch_rows", "batch_sha256"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """An experiment's outcomes.

    ``table`` has one row a (cell, example). Its ``status`` is ``scored``, ``unscored`` (the judge gave no verdict,
    ``reason`` says why), ``unjudged`` (no verdict on file), ``failed`` (``reason`` holds the error) or ``missing``
    (no record). ``correct``, ``choice_correct`` and ``leaked`` (the deleted value stands in the answer) are True, False
    or NA; ``f1`` and ``em`` lie in 0 … 1. Answers of one ``item`` are the same to every judge. Columns of repair are
    empty where nothing was deleted. An answer that a checklist was held to is ``scored`` by its grades, and its
    ``correct`` is NA.
    """

    experiment: str
    table: pd.DataFrame
    judges: Mapping[str, str]
    """Judge whose verdicts are ``correct``, by data set; a data set that nobody judged is absent."""
    planned_judges: tuple[str, ...]
    told: tuple[str, ...]
    """What every table must say, whichever rows it shows; ``stamps`` adds what is wrong with these rows."""
    content_sha256: str
    """Hash of all answers and verdicts in the table, timings apart: equal for equal measurements."""
    changed: frozenset[str] = frozenset()
    """Components (``group.name``) that ran with other settings than their name stands for."""
    budgets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Settings of the repair budgets by name, as far as the plans tell them."""
    dtypes: Mapping[str, str] = field(default_factory=dict)
    """Number format by model, as far as the plans tell it."""
    facts: Mapping[str, JudgeFacts] = field(default_factory=dict)
    """Who the judges are, by id, as far as that is on file."""
    bounded: bool = False
    """Whether so many answers lack a verdict that accuracy is printed with its bounds."""

    @property
    def stamps(self) -> tuple[str, ...]:
        """What every table of these rows must say."""
        return (*_gaps(self.table, judged=bool(self.planned_judges)), *self.told)

    def within(self, shown: pd.Series) -> Results:
        """The outcomes of some rows alone: what is wrong with others is not these rows' concern."""
        return replace(self, table=self.table[shown].reset_index(drop=True))

    @property
    def incomplete(self) -> pd.DataFrame:
        """Rows that a finished experiment would not have: missing, failed, or not judged though a judge was planned,
        whether it was not asked or gave no reply."""
        table = self.table
        wanted = ["missing", "failed", *(["unjudged"] if self.planned_judges else [])]
        silent = _silent(table) & bool(self.planned_judges)
        return table[table["status"].isin(wanted) | silent]

    def borne(self, max_unjudged: int | None) -> Results:
        """The results; where more verdicts are lacking than that (None: any number) bounded, and the stamp that says so
        before all others."""
        judged = max_unjudged is not None and bool(self.planned_judges)
        if not judged or len(unjudged(self.table)) <= (max_unjudged or 0):
            return self
        return replace(self, bounded=True, told=(bounded_stamp(self.table), *self.told))


def tidy(
    plans: Sequence[RunPlan],
    records: Mapping[str, RunRecord],
    verdicts: Mapping[str, Verdict],
    judges: Sequence[JudgeFacts] = (),
    *,
    judge: str | None = None,
) -> Results:
    """Join an experiment's files. ``judge`` (an id) picks whose verdicts count; else the first planned one that judged
    the set. ``judges`` tells which identity bears a planned name: of several the newest.

    Raises `AssetError` without plans, `DataError` for records that contradict each other, and `InvariantError`
    for arms of a pair that differ in more than their positions.
    """
    merged = merge(plans)
    in_force = {key: records[key] for keys in merged.keys.values() for key in keys if key in records}
    order = (judge,) if judge is not None else identities(merged.judges, judges)
    judged = {key: _verdicts(record, order, verdicts) for key, record in in_force.items()}
    chosen = _choose(order, in_force, judged)
    facts = {one.id: one for one in judges if one.id in order}
    said = caveats(facts[found] for found in dict.fromkeys(chosen.values()) if found in facts)
    twins = name_examples(merged, in_force)
    rows = [
        _row(cell, place, key, in_force.get(key), twins.get(key), judged.get(key, {}), chosen.get(cell.dataset))
        for cell, keys in merged.keys.items()
        for place, key in enumerate(keys)
    ]
    table = _unseen(_typed(rows))
    _check_ids(table)
    check_pairs(in_force.values())
    return Results(
        experiment=merged.experiment,
        table=table,
        judges=chosen,
        planned_judges=order,
        told=(*merged.stamps, *said, *_told(merged, records, order, chosen)),
        content_sha256=_content(in_force, judged),
        changed=merged.changed,
        budgets=merged.budgets,
        dtypes=merged.dtypes,
        facts=facts,
    )


def identities(planned: Sequence[str], judges: Sequence[JudgeFacts]) -> tuple[str, ...]:
    """Ids in the order of the planned names, the newest identity of each, then those of names that no plan has.

    A name under which nobody has judged yet stands for itself, so that its verdicts are missed.
    """
    newest = {facts.name: facts.id for facts in sorted(judges, key=lambda facts: (facts.created, facts.id))}
    known = {name: newest.get(name, name) for name in planned}
    return tuple(dict.fromkeys([*known.values(), *(newest[name] for name in sorted(newest.keys() - known.keys()))]))


def _verdicts(record: RunRecord, judges: Sequence[str], verdicts: Mapping[str, Verdict]) -> dict[str, Verdict]:
    if record.status != "ok":
        return {}
    fields = record.item_fields()
    keys = {judge: item_key(judge, fields) for judge in judges}
    return {judge: verdicts[key] for judge, key in keys.items() if key in verdicts}


def _choose(
    order: Sequence[str], records: Mapping[str, RunRecord], judged: Mapping[str, Mapping[str, Verdict]]
) -> dict[str, str]:
    """A data set's judge: the first that gave it verdicts; for multiple choice the first with objective rules."""
    seen: dict[str, set[str]] = {}
    objective: dict[str, set[str]] = {}
    for key, record in records.items():
        seen.setdefault(record.cell.dataset, set()).update(judged[key])
        if record.gold_choice is not None:
            by_rule = {judge for judge, verdict in judged[key].items() if "official" in verdict.scores}
            objective.setdefault(record.cell.dataset, set()).update(by_rule)
    able = {data: objective.get(data) or found for data, found in sorted(seen.items())}
    return {data: next(judge for judge in order if judge in found) for data, found in able.items() if found}


def _row(
    cell: Cell,
    place: int,
    key: str,
    record: RunRecord | None,
    twin: RunRecord | None,
    verdicts: Mapping[str, Verdict],
    judge: str | None,
) -> dict[str, Any]:
    example = record or twin
    row: dict[str, Any] = {
        **cell.model_dump(),
        "key": key,
        "example_id": example.example_id if example else f"#{place + 1}",
        "cluster": example.cluster_id if example else "",
        "question_type": example.question_type if example else "",
        "status": "missing",
        "reason": "no record",
    }
    if record is None:
        return row
    row |= {"pair_key": record.pair_key, "stop": record.stop or ""}
    row |= {"batch": record.batch_sha256, "batch_rows": record.batch_rows}
    row["item"] = digest(record.item_fields()) if record.status == "ok" else ""
    if record.status == "error":
        error = record.error
        return row | {"status": "failed", "reason": f"{error.kind}: {error.message}" if error else "no reason given"}
    verdict = verdicts.get(judge) if judge is not None else None
    row["parse"] = verdict.parse if verdict is not None else ""
    return row | outcome(verdict) | measures(record, verdicts)


def _typed(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    sound = [{name: _storable(value) for name, value in row.items()} for row in rows]
    table = pd.DataFrame(sound, columns=[*_TEXT, *NUMBERS, *OUTCOMES, ITEMS])
    table[_TEXT] = table[_TEXT].astype(object).fillna("").astype(str)
    table[NUMBERS] = table[NUMBERS].astype("float64")
    table[OUTCOMES] = table[OUTCOMES].astype("boolean")
    table[ITEMS] = [grades if isinstance(grades, tuple) else () for grades in table[ITEMS]]
    return table.sort_values([*CELL, "example_id", "key"], kind="stable", ignore_index=True)


def _unseen(table: pd.DataFrame) -> pd.DataFrame:
    """Say of a deletion's case that no arm has a record of it; it has a number alone, as nothing tells its name."""
    for group in split(table[table["allocator"] != ""], group_of(REPAIR)).values():
        nameless = group[(group["status"] == "missing") & (group["cluster"] == "")]
        lacking = nameless["example_id"].map(nameless["example_id"].value_counts())
        table.loc[lacking.index[lacking == len(split(group, REPAIR))], "reason"] = NO_ARM
    return table


def _storable(value: Any) -> Any:
    """Lone surrogates, which no column of text can hold, as their escapes: ids stay apart from each other."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def cell_label(row: Mapping[str, Any] | pd.Series) -> str:
    """The names of a row's cell, as `Cell.label` prints them."""
    return Cell(**{name: row[name] for name in CELL}).label


def _check_ids(table: pd.DataFrame) -> None:
    known = table[table["status"] != "missing"]
    if (bad := known[known["cluster"] == ""]).size:
        raise DataError(f"report: example {bad['example_id'].iloc[0]!r} has no cluster_id; set it in the adapter")
    if (bad := table[table.duplicated([*CELL, "example_id"])]).size:
        first = bad.iloc[0]
        raise DataError(f"report: example {first['example_id']!r} stands twice in {cell_label(first)}")
    spread = known.groupby(["model", "dataset", "example_id"])["cluster"].nunique()
    if (several := spread[spread > 1]).size:
        raise DataError(f"report: example {several.index[0][-1]!r} has {several.iloc[0]} cluster ids; wanted one")


def _silent(table: pd.DataFrame) -> pd.Series:
    """Rows whose judge was asked and gave no reply, through no property of the answer's own."""
    silent: pd.Series = (table["status"] == "unscored") & table["reason"].isin(RETRIED_REASONS)
    return silent


def _gaps(table: pd.DataFrame, *, judged: bool) -> list[str]:
    count = table["status"].value_counts()
    lacking = {"without a record": int(count.get("missing", 0)), "failed": int(count.get("failed", 0))}
    if judged:
        lacking |= {"without a verdict": int(count.get("unjudged", 0)), "without a reply": int(_silent(table).sum())}
    gaps = [f"{n} {text}" for text, n in lacking.items() if n]
    stamps = [f"INCOMPLETE: of {len(table)} answers {', '.join(gaps)} (listed in summary.json)"] if gaps else []
    if unscored := int(count.get("unscored", 0)):
        why = table.loc[table["status"] == "unscored", "reason"].value_counts().sort_index()
        reasons = ", ".join(f"{reason} {n}" for reason, n in why.items())
        stamps.append(f"{unscored} of {len(table)} answers are unscored ({reasons}): neither right nor wrong")
    return stamps


def _told(
    plans: Plans, records: Mapping[str, RunRecord], judges: Sequence[str], chosen: Mapping[str, str]
) -> list[str]:
    stamps = []
    for data, judge in chosen.items():
        if judge != judges[0]:
            stamps.append(f"{data}: scored by {judge}, not by {judges[0]}")
    told = " ".join(plans.stamps)
    if silent := sorted(name for name in plans.changed if name not in told):
        stamps.append(f"CHANGED {', '.join(silent)}: not the settings that the name stands for")
    if stray := len(set(records) - plans.known_keys):
        stamps.append(f"{stray} records belong to no plan and are left out")
    return stamps


def _content(records: Mapping[str, RunRecord], judged: Mapping[str, Mapping[str, Verdict]]) -> str:
    parts = [
        [_said(records[key]), [[judge, v.correct, v.reason, v.scores] for judge, v in sorted(judged[key].items())]]
        for key in sorted(records)
    ]
    return digest(parts)


def _said(record: RunRecord) -> dict[str, Any]:
    """A record less what can differ between equal measurements, and less the fields of a repair that it has none of."""
    said = record.model_dump(mode="json", exclude=_VOLATILE if record.repair else {*_VOLATILE, "repair"})
    if record.repair and not record.repair.diagnostic:  # a method's hash is what it was before there were others
        del said["repair"]["diagnostic"]
    return said | {"cell": {name: value for name, value in said["cell"].items() if value or name not in REPAIR}}
