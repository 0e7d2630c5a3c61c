"""Is a judge of one mind? A share of the judged items is asked about again; the verdicts on file stay as they are."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kvrelay.judging.protocol import BlindItem, SettledJudge
from kvrelay.judging.stage import begun, state
from kvrelay.run.record import Verdict
from kvrelay.run.store import read_verdicts, write_atomic

FOLDER = Path("judges") / "audits"
"""Below the experiment's folder, beside the facts of the judges."""


def drawn(items: Iterable[BlindItem], share: float) -> tuple[BlindItem, ...]:
    """The items whose hash falls into the first ``share`` of all hashes: the same ones whoever draws, and when."""
    limit = int(share * 2**64)
    return tuple(item for item in items if _draw(item.key) < limit)


def audit(folder: Path, judge: SettledJudge, items: Sequence[BlindItem], share: float) -> str:
    """Ask again about a share of the items that were judged; write the outcome, and say it in a line.

    The rate is over the items that got a verdict both times; of a checklist, another grade is a flip. Raises
    `EndpointError` where the judge does.
    """
    on_file = read_verdicts(folder)
    judged = [item for item in items if item.key in on_file and on_file[item.key].is_scored]
    asked = drawn(judged, share)
    with begun(judge, asked) as verdicts:
        again = {verdict.item_key: verdict for verdict in verdicts}
    found = _compared({item.key: on_file[item.key] for item in asked}, again)
    path = folder / FOLDER / f"{judge.facts.id}.json"
    now = datetime.now(UTC).isoformat(timespec="seconds")
    value = {"judge": judge.facts.name, "id": judge.facts.id, "created": now, "share": share, **found}
    write_atomic(path, json.dumps(value, indent=1) + "\n")
    rate = "no rate" if found["flip_rate"] is None else f"{100.0 * found['flip_rate']:.1f} %"
    return (
        f"{judge.facts.name}: asked again about {found['asked']} of {len(judged)} judged items, {found['compared']} "
        f"got a verdict again, {len(found['flipped'])} flipped ({rate}); {path}"
    )


def _compared(first: dict[str, Verdict], again: dict[str, Verdict]) -> dict[str, Any]:
    both = [key for key in sorted(first) if key in again and again[key].is_scored]
    flipped = [key for key in both if _said(again[key]) != _said(first[key])]
    lost = {key: state(again.get(key)) for key in sorted(first.keys() - set(both))}
    return {
        "asked": len(first),
        "compared": len(both),
        "flipped": flipped,
        "flip_rate": len(flipped) / len(both) if both else None,
        "without_a_verdict_again": lost,
    }


def _said(verdict: Verdict) -> tuple[bool | None, dict[str, float]]:
    return verdict.correct, verdict.scores if verdict.correct is None else {}


def _draw(key: str) -> int:
    return int.from_bytes(hashlib.sha256(b"audit:" + key.encode()).digest()[:8])
