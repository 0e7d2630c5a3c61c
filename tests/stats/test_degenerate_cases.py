"""Cases where a formula breaks or says too much: what is printed there, and what scipy and statsmodels say."""

from __future__ import annotations

import math

import numpy as np
import pytest
from exact_bootstrap import exact_bootstrap
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar
from statsmodels.stats.multitest import multipletests

from kvrelay.core.errors import DataError
from kvrelay.report.text import interval
from kvrelay.stats.bootstrap import estimate
from kvrelay.stats.compare import Comparison, compare
from kvrelay.stats.frame import tidy
from kvrelay.stats.paired import holm, mcnemar, sign_flip, transitions
from tests.stats.golden_study import study_files


def singles(size: int) -> list[str]:
    return [f"q{i:02d}" for i in range(size)]


def compared(before: str, after: str, clusters: tuple[str, ...]) -> Comparison:
    outcomes = {("talks", "bm25", "original"): before, ("talks", "bm25", "roperelay"): after}
    files = study_files(outcomes, clusters={"talks": clusters})
    found = compare(tidy(files.plans, files.records, files.verdicts).table, resamples=200)
    return next(c for c in found if c.metric.name == "accuracy")


@pytest.mark.parametrize("difference", [0.0, 1.0, -1.0, 0.1])
def test_equal_differences_give_an_interval_of_no_width_that_says_so(difference: float) -> None:
    found = estimate([difference] * 40, singles(40))
    assert (found.low, found.high) == (pytest.approx(difference, abs=1e-15), pytest.approx(difference, abs=1e-15))
    assert found.degenerate and "degenerate" in found.note
    row = {"metric": "em", "difference": found.point, "low": found.low, "high": found.high, "dagger": False}
    assert interval({**row, "degenerate": True}, "low", "high").endswith("]‡")


def test_all_ties_are_no_evidence() -> None:
    found = compared("0110", "0110", ("a", "b", "c", "d"))
    assert found.estimate is not None and found.moves is not None
    assert (found.estimate.point, found.estimate.low, found.estimate.high) == (0.0, 0.0, 0.0)
    assert (found.moves.gains, found.moves.losses, found.moves.ties) == (0, 0, 4)
    assert (found.mcnemar_p, found.signflip_p, found.holm_p, found.maxt_p) == (1.0, 1.0, 1.0, 1.0)


def test_no_discordant_pair_is_p_one_as_the_exact_test_has_it() -> None:
    exact = statsmodels_mcnemar([[30, 0], [0, 20]], exact=True).pvalue
    assert mcnemar(0, 0) == exact == 1.0


@pytest.mark.parametrize(("gains", "losses"), [(1, 0), (5, 0), (3, 3), (12, 4), (40, 19)])
def test_mcnemar_is_statsmodels_exact_test(gains: int, losses: int) -> None:
    table = [[50, losses], [gains, 50]]
    assert mcnemar(gains, losses) == pytest.approx(statsmodels_mcnemar(table, exact=True).pvalue, rel=1e-12)


@pytest.mark.parametrize(("before", "after", "clusters"), [("0", "1", ("a",)), ("0011", "1111", ("a", "a", "a", "a"))])
def test_one_cluster_is_not_estimable(before: str, after: str, clusters: tuple[str, ...]) -> None:
    found = compared(before, after, clusters)
    assert found.estimate is not None
    assert (found.estimate.low, found.estimate.high, found.estimate.low_t, found.estimate.high_t) == (None,) * 4
    assert found.estimate.note == "not estimable: one cluster" and not found.estimate.degenerate
    assert (found.signflip_p, found.holm_p, found.maxt_p) == (None, None, None)
    row = {"metric": "accuracy", "difference": found.estimate.point, "low": None, "high": None}
    assert interval(row, "low", "high") == "not estimable"


def test_one_cluster_with_pairs_among_several_is_not_estimable_either() -> None:
    """The data set has three clusters, but only one of them was answered in both arms."""
    found = compared("0m0", "11m", ("a", "b", "c"))
    assert found.estimate is not None
    assert (found.estimate.n, found.estimate.n_clusters) == (1, 1)
    assert (found.estimate.low, found.signflip_p, found.maxt_p) == (None, None, None)


def test_what_is_missing_is_counted_bounded_and_never_wrong() -> None:
    """1 of 2 known pairs repaired; e3 was not judged in one arm and e4 has no answer in the other."""
    found = compared("01u0", "111m", ("a", "b", "c", "d"))
    assert found.estimate is not None
    assert (found.estimate.n, found.n_unscored, found.n_missing, found.n_expected) == (2, 1, 1, 4)
    assert found.estimate.point == 50.0
    # Against it: 0110 to 1110; for it: 0100 to 1111.
    assert (found.worst, found.best) == (25.0, 75.0)


def test_two_answers_that_are_one_item_go_the_same_way() -> None:
    """Five questions, original 1 u u 1 0 and here 0 u u u 1; both answers to e2 are one text, those to e3 are two.

    Both known: e1 (-1) and e5 (+1). Against it: -1 + 0 - 1 - 1 + 1 = -2 of 5; for it: -1 + 0 + 1 + 0 + 1 = +1 of 5; e2
    adds nothing to either, though the accuracies do not know it: 2 to 4 of 5, and 1 to 4 of 5.
    """
    outcomes = {("talks", "bm25", "original"): "1uu10", ("talks", "bm25", "roperelay"): "0uuu1"}
    files = study_files(outcomes, clusters={"talks": tuple("abcde")})
    for key, record in list(files.records.items()):
        if record.example_id == "e3":  # whose verdict was found by its text, and is now not judged
            files.records[key] = record.model_copy(update={"answer": f"{record.answer} at {record.cell.position}"})
    found = {c.metric.name: c for c in compare(tidy(files.plans, files.records, files.verdicts).table, resamples=200)}
    accuracy = found["accuracy"]
    assert accuracy.estimate is not None and (accuracy.estimate.n, accuracy.estimate.point) == (2, 0.0)
    assert (accuracy.worst, accuracy.best) == (pytest.approx(-40.0), pytest.approx(20.0))
    assert (accuracy.baseline_ends, accuracy.ends) == (pytest.approx((40.0, 80.0)), pytest.approx((20.0, 80.0)))
    assert (found["em"].worst, found["em"].best) == (pytest.approx(-40.0), pytest.approx(20.0))


def test_bounds_do_not_hang_on_a_pair_that_is_whole() -> None:
    """Original u0, here 1m: against it 11 to 10, for it 00 to 11."""
    found = compared("u0", "1m", ("a", "b"))
    assert (found.estimate, found.baseline_value, found.value) == (None, None, None)
    assert (found.baseline_ends, found.ends) == ((0.0, 50.0), (50.0, 100.0))
    assert (found.worst, found.best) == (0.0, 100.0)


def test_a_missing_number_is_refused_not_averaged() -> None:
    with pytest.raises(DataError, match="value 1 is nan"):
        estimate([1.0, math.nan], ["a", "b"])
    with pytest.raises(DataError, match="finite"):
        sign_flip([1.0, math.nan])


def test_the_family_counts_the_tests_that_were_made() -> None:
    """Two of three: the smallest p is doubled, not tripled, and what was not tested has none."""
    made = [0.01, 0.2]
    assert holm([0.01, None, 0.2])[0] == pytest.approx(0.02)
    assert [p for p in holm([0.01, None, 0.2]) if p is not None] == pytest.approx(
        multipletests(made, method="holm")[1].tolist(), abs=1e-15
    )


def test_unequal_lengths_are_no_pairs() -> None:
    with pytest.raises(DataError, match="3 outcomes against 2; wanted pairs"):
        transitions([True, False, True], [True, False])
    with pytest.raises(DataError, match="one name a value"):
        estimate([1.0, 0.0], ["a"])


def test_nothing_at_all_is_told() -> None:
    with pytest.raises(DataError, match="no pairs came"):
        estimate([], [])
    found = compared("uu", "11", ("a", "b"))
    assert (found.estimate, found.signflip_p, found.n_unscored) == (None, None, 2)


def test_one_changed_question_of_fifty() -> None:
    """A resample holds it w times, w binomial with mean one: w = 0 in 36 %, at most 3 in 98.1 %. So 0 to 3 / 50."""
    differences = [1] + [0] * 49
    means, chances = exact_bootstrap(differences)
    below = np.cumsum(chances)
    assert (means[np.searchsorted(below, 0.025)], means[np.searchsorted(below, 0.975)]) == (0.0, 0.06)
    found = estimate(differences, singles(50))
    assert (found.low, found.high) == (0.0, 0.06) and not found.degenerate
    assert sign_flip([1.0] + [0.0] * 49) == mcnemar(1, 0) == 1.0


@pytest.mark.parametrize("seed", range(3))
def test_sign_flips_are_scipys_exact_permutation_test(seed: int) -> None:
    """Exchanging the arms of a cluster is flipping the sign of its difference; scipy goes through all of them."""
    rng = np.random.default_rng(seed)
    before, after = rng.integers(0, 5, 9).astype(float), rng.integers(0, 5, 9).astype(float)
    theirs = stats.permutation_test(
        (after, before),
        lambda x, y, axis: np.sum(x - y, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=np.inf,
    )
    assert sign_flip(after - before) == pytest.approx(theirs.pvalue, abs=1e-12)
    assert sign_flip((after - before) / 3) == pytest.approx(theirs.pvalue, abs=1e-12)
