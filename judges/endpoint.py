"""An LLM as judge, behind any OpenAI-compatible server (vLLM, LM Studio, hosted)."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, fields
from typing import Literal
from urllib.parse import urlsplit

from judges.asking import LADDER, Asking, Constraint
from judges.client import is_loopback
from judges.pacing import Limits
from judges.prompt import load_prompt
from judges.reply import RULES, Rule
from judges.said import Api
from judges.settled import EndpointJudge, settle
from judges.transport import Endpoint
from kvrelay.core.errors import ConfigError, EndpointError


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAICompatibleJudge(Limits):
    """Asks a model for ``{"correct": true}`` or ``{"correct": false}``; the file in ``conf/judge`` tells each field.

    ``api_key_env`` is the name of an environment variable; its value reaches the request's header and nothing else.
    ``timeout_s`` bounds one item, retries and waiting included. Raises `ConfigError` for settings out of range.
    """

    base_url: str
    model: str
    api_key_env: str = "KVRELAY_JUDGE_API_KEY"
    api: Api = "chat"
    prompt: str = "memory_judge_v1"
    max_tokens: int = 32
    temperature: float = 0.0
    seed: int | None = 0
    reasoning_effort: str | None = None
    constraint: Constraint | Literal["auto"] = "auto"
    lenient: tuple[Rule, ...] = ("fence", "after_reasoning")
    max_prompt_chars: int | None = None
    caveats: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _require_url(self.base_url)
        # the value is kept out of the message: whoever breaks this rule has most likely pasted the key itself
        if not re.fullmatch(r"[A-Z_][A-Z0-9_]{0,63}", self.api_key_env):
            raise ConfigError("judge.*.api_key_env must be the NAME of an environment variable, in upper case")
        _require_known("api", [self.api], ("chat", "responses"))
        _require_known("constraint", [self.constraint], ("auto", *LADDER))
        _require_known("lenient", self.lenient, tuple(RULES))
        least = {"max_tokens": 1, "temperature": 0, "max_prompt_chars": 1}
        for name, bound in least.items():
            value = getattr(self, name)
            if value is not None and value < bound:
                raise ConfigError(f"judge.*.{name} is {value}; wanted at least {bound}")
        Limits.__post_init__(self)

    def settled(self, name: str) -> EndpointJudge:
        """Ask the server what it serves and to which form it holds its replies, and freeze both.

        Raises `EndpointError` when the server is away, refuses the key, does not list the model, or does not enforce
        the constraint that was asked for; `AssetError` where there is no such template.
        """
        prompt, endpoint = load_prompt(self.prompt), self._endpoint()
        served = endpoint.served()
        if self.model not in served:
            listed = ", ".join(served) or "nothing"
            raise EndpointError(
                f"judge's server at {self.base_url} serves {listed}, not {self.model}: "
                f"set judge.*.model to what is served, or judge.*.base_url to another server"
            )
        return settle(
            name,
            endpoint=endpoint,
            limits=self.limits(),
            prompt=prompt,
            asking=self._asking(),
            constraint=self.constraint,
            rules=tuple(sorted(set(self.lenient))),
            max_prompt_chars=self.max_prompt_chars,
            caveats=self.caveats,
        )

    def limits(self) -> Limits:
        """How hard the server may be asked. Changes no verdict, so no part of the identity."""
        return Limits(**{limit.name: getattr(self, limit.name) for limit in fields(Limits)})

    def _asking(self) -> Asking:
        return Asking(**{part.name: getattr(self, part.name) for part in fields(Asking)})

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
        return Endpoint(base_url=self.base_url.rstrip("/"), api_key=key or "none", timeout_s=self.timeout_s)


def _require_known(name: str, values: tuple[str, ...] | list[str], known: tuple[str, ...]) -> None:
    for value in values:
        if value not in known:
            raise ConfigError(f"judge.*.{name} is {value!r}; wanted one of: {', '.join(known)}")


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
