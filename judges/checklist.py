"""A judge's reply to a checklist, read strictly, and what the grades add up to."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kvrelay.core.errors import AssetError, ConfigError, DataError

PARSER_VERSION = 1
"""Part of the judge's id: a changed reading is a changed judge."""

SCALE = (0.0, 0.25, 0.5, 0.75, 1.0)
TOTAL = 100.0
TOLERANCE = 1e-6
"""How far a category's weights may miss their sum: they are printed with some fifteen digits."""

_FENCE = re.compile(r"```(?:json)?[ \t]*\n(?P<inside>(?:(?!```).)*?)\n?```", re.DOTALL)
_ASSIGNED = re.compile(r"\A\s*[A-Za-z_]\w*\s*=\s*(?P<value>\{.*)\Z", re.DOTALL)


class _Pairs(tuple[tuple[str, object], ...]):
    """A JSON object with its duplicate keys still visible."""


def parse_grades(text: str, ids: Sequence[int], *, accept_fence: bool) -> tuple[tuple[float, ...] | None, str]:
    """The grades in the order of ``ids`` and how they were found: ``strict``, ``lenient:fence`` or ``failed``.

    Strict: the whole text is one JSON list of ``{"id": …, "score": …}``, at will with a ``reason`` in words; every id
    once and no other, in any order; each score a number of `SCALE`. Lenient: the same inside one code fence that is
    the whole text. Nothing is filled in, rounded or taken over.
    """
    grades = _strict(text, ids)
    if grades is not None:
        return grades, "strict"
    fenced = _FENCE.fullmatch(text.strip()) if accept_fence else None
    grades = _strict(fenced["inside"], ids) if fenced else None
    return grades, "failed" if grades is None else "lenient:fence"


def _strict(text: str, ids: Sequence[int]) -> tuple[float, ...] | None:
    try:
        value = json.loads(text, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError):
        return None
    # an object is a tuple here, so that only a list of the reply is a list
    if not isinstance(value, list) or len(value) != len(ids):
        return None
    found: dict[int, float] = {}
    for entry in value:
        grade = _grade(entry)
        if grade is None or grade[0] in found:
            return None
        found[grade[0]] = grade[1]
    return tuple(found[id_] for id_ in ids) if found.keys() == set(ids) else None


def _grade(entry: object) -> tuple[int, float] | None:
    """The id and the score of one object of the list."""
    if not isinstance(entry, _Pairs):
        return None
    fields = dict(entry)
    id_, score, reason = fields.get("id"), fields.get("score"), fields.get("reason", "")
    if len(fields) != len(entry) or fields.keys() - {"id", "score", "reason"} or not isinstance(reason, str):
        return None
    if type(id_) is not int or type(score) not in (int, float) or score not in SCALE:
        return None
    return id_, float(score)


def weighted(grades: Sequence[float], weights: Sequence[float]) -> float:
    """HelloEval's score: weights that sum to 100, times the grades; 0 … 100."""
    return math.fsum(weight * grade for weight, grade in zip(weights, grades, strict=True))


def rescaled(score: float) -> float:
    """(score - 75) * 4, as OpenCompass prints it: 100 stays 100, and 75 becomes 0."""
    return (score - 75.0) * 4.0


def load_weights(path: str, key: str) -> dict[str, tuple[float, ...]]:
    """Weights by category from a JSON object, or from the set's own text file ``NAME = {…}`` (read as a literal; no
    code is run). Raises `AssetError` for a file that cannot be read so.
    """
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8")
        assigned = _ASSIGNED.match(text)
        value = ast.literal_eval(assigned["value"].strip()) if assigned else json.loads(text)
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError) as error:
        raise AssetError(
            f"{key}={path}: cannot be read as weights ({type(error).__name__}: {str(error)[:120]}); wanted a JSON "
            "object, or NAME = {...}, of one list of numbers a category"
        ) from None
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise AssetError(f"{key}={path}: wanted one list of numbers for each category's name")
    return checked_weights(dict(value), f"{key}={path}")


def checked_weights(weights: Mapping[str, Any], where: str) -> dict[str, tuple[float, ...]]:
    """The same weights, none negative and each category's with a sum of 100. Raises `ConfigError`."""
    for category, numbers in weights.items():
        sound = isinstance(numbers, list | tuple) and all(type(number) in (int, float) for number in numbers)
        if not sound or not numbers or not all(number >= 0 for number in numbers):
            raise ConfigError(f"{where}: the weights of {category!r} are {numbers!r}; wanted numbers of at least 0")
        if not abs(math.fsum(numbers) - TOTAL) <= TOLERANCE:
            raise ConfigError(f"{where}: the weights of {category!r} sum to {math.fsum(numbers)}; wanted {TOTAL:g}")
    return {category: tuple(float(number) for number in numbers) for category, numbers in weights.items()}


def of_category(weights: Mapping[str, tuple[float, ...]], category: str, n_items: int, where: str) -> tuple[float, ...]:
    """The weights of one answer's checklist. Raises `DataError` for a category that has none, or another number."""
    if category not in weights:
        raise DataError(
            f"{where}: no weights for the category {category!r}; it has {', '.join(sorted(weights))}. Name the one "
            "that is meant under judge.*.category_keys"
        )
    if len(weights[category]) != n_items:
        raise DataError(
            f"{where}: {len(weights[category])} weights for the category {category!r}, whose checklist has {n_items} "
            "entries; weights and checklists are of different releases"
        )
    return weights[category]
