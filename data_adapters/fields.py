"""One record of a data file, read field by field, each with the type that its schema promises."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvrelay.core.errors import DataError

_INT = re.compile(r"-?[0-9]{1,18}")
"""What a CSV file may give for an int; longer numbers count nothing that exists."""


@dataclass(frozen=True, slots=True)
class Fields:
    """A record and ``where`` it stands (file and record), which every `DataError` of its readers names."""

    where: str
    values: Mapping[str, Any]

    def any(self, key: str) -> Any:
        """The value of a field that must be there."""
        if key not in self.values:
            raise self.error(key, f"is missing; the record has {', '.join(map(str, self.values)) or 'no fields'}")
        return self.values[key]

    def text(self, key: str) -> str:
        value = self.any(key)
        if not isinstance(value, str):
            raise self.error(key, f"is {_kind(value)}, wanted a str")
        return value

    def name(self, key: str) -> str:
        """A text that may not be empty: an id, a question, a date."""
        value = self.text(key)
        if not value.strip():
            raise self.error(key, "is empty")
        return value

    def integer(self, key: str) -> int:
        """An int, or the digits of one, as a CSV file has them."""
        value = self.any(key)
        if isinstance(value, str) and _INT.fullmatch(value.strip()):
            return int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(key, f"is {value!r} ({_kind(value)}), wanted an int")
        return value

    def items(self, key: str) -> list[Any]:
        value = self.any(key)
        if not isinstance(value, list):
            raise self.error(key, f"is {_kind(value)}, wanted a list")
        return value

    def texts(self, key: str) -> list[str]:
        values = self.items(key)
        for index, value in enumerate(values):
            if not isinstance(value, str):
                raise self.error(f"{key}[{index}]", f"is {_kind(value)}, wanted a str")
        return values

    def parts(self, key: str) -> list[Fields]:
        """A list of records inside this one."""
        return [self.part(f"{key}[{index}]", value) for index, value in enumerate(self.items(key))]

    def part(self, key: str, value: object) -> Fields:
        """A value of this record that must itself be a record."""
        if not isinstance(value, Mapping):
            raise self.error(key, f"is {_kind(value)}, wanted an object")
        return Fields(f"{self.where}, {key}", value)

    def named(self, label: str) -> Fields:
        """The same record, its place made plainer by an id that was read from it."""
        return Fields(f"{self.where} ({label})", self.values)

    def error(self, key: str, problem: str) -> DataError:
        return DataError(f"{self.where}: field {key!r} {problem}")


def _kind(value: object) -> str:
    return "null" if value is None else type(value).__name__
