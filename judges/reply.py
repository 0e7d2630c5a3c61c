"""Reading a judge's reply: strictly, and never taking a reply that cannot be read for a verdict."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PARSER_VERSION = 1
"""Part of every judge's id: a changed reading is a changed judge."""

_FENCE = re.compile(r"```(?:json)?[ \t]*\n(?P<inside>(?:(?!```).)*?)\n?```", re.DOTALL)
_USAGE = ("prompt_tokens", "completion_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a chat completion says: a verdict, or the reason why there is none."""

    correct: bool | None = None
    reason: str = ""
    parse: str = "none"
    """``strict``, ``lenient:fence``, ``failed``, or ``none`` where there was no text to parse."""
    text: str = ""
    usage: dict[str, Any] = field(default_factory=dict)


class _Pairs(tuple[tuple[str, object], ...]):
    """A JSON object with its duplicate keys still visible."""


def read_reply(body: object, *, accept_fence: bool) -> Reply:
    """Read the first choice of a decoded chat completion. Anything can stand in ``body``; nothing is raised.

    Reasons: ``transport_error`` (no completion at all), ``refused``, ``truncated`` (the server cut the reply, so even
    a verdict in it is not the whole reply), ``empty``, ``malformed``.
    """
    message, finish = _first_choice(body)
    if message is None or not isinstance(body, Mapping):
        return Reply(reason="transport_error", text=f"no chat completion: {str(body)[:300]}")
    text = _text(message.get("content"))
    usage = _usage(body, finish)
    if message.get("refusal") or finish == "content_filter":
        return Reply(reason="refused", text=text or str(message.get("refusal") or ""), usage=usage)
    if finish == "length":
        return Reply(reason="truncated", text=text, usage=usage)
    if not text.strip():
        return Reply(reason="empty", usage=usage)
    correct, parse = parse_verdict(text, accept_fence=accept_fence)
    return Reply(correct=correct, reason="malformed" if correct is None else "", parse=parse, text=text, usage=usage)


def parse_verdict(text: str, *, accept_fence: bool) -> tuple[bool | None, str]:
    """The boolean of ``{"correct": …}`` and how it was found: ``strict``, ``lenient:fence`` or ``failed``.

    Strict: the whole text is one JSON object with the one key ``correct``, once, and true or false under it.
    Lenient: the same inside one code fence that is the whole text.
    """
    correct = _strict(text)
    if correct is not None:
        return correct, "strict"
    fenced = _FENCE.fullmatch(text.strip()) if accept_fence else None
    correct = _strict(fenced["inside"]) if fenced else None
    return correct, "failed" if correct is None else "lenient:fence"


def _strict(text: str) -> bool | None:
    try:
        value = json.loads(text, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, _Pairs) or len(value) != 1:
        return None
    key, correct = value[0]
    return correct if key == "correct" and isinstance(correct, bool) else None


def _first_choice(body: object) -> tuple[Mapping[str, Any] | None, object]:
    choices = body.get("choices") if isinstance(body, Mapping) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, Mapping) else None
    if not isinstance(first, Mapping) or not isinstance(message, Mapping):
        return None, None
    return message, first.get("finish_reason")


def _text(content: object) -> str:
    """Some servers give a string, some a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, Mapping)]
        return "".join(text for text in texts if isinstance(text, str))
    return "" if content is None else str(content)


def _usage(body: Mapping[str, Any], finish: object) -> dict[str, Any]:
    """Tokens and the server's own words on who answered: what a report may want, and only plain values."""
    counted = body.get("usage")
    tokens = counted if isinstance(counted, Mapping) else {}
    usage: dict[str, Any] = {name: tokens[name] for name in _USAGE if isinstance(tokens.get(name), int)}
    said = {"finish_reason": finish, "model": body.get("model"), "system_fingerprint": body.get("system_fingerprint")}
    return usage | {name: value for name, value in said.items() if isinstance(value, str)}
