"""The published numbers and how a measured setting finds them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kvrelay.report import reported
from kvrelay.report.names import DATASETS, MODELS, POSITIONS, SELECTORS

NUMBERS = reported.load()


def _accuracy(model: str, selector: str, dataset: str, retention: str, position: str | None = "roperelay"):  # type: ignore[no-untyped-def]
    return NUMBERS.accuracy(
        model=model, selector=selector, dataset=dataset, retention=retention, baseline="original", position=position
    )


def test_both_sides_give_the_difference() -> None:
    found = _accuracy("llama31_8b", "bm25", "longmemeval_s", "r10")
    assert (found.source, found.baseline, found.position, found.difference) == ("Table 1", 23.6, 35.4, 11.8)


def test_a_difference_alone() -> None:
    found = _accuracy("qwen2_7b", "snapkv", "personamem_128k", "r10")
    assert (found.baseline, found.position, found.difference) == (None, None, 14.5)


def test_a_full_cache_matches_any_retention_but_has_one_side() -> None:
    for retention in ("r10", "full"):
        found = _accuracy("llama31_8b", "full", "longmemeval_s", retention, None)
        assert (found.baseline, found.position, found.difference) == (27.4, None, None)
    assert _accuracy("llama31_8b", "full", "longmemeval_s", "r10") is None


@pytest.mark.parametrize(("position", "value", "difference"), [("key_only", 8.4, -18.0), ("query_only", 27.2, 0.8)])
def test_other_positions(position: str, value: float, difference: float) -> None:
    found = _accuracy("qwen2_7b", "bm25", "longmemeval_s", "b8192", position)
    assert (found.source, found.position, found.difference) == ("Figure 4", value, difference)


def test_other_budgets_and_gaps_find_nothing() -> None:
    assert _accuracy("llama31_8b", "bm25", "longmemeval_s", "r20") is None
    assert _accuracy("qwen2_7b", "bm25", "longmemeval_s", "r10") is None
    assert _accuracy("llama31_8b", "bm25", "longmemeval_s", "r10", "score") is None
    assert _accuracy("llama31_8b", "cam", "personamem_128k", "r10", None) is None


def test_one_cell() -> None:
    names = {"model": "llama31_8b", "selector": "bm25", "dataset": "longmemeval_s", "retention": "r10"}
    assert NUMBERS.value(**names, position="original", baseline="original") == 23.6
    assert NUMBERS.value(**names, position="roperelay", baseline="original") == 35.4
    assert NUMBERS.value(**names, position="score", baseline="original") is None


def test_a_gain_is_over_the_original_positions_only() -> None:
    names = {"model": "qwen2_7b", "selector": "snapkv", "dataset": "personamem_128k", "retention": "r10"}
    assert NUMBERS.accuracy(**names, baseline="ranksync", position="roperelay") is None


def test_totals_add_up() -> None:
    totals = NUMBERS.totals
    assert totals["positive"] + totals["negative"] == totals["comparisons"] == 36


def test_names_are_those_of_the_tables() -> None:
    for entry in NUMBERS.facts["roperelay"]["accuracy"]:
        assert entry["model"] in MODELS and entry["selector"] in SELECTORS and entry["dataset"] in DATASETS
        assert set(entry.get("values", {})) | set(entry.get("gains", {})) <= set(POSITIONS)
        assert ("values" in entry) != ("gains" in entry)


def test_per_cents_are_per_cents() -> None:
    for entry in NUMBERS.facts["roperelay"]["accuracy"]:
        assert all(0 <= value <= 100 for value in _numbers({**entry.get("values", {}), **entry.get("gains", {})}))
    for share in _numbers(NUMBERS.facts["sur"]["deletion"]["sur"]):
        assert 0 <= share <= 100


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        for part in value.values():
            yield from _numbers(part)
    else:
        yield value
