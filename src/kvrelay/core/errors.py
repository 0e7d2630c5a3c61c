"""The errors that a user can meet. Each message names what came, what was wanted and which key to change."""

from __future__ import annotations


class KVRelayError(ValueError):
    """Base of every error that a user can mend. ``exit_code`` is what the command line returns."""

    exit_code = 2


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
