"""The papers' numbers, looked up for a setting that was measured. What a paper does not print is None."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import yaml

_DELETION = {"token": "isolated_tokens", "window": "best_window"}
"""Names of allocators in the published table, where they are other ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """Accuracy in per cent and a difference in points; a difference follows from its two sides where both are given."""

    source: str
    baseline: float | None
    position: float | None
    difference: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """All published numbers of `reported.yaml`.

    A lookup wants names of components that ran as their names say: `altered` tells whether they did.
    """

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

    def positive_under(
        self,
        judge: str,
        identity: Mapping[str, Any],
        *,
        model: str,
        selector: str,
        dataset: str,
        retention: str,
        baseline: str,
        position: str,
    ) -> str | None:
        """Where the paper says that this gain is positive under this judge, or None.

        ``judge`` is what the configuration calls it; its ``identity`` must be the paper's too, where that is stated.
        """
        facts = self.facts["roperelay"]["cross_judge"]
        same = (model, dataset, retention) == (facts["model"], facts["dataset"], facts["retention"])
        moved = (baseline, position) == ("original", "roperelay")
        stated = same and moved and selector in facts["positive"]
        return str(facts["source"]) if stated and _same_judge(facts, judge, identity) else None

    @property
    def totals(self) -> Mapping[str, Any]:
        """Counts of the 36 comparisons of RoPERelay's Tables 1 and 8."""
        return dict(self.facts["roperelay"]["totals"])

    def deletion(self, *, model: str, dataset: str, allocator: str, budget: str) -> float | None:
        """Exact match in per cent on same-key deletions, by share of the suffix refreshed; SUR's, or None."""
        if dataset != "erasing_niah" or not budget.startswith("p"):
            return None
        entry = self.facts["sur"]["deletion"].get(_DELETION.get(allocator, allocator), {})
        found = entry.get(model, {}) if isinstance(entry, Mapping) else {}
        return found.get(int(budget[1:])) if budget[1:].isdigit() else None

    def natural_qa(self, *, model: str, datasets: frozenset[str], allocator: str, budget: str) -> Mapping[str, float]:
        """Differences in exact match and shares of repaired and regressed cases over all four sets; empty elsewhere."""
        facts = self.facts["sur"]["natural_qa"]
        if (allocator, budget) != ("sur", "p05") or datasets != frozenset(facts["datasets"]):
            return {}
        names = ("minus_shift", "minus_reprefill", "repaired", "regressed")
        return {name: facts[name][model] for name in names if model in facts[name]}

    def speedup(
        self, *, model: str, datasets: frozenset[str], allocator: str, budget: str, executor: str
    ) -> tuple[float, float] | None:
        """Lowest and highest published speed over Re-prefill; the paper timed the interval executor alone."""
        names = {"model": model, "datasets": datasets, "allocator": allocator, "budget": budget}
        if executor != "interval" or not self.natural_qa(**names):  # type: ignore[arg-type]
            return None
        low, high = self.facts["sur"]["natural_qa"]["speedup_over_reprefill"]
        return low, high

    def holdout(self, *, model: str, dataset: str, budget: str) -> float | None:
        """Exact match of regions less that of tokens, in points over all lengths, at the smaller or larger support."""
        facts, size = self.facts["sur"]["holdout"], {"t64": "small", "t256": "large"}.get(budget)
        if model != facts["model"] or dataset != "holdout_erasing_niah" or size is None:
            return None
        return float(facts[f"region_gain_{size}_support"])

    def side_contrast(self, *, model: str, dataset: str, allocator: str) -> float | None:
        """Contrast between sides in nats of full replay's effect, by data set; it is not said for which model."""
        if allocator != "replay" or model not in self.facts["sur"]["natural_qa"]["minus_shift"]:
            return None
        found = self.facts["sur"]["side_contrast_nll"].get(dataset.removeprefix("location_"))
        return float(found) if found is not None and dataset.startswith("location_") else None

    def localized_contrast(self, *, model: str, datasets: frozenset[str]) -> tuple[float, float, float] | None:
        """The localized refresh's contrast, beside a model of the paper over all its data sets."""
        facts = self.facts["sur"]["natural_qa"]
        same = datasets == frozenset(f"location_{name}" for name in facts["datasets"])
        return self.localized if same and model in facts["minus_shift"] else None

    @property
    def localized(self) -> tuple[float, float, float]:
        """Contrast between sides in nats of the localized refresh: point and interval."""
        facts = self.facts["sur"]["side_contrast_nll"]
        return facts["localized"], *facts["localized_interval"]


def altered(changed: Collection[str], names: Mapping[str, str | None]) -> bool:
    """Whether a component that a row names ran with other settings than its name stands for."""
    return any(f"{group}.{name}" in changed for group, name in names.items() if name)


def _same_judge(facts: Mapping[str, Any], judge: str, identity: Mapping[str, Any]) -> bool:
    """Whether a judge on file is the paper's of that name: template, model asked for, limit in tokens, effort."""
    paper = dict(facts["judges"].get(judge, {}))
    named, sent = identity.get("template") or {}, identity.get("fields") or {}
    said = {
        "max_tokens": sent.get("max_tokens", sent.get("max_output_tokens")),
        "reasoning_effort": sent.get("reasoning_effort") or (sent.get("reasoning") or {}).get("effort"),
    }
    asked = str(identity.get("model_asked", "")).lower()
    known = bool(paper) and named.get("name") == facts["template"] and paper.pop("model") in asked
    return known and all(said[name] == value for name, value in paper.items())


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
