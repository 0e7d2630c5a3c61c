"""A deletion from a cached context, and what is left after it (SUR, sections 3.1 and A.1).

An edit is made on tokens, never on text that is tokenised again: the tokens that stay are the tokens that were cached.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from kvrelay.core.errors import EditError

Span = tuple[int, int]
"""A half-open range: (start, end)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """Spans of tokens that are deleted, in the coordinates of the unedited context; ascending, disjoint, not touching.

    Several deletions are given in original coordinates too, so that their order does not matter. ``notes`` go to the
    record: where a span was given in characters and had to be snapped to token borders.
    """

    spans: tuple[Span, ...]
    notes: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def of_tokens(
        cls, spans: Iterable[Span], n_tokens: int, *, protected: int = 0, notes: Mapping[str, object] | None = None
    ) -> Edit:
        """Check spans against a context of ``n_tokens``, of which the first ``protected`` must stay, and join them.

        Raises `EditError` for no span, an empty or reversed one, one outside the context, over a protected token, or
        for spans that leave nothing.
        """
        given = [(int(start), int(end)) for start, end in spans]
        if not given:
            raise EditError("no span to delete came; wanted at least one (start, end)")
        for start, end in given:
            if end <= start:
                raise EditError(f"the span ({start}, {end}) is empty; wanted start < end, in tokens")
            if start < 0 or end > n_tokens:
                raise EditError(f"the span ({start}, {end}) lies outside the context of {n_tokens} tokens")
            if start < protected:
                raise EditError(
                    f"the span ({start}, {end}) covers a protected token: the first {protected} (BOS, system and "
                    "template text) must stay"
                )
        joined = _joined(given)
        if sum(end - start for start, end in joined) == n_tokens - protected:
            raise EditError(f"the spans delete all {n_tokens - protected} tokens of the context; nothing would be left")
        return cls(spans=joined, notes=dict(notes or {}))

    @classmethod
    def of_characters(cls, spans: Iterable[Span], pieces: Sequence[str], *, protected: int = 0) -> Edit:
        """The same from spans of characters of the text that ``pieces`` (each token's own text) make together.

        A span is widened to the tokens that it touches, because half a token cannot be deleted; ``notes["snapped"]``
        lists [start, end, start', end'] in characters where that changed it.
        """
        ends = list(accumulate(map(len, pieces)))
        total = ends[-1] if ends else 0
        found, snapped = [], []
        for start, end in spans:
            if end <= start:
                raise EditError(f"the span ({start}, {end}) is empty; wanted start < end, in characters")
            if start < 0 or end > total:
                raise EditError(f"the span ({start}, {end}) lies outside the context of {total} characters")
            first, last = bisect.bisect_right(ends, start), bisect.bisect_left(ends, end)
            border = (ends[first] - len(pieces[first]), ends[last])
            while first > protected and not pieces[first - 1]:
                first -= 1  # an earlier part of the same character
            found.append((first, last + 1))
            if border != (start, end):
                snapped.append([start, end, *border])
        notes = {"snapped": snapped} if snapped else None
        return cls.of_tokens(found, len(pieces), protected=protected, notes=notes)

    @property
    def n_deleted(self) -> int:
        """Number of deleted tokens."""
        return sum(end - start for start, end in self.spans)

    @property
    def splice(self) -> int:
        """P: how many tokens precede the first deletion; their states stay exact."""
        return self.spans[0][0]

    def kept(self, n_tokens: int) -> list[int]:
        """Original positions of the tokens that stay, ascending."""
        found: list[int] = []
        start = 0
        for first, end in self.spans:
            found.extend(range(start, first))
            start = end
        return [*found, *range(start, n_tokens)]


def _joined(spans: Sequence[Span]) -> tuple[Span, ...]:
    done: list[Span] = []
    for start, end in sorted(spans):
        if done and start <= done[-1][1]:
            done[-1] = (done[-1][0], max(done[-1][1], end))
        else:
            done.append((start, end))
    return tuple(done)
