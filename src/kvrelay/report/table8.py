"""Table 8: how sure each accuracy difference is. Intervals, counts of repaired and regressed questions, tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import median

from kvrelay.report import reported
from kvrelay.report.names import cluster_unit, label
from kvrelay.report.rows import ALONE, Row
from kvrelay.report.study import Study
from kvrelay.report.table1 import counted, names, signed, weak
from kvrelay.report.tables import Column, Section, Table
from kvrelay.report.text import interval, number, p_value
from kvrelay.stats.joint import joint

FIELDS = (
    *("metric", "unit", "dataset", "model", "selector", "retention", "baseline", "position"),
    *("difference", "low", "high", "low_t", "high_t", "n", "n_clusters", "n_expected", "n_unscored", "n_missing"),
    *("gains", "losses", "ties", "mcnemar_p", "signflip_p", "holm_p", "maxt_p", "detectable"),
    *("difference_if_worst", "difference_if_best", "note", "judge"),
)
SHARED_SESSIONS = (
    "Records of LongMemEval share history sessions. Joined by shared sessions they form a single cluster, from which "
    "no interval can be had; these intervals take the records for a sample of independent ones."
)


def table8(study: Study) -> Table:
    """One section a data set, over all positions that were compared with the baseline."""
    rows = [row for row in study.of("accuracy") if row["note"] != ALONE]
    present = [name for name in study.datasets if any(row["dataset"] == name for row in rows)]
    return Table(
        name="table8",
        title=f"Paired differences in accuracy from {label('position', study.baseline)}: "
        f"experiment {study.results.experiment}",
        fields=FIELDS,
        sections=tuple(_section(name, [row for row in rows if row["dataset"] == name]) for name in present),
        stamps=study.results.stamps,
        footer=(*_signs(study, rows), *_tests(rows), *study.footer(rows)),
    )


def _section(dataset: str, rows: Sequence[Row]) -> Section:
    several = len({row["position"] for row in rows}) > 1
    columns = (
        *names(rows, position=several),
        Column(head="Δ, pp", text=signed("difference")),
        Column(head="95 % percentile", text=partial(interval, low="low", high="high")),
        Column(head="95 % cluster-t", text=partial(interval, low="low_t", high="high_t", marks=False)),
        Column(head="n", text=counted("n")),
        Column(head="clusters", text=counted("n_clusters")),
        Column(head="repaired", text=counted("gains")),
        Column(head="regressed", text=counted("losses")),
        *_tested({"McNemar": "mcnemar_p", "sign-flip": "signflip_p"}, "pointwise p"),
        *_tested({"Holm": "holm_p", "max-T": "maxt_p"}, "adjusted p"),
        Column(head="MDE, pp", text=lambda row: number(row["detectable"])),
    )
    caveat = SHARED_SESSIONS if "longmemeval" in dataset.lower() else ""
    note = " ".join(part for part in (f"Clusters: {cluster_unit(dataset)}.", weak(rows), caveat) if part)
    return Section(heading=label("dataset", dataset), columns=columns, rows=tuple(rows), note=note)


def _tested(heads: Mapping[str, str], over: str) -> list[Column]:
    return [Column(head=head, text=partial(_p, name), over=over) for head, name in heads.items()]


def _p(name: str, row: Row) -> str:
    return p_value(row[name])


def _signs(study: Study, rows: Sequence[Row]) -> list[str]:
    seen = [row["difference"] for row in rows if row["position"] == study.headline and row["difference"] is not None]
    if not seen:
        return []
    up, down = sum(d > 0 for d in seen), sum(d < 0 for d in seen)
    text = f"{label('position', study.headline)}: {up} of {len(seen)} differences positive, {down} negative"
    paper = reported.load().totals
    told = f" (paper: {paper['positive']} of {paper['comparisons']} positive, {paper['negative']} negative)"
    return [f"{text}{told if any(row['paper_source'] for row in rows) else ''}.", *_jointly(study, len(seen))]


def _jointly(study: Study, seen: int) -> list[str]:
    """The count's own interval, which no test of independent signs can give."""
    cells = [c for c in study.comparisons if c.metric.name == "accuracy" and c.position == study.headline]
    found = joint(cells, seed=study.seed, resamples=study.resamples)
    if found is None:
        return []
    of = f"{found.n}" if found.n == seen else f"the {found.n} that have an interval, of which {found.positive} are"
    low, high = (number(end, signed=True) for end in (found.mean_low, found.mean_high))
    return [
        f"Joint bootstrap, 95 %: {found.positive_low} to {found.positive_high} of {of} positive; mean difference "
        f"{number(found.mean, signed=True)} pp [{low}, {high}]. The cells of a data set answer the same questions and "
        "are resampled together: they are no independent trials, and no sign test is made of their number."
    ]


def _tests(rows: Sequence[Row]) -> list[str]:
    made = sum(row["signflip_p"] is not None for row in rows)
    none = len(rows) - made
    left = f"; {none} without a test (no pair, or one cluster) are not counted" if none else ""
    return [
        "McNemar: exact, two-sided, over questions as if they were independent. Sign-flip: over sums of whole "
        "clusters. Both pointwise.",
        f"Holm, max-T: sign-flip adjusted for the m = {made} tests of this table, one family over its data sets, "
        f"models, selectors and positions{left}. Max-T: Westfall and Young, step-down; a flip turns a cluster in all "
        "comparisons of its data set.",
        "MDE: the smallest true difference that 80 of 100 such experiments would find at the unadjusted 5 % level"
        f"{_detectable(rows)}.",
    ]


def _detectable(rows: Sequence[Row]) -> str:
    found = [row["detectable"] for row in rows if row["detectable"] is not None]
    if not found:
        return ""
    middle, low, high = (number(value) for value in (median(found), min(found), max(found)))
    return f"; here {middle} pp (median; {low} to {high}): a smaller one may well be there and not be seen"
