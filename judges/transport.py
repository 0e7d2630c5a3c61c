"""An OpenAI-compatible server: where it is, one request to it, and what each way of failing means for the item."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from openai import APIConnectionError, APIStatusError, AsyncOpenAI, OpenAIError

from judges.client import BodyTooLarge, client_for
from judges.failures import Failure, retry_after_s, server_words, status_failure
from judges.overlong import is_too_long
from judges.pacing import Limits
from judges.said import Api, Said, said_by
from kvrelay.core.errors import EndpointError

_HOPELESS_STATUSES = frozenset({401, 403, 404})
"""No item can succeed. So are redirects (3xx), which are not followed: they would carry the key elsewhere."""

_SHORTEST_SECRET = 8
"""Shorter keys are words such as "none" that people export for servers without keys; they may stand in a text."""

_LOOK_S = 10.0
"""A list of models that takes longer is no sign of health."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where the server is. The key is in no representation and no message. ``timeout_s`` bounds a single request."""

    base_url: str
    api_key: str = field(repr=False)
    timeout_s: float

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Connection]:
        """One client for many requests, which share its connections."""
        async with AsyncOpenAI(
            base_url=self.base_url,
            api_key=self.api_key,
            max_retries=1,
            timeout=self.timeout_s,
            http_client=client_for(self.base_url),
        ) as client:
            yield Connection(self, client)

    def served(self) -> tuple[str, ...]:
        """Ids of the models that the server lists. Raises `EndpointError` when it does not answer with a list."""
        return asyncio.run(self._served())

    async def _served(self) -> tuple[str, ...]:
        async with self.connected() as connection:
            return await connection.served()

    def scrub(self, text: str) -> str:
        """Take the key out of a server's words: some echo it."""
        return text.replace(self.api_key, "***") if len(self.api_key) >= _SHORTEST_SECRET else text


class Connection:
    """An open client of one endpoint; lives in one event loop."""

    def __init__(self, endpoint: Endpoint, client: AsyncOpenAI) -> None:
        self._endpoint = endpoint
        self._client = client

    async def post(self, api: Api, body: Mapping[str, Any]) -> Said:
        """What the server said to one request, which is never streamed.

        Raises `Failure`, and `EndpointError` only where every other item would fail in the same way.
        """
        try:
            content = await (self._respond if api == "responses" else self._complete)(body)
        except APIStatusError as error:
            trouble = await self._trouble(error)
        except BodyTooLarge as error:
            trouble = Failure(str(error), breaks=True)
        except OpenAIError as error:
            trouble = Failure(self._words(error), retried=True, breaks=True)
        else:
            return self._said(api, content)
        # here, so that the client's error, which may hold the key, does not hang on to ours as its context
        raise trouble

    async def _trouble(self, error: APIStatusError) -> Failure | EndpointError:
        if error.status_code in _HOPELESS_STATUSES or error.status_code < 400:
            return EndpointError(self._unreached(error) + await self._served_hint())
        return status_failure(
            error.status_code,
            self._words(error),
            retry_after_s(error.response.headers),
            too_long=is_too_long(error.status_code, error.response.content),
        )

    async def _complete(self, body: Mapping[str, Any]) -> bytes:
        """All fields through extra_body, which goes out as it is, whatever this release of the client knows."""
        raw = await self._client.chat.completions.with_raw_response.create(
            model=body["model"], messages=[], extra_body=body
        )
        return raw.http_response.content

    async def _respond(self, body: Mapping[str, Any]) -> bytes:
        return (await self._client.responses.with_raw_response.create(extra_body=body)).http_response.content

    async def served(self) -> tuple[str, ...]:
        """As `Endpoint.served`."""
        try:
            async with asyncio.timeout(min(_LOOK_S, self._endpoint.timeout_s)):
                raw = await self._client.models.with_raw_response.list()
            listed = json.loads(raw.http_response.content)["data"]
            return tuple(self._endpoint.scrub(str(model["id"])) for model in listed)
        except (OpenAIError, TimeoutError) as error:
            words = self._unreached(error)
        except (ValueError, RecursionError, KeyError, TypeError):
            words = (
                f"GET {self._endpoint.base_url}/models did not answer with a list of models: is this an "
                f"OpenAI-compatible server? {self._path_hint()}"
            )
        raise EndpointError(words)

    async def is_healthy(self) -> bool:
        """Whether the server lists its models."""
        try:
            await self.served()
        except EndpointError:
            return False
        return True

    def given_up(self, words: str, limits: Limits) -> str:
        """What to say when the server has not come back."""
        return (
            f"judge's server at {self._endpoint.base_url} has failed for {limits.breaker_patience_s:g} s "
            f"(judge.*.breaker_patience_s); the last failure: {words}. What was judged is kept: mend the server "
            f"(judge.*.base_url) or lower judge.*.concurrency, and the same command judges the rest"
        )

    async def _served_hint(self) -> str:
        try:
            return f"; it serves: {', '.join(await self.served()) or 'nothing'}"
        except EndpointError:
            return ""

    def _said(self, api: Api, content: bytes) -> Said:
        """Raises `Failure` for a body that is no reply of this API: a proxy's page, an error under a good status."""
        try:
            said = said_by(api, json.loads(content))
        except (ValueError, RecursionError):
            said = None
        if said is None:
            # cut after the key is out: half a key is no longer found
            words = self._endpoint.scrub(content.decode("utf-8", "replace"))[:300]
            raise Failure(f"no completion: {words}", breaks=True)
        return said.put_through(self._endpoint.scrub)

    def _unreached(self, error: Exception) -> str:
        """What happened at which URL, and the key of the configuration to change."""
        status = error.status_code if isinstance(error, APIStatusError) else None
        hint = "start the server there or change judge.*.base_url"
        if status in (401, 403):
            hint = "put a valid key into the environment variable that judge.*.api_key_env names"
        elif status is not None:
            hint = f"{self._path_hint()}, or judge.*.model to what is served"
        return f"judge's server at {self._endpoint.base_url}: {self._words(error)}; {hint}"

    def _path_hint(self) -> str:
        """Most servers want /v1, and most people forget it."""
        base = self._endpoint.base_url
        if urlsplit(base).path.rstrip("/").endswith("/v1"):
            return "set judge.*.base_url to where the API is; its path is usually /v1 and nothing else"
        return f"set judge.*.base_url, perhaps to {base}/v1: it usually ends in /v1"

    def _words(self, error: Exception) -> str:
        if isinstance(error, TimeoutError):
            return "no whole reply in time"
        if isinstance(error, APIStatusError):
            words = f"HTTP {error.status_code}: {server_words(error.body) or error.response.text}"
        elif isinstance(error, APIConnectionError) and error.__cause__ is not None:
            words = f"{error} {type(error.__cause__).__name__}: {error.__cause__}"
        else:
            words = f"{type(error).__name__}: {error}"
        return self._endpoint.scrub(words)[:500]
