"""The only place where a retention becomes a number of states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from kvrelay.core.errors import ConfigError

BASIS_POINTS = 10_000


class Retention(Protocol):
    """How much of a history is kept: ``states(T)`` per layer and KV head, protected states not counted."""

    def states(self, n_history: int) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """A share of the history's tokens: floor(T * ratio) in whole basis points, at least one state.

    Integer arithmetic, because ``int(1000 * (1 - 0.9))`` is 99.
    """

    ratio: float

    def __post_init__(self) -> None:
        if not 0 < self.ratio <= 1:
            raise ConfigError(f"retention ratio is {self.ratio}; wanted above 0 and at most 1 (key: retention.*.ratio)")
        if abs(self.ratio * BASIS_POINTS - self.basis_points) > 1e-6 or self.basis_points == 0:
            raise ConfigError(
                f"retention ratio {self.ratio} is not a whole number of basis points (0.0001); "
                "round it, so that the budget is exact (key: retention.*.ratio)"
            )

    @property
    def basis_points(self) -> int:
        return round(self.ratio * BASIS_POINTS)

    def states(self, n_history: int) -> int:
        return min(n_history, max(1, n_history * self.basis_points // BASIS_POINTS))


@dataclass(frozen=True, slots=True, kw_only=True)
class States:
    """An absolute number of states (B2048); a shorter history is kept whole."""

    count: int

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ConfigError(f"budget is {self.count} states; wanted at least 1 (key: retention.*.count)")

    def states(self, n_history: int) -> int:
        return min(n_history, self.count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A share of a suffix's stale states to refresh: floor(S * share) in whole basis points, possibly none."""

    share: float

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ConfigError(f"repair budget is {self.share}; wanted 0 to 1 (key: budget.*.share)")
        if abs(self.share * BASIS_POINTS - self.basis_points) > 1e-6:
            raise ConfigError(
                f"repair budget {self.share} is not a whole number of basis points (0.0001); round it, so that the "
                "allowance is exact (key: budget.*.share)"
            )

    @property
    def basis_points(self) -> int:
        return round(self.share * BASIS_POINTS)

    def states(self, n_suffix: int) -> int:
        return n_suffix * self.basis_points // BASIS_POINTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Refreshed:
    """An absolute number of states to refresh; a shorter suffix is refreshed whole."""

    count: int

    def __post_init__(self) -> None:
        if self.count < 0:
            raise ConfigError(f"repair budget is {self.count} states; wanted 0 or more (key: budget.*.count)")

    def states(self, n_suffix: int) -> int:
        return min(n_suffix, self.count)
