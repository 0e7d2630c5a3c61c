"""The papers' numbers, looked up for a setting that was measured. What a paper does not print is None."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import yaml


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """Accuracy in per cent and a difference in points; a difference follows from its two sides where both are given."""

    source: str
    baseline: float | None
    position: float | None
    difference: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """All published numbers of `reported.yaml`."""

    facts: Mapping[str, Any]

    def accuracy(
        self, *, model: str, selector: str, dataset: str, retention: str, baseline: str, position: str | None
    ) -> Published | None:
        """The published pair for one row, or None. A full cache matches whatever its retention is called."""
        wanted = {"model": model, "selector": selector, "dataset": dataset}
        for entry in self.facts["roperelay"]["accuracy"]:
            same = all(entry[name] == value for name, value in wanted.items())
            if same and entry.get("retention", retention) == retention:
                found = _published(entry, baseline, position)
                if found is not None:
                    return found
        return None

    def value(
        self, *, model: str, selector: str, dataset: str, retention: str, position: str, baseline: str
    ) -> float | None:
        """The published accuracy of one cell in per cent, or None."""
        other = None if position == baseline else position
        names = {"model": model, "selector": selector, "dataset": dataset, "retention": retention}
        found = self.accuracy(**names, baseline=baseline, position=other)
        if found is None:
            return None
        return found.baseline if other is None else found.position

    @property
    def totals(self) -> Mapping[str, Any]:
        """Counts of the 36 comparisons of RoPERelay's Tables 1 and 8."""
        return dict(self.facts["roperelay"]["totals"])


@cache
def load() -> Reported:
    """Read the numbers that come with the package."""
    text = resources.files("kvrelay.report").joinpath("reported.yaml").read_text(encoding="utf-8")
    return Reported(facts=yaml.safe_load(text))


def _published(entry: Mapping[str, Any], baseline: str, position: str | None) -> Published | None:
    values, gains = entry.get("values", {}), entry.get("gains", {})
    before, after = values.get(baseline), values.get(position)
    gain = gains.get(position) if baseline == "original" else None
    if gain is None and before is not None and after is not None:
        gain = round(after - before, 6)
    if (before if position is None else gain if after is None else after) is None:
        return None
    return Published(source=entry["source"], baseline=before, position=after, difference=gain)
