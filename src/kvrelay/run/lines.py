"""One line of a shard: ``{"crc": "<crc32 of the record's canonical JSON, 8 hex digits>", "record": {...}}``."""

from __future__ import annotations

import json
import re
import zlib
from itertools import pairwise
from typing import Any, TypeVar

from pydantic import ValidationError

from kvrelay.core.errors import AssetError, InvariantError
from kvrelay.run.record import SCHEMA_VERSION, Schema

Record = TypeVar("Record", bound=Schema)

START = b'{"crc":"'
"""How every line begins. Inside a JSON string its quotes would be escaped, so no text of a record looks like it."""


def canonical(value: Any) -> bytes:
    """Sorted, compact JSON in valid UTF-8. Raises ``ValueError`` for a number that is not finite."""
    return utf8(json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False))


def utf8(text: str) -> bytes:
    """UTF-8 bytes; a lone surrogate becomes its JSON escape, two halves that met become the character they mean."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        return joined.encode("utf-8", "backslashreplace")


def encode(record: Schema) -> bytes:
    """One line, its newline included. Raises `InvariantError` for a record that no line can hold (NaN, infinity)."""
    try:
        body = canonical(record.model_dump(mode="json"))
    except ValueError as error:
        name = getattr(record, "key", None) or getattr(record, "item_key", "")
        raise InvariantError(f"record {name} cannot be written as JSON: {error}; write it as an error") from error
    return b'{"crc":"%08x","record":%s}\n' % (zlib.crc32(body), body)


def decode(line: bytes) -> dict[str, Any]:
    """The record of one line as plain values. Raises ``ValueError`` with the reason where the line is damaged."""
    wrapped = json.loads(line)
    if not isinstance(wrapped, dict) or not isinstance(wrapped.get("record"), dict):
        raise ValueError("it holds no record")
    record: dict[str, Any] = wrapped["record"]
    found = f"{zlib.crc32(canonical(record)):08x}"
    if wrapped.get("crc") != found:
        raise ValueError(f"its checksum is {wrapped.get('crc')}, its content gives {found}")
    return record


def pieces(line: bytes) -> list[bytes]:
    """The parts of a line that may be records of their own: it is cut wherever a record could begin.

    A newline that was lost glues two lines together, and a torn line is glued to the whole one behind it.
    """
    cuts = sorted({0, *(match.start() for match in re.finditer(re.escape(START), line)), len(line)})
    return [line[start:end] for start, end in pairwise(cuts)]


def checked(value: dict[str, Any], schema: type[Record], where: str) -> Record:
    """Plain values as a record. Raises `AssetError` for a newer schema, pydantic's ``ValueError`` for a wrong one."""
    version = value.get("schema_version")
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise AssetError(
            f"{where} was written by a newer kvrelay (schema {version}; this one reads up to {SCHEMA_VERSION}); "
            "update kvrelay or choose another folder (key: out)"
        )
    return schema.model_validate(value)


def reason(error: Exception) -> str:
    """Why a line or a file is damaged, in one line."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return str(error).partition("\n")[0]
