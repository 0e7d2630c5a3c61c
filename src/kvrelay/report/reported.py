"""The papers' numbers, looked up for a setting that was measured. What a paper does not print is None."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
            if all(entry[name] == value for name, value in wanted.items()):
                if entry.get("retention", retention) == retention:
                    found = _published(entry, baseline, position)
                    if found is not None:
                        return found
        return None

    @property
    def totals(self) -> Mapping[str, Any]:
        """Counts of the 36 comparisons of RoPERelay's Tables 1 and 8."""
        return dict(self.facts["roperelay"]["totals"])

    @property
    def main_comparisons(self) -> Sequence[tuple[str, str]]:
        """(selector, data set) pairs whose gain is stated for both models without a number."""
        signs: Mapping[str, Sequence[str]] = self.facts["roperelay"]["positive_for_both_models"]
        return [(selector, dataset) for dataset, selectors in signs.items() for selector in selectors]


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
    if position is None and before is None or position is not None and after is None and gain is None:
        return None
    return Published(source=entry["source"], baseline=before, position=after, difference=gain)
