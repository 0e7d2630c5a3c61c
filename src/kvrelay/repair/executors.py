"""In which passes chosen slots are recomputed (SUR, sections 3.3 and A.1).

All schedules compute the same states in exact arithmetic: a token's state follows from its own and from those at
earlier positions, whichever of them are recomputed together. They differ in rounding and in time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvrelay.core.errors import ConfigError
from kvrelay.core.repair import Traversal, intervals


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """One run of consecutive slots after another, each through all layers: R passes. The paper's runs used it."""

    def schedule(self, slots: Sequence[int]) -> tuple[Traversal, ...]:
        return tuple(Traversal(slots=tuple(range(start, end)), kernel="causal") for start, end in intervals(slots))


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """All slots together, layer by layer, under one mask: one pass, whatever the number of intervals."""

    def schedule(self, slots: Sequence[int]) -> tuple[Traversal, ...]:
        return (Traversal(slots=tuple(slots), kernel="masked"),) if slots else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Auto:
    """One interval directly, because it needs no mask; several packed."""

    def schedule(self, slots: Sequence[int]) -> tuple[Traversal, ...]:
        return (Interval() if len(intervals(slots)) == 1 else Packed()).schedule(slots)


@dataclass(frozen=True, slots=True, kw_only=True)
class Custom:
    """As `Packed`, with a blockwise attention of our own. The paper's failed its error budget; so it is opted into."""

    experimental: bool = False

    def __post_init__(self) -> None:
        if not self.experimental:
            raise ConfigError(
                "the executor custom is experimental: its attention is not the reference; say so with "
                "experimental: true, or use packed (key: executor.custom.experimental)"
            )

    def schedule(self, slots: Sequence[int]) -> tuple[Traversal, ...]:
        return (Traversal(slots=tuple(slots), kernel="blocks"),) if slots else ()
