"""How the agreement of judges is printed: columns and sections over the rows of `agreements`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from kvrelay.report.agreements import COEFFICIENTS, Compared
from kvrelay.report.names import label
from kvrelay.report.rows import Row
from kvrelay.report.table1 import counted, names
from kvrelay.report.tables import Column, Section
from kvrelay.report.text import DAGGER, DOUBLE, NOTHING, interval, number, p_value
from kvrelay.stats.bootstrap import DAGGER_BELOW
from kvrelay.stats.signs import MOVES


def answer_sections(found: Compared) -> list[Section]:
    """Agreement and 2x2 counts of every pair of judges, and alpha where there are more than two."""
    pairs = [row for row in found.answers if row["second"]]
    many = [row for row in found.answers if not row["second"]]
    columns = (*_who(pairs), *_coefficients())
    made = [
        Section(heading="Agreement on answers", columns=columns, rows=tuple(pairs), repeats=True, note=_odd(pairs)),
        Section(heading="Verdicts", columns=(*_who(pairs), *_cells()), rows=tuple(pairs), repeats=True),
    ]
    if many:
        of_all = (*_who(many)[:1], *_alphas())
        note = "Over the answers that at least two judges gave a verdict on."
        made.append(
            Section(heading="Agreement of all judges", columns=of_all, rows=tuple(many), note=note, repeats=True)
        )
    return made


def sign_sections(found: Compared) -> list[Section]:
    """The gains of every pair of judges over the same questions, and what moved under both."""
    made = []
    for row in found.counts:
        rows = tuple(one for one in found.signs if (one["first"], one["second"]) == (row["first"], row["second"]))
        if rows:
            heading = f"Sign of the gain: {row['first']} and {row['second']}"
            made.append(Section(heading=heading, columns=_sign_columns(rows), rows=rows, note=_told(row), repeats=True))
    if found.signs:
        heading = "Questions by what moved under the first judge and under the second"
        rows = tuple(_move_rows(found.counts))
        note = "repaired: wrong at the baseline and right here; regressed: the reverse. Over all comparisons above."
        made.append(Section(heading=heading, columns=_move_columns(), rows=rows, note=note, repeats=True))
    return made


def _told(row: Row) -> str:
    text = (
        f"Same sign in {row['same']} of {row['n']} comparisons: {row['both_up']} positive under both, "
        f"{row['both_down']} negative, {row['both_zero']} exactly zero. Opposite in {row['opposite']}, zero under one "
        f"judge alone in {row['one_zero']}."
    )
    return f"{text} Both gains are over the questions whose two answers both judges gave a verdict on."


def _who(rows: Sequence[Row]) -> list[Column]:
    pair = [
        Column(head=head, text=partial(_text, name), align="l")
        for head, name in (("First", "first"), ("Second", "second"))
    ]
    return [Column(head="Answers", text=_scope, align="l"), *pair]


def _coefficients() -> list[Column]:
    shares = {"observed": "agree, %", "positive": "on right, %", "negative": "on wrong, %"}
    columns = [Column(head="n", text=counted("n")), Column(head="clusters", text=counted("n_clusters"))]
    columns += [Column(head=head, text=_share(name)) for name, head in shares.items()]
    for name, head in COEFFICIENTS.items():
        columns += [
            Column(head=head, text=partial(_value, name)),
            Column(head=f"{head} 95 %", text=partial(_ends, name)),
        ]
    return columns


def _alphas() -> list[Column]:
    return [
        Column(head="n", text=counted("n")),
        Column(head="clusters", text=counted("n_clusters")),
        Column(head="Krippendorff's α", text=partial(_value, "alpha")),
        Column(head="95 %", text=partial(_ends, "alpha")),
    ]


def _cells() -> list[Column]:
    given = {"both": "both right", "first_only": "first only", "second_only": "second only", "neither": "both wrong"}
    missing = {"only_first_missing": "first", "only_second_missing": "second", "both_missing": "both"}
    return [
        *(Column(head=head, text=counted(name)) for name, head in given.items()),
        Column(head="McNemar p", text=lambda row: p_value(row["mcnemar_p"])),
        *(Column(head=head, text=counted(name), over="no verdict by") for name, head in missing.items()),
        Column(head="no answer", text=counted("unanswered")),
    ]


def _sign_columns(rows: Sequence[Row]) -> tuple[Column, ...]:
    columns = names(rows, dataset=len({row["dataset"] for row in rows}) > 1, position=True)
    for name, over in (("first", rows[0]["first"]), ("second", rows[0]["second"]), ("apart", "first less second")):
        columns += [
            Column(head="Δ", text=partial(_difference, name), over=over),
            Column(head="95 %", text=partial(_difference_ends, name), over=over),
        ]
    return (*columns, Column(head="same sign", text=_same, align="l"), Column(head="n", text=counted("n")))


def _move_rows(counts: Sequence[Row]) -> list[Row]:
    """The 3x3 counts of every pair of judges, a line for what the first one saw."""
    return [
        {**row, "move": one, **{other: row[f"{one}_{other}"] for other in MOVES}} for row in counts for one in MOVES
    ]


def _move_columns() -> tuple[Column, ...]:
    who = (Column(head=head, text=partial(_text, head.lower()), align="l") for head in ("First", "Second"))
    seen = Column(head="under the first", text=partial(_text, "move"), align="l")
    return (*who, seen, *(Column(head=other, text=counted(other), over="under the second") for other in MOVES))


def _text(name: str, row: Row) -> str:
    return str(row[name])


def _scope(row: Row) -> str:
    return label("dataset", row["dataset"]) if row["dataset"] else "all"


def _share(name: str) -> Callable[[Row], str]:
    return lambda row: number(row[name])


def _value(name: str, row: Row) -> str:
    return number(row[name], decimals=2) if row[name] is not None else row[f"{name}_note"]


def _ends(name: str, row: Row) -> str:
    if row[name] is None:
        return NOTHING
    if row[f"{name}_low"] is None:
        return "not estimable"
    ends = ", ".join(number(row[f"{name}_{end}"], decimals=2) for end in ("low", "high"))
    return f"[{ends}]{DAGGER if _few(row) else ''}{DOUBLE if _flat(row, name) else ''}"


def marks(row: Row) -> tuple[bool, bool]:
    """Whether an interval of a row of gains, agreement or signs carries a dagger, and whether one has no width."""
    dagger = any(value for name, value in row.items() if name.endswith("dagger"))
    flat = any(value for name, value in row.items() if name.endswith("degenerate"))
    coefficients = [name for name in (*COEFFICIENTS, "alpha") if row.get(f"{name}_low") is not None]
    return dagger or (bool(coefficients) and _few(row)), flat or any(_flat(row, name) for name in coefficients)


def _few(row: Row) -> bool:
    return bool(row["n_clusters"] < DAGGER_BELOW)


def _flat(row: Row, name: str) -> bool:
    return bool(row[f"{name}_low"] == row[f"{name}_high"])


def _difference(name: str, row: Row) -> str:
    return number(row[f"{name}_difference"], signed=True)


def _difference_ends(name: str, row: Row) -> str:
    return interval(
        {
            "metric": "accuracy",
            **{part: row[f"{name}_{part}"] for part in ("difference", "low", "high", "dagger", "degenerate")},
        },
        "low",
        "high",
    )


def _same(row: Row) -> str:
    if row["same_sign"] is None:
        return NOTHING
    if row["same_sign"]:
        return "yes"
    return "opposite" if row["first_sign"] * row["second_sign"] < 0 else "one is zero"


def _odd(rows: Sequence[Row]) -> str:
    """What a reader must know of a value that is not one."""
    told = []
    if any(row["kappa"] is None and row["n"] for row in rows):
        told.append("κ is undefined where all verdicts of both judges are of one class.")
    if any(row["kappa"] is not None and _one_sided(row) for row in rows):
        told.append("κ is 0 where one of the two gives all answers one verdict, however often they agree.")
    return " ".join(told)


def _one_sided(row: Row) -> bool:
    return any(row["both"] + row[only] in (0, row["n"]) for only in ("first_only", "second_only"))
