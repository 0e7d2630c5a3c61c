"""Signs of gains under two judges, and what moved under both, worked out by hand on the judged study."""

from __future__ import annotations

import pandas as pd
import pytest

from kvrelay.core.errors import InvariantError
from kvrelay.stats.frame import tidy
from kvrelay.stats.signs import SignPair, ratings, sign_counts, sign_pairs, summed
from tests.stats.judged_study import OUTCOMES, A, B, Judged, judged_files

FEW = 200


def tables(files: Judged) -> dict[str, pd.DataFrame]:
    return {
        judge.id: tidy(files.plans, files.records, files.verdicts, files.judges, judge=judge.id).table
        for judge in files.judges
    }


def pairs_of(files: Judged) -> dict[tuple[str, str], SignPair]:
    first, second = (judge.id for judge in files.judges)
    found = sign_pairs(ratings(tables(files)), first, second, baseline="original", resamples=FEW)
    return {(pair.dataset, pair.selector): pair for pair in found}


def test_gains_are_over_the_pairs_that_both_judges_scored() -> None:
    found = pairs_of(judged_files())
    told = {
        key: (pair.n, pair.n_expected, round(pair.first.point * pair.n), round(pair.second.point * pair.n), pair.signs)
        for key, pair in found.items()
        if pair.first and pair.second
    }
    assert told == {
        ("longmemeval_s", "bm25"): (6, 6, 200, 300, (1, 1)),
        ("longmemeval_s", "snapkv"): (6, 6, 0, 100, (0, 1)),
        ("talks", "bm25"): (4, 6, 200, -200, (1, -1)),
    }


def test_moves_are_counted_question_by_question() -> None:
    """BM25 of LongMemEval under A: + + = = + -; under B: + + - = + +. Rows are A's: repaired, tie, regressed."""
    found = pairs_of(judged_files())
    assert found["longmemeval_s", "bm25"].moves == ((3, 0, 0), (0, 1, 1), (1, 0, 0))
    assert found["longmemeval_s", "snapkv"].moves == ((0, 0, 0), (1, 5, 0), (0, 0, 0))
    # talks, questions 1, 3, 4, 6 under A: + + - +; under B: = - - =
    assert found["talks", "bm25"].moves == ((0, 2, 1), (0, 0, 0), (0, 0, 1))
    assert summed(tuple(found.values())) == ((3, 2, 1), (1, 6, 1), (1, 0, 1))


def test_the_difference_of_two_gains_is_paired() -> None:
    pair = pairs_of(judged_files())["longmemeval_s", "bm25"]
    assert pair.apart is not None and pair.first is not None and pair.second is not None
    assert pair.apart.point == pytest.approx(pair.first.point - pair.second.point, abs=1e-12)
    assert pair.apart.n_clusters == 6 and pair.apart.low is not None and pair.apart.low < 0 < pair.apart.high


def test_signs_are_counted() -> None:
    found = tuple(pairs_of(judged_files()).values())
    counts = sign_counts(found)
    assert (counts.n, counts.same, counts.both_up, counts.both_down, counts.both_zero) == (3, 1, 1, 0, 0)
    assert (counts.one_zero, counts.opposite) == (1, 1)


@pytest.mark.parametrize(
    ("after", "named"), [({A: "100000", B: "100000"}, "both_up"), ({A: "000000", B: "000000"}, "both_zero")]
)
def test_equal_signs_are_told_apart(after: dict[str, str], named: str) -> None:
    cells = {
        ("talks", "bm25", "original"): {A: "000000", B: "000000"},
        ("talks", "bm25", "roperelay"): after,
    }
    counts = sign_counts(tuple(pairs_of(judged_files(cells)).values()))
    assert counts.same == counts.n == getattr(counts, named) == 1
    swapped = {("talks", "bm25", "original"): after, ("talks", "bm25", "roperelay"): {A: "000000", B: "000000"}}
    counts = sign_counts(tuple(pairs_of(judged_files(swapped)).values()))
    assert counts.same == 1 and counts.both_down == (named == "both_up")


def test_a_comparison_without_a_common_pair_has_no_sign() -> None:
    cells = {
        ("talks", "bm25", "original"): {A: "111jjj", B: "jjj111"},
        ("talks", "bm25", "roperelay"): {A: "111111", B: "111111"},
    }
    pair = pairs_of(judged_files(cells))["talks", "bm25"]
    assert (pair.n, pair.n_expected, pair.signs, pair.first) == (0, 6, None, None)
    assert sign_counts((pair,)).n == 0


def test_a_missing_verdict_is_missing_and_never_wrong() -> None:
    files = judged_files({("talks", "bm25", "original"): {A: "1uj0fm", B: "10u1fm"}})
    table = ratings(tables(files))
    # the missing answer has no name but its number, and stands first
    assert table["answered"].tolist() == [False, True, True, True, True, False]
    told = {judge: [None if x != x else x for x in table[f"{judge}-1"]] for judge in (A, B)}
    assert told == {A: [None, 1.0, None, None, 0.0, None], B: [None, 1.0, 0.0, None, 1.0, None]}


def test_judges_of_other_answers_are_refused() -> None:
    first = tables(judged_files())
    less = {name: table.iloc[1:] for name, table in first.items()}
    with pytest.raises(InvariantError, match="are not those of the others"):
        ratings({f"{A}-1": first[f"{A}-1"], f"{B}-1": less[f"{B}-1"]})


def test_the_study_is_what_its_text_says() -> None:
    letters = OUTCOMES["longmemeval_s", "bm25", "original"], OUTCOMES["longmemeval_s", "bm25", "roperelay"]
    assert [letters[1][j].count("1") - letters[0][j].count("1") for j in (A, B)] == [2, 3]
