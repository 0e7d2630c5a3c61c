"""Side and tail contrasts of a repair's effect, worked by hand."""

from __future__ import annotations

from kvrelay.stats.arms import REPAIR, split
from kvrelay.stats.compare import REPAIR_METRICS
from kvrelay.stats.contrast import Contrast, contrasts
from kvrelay.stats.frame import tidy
from tests.stats.deletion_study import deletion_files

KINDS = ("suffix-short", "prefix-short", "suffix-long", "prefix-long") * 2
EM, NLL = (metric for name in ("em", "nll") for metric in REPAIR_METRICS if metric.name == name)


def of(shift: str, replay: str, metric: object = EM) -> dict[str, Contrast]:
    files = deletion_files(
        {("shift", "0", ""): shift, ("replay", "suffix", "packed"): replay}, clusters="aaaabbbb", kinds=KINDS
    )
    arms = split(tidy(files.plans, files.records, files.verdicts).table, REPAIR)
    found = contrasts(arms["replay", "suffix", "packed"], arms["shift", "0", ""], metric, resamples=200)  # type: ignore[arg-type]
    return {c.name: c for c in found}


def points(found: dict[str, Contrast]) -> dict[str, float | None]:
    return {name: c.estimate.point if c.estimate else None for name, c in found.items()}


def test_contrasts_by_hand() -> None:
    """Effects of question a: suffix-short +1, prefix-short 0, suffix-long +1, prefix-long 0; of b: 0, 0, +1, -1."""
    found = points(of("00000001", "10100010"))
    assert found == {
        "side, short tail": 50.0,  # a +1, b 0
        "side, long tail": 150.0,  # a +1, b +2
        "side, both tails": 100.0,
        "tail, evidence in suffix": 50.0,  # a 0, b +1
        "tail, evidence in prefix": -50.0,  # a 0, b -1
        "tail, both sides": 0.0,
    }


def test_likelihood_is_in_nats_and_lower_is_better() -> None:
    """A repaired case falls from 3 to 1 nats: the same effects, times minus two."""
    found = points(of("00000001", "10100010", NLL))
    assert (found["side, long tail"], found["tail, evidence in prefix"]) == (-3.0, 1.0)


def test_both_tails_are_the_mean_of_each() -> None:
    found = points(of("01100101", "11011010"))
    assert found["side, both tails"] == (found["side, short tail"] + found["side, long tail"]) / 2  # type: ignore[operator]
    sides = [found[f"tail, evidence in {side}"] for side in ("suffix", "prefix")]
    assert found["tail, both sides"] == sum(sides) / 2  # type: ignore[arg-type]


def test_a_question_that_lacks_a_case_is_left_out_and_counted() -> None:
    found = of("00000000", "11m11111")
    assert (found["side, short tail"].n_incomplete, found["side, long tail"].n_incomplete) == (0, 1)
    long = found["side, long tail"].estimate
    assert long is not None and (long.n, long.n_clusters, long.low) == (1, 1, None)
    assert found["side, both tails"].n_incomplete == 1


def test_the_interval_is_over_source_questions() -> None:
    """Contrasts 1 and 0 of two questions: resampled means 0, 1/2 and 1."""
    short = of("00000000", "10000000")["side, short tail"].estimate
    assert short is not None and (short.n, short.n_clusters) == (2, 2)
    assert (short.low, short.high) == (0.0, 100.0)


def test_other_kinds_of_case_have_no_contrast() -> None:
    files = deletion_files({("shift", "0", ""): "00", ("replay", "suffix", "packed"): "11"})
    arms = split(tidy(files.plans, files.records, files.verdicts).table, REPAIR)
    assert contrasts(arms["replay", "suffix", "packed"], arms["shift", "0", ""], EM) == ()


def test_nothing_known_is_no_estimate() -> None:
    found = of("ffffffff", "11111111")
    assert all(c.estimate is None and c.n_incomplete == 2 for c in found.values())
