"""Readers of JSON arrays, JSON lines, Parquet and CSV. Damage is one `DataError` that names the file and the record."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, TextIO

from data_adapters.fields import Fields
from kvrelay.core.errors import AssetError, DataError

CHUNK_CHARS = 1 << 22
"""Characters read at once; a record may be longer."""

_SPACE = re.compile(r"\s*")


def _refuse(constant: str) -> NoReturn:
    """NaN and Infinity, which Python would read as numbers."""
    raise ValueError(f"{constant} is no number of JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)
_UNREADABLE = (ValueError, RecursionError)
"""What the decoder raises: also for a number of thousands of digits, and for a hundred thousand open brackets."""
_TAIL_CHARS = 16
"""An error this near to the end of what was read may only mean that the rest is not read yet."""


def records(path: Path, chunk_chars: int = CHUNK_CHARS) -> Iterator[Fields]:
    """The records of a JSON array, of JSON lines or of a Parquet file, one by one and in order.

    An array is never held whole: the largest of these files is 2.75 GB. Raises `DataError` for an empty or
    damaged file, when the damaged record is reached.
    """
    if path.suffix == ".parquet":
        yield from _parquet(path)
        return
    with _opened(path) as file:
        window = _Window(file, chunk_chars)
        first = window.peek()
        if first not in ("[", "{"):
            found = f"starts with {first!r}" if first else "is empty"
            raise DataError(f"{path}: the file {found}, wanted a JSON array or JSON lines")
        if first == "[":
            yield from _array(path, window)
            return
    yield from _lines(path)


def table(path: Path) -> list[Fields]:
    """The rows of a CSV file with a header, every value a str. Raises `DataError` for rows of another length."""
    rows = []
    with _opened(path, newline="") as file:
        reader = csv.DictReader(file, strict=True)
        try:
            for number, row in enumerate(reader, start=1):
                rows.append(Fields(f"{path}: row {number}", row))
                if None in row or None in row.values():
                    raise DataError(
                        f"{path}: row {number}: not as many values as the header's {len(reader.fieldnames or ())}"
                    )
        except csv.Error as error:
            raise DataError(
                f"{path}: after row {len(rows)}: not valid CSV ({error}); the file may be cut off"
            ) from error
    if not rows:
        raise DataError(f"{path}: the file has no rows")
    return rows


class _Window:
    """A text file seen through a buffer that grows only while a value in it is incomplete."""

    def __init__(self, file: TextIO, chunk_chars: int) -> None:
        self.file, self.chunk_chars, self.text, self.at = file, chunk_chars, "", 0

    def more(self) -> bool:
        block = self.file.read(self.chunk_chars)
        self.text, self.at = self.text[self.at :] + block, 0
        return bool(block)

    def peek(self) -> str:
        """The next character that is not white space; nothing at the end of the file."""
        while True:
            space = _SPACE.match(self.text, self.at)
            self.at = space.end() if space else self.at
            if self.at < len(self.text) or not self.more():
                return self.text[self.at : self.at + 1]

    def value(self) -> Any:
        while True:
            try:
                value, self.at = _DECODER.raw_decode(self.text, self.at)
                return value
            except json.JSONDecodeError as error:
                if not self._may_be_incomplete(error) or not self.more():
                    raise

    def _may_be_incomplete(self, error: json.JSONDecodeError) -> bool:
        return error.msg.startswith("Unterminated string") or error.pos > len(self.text) - _TAIL_CHARS


def _array(path: Path, window: _Window) -> Iterator[Fields]:
    window.at += 1
    index = 0
    while window.peek() != "]":
        where = f"{path}: record {index}"
        try:
            value = window.value()
        except UnicodeDecodeError:
            raise
        except _UNREADABLE as error:
            raise DataError(f"{where}: not valid JSON ({_reason(error)}); the file may be cut off") from error
        yield _object(where, value)
        index += 1
        follows = window.peek()
        if follows == ",":
            window.at += 1
        elif follows != "]":
            raise DataError(
                f"{where} is followed by {follows or 'the end of the file'}, wanted , or ]: it may be cut off"
            )


def _lines(path: Path) -> Iterator[Fields]:
    with _opened(path) as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            where = f"{path}: line {number}"
            try:
                value = _DECODER.decode(line)
            except _UNREADABLE as error:
                raise DataError(f"{where}: not valid JSON ({_reason(error)}); the line may be cut off") from error
            yield _object(where, value)


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "brackets within brackets without end"
    return error.msg if isinstance(error, json.JSONDecodeError) else str(error).partition(";")[0]


def _parquet(path: Path) -> Iterator[Fields]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise AssetError(f"{path}: reading Parquet needs pyarrow; install it, or convert the file to JSON") from error
    try:
        rows = parquet.read_table(path).to_pylist()
    except (ArrowException, OSError) as error:
        raise DataError(f"{path}: not a readable Parquet file ({error})") from error
    yield from (_object(f"{path}: record {index}", row) for index, row in enumerate(rows))


def _object(where: str, value: object) -> Fields:
    if not isinstance(value, dict):
        raise DataError(f"{where}: is {type(value).__name__}, wanted an object")
    return Fields(where, value)


@contextmanager
def _opened(path: Path, newline: str | None = None) -> Iterator[TextIO]:
    try:
        with path.open(encoding="utf-8-sig", newline=newline) as file:
            yield file
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 (byte 0x{error.object[error.start]:02x}: {error.reason})") from error
    except OSError as error:
        raise AssetError(f"{path}: cannot be read ({error.strerror})") from error


def require_columns(row: Fields, columns: Sequence[str]) -> None:
    """Raises `DataError` with all the missing columns at once."""
    missing = [column for column in columns if column not in row.values]
    if missing:
        found = ", ".join(map(str, row.values))
        raise DataError(f"{row.where}: columns missing: {', '.join(missing)}; found: {found}")
