"""What a server said, from the bodies of both APIs: text, reasoning, how it ended, and who spoke."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from judges.prompt import mend

Api = Literal["chat", "responses"]

_COUNTS = {
    "prompt_tokens": ("prompt_tokens", "input_tokens"),
    "completion_tokens": ("completion_tokens", "output_tokens"),
}
"""Names under which Chat Completions and Responses count the same tokens."""

Ending = Literal["cut", "withheld", "broken"]

_ENDINGS: dict[str, Ending] = {
    **dict.fromkeys(("length", "max_tokens", "max_output_tokens", "max_length", "model_length", "incomplete"), "cut"),
    **dict.fromkeys(("model_context_window_exceeded",), "cut"),
    **dict.fromkeys(("content_filter", "safety", "refusal", "prohibited_content", "blocklist"), "withheld"),
    **dict.fromkeys(("error", "abort", "aborted"), "broken"),
}
"""What a reason to end means, whatever its case; any other is a server's own word for having finished.

``cut``: there was more to come; ``withheld``: what is there is not the model's answer; ``broken``: the server failed.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One reply. ``usage`` holds tokens, the reason why it ended, model and fingerprint: plain values alone."""

    text: str
    reasoning: str
    refusal: str
    truncated: bool
    model: str | None
    fingerprint: str | None
    usage: dict[str, Any]

    def put_through(self, change: Callable[[str], str]) -> Said:
        """The same with every word changed: how a key that a server echoes is taken out, once for all."""
        return replace(
            self,
            text=change(self.text),
            reasoning=change(self.reasoning),
            refusal=change(self.refusal),
            model=self.model and change(self.model),
            fingerprint=self.fingerprint and change(self.fingerprint),
            usage={name: change(value) if isinstance(value, str) else value for name, value in self.usage.items()},
        )


def said_by(api: Api, body: object) -> Said | None:
    """The first choice of a chat completion, or the message of a response; None where a body holds neither, and where
    its server broke the reply off.

    Anything can stand in ``body``; nothing is raised.
    """
    if not isinstance(body, Mapping):
        return None
    return _response(body) if api == "responses" else _completion(body)


def _completion(body: Mapping[str, Any]) -> Said | None:
    choices = body.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, Mapping) else None
    if not isinstance(first, Mapping) or not isinstance(message, Mapping):
        return None
    finish = first.get("finish_reason")
    # vLLM says reasoning; its older releases, transformers and llama.cpp say reasoning_content
    reasoning = _text(message.get("reasoning")) or _text(message.get("reasoning_content"))
    refusal = _refusal(message.get("refusal")) or _refused(_parts(message.get("content")))
    return _said(body, _text(message.get("content")), reasoning, refusal, finish)


def _response(body: Mapping[str, Any]) -> Said | None:
    output, status = body.get("output"), _plain(body.get("status"))
    if not isinstance(output, list) or status not in ("completed", "incomplete", ""):
        return None
    incomplete = body.get("incomplete_details")
    why = incomplete.get("reason") if isinstance(incomplete, Mapping) else None
    finish = {"max_output_tokens": "length", "": "stop"}.get(_plain(why), why)
    if status == "incomplete" and ending(finish) is None:
        finish = "incomplete"
    messages = [part for entry in _entries(output, "message") for part in _parts(entry.get("content"))]
    thoughts = [part for entry in _entries(output, "reasoning") for part in _parts(entry.get("content"))]
    return _said(body, _text(messages), _text(thoughts), _refused(messages), finish)


def ending(finish: object) -> Ending | None:
    """What a reason to end means; None where the reply is whole."""
    return _ENDINGS.get(_plain(finish))


def _plain(word: object) -> str:
    return word.strip().lower().replace("-", "_") if isinstance(word, str) else ""


def _refused(parts: Iterable[Mapping[str, Any]]) -> str:
    """The words of those parts that are a refusal by their type."""
    return "".join(
        _refusal(part.get("refusal")) or _text(part.get("text")) or "refusal"
        for part in parts
        if part.get("type") == "refusal"
    )


def _refusal(told: object) -> str:
    """Some servers send the field with every reply: null, false or empty where there is no refusal."""
    text = _text(told) if told else ""
    return text if text.strip() else ""


def _said(body: Mapping[str, Any], text: str, reasoning: str, refusal: str, finish: object) -> Said | None:
    ended = ending(finish)
    if ended == "broken":
        return None
    # an empty name is none
    model, fingerprint = _word(body.get("model")) or None, _word(body.get("system_fingerprint")) or None
    told = {"finish_reason": _word(finish), "model": model, "system_fingerprint": fingerprint}
    if reasoning:
        # the text itself is long and names nothing that a table needs; its hash tells whether two runs thought alike
        told["reasoning_sha256"] = hashlib.sha256(reasoning.encode("utf-8", "surrogatepass")).hexdigest()
    usage = _tokens(body.get("usage")) | {name: word for name, word in told.items() if word is not None}
    return Said(
        text=text,
        reasoning=reasoning,
        refusal=refusal or (_word(finish) or "" if ended == "withheld" else ""),
        truncated=ended == "cut",
        model=model,
        fingerprint=fingerprint,
        usage=usage,
    )


def _tokens(counted: object) -> dict[str, Any]:
    if not isinstance(counted, Mapping):
        return {}
    found = {
        name: [counted[key] for key in keys if isinstance(counted.get(key), int)] for name, keys in _COUNTS.items()
    }
    return {name: counts[0] for name, counts in found.items() if counts}


def _word(said: object) -> str | None:
    return mend(said) if isinstance(said, str) else None


def _text(content: object) -> str:
    """Some servers give a string, some a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(text for part in _parts(content) if isinstance(text := part.get("text"), str))
    return "" if content is None else str(content)


def _parts(content: object) -> Iterator[Mapping[str, Any]]:
    yield from (part for part in content if isinstance(part, Mapping)) if isinstance(content, list) else ()


def _entries(output: list[Any], kind: str) -> Iterator[Mapping[str, Any]]:
    yield from (entry for entry in output if isinstance(entry, Mapping) and entry.get("type") == kind)
