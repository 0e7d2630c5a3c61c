"""Which form a server really holds its replies to: asked for something else, one that ignores the form gives it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from judges.asking import LADDER, Asking, Constraint
from judges.job import Exchange
from judges.prompt import mend
from judges.reply import Rule, read_reply
from judges.said import Said
from kvrelay.core.errors import EndpointError

CANARY = (
    {"role": "user", "content": "Reply with the single word banana. Write nothing before it and nothing after it."},
)
"""No word of verdicts, JSON or correctness: a reply in form can only come from the constraint."""

Found = Literal["enforced", "ignored", "refused", "truncated", "empty", "free"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One constraint tried on one server. ``free``: nothing was demanded, and there was a reply."""

    constraint: Constraint
    found: Found
    said: Said | None
    words: str

    def told(self) -> dict[str, Any]:
        """For the record."""
        model, fingerprint = (self.said.model, self.said.fingerprint) if self.said else (None, None)
        return {
            "constraint": self.constraint,
            "found": self.found,
            "words": mend(self.words),
            "model": model,
            "system_fingerprint": fingerprint,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """Finds the constraint of a run. ``ask`` sends one body; ``rules`` are those by which verdicts will be read."""

    asking: Asking
    rules: tuple[Rule, ...]
    ask: Callable[[dict[str, Any]], Exchange]

    def climb(self, wanted: Constraint | Literal["auto"]) -> tuple[Constraint, list[Probe]]:
        """The constraint to freeze, and what was found on the way to it.

        ``auto`` takes the strongest that is enforced. Raises `EndpointError` where one that was asked for is not, with
        the strongest that is; and where the server gives no reply at all.
        """
        if wanted == "auto":
            probes = list(self._until_held(LADDER))
            return probes[-1].constraint, probes
        probe = self.probe(wanted)
        if probe.found in ("enforced", "free"):
            return wanted, [probe]
        held = [*self._until_held(tuple(rung for rung in LADDER if rung != wanted))][-1].constraint
        raise EndpointError(
            f"judge's server does not hold replies to judge.*.constraint={wanted} ({probe.found}: "
            f"{probe.words[:200]}); it holds them to {held}: set judge.*.constraint={held}, or auto"
        )

    def probe(self, constraint: Constraint) -> Probe:
        """Raises `EndpointError` where there is neither a reply nor a refusal."""
        exchange = self.ask(self.asking.body(CANARY, constraint))
        said = exchange.said
        if exchange.reason in ("rejected", "too_long") and constraint != "none":
            return Probe(constraint=constraint, found="refused", said=None, words=exchange.detail)
        if said is None:
            raise EndpointError(
                f"judge's server gave no reply to a first question (judge.*.constraint={constraint}): "
                f"{exchange.detail}; mend the server, or change judge.*.api or judge.*.constraint"
            )
        return Probe(constraint=constraint, found=self._found(constraint, said), said=said, words=said.text[:200])

    def _until_held(self, rungs: tuple[Constraint, ...]) -> Iterator[Probe]:
        for rung in rungs:
            probe = self.probe(rung)
            yield probe
            if probe.found in ("enforced", "free"):
                return

    def _found(self, constraint: Constraint, said: Said) -> Found:
        if constraint == "none":
            return "free"
        reply = read_reply(said, self.rules)
        if reply.reason in ("truncated", "empty"):
            return "truncated" if reply.reason == "truncated" else "empty"
        if constraint == "json_object":
            return "enforced" if _is_object(said.text) else "ignored"
        return "enforced" if reply.correct is not None and "fence" not in reply.parse else "ignored"


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
