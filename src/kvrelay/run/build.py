"""From a plain nested dict with ``_target_`` to the component it names, checked field by field.

Hydra's own ``instantiate`` accepts a string where a number is wanted; here an unknown field, a missing one or a wrong
type is a `ConfigError` that names the key. Whole numbers pass for floats and lists for tuples; all else stays as it is.
"""

from __future__ import annotations

import dataclasses
import importlib
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from kvrelay.core.errors import ConfigError, KVRelayError
from kvrelay.run.hints import checkable

TARGET = "_target_"
MISSING = "???"
FOREIGN_CODE = frozenset({"trust_remote_code", "auto_map"})
STRICT = ConfigDict(strict=True, arbitrary_types_allowed=True)


def build(config: Any, key: str) -> Any:
    """The component that ``config`` describes; ``key`` is where it stands in the whole configuration ("" for the root).

    A field whose setting stands elsewhere says so in its metadata: ``field(metadata={"key": "dataset.x"})``.
    Nested mappings with a ``_target_`` are built first, also inside lists and dicts. What a component's own checks
    raise as a `KVRelayError` passes through; any other ``TypeError`` or ``ValueError`` is wrapped with the key.
    """
    if not isinstance(config, Mapping) or TARGET not in config:
        raise ConfigError(f"{key} = {_shown(config)}: wanted a mapping with {TARGET}, the dotted name of a component")
    refuse_foreign_code(config, key)
    kind = component(config[TARGET], f"{key}.{TARGET}")
    given = {name: value for name, value in config.items() if name != TARGET}
    fields = {field.name: field for field in dataclasses.fields(kind) if field.init}
    _check_names(kind, given, fields, key)
    hints = get_type_hints(kind, include_extras=True)
    values = {
        name: _value(fields[name], hints[name], value, _below(key, name, fields[name])) for name, value in given.items()
    }
    try:
        return kind(**values)
    except KVRelayError:
        raise
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{key}: {kind.__name__} refuses these settings: {error}") from error


def refuse_foreign_code(config: Any, key: str) -> None:
    """Raise `ConfigError` where a setting, however deep, would let a model or data set bring its own code."""
    if isinstance(config, Mapping):
        for name, value in config.items():
            if str(name).strip("+ ").lower() in FOREIGN_CODE:
                raise ConfigError(
                    f"{_below(key, str(name))}: code that comes with a model or a data set is never run here, so that "
                    "this key is refused whatever its value; take it away"
                )
            refuse_foreign_code(value, _below(key, str(name)))
    elif isinstance(config, list | tuple):
        for index, value in enumerate(config):
            refuse_foreign_code(value, f"{key}[{index}]")


def build_group(config: Any, group: str) -> dict[str, Any]:
    """The components of one config group by name: ``config`` is the group's node, ``{name: {_target_: ...}}``."""
    if not isinstance(config, Mapping) or not config:
        raise ConfigError(f"{group} = {_shown(config)}: wanted at least one choice, as in {group}=[name]")
    return {str(name): build(part, f"{group}.{name}") for name, part in config.items()}


def component(target: Any, key: str) -> Any:
    """The dataclass at a dotted path."""
    if not isinstance(target, str) or "." not in target:
        raise ConfigError(f"{key} = {_shown(target)}: wanted the dotted name of a component, as package.module.Class")
    path, _, name = target.rpartition(".")
    try:
        module = importlib.import_module(path)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{path}.".startswith(f"{error.name}."):
            raise ConfigError(f"{key} = {target}: {path} needs the package {error.name}, not installed") from error
        raise ConfigError(f"{key} = {target}: there is no module {error.name}") from error
    found = getattr(module, name, None)
    if not (isinstance(found, type) and dataclasses.is_dataclass(found)):
        names = [known for known, value in vars(module).items() if dataclasses.is_dataclass(value)]
        what = "there is no such class" if found is None else "it is no component (a dataclass)"
        raise ConfigError(f"{key} = {target}: {what}{_suggestion(name, names)}")
    return found


def _check_names(component: Any, given: Mapping[str, Any], fields: Mapping[str, Any], key: str) -> None:
    """Nothing unknown, nothing missing."""
    for name, value in given.items():
        if name not in fields:
            known = ", ".join(fields) or "none"
            raise ConfigError(
                f"{_below(key, name)} = {_hidden(name, value)}: {component.__name__} has no such field; "
                f"it knows: {known}{_suggestion(str(name), fields)}"
            )
    for name, field in fields.items():
        if given.get(name, MISSING if _required(field) else None) == MISSING:
            raise ConfigError(
                f"{_below(key, name, field)} is missing: {component.__name__} needs it ({_written(field)})"
            )


def _below(key: str, name: str, field: dataclasses.Field[Any] | None = None) -> str:
    """The key of a field of the component at ``key``."""
    elsewhere = field.metadata.get("key") if field is not None else None
    return str(elsewhere or (f"{key}.{name}" if key else name))


def _value(field: dataclasses.Field[Any], hint: Any, value: Any, key: str) -> Any:
    value = _nested(value, key)
    try:
        return TypeAdapter(checkable(hint), config=STRICT).validate_python(value)
    except ValidationError as error:
        at = "".join(f"[{part}]" for part in error.errors()[0]["loc"] if isinstance(part, int))
        raise ConfigError(
            f"{key} = {_shown(value)} ({type(value).__name__}): wanted {_written(field)}"
            + (f"; the fault is at {key}{at}" if at else "")
        ) from error


def _nested(value: Any, key: str) -> Any:
    """The value with every component inside it built."""
    if isinstance(value, Mapping):
        if TARGET in value:
            return build(value, key)
        return {name: _nested(part, f"{key}.{name}") for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_nested(part, f"{key}[{index}]") for index, part in enumerate(value)]
    return value


def _required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _written(field: dataclasses.Field[Any]) -> str:
    """A field's type as its author wrote it."""
    return field.type if isinstance(field.type, str) else getattr(field.type, "__name__", str(field.type))


def _suggestion(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, list(known), n=1)
    return f". Did you mean {close[0]!r}?" if close else ""


def _hidden(name: Any, value: Any) -> str:
    """The value, unless the field's name says that it may be somebody's secret."""
    return "…" if re.search("key|token|secret|passw|credential|auth", str(name), re.IGNORECASE) else _shown(value)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
