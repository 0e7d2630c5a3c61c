"""The errors that a user can meet. Each message names what came, what was wanted and which key to change."""

from __future__ import annotations

import re

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    """Text whose signs that act in place of being shown stand as their escapes. Names and ids come from data: ANSI
    sequences act on a terminal, bidirectional controls turn lines round, and a lone surrogate is no text at all."""
    return _CONTROLS.sub(lambda sign: sign.group().encode("unicode_escape").decode(), text)


class KVRelayError(ValueError):
    """Base of every error that a user can mend. ``exit_code`` is what the command line returns."""

    exit_code = 2

    def __str__(self) -> str:
        return visible(super().__str__())


class ConfigError(KVRelayError):
    """A setting that is unknown, of the wrong type, or out of its range."""


class AssetError(KVRelayError):
    """A model, data file or tokenizer that is missing or damaged."""

    exit_code = 3


class DataError(AssetError):
    """A record that breaks its data set's schema."""


class UnsupportedModelError(KVRelayError):
    """A model whose positions or caches this software cannot treat exactly."""


class PositionError(KVRelayError):
    """Positions out of the model's range, or an operation that needs one coordinate a token."""


class EditError(KVRelayError):
    """A deletion that a context does not allow, or a repair that is not what was asked for."""


class EndpointError(KVRelayError):
    """A judge's server that is away, refuses the key, or does not serve the model."""

    exit_code = 4


class IncompleteError(KVRelayError):
    """A run that finished with failed examples, or records that a report needs and cannot find."""

    exit_code = 5


class InvariantError(KVRelayError):
    """Two arms of a pair that differ in more than their positions, or a model that fails its gate."""

    exit_code = 6
