"""Requests to both APIs: everything in them but an item's own words, and the forms that a server may be held to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from judges.said import Api

REQUEST_VERSION = 2
"""How messages are put together (order, separator, escapes) and when they are sent again. Part of every judge's id."""

Constraint = Literal["choice", "regex", "json_schema", "json_object", "none"]

LADDER: tuple[Constraint, ...] = ("choice", "regex", "json_schema", "json_object", "none")
"""Strongest first. A schema allows white space without end, which a small limit of tokens does not survive; the
literals and the expression always close."""

VERDICTS = ('{"correct": true}', '{"correct": false}')

_SCHEMA = {
    "type": "object",
    "properties": {"correct": {"type": "boolean"}},
    "required": ["correct"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """How a judge asks: the API, and the fields that all of its requests share."""

    api: Api
    model: str
    max_tokens: int
    temperature: float
    seed: int | None
    reasoning_effort: str | None

    def body(self, messages: Sequence[Mapping[str, str]], constraint: Constraint) -> dict[str, Any]:
        """The body of one request."""
        return {"input" if self.api == "responses" else "messages": list(messages), **self.fields(constraint)}

    def fields(self, constraint: Constraint) -> dict[str, Any]:
        """The body without its messages. Responses knows no seed, and would stream on some servers if not told."""
        fields: dict[str, Any] = {"model": self.model, "temperature": float(self.temperature)}
        if self.api == "responses":
            fields |= {"max_output_tokens": self.max_tokens, "stream": False}
            effort: Any = self.reasoning_effort and {"effort": self.reasoning_effort}
            optional = {"reasoning": effort}
        else:
            fields |= {"max_tokens": self.max_tokens}
            optional = {"seed": self.seed, "reasoning_effort": self.reasoning_effort}
        given = {name: value for name, value in optional.items() if value is not None}
        return {**fields, **given, **constraint_fields(self.api, constraint)}


def constraint_fields(api: Api, constraint: Constraint) -> dict[str, Any]:
    """Fields that make a server hold the reply to a form; ``choice`` and ``regex`` are vLLM's own."""
    if constraint == "none":
        return {}
    if constraint == "choice":
        return {"structured_outputs": {"choice": list(VERDICTS)}}
    if constraint == "regex":
        return {"structured_outputs": {"regex": r'\{"correct": (true|false)\}'}}
    if constraint == "json_object":
        form: dict[str, Any] = {"type": "json_object"}
    elif api == "responses":
        form = {"type": "json_schema", "name": "verdict", "strict": True, "schema": _SCHEMA}
    else:
        form = {"type": "json_schema", "json_schema": {"name": "verdict", "strict": True, "schema": _SCHEMA}}
    return {"text": {"format": form}} if api == "responses" else {"response_format": form}
