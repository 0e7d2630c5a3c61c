"""What one record and its verdicts say, as columns of the tidy table."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from kvrelay.core.errors import DataError
from kvrelay.run.record import SCORED, RepairFacts, RunRecord, Verdict

STAGES = ["prefill_s", "select_s", "relocate_s", "question_s", "decode_s"]
RECOVERY = ["allocate_s", "relocate_s", "refresh_s", "question_s", "decode_s"]
"""Stages of an answer after a deletion: selection, shift, refresh or re-prefill, question, decoding."""
SCORES = ["f1", "em", "official", "sound"]
"""Shares that judges may give beside a verdict; the last two are the rules for multiple choice."""
GRADES = {"quality": 1.0, "factuality": 1.0, "coverage": 1.0, "helloeval": 100.0}
"""Scores of a checklist, each from 0 to this; their judge alone gives them."""
RESCALED = "helloeval_rescaled"
"""(score - 75) * 4: what the others are to 100, this is to -300 … 100."""
ITEMS = "items"
"""Column of a checklist's grades, a tuple in its order; empty where there are none."""
COUNTS = ["requested", "refreshed", "bridged", "n_suffix", "splice", "n_intervals"]
WORK = ["token_layer_updates", "causal_pairs", "replay_pairs"]
TIMES = list(dict.fromkeys([*STAGES, *RECOVERY]))
_SAID = ["answer_tokens", "answer_words", "batch_rows", "peak_memory_bytes"]
NUMBERS = [*SCORES, *GRADES, RESCALED, "nll", "loglik", "kl", *_SAID, *TIMES, *COUNTS, *WORK]
OUTCOMES = ["correct", "choice_correct", "leaked", "diagnostic"]


def outcome(verdict: Verdict | None) -> dict[str, Any]:
    """Status, its reason, and whether the answer is right."""
    if verdict is None:
        return {"status": "unjudged", "reason": "no verdict"}
    if verdict.correct is None and verdict.reason == SCORED:
        return {"status": "scored", "reason": "", **_grades(verdict)}
    if verdict.correct is None:
        return {"status": "unscored", "reason": verdict.reason or "no reason given"}
    return {"status": "scored", "reason": "", "correct": verdict.correct}


def _grades(verdict: Verdict) -> dict[str, Any]:
    """A checklist's scores, those that its judge gave. Raises `DataError` for one that is out of its range."""
    scores = verdict.scores
    ranges = {name: (0.0, most) for name, most in GRADES.items()} | {RESCALED: (-300.0, 100.0)}
    items = {int(name.removeprefix("item_")): (name, value) for name, value in scores.items() if name[:5] == "item_"}
    for name, value in [*items.values(), *((name, scores[name]) for name in ranges if name in scores)]:
        low, high = ranges.get(name, (0.0, 1.0))
        if not low <= value <= high:
            raise DataError(f"report: {verdict.judge_id} gives {name}={value}; wanted {low:g} to {high:g}")
    told = {name: scores[name] for name in ranges if name in scores}
    return {**told, ITEMS: tuple(items[number][1] for number in sorted(items))}


def measures(record: RunRecord, verdicts: Mapping[str, Verdict]) -> dict[str, Any]:
    """Numbers of an answer. Raises `DataError` for a score outside 0 … 1."""
    nll = record.reference_nll
    return {
        **{name: _score(record, verdicts, name) for name in SCORES},
        "nll": nll,
        "loglik": None if nll is None else -nll,
        "choice_correct": _choice(record),
        "leaked": _leaked(record),
        "answer_tokens": record.answer_tokens,
        "answer_words": None if record.answer is None else len(record.answer.split()),
        "peak_memory_bytes": record.peak_memory_bytes,
        **record.timings.model_dump(include=set(TIMES)),
        **(_repair(record.repair) if record.repair else {}),
    }


def _repair(facts: RepairFacts) -> dict[str, Any]:
    counts = facts.model_dump(include={*COUNTS, *WORK, "kl", "diagnostic"})
    return counts | {"n_intervals": len(facts.interval_lengths), "edited": facts.edited_sha256}


def _score(record: RunRecord, verdicts: Mapping[str, Verdict], name: str) -> float | None:
    """A share that one of the judges gave; the first one's, where several did."""
    for verdict in verdicts.values():
        if name in verdict.scores:
            value = verdict.scores[name]
            if not 0.0 <= value <= 1.0:
                raise DataError(f"report: {verdict.judge_id} gives {record.key[:12]} {name}={value}; wanted 0 to 1")
            return value
    return None


def _choice(record: RunRecord) -> bool | None:
    """Whether the gold letter has the highest log-probability; on a tie the first letter of the alphabet counts."""
    options = record.choice_logprobs
    if not options or record.gold_choice is None or any(math.isnan(value) for value in options.values()):
        return None
    return min(options, key=lambda label: (-options[label], label)) == record.gold_choice


def _leaked(record: RunRecord) -> bool | None:
    """Whether the value that was deleted stands in the answer, by itself and not as a part of a longer one."""
    erased = record.notes.get("erased_value")
    if erased in (None, "") or record.answer is None:
        return None
    return re.search(rf"(?<!\w){re.escape(_plain(str(erased)))}(?!\w)", _plain(record.answer)) is not None


def _plain(text: str) -> str:
    """Folded case, one space for any white space, and no commas inside numbers."""
    return re.sub(r"(?<=\d),(?=\d{3})", "", " ".join(text.casefold().split()))
