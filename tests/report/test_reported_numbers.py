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


@pytest.mark.parametrize(
    ("model", "allocator", "budget", "expected"),
    [
        ("qwen3_8b", "sur", "p02", 89.6),
        ("qwen3_8b", "token", "p02", 7.3),
        ("qwen3_8b", "window", "p02", 75.0),
        ("llama33_70b", "window", "p02", 65.6),
        ("llama33_70b", "infoflow", "p05", 100.0),
        ("qwen3_235b_a22b", "bm25_units", "p02", 98.96),
        ("qwen3_8b", "token", "p05", None),
        ("qwen3_8b", "sur", "t64", None),
        ("qwen3_8b", "shift", "0", None),
        ("smollm2", "sur", "p02", None),
    ],
)
def test_deletions_by_model_allocator_and_budget(
    model: str, allocator: str, budget: str, expected: float | None
) -> None:
    asked = {"model": model, "allocator": allocator, "budget": budget}
    assert NUMBERS.deletion(dataset="erasing_niah", **asked) == expected
    assert NUMBERS.deletion(dataset="lab_erasing_niah", **asked) is None


def test_natural_questions_want_all_four_sets() -> None:
    sets = frozenset(("hotpotqa", "twowikimultihopqa", "musique", "iirc"))
    asked: dict[str, Any] = {"model": "llama33_70b", "allocator": "sur", "budget": "p05"}
    assert NUMBERS.natural_qa(datasets=sets, **asked) == {
        "minus_shift": 2.25,
        "minus_reprefill": -0.08,
        "repaired": 3.5,
        "regressed": 1.25,
    }
    assert NUMBERS.natural_qa(datasets=sets - {"iirc"}, **asked) == {}
    assert NUMBERS.natural_qa(datasets=sets, **{**asked, "budget": "p02"}) == {}
    assert NUMBERS.speedup(datasets=sets, executor="interval", **asked) == (1.16, 1.43)
    assert NUMBERS.speedup(datasets=sets, executor="packed", **asked) is None
    assert NUMBERS.speedup(datasets=sets, executor="interval", **{**asked, "model": "qwen3_8b"}) is None


def test_published_shares_are_whole_cases() -> None:
    """1,200 cases: 30 repaired and 9 regressed are 21 more, 1.75 points; and 42 less 15."""
    qa = NUMBERS.facts["sur"]["natural_qa"]
    for model, moved in (("qwen3_30b", (30, 9)), ("llama33_70b", (42, 15))):
        assert [qa[name][model] * 12 for name in ("repaired", "regressed")] == list(moved)
        assert qa["minus_shift"][model] * 12 == moved[0] - moved[1]


def test_holdout_and_contrasts() -> None:
    asked = {"model": "qwen3_8b", "dataset": "holdout_erasing_niah"}
    assert [NUMBERS.holdout(budget=b, **asked) for b in ("t64", "t256", "p02")] == [9.85, 1.84, None]
    assert NUMBERS.holdout(model="smollm2", dataset="holdout_erasing_niah", budget="t64") is None
    replay = {"model": "qwen3_30b", "allocator": "replay"}
    assert NUMBERS.side_contrast(dataset="location_twowikimultihopqa", **replay) == -0.155
    assert NUMBERS.side_contrast(dataset="lab_location", **replay) is None
    assert NUMBERS.side_contrast(model="smollm2", allocator="replay", dataset="location_iirc") is None
    assert NUMBERS.localized == (-0.031, -0.093, 0.032)


def test_changed_components_are_known_by_group_and_name() -> None:
    names = {"budget": "p02", "model": "qwen3_8b", "executor": ""}
    assert reported.altered({"budget.p02"}, names) and reported.altered(["model.qwen3_8b"], names)
    assert not reported.altered({"budget.p05", "retention.p02", "executor."}, names)


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        for part in value.values():
            yield from _numbers(part)
    else:
        yield value
