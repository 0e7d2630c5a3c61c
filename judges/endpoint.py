"""An LLM as judge, behind any OpenAI-compatible server (vLLM, LM Studio, hosted)."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from judges.prompt import load_prompt, mend
from judges.reply import PARSER_VERSION, Reply, read_reply
from judges.transport import Endpoint, Exchange, is_loopback
from kvrelay.core.errors import ConfigError, EndpointError
from kvrelay.judging.protocol import BlindItem
from kvrelay.run.record import Verdict, digest

REQUEST_VERSION = 1
"""How messages are put together (order, separator, escapes). Part of every judge's id."""

Constraint = Literal["none", "json_object", "json_schema", "choice"]

_SCHEMA = {
    "type": "object",
    "properties": {"correct": {"type": "boolean"}},
    "required": ["correct"],
    "additionalProperties": False,
}
CONSTRAINTS: dict[Constraint, dict[str, Any]] = {
    "none": {},
    "json_object": {"response_format": {"type": "json_object"}},
    "json_schema": {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "verdict", "strict": True, "schema": _SCHEMA},
        }
    },
    "choice": {"structured_outputs": {"choice": ['{"correct": true}', '{"correct": false}']}},
}
"""Fields that make a server hold the reply to a form; ``choice`` is vLLM's. Servers that ignore them change nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAICompatibleJudge:
    """Asks a chat model for ``{"correct": true}`` or ``{"correct": false}``.

    ``api_key_env`` is the name of an environment variable; its value reaches the request's header and nothing else.
    ``timeout_s`` bounds one item, retries and waiting included. Raises `ConfigError` for settings out of range.
    """

    base_url: str
    model: str
    api_key_env: str = "KVRELAY_JUDGE_API_KEY"
    prompt: str = "memory_judge_v1"
    max_tokens: int = 32
    temperature: float = 0.0
    seed: int | None = 0
    reasoning_effort: str | None = None
    constraint: Constraint = "none"
    accept_fence: bool = True
    timeout_s: float = 120.0
    retries: int = 4
    concurrency: int = 16

    def __post_init__(self) -> None:
        _require_url(self.base_url)
        # the value is kept out of the message: whoever breaks this rule has most likely pasted the key itself
        if not re.fullmatch(r"[A-Z_][A-Z0-9_]{0,63}", self.api_key_env):
            raise ConfigError("judge.*.api_key_env must be the NAME of an environment variable, in upper case")
        if self.constraint not in CONSTRAINTS:
            raise ConfigError(f"judge.*.constraint is {self.constraint!r}; wanted one of: {', '.join(CONSTRAINTS)}")
        least = {"max_tokens": 1, "temperature": 0, "retries": 0, "concurrency": 1}
        for name, bound in least.items():
            if getattr(self, name) < bound:
                raise ConfigError(f"judge.*.{name} is {getattr(self, name)}; wanted at least {bound}")
        if not self.timeout_s > 0:
            raise ConfigError(f"judge.*.timeout_s is {self.timeout_s}; wanted more than 0 seconds")

    @property
    def id(self) -> str:
        """Prompt, model, and a hash of all that can change a verdict; where the server is and its key cannot."""
        prompt = load_prompt(self.prompt)
        identity = {
            "request": REQUEST_VERSION,
            "parser": PARSER_VERSION,
            "accept_fence": self.accept_fence,
            "system": prompt.system,
            "rubric": prompt.rubric,
            "fields": self._sampling(),
        }
        model = re.sub(r"[^\w.]+", "-", self.model.rsplit("/", 1)[-1]).strip("-")
        return f"{prompt.name}-{model}-{digest(identity)[:16]}"

    def check(self) -> None:
        """Raise `EndpointError` when the server is away, refuses the key, or does not list the model."""
        served = self._endpoint().served()
        if self.model not in served:
            listed = ", ".join(served) or "nothing"
            raise EndpointError(
                f"judge's server at {self.base_url} serves {listed}, not {self.model}: "
                f"set judge.*.model to what is served, or judge.*.base_url to another server"
            )

    def judge(self, item: BlindItem) -> Verdict:
        """Ask once. A reply that is no verdict is unscored with its reason.

        Raises `EndpointError` where no item can succeed: the key is refused, the model or the path is not served.
        """
        if not any(reference.strip() for reference in item.references):
            return self._verdict(item, Reply(reason="no_reference"))
        endpoint = self._endpoint()
        start = time.perf_counter()
        exchange = endpoint.post(self.request(item))
        reply = self._read(exchange)
        cost = {"judge_s": round(time.perf_counter() - start, 3), "retries": exchange.retries}
        return self._verdict(item, reply, endpoint.scrub(reply.text), cost)

    def request(self, item: BlindItem) -> dict[str, Any]:
        """The body of the request: a function of the item and of what is in the judge's id."""
        return {"messages": load_prompt(self.prompt).messages(item), **self._sampling()}

    def _sampling(self) -> dict[str, Any]:
        optional = {"seed": self.seed, "reasoning_effort": self.reasoning_effort}
        given = {name: value for name, value in optional.items() if value is not None}
        fields = {"model": self.model, "max_tokens": self.max_tokens, "temperature": float(self.temperature)}
        return {**fields, **given, **CONSTRAINTS[self.constraint]}

    def _read(self, exchange: Exchange) -> Reply:
        if exchange.reason:
            return Reply(reason=exchange.reason, text=exchange.detail)
        return read_reply(exchange.body, accept_fence=self.accept_fence)

    def _verdict(self, item: BlindItem, reply: Reply, raw: str = "", cost: dict[str, Any] | None = None) -> Verdict:
        return Verdict(
            judge_id=self.id,
            item_key=item.key,
            correct=reply.correct,
            reason=reply.reason,
            parse=reply.parse,
            raw=mend(raw),
            usage={name: mend(said) if isinstance(said, str) else said for name, said in reply.usage.items()}
            | (cost or {}),
        )

    def _endpoint(self) -> Endpoint:
        """Raises `EndpointError` when a server on another machine has no key; one on loopback is sent a dummy."""
        key = os.environ.get(self.api_key_env, "").strip()
        if not key and not is_loopback(self.base_url):
            raise EndpointError(
                f"judge's server at {self.base_url} is on another machine and {self.api_key_env} is not set: "
                f"export it (any text where the server asks for no key), or change judge.*.api_key_env"
            )
        if not re.fullmatch(r"[!-~]*", key):
            raise EndpointError(f"{self.api_key_env} (judge.*.api_key_env) holds spaces or characters that no key has")
        return Endpoint(
            base_url=self.base_url.rstrip("/"), api_key=key or "none", timeout_s=self.timeout_s, retries=self.retries
        )


def _require_url(base_url: str) -> None:
    """A URL that can be printed: with credentials or a query in it, messages would give them away."""
    try:
        parts = urlsplit(base_url)
        port = parts.port
    except ValueError as error:
        raise ConfigError(f"judge.*.base_url is no URL ({error}); wanted http(s)://host:port/v1") from None
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ConfigError("judge.*.base_url holds credentials, a query or a fragment; keys go into judge.*.api_key_env")
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ConfigError(f"judge.*.base_url is {base_url!r}; wanted http(s)://host:port/v1")
