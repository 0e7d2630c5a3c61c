"""An explained number as lines to read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvrelay.report.explain.pairs import Explained, Pair, Side
from kvrelay.report.explain.terminal import shortened
from kvrelay.report.text import number
from kvrelay.run.record import Verdict
from kvrelay.stats.frame import cell_label

RIGHT = {True: "right", False: "wrong"}


def heading(found: Explained) -> Iterator[str]:
    """Whose number it is."""
    asked = found.asked
    minus = f", minus {cell_label(asked.base.iloc[0])}" if asked.base is not None else ""
    under = f", under {asked.judge}" if asked.judge else ""
    yield f"{asked.metric.name}, {asked.column}{under}: {cell_label(asked.rows.iloc[0])}{minus}"


def pair_lines(found: Explained, pair: Pair, most: int) -> Iterator[str]:
    """One example: what was asked, what each side said, and who judged it how."""
    paired = found.asked.base is not None
    same = "unchanged" if paired else "counted"
    change = found.change(pair) or (same if pair.counted else "not counted")
    kind = str(pair.sides[-1].row["question_type"])
    told = [f"example {pair.example_id}", f"cluster {pair.cluster or 'unknown'}", kind, change]
    term = f" ({_signed(pair.term)})" if paired and pair.counted else ""
    yield ", ".join(part for part in told if part) + term
    known = next((side.record for side in pair.sides if side.record is not None), None)
    if known is not None:
        yield f"  question   {shortened(known.question, most)}"
        yield f"  reference  {shortened(' | '.join(known.references) or 'none', most)}"
    for side in pair.sides:
        yield from _side_lines(found, side, most)


def _side_lines(found: Explained, side: Side, most: int) -> Iterator[str]:
    arm = " · ".join(str(side.row[name]) for name in found.asked.arms if side.row[name])
    value = _value(found, side)
    yield f"  {arm}: {value}"
    record = side.record
    if record is None:
        yield f"    no record; expected key {side.row['key']}"
        return
    if record.error is not None:
        yield f"    error      {record.error.kind}: {shortened(record.error.message, most)}"
    if record.answer is not None:
        yield f"    answer     {shortened(record.answer, most)}"
        yield f"    ended      {record.stop or 'by choice of a reply'}, {record.answer_tokens} tokens"
    yield f"    record     {record.key}  {side.place or 'in a merged file'}"
    for verdict, place in side.verdicts:
        yield f"    verdict    {_verdict(verdict)}"
        yield f"               {verdict.item_key}  {place or 'in a merged file'}"


def _value(found: Explained, side: Side) -> str:
    if side.value is None:
        why = f" ({side.row['reason']})" if side.row["reason"] else ""
        return f"no {found.asked.metric.name}, {side.row['status']}{why}"
    if found.asked.metric.binary:
        return RIGHT[bool(side.value)]
    return f"{found.asked.metric.column} {side.value:.6g}"


def _verdict(verdict: Verdict) -> str:
    outcome = "unscored" if verdict.correct is None else RIGHT[verdict.correct]
    reason = f" ({verdict.reason})" if verdict.reason else ""
    scores = "".join(f" {name}={value:g}" for name, value in sorted(verdict.scores.items()))
    return f"{verdict.judge_id}: {outcome}{reason}, parse {verdict.parse}{scores}"


def sum_lines(found: Explained, shown: int) -> Iterator[str]:
    """The sum that gives the number."""
    asked, counted = found.asked, found.counted
    what = "pairs" if asked.base is not None else "answers"
    if shown < len(found.pairs):
        yield f"{shown} of {len(found.pairs)} examples are shown; the sum is over all."
    left = len(found.pairs) - len(counted)
    gone = f"; {left} without the measure are not counted" if left else ""
    if found.number is None:
        yield f"No number: none of {len(found.pairs)} {what} has the measure."
        return
    if asked.base is not None and asked.metric.binary:
        moves = [found.change(pair) for pair in counted]
        yield f"{moves.count('repaired')} repaired - {moves.count('regressed')} regressed = {_signed(found.total)}"
    yield from _cluster_lines(counted)
    scale = "" if asked.metric.scale == 1.0 else f" x {asked.metric.scale:g}"
    unit = asked.metric.unit if asked.base is not None or asked.metric.unit != "pp" else "%"
    exact = f"{found.number:.12g}"
    yield f"Sum {found.total:.12g} over {len(counted)} {what}{scale} = {exact} {unit}{gone}"
    if asked.base is not None:
        sides = [sum(pair.sides[i].value or 0.0 for pair in counted) / len(counted) for i in (0, 1)]
        before, after = (number(mean * asked.metric.scale, decimals=3) for mean in sides)
        yield f"Means over these pairs: {before} to {after}"


def _cluster_lines(counted: Sequence[Pair]) -> Iterator[str]:
    """Sums and counts of the clusters, which the bootstrap draws."""
    clusters: dict[str, list[float]] = {}
    for pair in counted:
        clusters.setdefault(pair.cluster, []).append(pair.term)
    told = [f"{name} {sum(terms):.6g}/{len(terms)}" for name, terms in sorted(clusters.items())]
    shown = ", ".join(told[:20]) + (f", and {len(told) - 20} more" if len(told) > 20 else "")
    yield f"By cluster, sum/count: {shown}"


def _signed(value: float) -> str:
    return f"{value:+.6g}" if value else "0"
