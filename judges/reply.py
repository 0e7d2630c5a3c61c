"""Reading a judge's reply: strictly, then by declared rules, and never taking what cannot be read for a verdict."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from judges.said import Said

PARSER_VERSION = 3
"""Part of every judge's id: a changed reading is a changed judge."""

Rule = Literal["fence", "after_reasoning", "reasoning"]

RULES: dict[Rule, str] = {
    "fence": "one code fence around the whole text",
    "after_reasoning": "what follows the last mark that ends a model's reasoning",
    "reasoning": "a verdict that is all of the reasoning, where there is no text: servers that misroute it",
}
"""What a configuration may declare beyond the strict form; each use is recorded."""

_FENCE = re.compile(r"```(?:json)?[ \t]*\n(?P<inside>(?:(?!```).)*?)\n?```", re.DOTALL)
_REASONING_ENDS = ("</think>", "<|channel|>final<|message|>")
_TURN_ENDS = ("<|return|>", "<|end|>")
"""Harmony's, where a server leaves them in the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a reply says: a verdict, or the reason why there is none."""

    correct: bool | None = None
    reason: str = ""
    parse: str = "none"
    """``strict``, ``lenient:`` and the rules used, ``failed``, or ``none`` where there was no text to parse."""
    text: str = ""
    usage: dict[str, Any] = field(default_factory=dict)


class _Pairs(tuple[tuple[str, object], ...]):
    """A JSON object with its duplicate keys still visible."""


def read_reply(said: Said, rules: Sequence[Rule]) -> Reply:
    """Read what a server said. Nothing is raised.

    Reasons: ``refused``, ``truncated`` (the server cut the reply, so even a verdict in it is not the whole reply),
    ``empty``, ``malformed``.
    """
    if said.refusal:
        return Reply(reason="refused", text=said.text or said.refusal, usage=said.usage)
    if said.truncated:
        return Reply(reason="truncated", text=said.text, usage=said.usage)
    if not said.text.strip():
        return _misrouted(said, rules)
    correct, parse = parse_verdict(said.text, rules)
    reason = "malformed" if correct is None else ""
    return Reply(correct=correct, reason=reason, parse=parse, text=said.text, usage=said.usage)


def parse_verdict(text: str, rules: Sequence[Rule] = ()) -> tuple[bool | None, str]:
    """The boolean of ``{"correct": …}`` and how it was found: ``strict``, ``lenient:RULE+RULE`` or ``failed``.

    Strict: the whole text is one JSON object with the one key ``correct``, once, and true or false under it.
    """
    correct = _strict(text)
    if correct is not None:
        return correct, "strict"
    used = []
    if "after_reasoning" in rules and (answer := _after_reasoning(text)) is not None:
        text = answer
        used.append("after_reasoning")
    if "fence" in rules and (fenced := _FENCE.fullmatch(text.strip())):
        text = fenced["inside"]
        used.append("fence")
    correct = _strict(text) if used else None
    return correct, "failed" if correct is None else f"lenient:{'+'.join(used)}"


def _misrouted(said: Said, rules: Sequence[Rule]) -> Reply:
    correct = _strict(said.reasoning) if "reasoning" in rules else None
    if correct is None:
        return Reply(reason="empty", usage=said.usage)
    return Reply(correct=correct, parse="lenient:reasoning", text=said.reasoning, usage=said.usage)


def _after_reasoning(text: str) -> str | None:
    """What stands after the last mark; None where there is no mark."""
    ends = [(text.rfind(mark), mark) for mark in _REASONING_ENDS]
    at, mark = max(ends)
    if at < 0:
        return None
    answer = text[at + len(mark) :].strip()
    for end in _TURN_ENDS:
        answer = answer.removesuffix(end)
    return answer


def _strict(text: str) -> bool | None:
    try:
        value = json.loads(text, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, _Pairs) or len(value) != 1:
        return None
    key, correct = value[0]
    return correct if key == "correct" and isinstance(correct, bool) else None
