"""What a component's settings may be. Every refusal names the value, what was wanted, and the key to change."""

from __future__ import annotations

from kvrelay.core.budget import BASIS_POINTS
from kvrelay.core.errors import ConfigError


def whole_number(key: str, value: object, least: int) -> None:
    """Raises `ConfigError` unless ``value`` is an int (not a bool) of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigError(f"{key} is {value!r}; wanted a whole number of at least {least} (key: {key})")


def odd_number(key: str, value: object) -> None:
    """Raises `ConfigError` unless ``value`` is an odd int: an even kernel has no middle, so it would shift scores."""
    whole_number(key, value, 1)
    if isinstance(value, int) and value % 2 == 0:
        raise ConfigError(f"{key} is {value}; wanted an odd number, so that the kernel has a middle (key: {key})")


def number(key: str, value: object, least: float, most: float) -> None:
    """Raises `ConfigError` unless ``value`` is a number in [least, most]; NaN is in no range."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise ConfigError(f"{key} is {value!r}; wanted a number from {least:g} to {most:g} (key: {key})")


def one_of(key: str, value: object, allowed: tuple[str, ...]) -> None:
    """Raises `ConfigError` unless ``value`` is one of the names in ``allowed``."""
    if value not in allowed:
        raise ConfigError(f"{key} is {value!r}; wanted one of {', '.join(allowed)} (key: {key})")


def basis_points(key: str, share: float) -> int:
    """A share from 0 to 1 as whole basis points, so that what follows is integer arithmetic (0.29 * 100 is below 29).

    Raises `ConfigError` for a share that is out of range or finer than a basis point.
    """
    number(key, share, 0.0, 1.0)
    points = round(share * BASIS_POINTS)
    if abs(share * BASIS_POINTS - points) > 1e-6:
        raise ConfigError(f"{key} is {share}; wanted a whole number of basis points (0.0001), round it (key: {key})")
    return points


def layer_of(key: str, layer: int, n_layers: int) -> int:
    """The layer itself. Raises `ConfigError` where the model has no such layer (counted from 0)."""
    if layer >= n_layers:
        raise ConfigError(f"{key} is {layer}; the model has layers 0 to {n_layers - 1} (key: {key})")
    return layer
