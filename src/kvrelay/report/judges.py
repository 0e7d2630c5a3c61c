"""The judges of one set of answers, and each comparison's values and gain under every one of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from kvrelay.core.errors import ConfigError
from kvrelay.report import judged, reported
from kvrelay.report.given import Given
from kvrelay.report.names import label
from kvrelay.report.rows import ORDER, Row, compared, row_key
from kvrelay.report.table1 import names, weak
from kvrelay.report.tables import Column, Section
from kvrelay.report.text import NOTHING, count, interval, number
from kvrelay.run.record import JudgeFacts, RunRecord
from kvrelay.stats.compare import METRICS, compare
from kvrelay.stats.frame import Results
from kvrelay.stats.judged import bounded_stamp

ACCURACY = METRICS[0]
HUMAN = "human"
"""``kind`` in the identity of a judge whose verdicts a person gave on a sheet."""
KEPT = (
    *("dataset", "model", "selector", "retention", "baseline", "position", "baseline_value", "position_value"),
    *("difference", "low", "high", "low_t", "high_t", "n", "n_clusters", "n_expected", "n_unscored", "n_missing"),
    *("gains", "losses", "ties", "difference_if_worst", "difference_if_best", "note"),
)
FIELDS = ("judge", "judge_id", *KEPT, "paper_sign", "paper_source")
"""One row a comparison and judge."""
POSITIVE = "> 0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """One judge of an experiment and the outcomes under its verdicts, of the answers that are judged by reading."""

    facts: JudgeFacts
    results: Results

    @property
    def id(self) -> str:
        return self.facts.id

    @property
    def label(self) -> str:
        """The printed name; two labellers are told apart by theirs."""
        kind, _, who = self.facts.name.partition("_")
        return f"{label('judge', HUMAN)} ({who})" if kind == HUMAN and who else label("judge", self.facts.name)

    def within(self, datasets: Collection[str]) -> Scored:
        """The same judge over these data sets alone."""
        table = self.results.table
        kept = table[table["dataset"].isin(datasets)].reset_index(drop=True)
        return replace(self, results=replace(self.results, table=kept))

    def borne(self, max_unjudged: int | None) -> Scored:
        """The same judge, bounded and stamped where it left more answers without a verdict than that."""
        return self if self.is_human else replace(self, results=self.results.borne(max_unjudged))

    @property
    def is_human(self) -> bool:
        return self.facts.identity.get("kind") == HUMAN

    @property
    def stamps(self) -> list[str]:
        """What its verdicts lack, under its name. A sheet may be a sample: it lacks nothing."""
        if self.is_human:
            return []
        named = f"Judge {self.facts.name}:"
        return [stamp if stamp.startswith(named) else f"{self.label}: {stamp}" for stamp in self.results.stamps]

    @property
    def owed(self) -> str:
        """What it has yet to judge before a table of its verdicts is whole; a sheet, a sample, owes nothing."""
        if self.is_human:
            return ""
        gaps = self.results.incomplete
        unjudged = int((~gaps["status"].isin(["missing", "failed"])).sum())
        told = [f"{unjudged} of {len(self.results.table)} answers are not judged"] if unjudged else []
        told += [bounded_stamp(self.results.table)] if self.results.bounded else []
        again = f"judge them again with judge={self.facts.name} (keys: judge, report.max_unjudged)"
        return f"Judge {self.facts.name}: {'; '.join([*told, again])}" if told else ""

    def told(self, datasets: Sequence[str]) -> list[str]:
        """Who it is and how it went, in a line below every table."""
        if self.is_human:
            return [f"{self.label}: {self.id}, {int(self.results.table['correct'].notna().sum())} answers labelled."]
        return [f"{self.label}: {line}" for line in judged.who(self.results, datasets)[1:]] or [
            f"{self.label}: {self.id}."
        ]


def scored(given: Given) -> tuple[list[Scored], list[Scored]]:
    """The judges that called an answer right or wrong, in the order of the plans, and the planned ones that have not.

    Answers of a multiple choice are left out: rules score them, whoever judges. So are data sets that nobody called
    right or wrong (a checklist grades them). Raises `ConfigError` where fewer than two judges are left.
    """
    known = {facts.id: facts for facts in given.stored.judges}
    found: list[Scored] = []
    silent: list[Scored] = []
    for judge in given.results.planned_judges:
        facts = known.get(judge) or JudgeFacts(name=judge, id=judge, created="")
        one = Scored(facts=facts, results=_read(given.stored.under(judge), given.stored.records))
        (found if one.results.table["correct"].notna().any() else silent).append(one)
    if len(found) < 2:
        told = f" ({found[0].facts.name})" if found else ""
        raise ConfigError(
            f"report.view = table12: {len(found)} judge{told} gave verdicts on answers that are judged by reading; it "
            "compares two or more judges of the same answers. Add one to what is there, with python scripts/judge.py "
            f"judge=NAME run=OUT/{given.results.experiment}, or a sheet of human labels (scripts/sheet.py), and "
            "make the report again (keys: judge, report.view)"
        )
    sets = {name for one in found for name in one.results.table.loc[one.results.table["correct"].notna(), "dataset"]}
    shown, others = ([one.within(sets).borne(given.max_unjudged) for one in some] for some in (found, silent))
    return shown, others


def owed(judges: Sequence[Scored], given: Given) -> tuple[str, ...]:
    """What each judge has yet to do, less the one whose gaps are those of the results themselves."""
    headline = set(given.results.judges.values())
    beside = [judge for judge in judges if headline != {judge.id}]
    return tuple(told for judge in beside if (told := judge.owed))


def _read(results: Results, records: Mapping[str, RunRecord]) -> Results:
    """Results less repairs and less multiple choice; a set that is nothing else goes with its missing answers."""
    table = results.table
    by_rule = table["key"].isin({key for key, record in records.items() if record.gold_choice is not None})
    to_read = set(table.loc[table["key"].isin(records) & ~by_rule, "dataset"])
    rules_alone = set(table.loc[by_rule, "dataset"]) - to_read
    keep = (table["allocator"] == "") & ~by_rule & ~table["dataset"].isin(rules_alone)
    return replace(results, table=table[keep].reset_index(drop=True))


def gains(judges: Sequence[Scored], given: Given) -> list[Row]:
    """A row a comparison and judge, in the printed order of the comparisons."""
    rows = []
    for judge in judges:
        found = compare(
            judge.results.table,
            baseline=given.baseline,
            metrics=(ACCURACY,),
            tests=False,
            seed=given.seed,
            resamples=given.resamples,
        )
        rows += [_row(compared(c, judge.results), judge) for c in found]
    places = {judge.id: i for i, judge in enumerate(judges)}
    return sorted(rows, key=lambda row: (*row_key(row), places[row["judge_id"]]))


def _row(row: Row, judge: Scored) -> Row:
    """A comparison's row under one judge, with what the paper states of its sign."""
    known = {kind: row[kind] for kind in ("model", "selector", "dataset", "retention")}
    source = None
    if not any(
        reported.altered(judge.results.changed, {**known, "position": row[place], "judge": judge.facts.name})
        for place in ("baseline", "position")
    ):
        arms = {"baseline": row["baseline"], "position": row["position"]}
        source = reported.load().positive_under(judge.facts.name, judge.facts.identity, **known, **arms)
    own = {"judge": judge.facts.name, "judge_id": judge.id, "paper_sign": 1 if source else None, "paper_source": source}
    shown = {name: row[name] for name in (*KEPT, "metric", "dagger", "degenerate")}
    return {**shown, **own}


Pivot = Mapping[str, Any]
"""A comparison's names, and its row under each judge by the judge's id."""


def sections(judges: Sequence[Scored], rows: Sequence[Row], headline: str, baseline: str) -> list[Section]:
    """The gains at the headline's position, one section a data set; then those at other positions."""
    found = []
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        part = [row for row in rows if row["dataset"] == dataset]
        heading = f"{label('dataset', dataset)}: accuracy under each judge, %"
        main = [row for row in part if row["position"] == headline]
        other = [row for row in part if row["position"] != headline]
        found += [_section(judges, main, heading, label("position", headline), baseline)] if main else []
        title = f"{heading}, other positions"
        found += [_section(judges, other, title, "Here", baseline)] if other else []
    return found


def _section(judges: Sequence[Scored], rows: Sequence[Row], heading: str, here: str, baseline: str) -> Section:
    pivots = pivoted(rows)
    columns = names(pivots, position=here == "Here")
    alike = all(len({pivot[judge.id]["n"] for judge in judges}) == 1 for pivot in pivots)
    for judge in judges:
        columns += [
            _under(judge, label("position", baseline), lambda row: number(row["baseline_value"])),
            _under(judge, here, lambda row: number(row["position_value"])),
            _under(judge, "Δ", lambda row: number(row["difference"], signed=True)),
            _under(judge, "95 %", partial(interval, low="low", high="high")),
        ]
        columns += [] if alike else [_under(judge, "n", lambda row: count(row["n"]))]
        if any(pivot[judge.id]["paper_source"] for pivot in pivots):
            columns.append(_under(judge, "Paper Δ", lambda row: POSITIVE if row["paper_source"] else NOTHING))
    columns += [_under(judges[0], "n", lambda row: count(row["n"]), over="")] if alike else []
    return Section(heading=heading, columns=tuple(columns), rows=tuple(pivots), note=weak(rows), repeats=True)


def pivoted(rows: Sequence[Row]) -> list[Pivot]:
    """Rows of one comparison under several judges side by side."""
    merged: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in rows:
        shared = {name: row[name] for name in (*ORDER, "baseline")}
        merged.setdefault(tuple(shared.values()), shared)[row["judge_id"]] = row
    return list(merged.values())


def _under(judge: Scored, head: str, text: Callable[[Row], str], over: str | None = None) -> Column:
    return Column(head=head, text=lambda row: text(row[judge.id]), over=judge.label if over is None else over)
