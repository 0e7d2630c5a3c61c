"""A blind sheet for human labels: answers drawn by hash into a CSV file, and the labels read back with checks.

A sheet is made from blind items alone, so that no cell of it can name a method. Which answers are drawn, and in which
order, follows from hashes of the answers and the seed. A row's id holds its place, the sheet's length and the hash of
its answer, so that a row that went, came or changed is found.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from kvrelay.core.errors import ConfigError, DataError
from kvrelay.judging.blind import blind_item, blind_sheet
from kvrelay.judging.cells import LONGEST, read, same, shown
from kvrelay.judging.local import judge_facts
from kvrelay.judging.protocol import BlindItem
from kvrelay.run.record import JudgeFacts, RunRecord, Verdict, digest

SHEET = "sheet"
"""Stands for a judge in the keys of a sheet's items."""
FORM_VERSION = 1
TEXTS = ("question", "date", "type", "references", "candidate")
COLUMNS = ("id", *TEXTS, "correct", "comment")
LABELS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
SHOWN = 10
"""Faults that an error names; the rest is counted."""
_ID = re.compile(r"r(\d+)of(\d+)-([0-9a-f]{16})")

By = Literal["answers", "questions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """One row that somebody labelled, and a record of its answer."""

    record: RunRecord
    correct: bool
    comment: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """The items of a sheet in its order, and how many there were to draw from."""

    items: tuple[BlindItem, ...]
    available: int
    too_long: int
    """Items that no cell can hold: not drawn."""


def draw(records: Iterable[RunRecord], *, n: int, seed: int, by: By = "answers") -> Draw:
    """At most ``n`` distinct answers by hash, or with ``by="questions"`` whole questions, all answers to each.

    A gain needs both answers to a question, which a sample of single answers seldom holds. Multiple choice and texts
    for a checklist are left out: they are not called right or wrong by reading. Raises `ConfigError` for fewer than one
    row and `DataError` for nothing to label.
    """
    if n < 1:
        raise ConfigError(f"n = {n}: wanted at least one row (key: n)")
    items = [item for item in blind_sheet(records, SHEET).items if item.gold_choice is None and not item.checklist]
    fit = [item for item in items if all(len(cell) <= LONGEST for cell in row(item))]
    if not fit:
        raise DataError("the run holds no answer that a person could label (key: run)")
    of_question = {item.key: _hash(f"{seed}:draw:{item.question}\0{item.question_date}") for item in fit}
    own = {item.key: _hash(f"{seed}:draw:{item.key}") for item in fit}
    if by == "answers":
        drawn = sorted(fit, key=lambda item: own[item.key])[:n]
    else:
        drawn = _whole_questions(sorted(fit, key=lambda item: of_question[item.key]), of_question, n)
    ordered = sorted(drawn, key=lambda item: _hash(f"{seed}:order:{item.key}"))
    return Draw(items=tuple(ordered), available=len(items), too_long=len(items) - len(fit))


def _whole_questions(items: Sequence[BlindItem], of_question: Mapping[str, str], n: int) -> list[BlindItem]:
    """The first questions whose answers are together at most ``n``."""
    drawn: list[BlindItem] = []
    for _, group in groupby(items, key=lambda item: of_question[item.key]):
        answers = list(group)
        if len(drawn) + len(answers) > n:
            break
        drawn += answers
    if not drawn:
        raise ConfigError(f"n = {n} is less than the answers to the first question that was drawn (keys: n, by)")
    return drawn


def row(item: BlindItem) -> list[str]:
    """What a labeller sees of an item, as cells in the order of `TEXTS`."""
    several = len(item.references) > 1
    references = [f"({i}) {text}" if several else text for i, text in enumerate(item.references, start=1)]
    texts = (item.question, item.question_date or "", item.question_type, "\n".join(references), item.candidate)
    return [shown(text) for text in texts]


def as_csv(items: Sequence[BlindItem]) -> bytes:
    """The file: UTF-8 with the mark by which spreadsheet programs know it, commas, lines that end in CR LF."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    width = len(str(len(items)))
    for place, item in enumerate(items, start=1):
        name = f"r{place:0{width}}of{len(items)}-{_short(item)}"
        writer.writerow([name, *row(item), "", ""])
    return out.getvalue().encode("utf-8-sig")


def labels(data: bytes, records: Iterable[RunRecord]) -> list[Label]:
    """The labels of a sheet that came back; rows without one are left out.

    Raises `DataError` that names, each with its line, ids that are unknown or doubled, texts that were changed, labels
    that are none, and the places of rows that are missing.
    """
    lines = list(_lines(data))
    answered = (record for record in records if record.status == "ok" and record.answer is not None)
    known = {_short(blind_item(record, SHEET)): record for record in answered}
    faults = [*_wrong_rows(lines, known), *_wrong_places(lines)]
    if faults:
        more = f"; and {len(faults) - SHOWN} more" if len(faults) > SHOWN else ""
        raise DataError(f"the sheet does not fit the run: {'; '.join(faults[:SHOWN])}{more} (keys: sheet, run)")
    return [
        Label(record=known[_parts(cells["id"])[2]], correct=LABELS[said], comment=read(cells["comment"]))
        for _, cells in lines
        if (said := cells["correct"].strip().casefold())
    ]


def verdicts(found: Sequence[Label], labeller: str) -> tuple[JudgeFacts, list[Verdict]]:
    """The judge that a labeller is, and its verdicts. Other labels, also corrected ones, are another identity.

    Raises `ConfigError` for a labeller that no file can be named after, and `DataError` without a label.
    """
    if not re.fullmatch(r"[A-Za-z0-9-]{0,40}", labeller):
        raise ConfigError(f"labeller = {labeller!r}: wanted at most 40 letters, digits and hyphens (key: labeller)")
    if not found:
        raise DataError("the sheet has no label: its column correct is empty (key: sheet)")
    said = sorted((blind_item(label.record, SHEET).key, label.correct) for label in found)
    identity = {"kind": "human", "labeller": labeller, "form": FORM_VERSION, "labels": len(said)}
    name = f"human_{labeller}" if labeller else "human"
    facts = judge_facts(name, {**identity, "sheet_sha256": digest(said)})
    given = [
        Verdict(
            judge_id=facts.id,
            item_key=blind_item(label.record, facts.id).key,
            correct=label.correct,
            raw=label.comment,
        )
        for label in found
    ]
    return facts, given


Line = tuple[int, Mapping[str, str]]
"""Number of a row's first line in the file, and its cells by column."""


def _lines(data: bytes) -> Iterator[Line]:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"the sheet is not UTF-8 ({error}); save it as CSV UTF-8 (key: sheet)") from None
    first = text.partition("\n")[0]
    delimiter = max(",;\t", key=first.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        if missing := [name for name in COLUMNS if name not in header]:
            raise DataError(f"line 1 lacks the columns {', '.join(missing)}; wanted {', '.join(COLUMNS)} (key: sheet)")
        if double := sorted(name for name, n in Counter(header).items() if name and n > 1):
            raise DataError(f"line 1 has the column {double[0]} more than once; wanted each once (key: sheet)")
        line = reader.line_num + 1
        for cells in reader:
            if any(cells):
                yield line, dict(zip(header, [*cells, *[""] * len(header)], strict=False))
            line = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"line {reader.line_num} of the sheet is no CSV: {error} (key: sheet)") from None


def _wrong_rows(lines: Sequence[Line], known: Mapping[str, RunRecord]) -> Iterator[str]:
    first: dict[str, int] = {}
    for line, cells in lines:
        name = cells["id"]
        record = known.get(_parts(name)[2])
        if record is None:
            yield f"line {line}: id {name!r} is unknown"
            continue
        if name in first:
            yield f"line {line}: id {name!r} stands on line {first[name]} too"
        first.setdefault(name, line)
        texts = zip(TEXTS, row(blind_item(record, SHEET)), strict=True)
        if changed := [column for column, cell in texts if not same(cells[column], cell)]:
            yield f"line {line}: {', '.join(changed)} was changed (id {name!r})"
        said = cells["correct"].strip().casefold()
        if said and said not in LABELS:
            yield f"line {line}: correct = {cells['correct']!r}; wanted {', '.join(LABELS)} or nothing"


def _wrong_places(lines: Sequence[Line]) -> Iterator[str]:
    """Places that no row has: a row that was deleted is told, one that nobody labelled is left empty."""
    places = [_parts(cells["id"])[:2] for _, cells in lines]
    sizes = Counter(size for _, size in places if size)
    if not sizes:
        yield "it has no rows"
    if len(sizes) > 1:
        yield f"its rows come from sheets of {' and '.join(map(str, sorted(sizes)))} rows"
    for size in sizes if len(sizes) == 1 else ():
        lacking = sorted(set(range(1, size + 1)) - {place for place, _ in places})
        if lacking:
            told = ", ".join(map(str, lacking[:SHOWN])) + (" …" if len(lacking) > SHOWN else "")
            yield f"{len(lacking)} of its {size} rows are missing: {told} (an answer without a label is left empty)"


def _parts(name: str) -> tuple[int, int, str]:
    """Place, length of the sheet and hash of an id; zeros and nothing where it is none."""
    found = _ID.fullmatch(name.strip())
    return (int(found[1]), int(found[2]), found[3]) if found else (0, 0, "")


def _short(item: BlindItem) -> str:
    return item.key[:16]


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
