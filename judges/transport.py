"""One chat completion from an OpenAI-compatible server, within a deadline that covers every retry and every byte."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import re
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar
from urllib.parse import urlsplit

from openai import APIConnectionError, APIStatusError, AsyncOpenAI, DefaultAsyncHttpxClient, OpenAIError

from kvrelay.core.errors import EndpointError

T = TypeVar("T")

_TOO_LONG = re.compile(
    r"context_length|context (length|window|size)|maximum (model|context)|max_model_len"
    r"|(prompt|input|request|messages?)\b.{0,40}\btoo (long|large)|too many tokens|exceeds?\b.{0,60}\btokens",
    re.IGNORECASE | re.DOTALL,
)
_FORM_STATUSES = frozenset({400, 413, 422})
"""The server read the request and will not have it: repeating it changes nothing."""

_HOPELESS_STATUSES = frozenset({401, 403, 404})
"""No item can succeed. So are redirects (3xx)."""

_SHORTEST_SECRET = 8
"""Shorter keys are words such as "none" that people export for servers without keys; they may stand in a text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """The decoded body of a successful request, or the reason and the server's words where there is none."""

    body: object = None
    reason: str = ""
    detail: str = ""
    retries: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where the server is and how long one item may take. The key is in no representation and no message."""

    base_url: str
    api_key: str = field(repr=False)
    timeout_s: float
    retries: int

    def post(self, request: Mapping[str, Any]) -> Exchange:
        """Send one chat completion. Raises `EndpointError` only where every other item would fail in the same way."""
        return asyncio.run(self._post(dict(request)))

    def served(self) -> tuple[str, ...]:
        """Ids of the models that the server lists. Raises `EndpointError` when it does not answer with a list."""
        return asyncio.run(self._served())

    async def _post(self, request: dict[str, Any]) -> Exchange:
        async def create(client: AsyncOpenAI) -> Exchange:
            # through extra_body: the fields go out as they are, whatever this release of the client knows
            raw = await client.chat.completions.with_raw_response.create(
                model=request["model"], messages=request["messages"], extra_body=request
            )
            return self._decoded(raw.http_response.content, raw.retries_taken)

        try:
            return await self._within_deadline(create, self.retries)
        except APIStatusError as error:
            if error.status_code in _HOPELESS_STATUSES or error.status_code < 400:
                raise EndpointError(self._unreached(error) + await self._served_hint()) from None
            return self._refused(error)
        except (OpenAIError, TimeoutError) as error:
            return Exchange(reason="transport_error", detail=self._words(error))

    async def _served(self) -> tuple[str, ...]:
        async def models(client: AsyncOpenAI) -> bytes:
            return (await client.models.with_raw_response.list()).http_response.content

        try:
            body = json.loads(await self._within_deadline(models, min(1, self.retries)))
            return tuple(str(model["id"]) for model in body["data"])
        except (OpenAIError, TimeoutError) as error:
            raise EndpointError(self._unreached(error)) from None
        except (ValueError, RecursionError, KeyError, TypeError):
            raise EndpointError(
                f"GET {self.base_url}/models did not answer with a list of models: is this an OpenAI-compatible "
                f"server? Set judge.*.base_url; it usually ends in /v1"
            ) from None

    async def _served_hint(self) -> str:
        try:
            return f"; it serves: {', '.join(await self._served()) or 'nothing'}"
        except EndpointError:
            return ""

    async def _within_deadline(self, call: Callable[[AsyncOpenAI], Awaitable[T]], retries: int) -> T:
        """The client's own timeout restarts with every byte, so a slow drip outlives it; this deadline is total.

        A client a call costs a third of a millisecond and keeps a broken kept-alive connection from hitting the next
        item. Redirects are not followed: they would carry the key elsewhere. A loopback server needs no proxy.
        """
        http_client = DefaultAsyncHttpxClient(
            verify=_tls(), trust_env=not is_loopback(self.base_url), follow_redirects=False
        )
        async with (
            asyncio.timeout(self.timeout_s),
            AsyncOpenAI(
                base_url=self.base_url,
                api_key=self.api_key,
                max_retries=retries,
                timeout=self.timeout_s,
                http_client=http_client,
                default_headers={"Connection": "close"},
            ) as client,
        ):
            return await call(client)

    def _decoded(self, content: bytes, retries: int) -> Exchange:
        try:
            return Exchange(body=json.loads(content), retries=retries)
        except (ValueError, RecursionError):
            words = content[:300].decode("utf-8", "replace")
            return Exchange(reason="transport_error", detail=self.scrub(f"no JSON: {words}"), retries=retries)

    def _refused(self, error: APIStatusError) -> Exchange:
        status, words = error.status_code, self._words(error)
        if status == 413 or (status in _FORM_STATUSES and _TOO_LONG.search(words)):
            return Exchange(reason="too_long", detail=words)
        return Exchange(reason="rejected" if status in _FORM_STATUSES else "transport_error", detail=words)

    def _unreached(self, error: Exception) -> str:
        """What happened at which URL, and the key of the configuration to change."""
        status = error.status_code if isinstance(error, APIStatusError) else None
        hint = "start the server there or change judge.*.base_url"
        if status in (401, 403):
            hint = "put a valid key into the environment variable that judge.*.api_key_env names"
        elif status is not None:
            hint = "change judge.*.base_url (it usually ends in /v1) or judge.*.model to what is served"
        return f"judge's server at {self.base_url}: {self._words(error)}; {hint}"

    def _words(self, error: Exception) -> str:
        if isinstance(error, TimeoutError):
            return f"no whole reply within {self.timeout_s:g} s (judge.*.timeout_s)"
        if isinstance(error, APIStatusError):
            return self.scrub(f"HTTP {error.status_code}: {_server_words(error.body) or error.response.text}"[:500])
        if isinstance(error, APIConnectionError) and error.__cause__ is not None:
            return self.scrub(f"{error} {type(error.__cause__).__name__}: {error.__cause__}")
        return self.scrub(f"{type(error).__name__}: {error}")

    def scrub(self, text: str) -> str:
        """Take the key out of a server's words: some echo it."""
        return text.replace(self.api_key, "***") if len(self.api_key) >= _SHORTEST_SECRET else text


def is_loopback(url: str) -> bool:
    """Whether the URL names this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _server_words(body: object) -> str:
    """OpenAI and vLLM write error.message (or message), FastAPI writes detail."""
    if not isinstance(body, Mapping):
        return body if isinstance(body, str) else ""
    inner = body.get("error", body)
    if isinstance(inner, Mapping):
        inner = inner.get("message") or inner.get("detail") or inner
    return str(inner)


@cache
def _tls() -> ssl.SSLContext:
    """Loading the certificates is most of the cost of a client, so they are loaded once."""
    return ssl.create_default_context()
