"""Names and orders of what repair adds to the tables."""

from __future__ import annotations

import pytest

from kvrelay.report.names import ALLOCATORS, CLUSTERS, DATASETS, PRIOR_WORK, kind_label, kind_size, label, rank


@pytest.mark.parametrize(
    ("budget", "printed"),
    [
        ("p02", "2 %"),
        ("p80", "80 %"),
        ("t64", "64 tokens"),
        ("t256", "256 tokens"),
        ("0", "0 %"),
        ("suffix", "suffix"),
        ("all", "all"),
        ("slot", "slot"),
        ("half", "half"),
    ],
)
def test_budgets_are_printed_as_what_they_are(budget: str, printed: str) -> None:
    assert label("budget", budget) == printed


def test_budgets_stand_by_size() -> None:
    names = ["all", "t256", "p10", "suffix", "p02", "t64", "0", "half", "slot", "p80"]
    ordered = ["0", "p02", "p10", "p80", "t64", "t256", "slot", "suffix", "all", "half"]
    assert sorted(names, key=lambda name: rank("budget", name)) == ordered


def test_allocators_stand_between_their_endpoints() -> None:
    ordered = sorted(
        ["reprefill", "mine", "token", "oracle", "sur", "shift", "replay"], key=lambda n: rank("allocator", n)
    )
    assert ordered == ["shift", "sur", "token", "replay", "reprefill", "oracle", "mine"]
    assert set(PRIOR_WORK) <= set(ALLOCATORS) and len(PRIOR_WORK) == 8


@pytest.mark.parametrize(
    ("kind", "parts", "printed"),
    [
        ("niah-1024", ("niah", 1024), "1K"),
        ("niah-32K", ("niah", 32768), "32K"),
        ("niah-1000", ("niah", 1000), "1000"),
        ("control-4096", ("control", 4096), "control 4K"),
        ("bridge", ("bridge", 0), "bridge"),
    ],
)
def test_kinds_of_case_with_a_length(kind: str, parts: tuple[str, int], printed: str) -> None:
    assert kind_size(kind) == parts and kind_label(kind) == printed


def test_every_data_set_says_what_its_bootstrap_resamples() -> None:
    assert set(DATASETS) == set(CLUSTERS)
