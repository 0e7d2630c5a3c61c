"""Type hints as pydantic can check them on values that are part plain, part built components."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import AfterValidator, Field

CONTAINERS = (tuple, list, dict, set, frozenset, Mapping, Sequence)
PLAIN = (str, bytes, int, float, list, tuple, dict, types.NoneType)


def checkable(hint: Any) -> Any:
    """The hint with dataclasses checked as instances, protocols as "some component", and tuples open to lists."""
    origin, parts = get_origin(hint), get_args(hint)
    if isinstance(hint, type) and origin is None:
        return _checkable_class(hint)
    if origin is Annotated:
        return Annotated[(checkable(parts[0]), *parts[1:])]
    if origin in (Union, types.UnionType):
        return reduce(or_, (checkable(part) for part in parts))
    if origin not in CONTAINERS:
        return hint
    made = origin[tuple(part if part is ... else checkable(part) for part in parts)]
    return Annotated[made, Field(strict=False)] if origin is tuple else made


def _checkable_class(hint: type) -> Any:
    if getattr(hint, "_is_protocol", False) or dataclasses.is_dataclass(hint):
        return Annotated[Any, AfterValidator(_component_for(hint))]
    return hint


def _component_for(wanted: type) -> Callable[[Any], Any]:
    """Protocols cannot be tested by ``isinstance``; what is certainly none of them is a plain value."""

    def check(value: Any) -> Any:
        fits = isinstance(value, wanted) if dataclasses.is_dataclass(wanted) else not isinstance(value, PLAIN)
        if not fits:
            raise ValueError(f"it is no {wanted.__name__}")
        return value

    return check
