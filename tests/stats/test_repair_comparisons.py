"""Repairs against Shift, Re-prefill and each other, by the function that compares positions; all worked by hand."""

from __future__ import annotations

import pandas as pd

from kvrelay.stats.arms import AT_EQUAL_BUDGET, REPAIR, partner
from kvrelay.stats.compare import REPAIR_METRICS, Comparison, compare, summarise_cells
from kvrelay.stats.frame import tidy
from kvrelay.stats.pool import POOLED, pooled
from tests.stats.deletion_study import NIAH, Files, deletion_files, together


def table_of(files: Files) -> pd.DataFrame:
    return tidy(files.plans, files.records, files.verdicts).table


def against(table: pd.DataFrame, baseline: str, **options: object) -> dict[tuple[str, str, str, str], Comparison]:
    found = compare(table, arms=REPAIR, baseline=baseline, metrics=REPAIR_METRICS, tests=False, resamples=200)
    return {(c.allocator, c.budget, c.executor, c.metric.name): c for c in found}


def test_repaired_regressed_and_net_are_the_difference() -> None:
    """Shift 0110 against SUR 1010: the first is repaired, the second regressed."""
    arms = {("shift", "0", ""): "0110", ("sur", "p05", "packed"): "1010"}
    c = against(table_of(deletion_files(arms)), "shift")["sur", "p05", "packed", "em"]
    assert c.moves is not None and c.estimate is not None
    assert (c.moves.gains, c.moves.losses, c.moves.net) == (1, 1, 0)
    assert (c.baseline, c.baseline_value, c.value, c.estimate.point) == ("shift", 50.0, 50.0, 0.0)
    assert c.signflip_p is None and c.holm_p is None


def test_measures_without_a_verdict() -> None:
    """KL of Shift x00x is (1 + .5 + .5 + 1) / 4 = .75, of SUR at 2 % (.25 + .25 + .5 + .5) / 4; NLL 3 against 2."""
    found = against(table_of(deletion_files()), "shift")
    kl, nll, leak = (found["sur", "p02", "packed", name] for name in ("kl", "nll", "leak"))
    assert (kl.baseline_value, kl.value) == (0.75, 0.375) and kl.estimate is not None and kl.estimate.point == -0.375
    assert nll.estimate is not None and nll.estimate.point == -1.0
    assert (leak.baseline_value, leak.value, leak.moves) == (50.0, 0.0, None)
    assert [metric.name for metric in REPAIR_METRICS if metric.lower_is_better] == ["nll", "kl", "leak"]


def test_placements_of_a_question_are_one_cluster() -> None:
    """Two questions in three placements: cluster sums 3 and 0 over 3 each; draws give 0, 1/2 or 1."""
    arms = {("shift", "0", ""): "000000", ("sur", "p05", "packed"): "111000"}
    table = table_of(deletion_files(arms, clusters="aaabbb", kinds=["bridge"] * 6))
    c = against(table, "shift")["sur", "p05", "packed", "em"]
    assert c.estimate is not None
    assert (c.estimate.n, c.estimate.n_clusters, c.estimate.point) == (6, 2, 50.0)
    assert (c.estimate.low, c.estimate.high) == (0.0, 100.0)


def test_an_endpoint_under_two_executors_is_paired_with_its_own() -> None:
    candidates = [("replay", "suffix", "interval"), ("replay", "suffix", "packed"), ("sur", "p02", "interval")]
    assert partner(("sur", "p02", "packed"), candidates, "replay") == ("replay", "suffix", "packed")
    assert partner(("sur", "p02", "interval"), candidates, "replay") == ("replay", "suffix", "interval")
    assert partner(("sur", "p02", "auto"), candidates, "replay") == ("replay", "suffix", "interval")
    assert partner(("sur", "p02", "packed"), candidates, "shift") is None


def test_allocators_at_equal_budgets() -> None:
    """At 2 % SUR 1100 against tokens 0x00: two points of four; at 5 % 1111 against 0100: three."""
    found = compare(table_of(deletion_files()), arms=AT_EQUAL_BUDGET, baseline="token", metrics=REPAIR_METRICS[:1])
    points = {(c.allocator, c.budget): c.estimate.point for c in found if c.estimate}
    assert points == {("sur", "p02"): 50.0, ("sur", "p05"): 75.0}


def test_a_failure_is_a_missing_pair() -> None:
    arms = {("shift", "0", ""): "0011", ("sur", "p05", "packed"): "1fu1"}
    c = against(table_of(deletion_files(arms)), "shift")["sur", "p05", "packed", "em"]
    assert c.estimate is not None
    assert (c.n_expected, c.estimate.n, c.n_missing, c.n_unscored) == (4, 2, 1, 1)


def test_pools_count_cases_and_average_no_percentages() -> None:
    """1 of 2 and 3 of 6 with clusters of the same names: 4 of 8 in four clusters; one of tokens only is left out."""
    arm = ("sur", "p05", "packed")
    small = deletion_files({arm: "10"}, dataset="hotpotqa", clusters="ab", kinds=["bridge"] * 2)
    large = deletion_files(
        {arm: "111000", ("token", "p05", "packed"): "000000"},
        dataset="musique",
        clusters="aaabbb",
        kinds=["2hop"] * 6,
    )
    pool = pooled(table_of(together(small, large)))
    (cell,) = summarise_cells(pool, REPAIR_METRICS)
    assert (cell.dataset, cell.allocator, cell.n, cell.n_clusters) == (POOLED, "sur", 8, 4)
    assert (cell.means["em"], cell.counted["em"]) == (50.0, 8)
    assert pool["example_id"].is_unique


def test_one_data_set_has_no_pool() -> None:
    assert pooled(table_of(deletion_files())).empty


def test_positions_and_repairs_do_not_mix() -> None:
    found = compare(table_of(deletion_files(NIAH)), baseline="original")
    assert found == ()
