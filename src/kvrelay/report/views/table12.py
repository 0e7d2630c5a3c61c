"""RoPERelay's Table 12: the same answers under several judges, and how far the judges agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvrelay.report import footer
from kvrelay.report.agreement_tables import answer_sections, marks, sign_sections
from kvrelay.report.agreements import FIELDS as ANSWER_FIELDS
from kvrelay.report.agreements import SIGN_FIELDS, Compared, compared
from kvrelay.report.given import Given, Layout
from kvrelay.report.judges import FIELDS, Scored, gains, owed, pivoted, scored, sections
from kvrelay.report.names import cluster_unit, label, rank
from kvrelay.report.plots import Panel, Series, figure
from kvrelay.report.rows import Row
from kvrelay.report.tables import Table
from kvrelay.stats.arms import POSITION

MAIN = "table12"
BASELINE = "original"
ARMS = POSITION
ALLOCATORS = None
OWNS = (f"{MAIN}_*",)
TITLE = "The same answers under several judges"


def render(given: Given) -> Layout:
    """Gains under every judge, agreement on answers and on signs, and the gains as a figure."""
    judges, silent = scored(given)
    rows, found = gains(judges, given), compared(judges, given)
    stamps = _stamps(judges, silent, given)
    below = _below(judges, rows, found, given)
    return Layout(
        tables=_tables(judges, rows, found, given, {"stamps": stamps, "footer": below}),
        figures=_figure(judges, rows, given, below),
        part={
            "judges": [judge.facts.model_dump(exclude={"created", "probes"}) for judge in judges],
            "gains": [{name: row[name] for name in FIELDS} for row in rows],
            "agreement": [{name: row.get(name) for name in ANSWER_FIELDS} for row in found.answers],
            "signs": [{name: row[name] for name in SIGN_FIELDS} for row in found.signs],
            "sign_counts": list(found.counts),
        },
        stamps=stamps,
        owed=owed([*judges, *silent], given),
    )


def _tables(
    judges: Sequence[Scored], rows: Sequence[Row], found: Compared, given: Given, made: dict[str, Any]
) -> tuple[Table, ...]:
    """The main table shows everything; the others hold the digits of the agreement."""
    answers, signs = answer_sections(found), sign_sections(found)
    read = [*sections(judges, rows, _headline(rows), given.baseline), *answers, *signs]
    parts = (
        (f"{MAIN}_agreement", "Agreement of judges on answers", ANSWER_FIELDS, answers, found.answers),
        (f"{MAIN}_signs", "Agreement of judges on gains", SIGN_FIELDS, signs, found.signs),
        (MAIN, TITLE, FIELDS, read, tuple(rows)),
    )
    return tuple(
        Table(
            name=name,
            title=f"{title}: experiment {given.results.experiment}",
            fields=fields,
            sections=tuple(shown),
            data=data,
            **made,
        )
        for name, title, fields, shown, data in parts
    )


def _headline(rows: Sequence[Row]) -> str:
    positions = sorted({row["position"] for row in rows}, key=lambda name: rank("position", name))
    return "roperelay" if "roperelay" in positions or not positions else positions[0]


def _stamps(judges: Sequence[Scored], silent: Sequence[Scored], given: Given) -> tuple[str, ...]:
    """What is true of all answers once, then what each judge lacks."""
    known = [set(judge.results.stamps) for judge in judges]
    everywhere = [stamp for stamp in judges[0].results.stamps if all(stamp in stamps for stamps in known)]
    more = [stamp for stamp in given.results.stamps if not any(stamp in stamps for stamps in known)]
    alike = {f"{judge.label}: {stamp}" for judge in judges for stamp in everywhere}
    own = [stamp for judge in judges for stamp in judge.stamps if stamp not in alike and stamp not in everywhere]
    return (*everywhere, *more, *own, *(f"{one.label} is planned and has given no verdict" for one in silent))


def _below(judges: Sequence[Scored], rows: Sequence[Row], found: Compared, given: Given) -> tuple[str, ...]:
    table = judges[0].results.table
    sets = sorted(set(table["dataset"]), key=lambda name: rank("dataset", name))
    clusters = table[table["cluster"] != ""].groupby("dataset")["cluster"].nunique()
    units = "; ".join(f"{label('dataset', name)}: {clusters.get(name, 0)} ({cluster_unit(name)})" for name in sets)
    papers = sorted({row["paper_source"] for row in rows if row["paper_source"]})
    marked = [marks(row) for row in (*rows, *found.answers, *found.signs)]
    flags = {"dagger": any(dagger for dagger, _ in marked), "degenerate": any(flat for _, flat in marked)}
    return (
        "Every judge sees the same answers and no name of a method; identical answers are one item and share its "
        "verdict. A missing verdict is never a wrong answer: it is left out and counted. Multiple choice is left out "
        "too: rules score it.",
        "n: of a gain, the questions whose two answers the judge gave a verdict on; of agreement, the answers that "
        "both did. On right: 2 both / (2 both + disagreements), on wrong likewise. McNemar: is one judge more lenient?",
        "κ is Cohen's, AC1 Gwet's: where most answers are wrong, κ is low however often judges agree.",
        f"Intervals: 95 %, cluster bootstrap, percentile, {given.resamples} resamples, seed {given.seed}; "
        "cluster-t of the gains stands in the CSV. Pointwise, not adjusted for their number.",
        f"Clusters: {units}.",
        *(line for judge in judges for line in judge.told(sets)),
        *(f"Paper: RoPERelay, {source}: its text states which gains are positive, and no number." for source in papers),
        *footer.marks(**flags),
        footer.inputs(given.results, given.commits),
    )


def _figure(judges: Sequence[Scored], rows: Sequence[Row], given: Given, told: Sequence[str]) -> dict[str, bytes]:
    """One line a comparison, one mark a judge, one panel a data set."""
    panels = [_panel(judges, [row for row in rows if row["dataset"] == name]) for name in _sets(rows)]
    caption = f"{TITLE}: gains over {label('position', given.baseline)} with their 95 % percentile intervals."
    return figure(f"{MAIN}_gains", panels, rows, FIELDS, " ".join([caption, *told]))


def _sets(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row["dataset"] for row in rows))


def _panel(judges: Sequence[Scored], rows: Sequence[Row]) -> Panel:
    pivots = pivoted(rows)
    several = {kind: len({pivot[kind] for pivot in pivots}) > 1 for kind in ("model", "retention", "position")}
    ticks = []
    for at, pivot in enumerate(pivots):
        more = (label(kind, pivot[kind]) for kind, wanted in several.items() if wanted)
        ticks.append((float(at), ", ".join([label("selector", pivot["selector"]), *more])))
    series = []
    for i, judge in enumerate(judges):
        aside = 0.64 * (i - (len(judges) - 1) / 2) / len(judges)
        shown = [(at + aside, pivot[judge.id]) for at, pivot in enumerate(pivots)]
        shown = [(height, row) for height, row in shown if row["difference"] is not None]
        bars = tuple(None if row["low"] is None else (row["low"], row["high"]) for _, row in shown)
        points = tuple((row["difference"], height) for height, row in shown)
        series.append(Series(name=judge.label, points=points, bars=bars, joined=False))
    title = label("dataset", rows[0]["dataset"])
    return Panel(
        title=title, x="Gain, percentage points", y="", series=tuple(series), ticks=tuple(ticks), sideways=True
    )
