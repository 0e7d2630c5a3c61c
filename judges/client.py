"""The HTTP client under the API's own: it reads no answer without end, and follows nobody elsewhere."""

from __future__ import annotations

import ipaddress
import ssl
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from openai import DefaultAsyncHttpxClient, OpenAIError

LONGEST_BODY = 8 * 2**20
"""Bytes of an answer, unpacked, that are read: a thousand times what a verdict with all its reasoning takes. A server
that sends without end would fill the memory long before its deadline."""

_OF_THE_WIRE = ("content-encoding", "content-length", "transfer-encoding")
"""What an answer says of how it was sent: no longer true of one that has been unpacked."""


class BodyTooLarge(OpenAIError):
    """A reply of more than `LONGEST_BODY`. An error of the client's kind, so that it is neither taken for a broken
    connection nor tried again by the client."""


class BoundedClient(DefaultAsyncHttpxClient):
    """Gives up an answer, and its connection, as soon as it is longer than `LONGEST_BODY`."""

    async def send(self, request: Any, *, stream: bool = False, **given: Any) -> Any:
        """The whole answer, also where a stream was asked for. Raises `BodyTooLarge`."""
        response = await super().send(request, stream=True, **given)
        try:
            content = await _read(response)
        finally:
            await response.aclose()
        headers = [(name, text) for name, text in response.headers.multi_items() if name not in _OF_THE_WIRE]
        return type(response)(response.status_code, headers=headers, content=content, request=request)


def client_for(url: str) -> BoundedClient:
    """A client for a server of which this URL is known. A loopback server needs no proxy."""
    return BoundedClient(
        verify=_tls(),
        trust_env=not is_loopback(url),
        follow_redirects=False,
        event_hooks={"response": [_leave_answers_to_us]},
    )


def is_loopback(url: str) -> bool:
    """Whether the URL names this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def _read(response: Any) -> bytes:
    """Of a failure, which its status tells whatever the body, the beginning. Raises `BodyTooLarge` for a success."""
    content = bytearray()
    async for part in response.aiter_bytes():
        content += part
        if len(content) > LONGEST_BODY:
            if not response.is_success:
                break
            raise BodyTooLarge(f"HTTP {response.status_code}: an answer of more than {LONGEST_BODY} bytes; given up")
    return bytes(content)


async def _leave_answers_to_us(response: Any) -> None:
    """The client's one retry is for connections that broke, as kept-alive ones do; a server's answers are ours to
    count, to slow down for and to wait for."""
    response.headers["x-should-retry"] = "false"


@cache
def _tls() -> ssl.SSLContext:
    """Loading the certificates is most of the cost of a client, so they are loaded once."""
    return ssl.create_default_context()
