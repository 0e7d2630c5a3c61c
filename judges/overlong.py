"""Whether a server refuses a prompt for its length: final for the item, so it is read from the server's words alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

PAYLOAD_TOO_LARGE = 413
_FORM_STATUSES = frozenset({400, 422})

_CODES = frozenset({"context_length_exceeded", "context_window_exceeded", "exceed_context_size_error"})
"""``code`` or ``type`` of an error: OpenAI's, its imitators', llama.cpp's."""

_N = r"\(?\d[\d,]*\)?"
_SENTENCES = (
    # OpenAI, OpenRouter ("this endpoint's"), vLLM; the second is vLLM's where prompt and reply together do not fit
    rf"this (?:model|endpoint)'s maximum context length is {_N} tokens",
    rf"[^.]{{0,60}}\bis too large: {_N}\. this model's maximum context length is {_N} tokens and your request has {_N}",
    rf"the (?:\w+ )?prompt \(length {_N}\) is longer than the maximum model length of {_N}",
    r"(?:your )?(?:input|request|prompt) exceeds the context window of this model",
    rf"input tokens exceed the configured limit of {_N} tokens",
    # llama.cpp and what is built on it
    rf"(?:the )?request (?:\({_N} tokens\) )?exceeds the available context size",
    rf"requested tokens {_N} exceed context window of {_N}",
    r"(?:maximum )?context (?:size|length|window)(?: has been| was)? exceeded\b",
    # LM Studio
    rf"trying to keep the first {_N} tokens when context the overflows",
    rf"reached context length of {_N} tokens",
    r"the number of tokens to keep from the initial prompt is greater than the context length",
    # TGI
    rf"`?inputs`? tokens \+ `?max_new_tokens`? must be <= {_N}",
    rf"`?inputs`? must have less than {_N} tokens",
    # SGLang
    rf"the input \({_N} tokens\) is longer than the model's context length",
    rf"requested token count exceeds the model's maximum context length of {_N} tokens",
    rf"input length \({_N} tokens\) exceeds the maximum allowed length",
    # others, hosted
    r"(?:the |your )?(?:input )?prompt is too long\b",
    r"(?:the )?input length exceeds (?:the )?maximum context length",
    rf"(?:the )?input token count {_N} exceeds the maximum number of tokens allowed",
    rf"prompt contains {_N} tokens[^.]{{0,60}}\btoo large for model with {_N} maximum context length",
)
_WRAPPED = r"(?:[\w.]*(?:error|exception): |input validation error: |error code: \d+ - )*"
_TOO_LONG = re.compile(rf"\s*{_WRAPPED}(?:{'|'.join(_SENTENCES)})", re.IGNORECASE)
"""Matched at the beginning: a message may quote the request, and so a candidate's words, but further on."""


def is_too_long(status: int, content: bytes) -> bool:
    """Whether an answer with this status and body says that the prompt does not fit.

    Only an error's ``code``, ``type``, ``message`` and ``msg``, and the texts of ``detail`` are read; never the
    request that some servers send back beside them (FastAPI's ``input``).
    """
    if status == PAYLOAD_TOO_LARGE:
        return True
    if status not in _FORM_STATUSES:
        return False
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        return False
    return any(told in _CODES for told in _labels(body)) or any(_TOO_LONG.match(told) for told in _messages(body))


def _errors(body: object) -> Iterator[Mapping[str, object]]:
    """The body and the error in it."""
    if isinstance(body, Mapping):
        yield body
        yield from (inner for name in ("error", "detail") if isinstance(inner := body.get(name), Mapping))


def _labels(body: object) -> Iterator[str]:
    for error in _errors(body):
        yield from (value for name in ("code", "type") if isinstance(value := error.get(name), str))


def _messages(body: object) -> Iterator[str]:
    for error in _errors(body):
        yield from (
            value for name in ("error", "message", "msg", "detail") if isinstance(value := error.get(name), str)
        )
        details = error.get("detail")
        for entry in details if isinstance(details, list) else ():
            told = entry.get("msg") if isinstance(entry, Mapping) else entry
            if isinstance(told, str):
                yield told
