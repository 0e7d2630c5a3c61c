"""Judging a run's folder: settle the judges, record who they are, hold them to the gold items, judge what is left."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kvrelay.core.errors import ConfigError, EndpointError
from kvrelay.judging.audit import audit
from kvrelay.judging.blind import blind_sheet
from kvrelay.judging.gold import ask_gold, blocked, gold_items, is_met, needs_gold
from kvrelay.judging.protocol import Judge, SettledJudge
from kvrelay.judging.stage import Counts, Tally, judge_records, states
from kvrelay.judging.summary import after, before
from kvrelay.run.progress import Progress
from kvrelay.run.record import RETRIED_REASONS, RunRecord
from kvrelay.run.store import (
    in_order,
    judge_file,
    read_judges,
    read_plans,
    read_records,
    read_verdicts,
    verdict_appender,
    write_atomic,
    write_judge,
)

Say = Callable[[str], None]
REFUSED = Path("judges") / "refused"
"""Below the experiment's folder: facts of judges that failed the gold items, for people to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgingSettings:
    """``gold_threshold``: so many gold items a judge must get right before it judges; None only reports the number.

    ``rejudge``: afterwards, ask again about this share of the judged items, drawn by their hashes, and report how many
    verdicts flip.
    """

    gold_threshold: int | None = 18
    rejudge: float | None = None

    def __post_init__(self) -> None:
        most = len(gold_items())
        if self.gold_threshold is not None and not 0 <= self.gold_threshold <= most:
            raise ConfigError(
                f"gold_threshold = {self.gold_threshold}: wanted 0 to {most}, the number of gold items, or null to "
                "report only (key: gold_threshold)"
            )
        if self.rejudge is not None and not 0 < self.rejudge <= 1:
            raise ConfigError(
                f"rejudge = {self.rejudge}: wanted a share of the items above 0 and up to 1, or null (key: rejudge)"
            )


def settle(judges: Mapping[str, Judge]) -> dict[str, SettledJudge]:
    """Complete every judge's identity, before anything costs time. Raises `EndpointError` that names each judge whose
    server is away."""
    settled, away = settle_each(judges)
    if away:
        raise EndpointError("; ".join(away))
    return settled


def settle_each(judges: Mapping[str, Judge]) -> tuple[dict[str, SettledJudge], list[str]]:
    """The judges that can begin, and what kept each of the others, by name, from it."""
    settled: dict[str, SettledJudge] = {}
    away: list[str] = []
    for name, judge in judges.items():
        try:
            settled[name] = judge.settled(name)
        except EndpointError as error:
            away.append(f"{name}: {error}")
    return settled, away


def admit(folder: Path, judge: SettledJudge, settings: JudgingSettings, say: Say) -> None:
    """Write who judges, once it has passed the gold items where it reads a template.

    They are asked again where the count on file is below the threshold, or where the server answers under a system
    fingerprint that has not passed them. What is on file holds the threshold of now, and every fingerprint so far.
    Raises `EndpointError` for a judge below the threshold. Its facts go to `REFUSED`, so that a name's newest identity
    is always one that may judge.
    """
    kept = next((facts for facts in read_judges(folder) if facts.id == judge.facts.id), None)
    seen = kept.fingerprints if kept is not None else ()
    gold = kept.gold if kept is not None else None
    is_new = not set(judge.facts.fingerprints) <= set(seen)
    if needs_gold(judge.facts) and (is_new or not is_met(gold, settings.gold_threshold)):
        gold = ask_gold(judge, settings.gold_threshold)
    if gold is not None:
        gold = gold.model_copy(update={"threshold": settings.gold_threshold or 0})
    so_far = tuple(dict.fromkeys([*seen, *judge.facts.fingerprints]))
    facts = judge.facts.model_copy(update={"gold": gold, "fingerprints": so_far})
    if gold is not None:
        say(f"{facts.name}: {gold.right} of {gold.asked} gold items right ({facts.id})")
    if gold is not None and not is_met(gold, settings.gold_threshold):
        path = judge_file(folder / REFUSED, facts.id)
        write_atomic(path, facts.model_dump_json(indent=2) + "\n")
        raise blocked(facts, gold, path)
    write_judge(folder, in_order(folder, facts))


def judge_folder(
    folder: Path,
    judges: Mapping[str, SettledJudge],
    settings: JudgingSettings,
    say: Say,
    *,
    command: str = "the same command",
    away: Sequence[str] = (),
) -> dict[str, Counts]:
    """Judge every distinct answer of the folder's runs that has no final verdict of each judge's identity yet.

    Verdicts are appended as they come, so that a stop at any moment loses none. A judge whose server gives out, or was
    ``away`` (see `settle_each`), does not keep the others from judging; then `EndpointError` is raised at the end, and
    ``command`` is what resumes.
    """
    records = planned_records(folder)
    done: dict[str, Counts] = {}
    failed = list(away)
    for name, judge in judges.items():
        try:
            admit(folder, judge, settings, say)
            done[name] = _judge(folder, records, judge, say)
            if settings.rejudge is not None:
                say(audit(folder, judge, blind_sheet(records, judge.facts.id).items, settings.rejudge))
        except EndpointError as error:
            failed.append(f"{name}: {error}")
    if failed:
        raise EndpointError(f"{'; '.join(failed)}. What was judged is kept; judge the rest with: {command}")
    return done


def planned_records(folder: Path) -> list[RunRecord]:
    """Records that some plan of the folder expects."""
    planned = {key for plan in read_plans(folder) for cell in plan.cells for key in cell.keys}
    return [record for key, record in read_records(folder).items() if key in planned]


def _judge(folder: Path, records: list[RunRecord], judge: SettledJudge, say: Say) -> Counts:
    name, identity = judge.facts.name, judge.facts.id
    sheet = blind_sheet(records, identity)
    final = {key for key, verdict in read_verdicts(folder).items() if verdict.is_final}
    known = final & {item.key for item in sheet.items}
    say(f"{name}: {before(sheet, len(known))} ({identity})")
    progress = Progress(len(sheet.items) - len(known), f"items by {name}")
    tally = Tally()
    try:
        with verdict_appender(folder, identity) as appender:
            return judge_records(
                records, judge, known, appender.append, lambda *_: progress.advance(detail=judge.pace()), tally
            )
    finally:
        progress.close()
        # read again: another process may have judged here too, and the report will see what both have left
        found = states(sheet.items, read_verdicts(folder))
        say(f"{name}: {after(found, tally, progress.elapsed_s)}")
        if again := sum(found.get(reason, 0) for reason in RETRIED_REASONS):
            say(f"{name}: {again:,} items got no reply; the same command asks about them again")
