"""Westfall and Young's max-T over a family of comparisons, against enumeration, one test alone, and what it must do."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from statsmodels.stats.multitest import multipletests

from kvrelay.core.errors import DataError
from kvrelay.stats.bootstrap import ClusterSums
from kvrelay.stats.compare import compare
from kvrelay.stats.frame import tidy
from kvrelay.stats.maxt import max_t
from kvrelay.stats.paired import holm, sign_flip
from tests.stats.golden_study import study_files


def sums(*values: float, counts: list[int] | None = None) -> ClusterSums:
    return ClusterSums(sums=np.array(values), counts=np.array(counts or [1] * len(values), dtype=float))


def _enumerated(family: list[tuple[str, list[float]]]) -> list[float]:
    """Every flip of every cluster of every data set, the step-down rule as it is written in the book."""
    sizes = {name: len(values) for name, values in family}
    flips = list(itertools.product(*(itertools.product((1, -1), repeat=size) for size in sizes.values())))

    def t(values: list[float], signs: tuple[int, ...]) -> float:
        norm = math.sqrt(math.fsum(v * v for v in values))
        return abs(math.fsum(s * v for s, v in zip(signs, values, strict=True))) / norm if norm else 0.0

    observed = [t(values, (1,) * len(values)) for _, values in family]
    order = sorted(range(len(family)), key=lambda i: -observed[i])
    adjusted, running = [0.0] * len(family), 0.0
    for step, i in enumerate(order):
        rest = order[step:]
        hits = 0
        for flip in flips:
            signs = dict(zip(sizes, flip, strict=True))
            hits += max(t(family[j][1], signs[family[j][0]]) for j in rest) >= observed[i] - 1e-9
        running = max(running, hits / len(flips))
        adjusted[i] = running
    return adjusted


FAMILY = [
    ("a", [2.0, 1.0, 0.0, 3.0, 1.0]),
    ("a", [0.5, -0.25, 0.75, 0.1, 0.0]),
    ("b", [1.0, 1.0, -1.0]),
    ("a", [0.0] * 5),
    ("b", [0.3, 0.2, 0.4]),
]


def test_few_clusters_are_enumerated() -> None:
    """Two data sets of five and three clusters: 256 flips."""
    found = max_t([sums(*values) for _, values in FAMILY], [name for name, _ in FAMILY])
    assert found == pytest.approx(_enumerated(FAMILY), abs=1e-15)
    assert found[3] == 1.0  # no difference anywhere


def test_random_flips_agree_with_all_flips() -> None:
    """Fewer flips than there are: a share of hits errs by sqrt(p (1 - p) / flips)."""
    parts, names = [sums(*values) for _, values in FAMILY], [name for name, _ in FAMILY]
    exact, drawn = max_t(parts, names), max_t(parts, names, flips=250)
    for p, other in zip(exact, drawn, strict=True):
        assert p is not None and other is not None
        assert other == pytest.approx(p, abs=5 * math.sqrt(p * (1 - p) / 250) + 1 / 250)
    assert drawn != exact and drawn == max_t(parts, names, flips=250) != max_t(parts, names, flips=250, seed=1)


@pytest.mark.parametrize("values", [[2.0, -1.0, 1.0], [3.0, 0.0, 1.0, 2.0], [0.0, 0.0]])
def test_one_comparison_alone_is_its_own_test(values: list[float]) -> None:
    assert max_t([sums(*values)], ["a"]) == [pytest.approx(sign_flip(values), abs=1e-15)]


def test_many_clusters_over_several_blocks() -> None:
    """70 clusters take two words of random bits a flip, and 3,000 flips three blocks."""
    values = np.array([1.0] * 30 + [-1.0] * 14 + [0.0] * 26)
    found = max_t([sums(*values)], ["a"], flips=3000)[0]
    exact = sign_flip(values)
    assert found is not None and exact is not None
    assert found == pytest.approx(exact, abs=5 * math.sqrt(exact * (1 - exact) / 3000) + 1 / 3000)


def test_copies_of_one_comparison_cost_nothing() -> None:
    """36 methods that are one: Holm multiplies by 36, max-T sees that there is one test."""
    part = sums(1, 1, 1, 1, 1, 1, 1, 1)
    alone = sign_flip(part.sums)
    assert alone == 2 / 2**8
    assert max_t([part] * 36, ["a"] * 36) == [alone] * 36
    assert holm([alone] * 36) == [pytest.approx(36 * alone)] * 36


def test_what_was_not_tested_is_not_in_the_family() -> None:
    one_cluster, tested = sums(4.0, 0.0, counts=[3, 0]), sums(1.0, 1.0)
    assert max_t([None, tested, one_cluster], ["a", "a", "a"]) == [None, 0.5, None]
    assert max_t([None], ["a"]) == [None] and max_t([], []) == []


def test_comparisons_of_one_data_set_are_over_its_clusters() -> None:
    with pytest.raises(DataError, match=r"comparisons on a are over \[2, 3\] clusters"):
        max_t([sums(1.0, 1.0), sums(1.0, 1.0, 1.0)], ["a", "a"])


def test_a_larger_effect_never_has_a_larger_p() -> None:
    rng = np.random.default_rng(2)
    parts = [sums(*rng.integers(-1, 3, 60).astype(float)) for _ in range(12)]
    found = max_t(parts, ["a"] * 12, flips=400)
    t = [abs(part.sums.sum()) / np.linalg.norm(part.sums) for part in parts]
    by_effect = [found[i] for i in np.argsort(t)[::-1]]
    assert by_effect == sorted(by_effect, key=lambda p: p or 0.0)


def test_the_family_of_a_measure_spans_data_sets() -> None:
    """longmemeval_s: 111111 against 000000 has p = 2 / 64. With a test of no effect beside it on the same records
    and one on other clusters, the largest T is still reached by two flips of the six clusters alone, times those of
    the others whose T is larger: none, as sqrt(3) < sqrt(6)."""
    outcomes = {
        ("longmemeval_s", "bm25", "original"): "000000",
        ("longmemeval_s", "bm25", "roperelay"): "111111",
        ("longmemeval_s", "snapkv", "original"): "010101",
        ("longmemeval_s", "snapkv", "roperelay"): "010101",
        ("talks", "bm25", "original"): "000000",
        ("talks", "bm25", "roperelay"): "011000",
    }
    files = study_files(outcomes)
    found = compare(tidy(files.plans, files.records, files.verdicts).table, resamples=10_000)
    accuracy = {(c.dataset, c.selector): c for c in found if c.metric.name == "accuracy"}
    best = accuracy["longmemeval_s", "bm25"]
    assert best.signflip_p == best.maxt_p == 2 / 64
    assert best.holm_p == pytest.approx(3 * 2 / 64)
    assert accuracy["longmemeval_s", "snapkv"].maxt_p == 1.0
    # talks has all its difference in one cluster of three: either sign of it comes as far.
    assert (accuracy["talks", "bm25"].signflip_p, accuracy["talks", "bm25"].maxt_p) == (1.0, 1.0)


@pytest.mark.parametrize("seed", range(3))
def test_holm_is_that_of_statsmodels(seed: int) -> None:
    p = np.random.default_rng(seed).random(36) ** 3
    assert holm(p.tolist()) == pytest.approx(multipletests(p, method="holm")[1], abs=1e-15)
