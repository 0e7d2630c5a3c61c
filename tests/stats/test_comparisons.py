"""Cells and comparisons of the golden study, every number worked by hand from its outcome letters."""

from __future__ import annotations

import pytest

from kvrelay.stats.compare import CellSummary, Comparison, compare, summarise_cells
from kvrelay.stats.frame import tidy
from tests.stats.golden_study import OUTCOMES, Files, study_files


def table_of(files: Files):  # type: ignore[no-untyped-def]
    return tidy(files.plans, files.records, files.verdicts).table


@pytest.fixture(scope="module")
def cells() -> dict[tuple[str, str, str], CellSummary]:
    return {(c.dataset, c.selector, c.position): c for c in summarise_cells(table_of(study_files()))}


@pytest.fixture(scope="module")
def found() -> dict[tuple[str, str, str], Comparison]:
    return {(c.dataset, c.selector, c.metric.name): c for c in compare(table_of(study_files()), resamples=500)}


def test_cells_count_every_status(cells: dict[tuple[str, str, str], CellSummary]) -> None:
    cell = cells["talks", "snapkv", "original"]
    assert cell.counts == {"scored": 4, "unscored": 1, "unjudged": 0, "failed": 0, "missing": 1}
    assert cell.means["accuracy"] == 25.0 and cell.counted["accuracy"] == 4
    assert cell.unscored_reasons == {"malformed": 1}
    assert (cell.n, cell.n_clusters, cell.stop_length) == (6, 3, 1)
    # One right of four; the unscored and the missing one as wrong, then as right.
    assert cell.accuracy_bound(unknown_right=False) == pytest.approx(100 / 6)
    assert cell.accuracy_bound(unknown_right=True) == pytest.approx(300 / 6)
    assert cells["talks", "snapkv", "roperelay"].counts["failed"] == 1
    assert len(cells) == len(OUTCOMES)


def test_means_by_hand(cells: dict[tuple[str, str, str], CellSummary]) -> None:
    cell = cells["talks", "bm25", "original"]
    assert cell.means["accuracy"] == pytest.approx(200 / 6)
    assert cell.means["f1"] == pytest.approx(100 * (2 * 1.0 + 4 * 0.25) / 6)
    assert cell.means["em"] == pytest.approx(200 / 6)
    assert cell.means["loglik"] == pytest.approx(-(2 * 1.5 + 4 * 2.0) / 6)
    assert cell.means["choice_accuracy"] is None
    assert cell.answer_tokens == pytest.approx(12.5)


def test_a_comparison_by_hand(found: dict[tuple[str, str, str], Comparison]) -> None:
    """talks, BM25: 010100 against 111001. Cluster sums 2 of 3, -1 of 1, 1 of 2: question-weighted 2 of 6."""
    c = found["talks", "bm25", "accuracy"]
    assert (c.baseline_value, c.value) == (pytest.approx(200 / 6), pytest.approx(400 / 6))
    assert c.estimate is not None and c.moves is not None
    assert c.estimate.point == pytest.approx(200 / 6)
    assert (c.estimate.n, c.estimate.n_clusters) == (6, 3)
    assert (c.moves.gains, c.moves.losses, c.moves.ties) == (3, 1, 2)
    assert c.estimate.point == pytest.approx(100 * c.moves.net / c.estimate.n)
    assert c.mcnemar_p == pytest.approx(10 / 16)
    # Sums 2, -1, 1: of the eight sign choices six reach |2| (4, 2, 2 and their mirrors; 0 and 0 do not).
    assert c.signflip_p == pytest.approx(6 / 8)
    assert (c.worst, c.best) == (pytest.approx(200 / 6), pytest.approx(200 / 6))


def test_gaps_leave_the_pair_out_and_are_counted(found: dict[tuple[str, str, str], Comparison]) -> None:
    """talks, SnapKV: 0m1u00 against 1111f0. Both known: e1, e3, e6, with 1 of 3 repaired."""
    c = found["talks", "snapkv", "accuracy"]
    assert c.estimate is not None and c.moves is not None
    assert (c.n_expected, c.estimate.n, c.n_unscored, c.n_missing) == (6, 3, 1, 2)
    assert (c.baseline_value, c.value) == (pytest.approx(100 / 3), pytest.approx(200 / 3))
    assert c.estimate.n_clusters == 2
    # Unknown against it: original 0,1,1,1,0,0 and moved 1,1,1,1,0,0; for it: 0,0,1,0,0,0 and 1,1,1,1,1,0.
    assert c.worst == pytest.approx(100 / 6)
    assert c.best == pytest.approx(400 / 6)


def test_log_likelihood_needs_no_verdict(found: dict[tuple[str, str, str], Comparison]) -> None:
    """The unscored e4 counts here (nll 2.0 against 1.5): differences 0.5, 0, 0.5, 0 over e1, e3, e4, e6."""
    c = found["talks", "snapkv", "loglik"]
    assert c.estimate is not None
    assert (c.estimate.n, c.n_unscored, c.n_missing) == (4, 0, 2)
    assert c.estimate.point == pytest.approx(0.25)
    assert c.moves is None and c.mcnemar_p is None


def test_no_change_is_degenerate(found: dict[tuple[str, str, str], Comparison]) -> None:
    c = found["longmemeval_s", "snapkv", "accuracy"]
    assert c.estimate is not None and c.estimate.degenerate and c.estimate.point == 0.0
    assert (c.mcnemar_p, c.signflip_p) == (1.0, 1.0)


def test_holm_runs_over_the_measure(found: dict[tuple[str, str, str], Comparison]) -> None:
    accuracy = [c for c in found.values() if c.metric.name == "accuracy"]
    assert len(accuracy) == 4
    lowest = min(accuracy, key=lambda c: c.signflip_p or 0.0)
    assert lowest.holm_p == pytest.approx(min(1.0, 4 * (lowest.signflip_p or 0.0)))


def test_measures_that_nobody_gave_are_left_out(found: dict[tuple[str, str, str], Comparison]) -> None:
    assert {name for _, _, name in found} == {"accuracy", "f1", "em", "loglik"}
    assert not any(selector == "full" for _, selector, _ in found)


def test_accuracy_without_a_verdict_is_an_empty_comparison() -> None:
    files = study_files({("talks", "bm25", "original"): "jj", ("talks", "bm25", "roperelay"): "11"})
    c = next(c for c in compare(table_of(files), resamples=100) if c.metric.name == "accuracy")
    assert (c.estimate, c.baseline_value, c.n_expected, c.n_missing) == (None, None, 2, 2)
    assert c.signflip_p is None and c.holm_p is None


def test_any_position_can_be_the_baseline() -> None:
    outcomes = {
        ("talks", "bm25", p): letters for p, letters in (("original", "00"), ("ranksync", "01"), ("score", "11"))
    }
    found = compare(table_of(study_files(outcomes)), baseline="ranksync", resamples=100)
    points = {c.position: c.estimate.point for c in found if c.metric.name == "accuracy" and c.estimate}
    assert points == {"original": -50.0, "score": 50.0}


def test_data_sets_with_equal_clusters_share_their_draws() -> None:
    """Equal outcomes under other names must give equal intervals, whatever else the table holds."""
    outcomes = {**OUTCOMES, ("talks", "h2o", "original"): "010100", ("talks", "h2o", "roperelay"): "111001"}
    found = {
        (c.dataset, c.selector): c.estimate for c in compare(table_of(study_files(outcomes))) if c.metric.name == "f1"
    }
    assert found["talks", "h2o"] == found["talks", "bm25"] is not None
