"""Gold canaries: items of our own whose verdicts are known, which a judge must get right before it is believed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kvrelay.core.errors import EndpointError
from kvrelay.judging.protocol import BlindItem, SettledJudge
from kvrelay.judging.stage import begun
from kvrelay.run.record import GoldFacts, JudgeFacts, digest

FILE = Path(__file__).with_name("gold.json")
OTHER_KINDS = frozenset({"no_checklist", "no_reference", "rubric", "choice"})
"""Reasons of judges that score something else than right and wrong answers to questions."""
SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldItem:
    """A question, its references, an answer to it, and whether that answer is right."""

    name: str
    question: str
    references: tuple[str, ...]
    candidate: str
    question_type: str
    correct: bool
    question_date: str | None = None
    unanswerable: bool = False

    def blind(self, judge_id: str) -> BlindItem:
        """The item as a judge sees any other. Its key is of a kind that no record has, so that none can join it."""
        return BlindItem(
            key=digest({"judge": judge_id, "gold": self.name}),
            question=self.question,
            references=self.references,
            candidate=self.candidate,
            question_type=self.question_type,
            question_date=self.question_date,
            unanswerable=self.unanswerable,
        )


@cache
def gold_items() -> tuple[GoldItem, ...]:
    """The items of the package, in the order of their file."""
    plain = json.loads(FILE.read_text(encoding="utf-8"))
    return tuple(GoldItem(**{**item, "references": tuple(item["references"])}) for item in plain)


def gold_sha256() -> str:
    """Hash of the file: a changed item is another test."""
    return digest(json.loads(FILE.read_text(encoding="utf-8")))


def needs_gold(facts: JudgeFacts) -> bool:
    """Whether a judge reads a template. Rules are what they are, and have tests instead."""
    return bool(facts.template_sha256)


def ask_gold(judge: SettledJudge, threshold: int | None) -> GoldFacts | None:
    """Ask the judge about every item, on the path that all items take; no verdict is kept.

    None for a judge that says of every item that it scores something else (a checklist's grades). Raises
    `EndpointError` where the server is away, or leaves an item without any reply.
    """
    items = {item.blind(judge.facts.id).key: item for item in gold_items()}
    with begun(judge, [item.blind(judge.facts.id) for item in items.values()]) as verdicts:
        given = {verdict.item_key: verdict for verdict in verdicts}
    if given and all(verdict.reason in OTHER_KINDS for verdict in given.values()):
        return None
    replied = {key for key, verdict in given.items() if verdict.is_final}
    silent = [item.name for key, item in items.items() if key not in replied]
    if silent:
        raise EndpointError(
            f"judge {judge.facts.name}: {len(silent)} of {len(items)} gold items got no reply: "
            f"{', '.join(silent[:SHOWN])}. Nothing was judged: see to the server (judge.{judge.facts.name}.base_url)"
        )
    failed = [item.name for key, item in items.items() if given[key].correct is not item.correct]
    return GoldFacts(
        sha256=gold_sha256(),
        asked=len(items),
        right=len(items) - len(failed),
        threshold=threshold or 0,
        failed=failed,
    )


def is_met(gold: GoldFacts | None, threshold: int | None) -> bool:
    """Whether what is on file is of today's items and reaches the threshold that is asked for now."""
    return gold is not None and gold.sha256 == gold_sha256() and gold.right >= (threshold or 0)


def blocked(facts: JudgeFacts, gold: GoldFacts, path: Path) -> EndpointError:
    """What a user is told of a judge that fails."""
    more = f" and {len(gold.failed) - SHOWN} more" if len(gold.failed) > SHOWN else ""
    return EndpointError(
        f"judge {facts.name} ({facts.id}) got {gold.right} of {gold.asked} gold items right, wanted {gold.threshold}; "
        f"wrong or without a verdict: {', '.join(gold.failed[:SHOWN])}{more} ({path}). No answer was judged. See which "
        f"model and chat template the server runs (judge.{facts.name}.base_url, .model, .constraint), or lower the "
        "threshold (key: gold_threshold; null only reports the number and stamps every table)"
    )
