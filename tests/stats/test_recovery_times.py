"""Post-edit latency and shares of Replay, worked by hand from the study's seconds and counts."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from kvrelay.stats.arms import CELL, REPAIR, split
from kvrelay.stats.frame import tidy
from kvrelay.stats.recovery import Recovery, recoveries, shares_of_replay
from tests.stats.deletion_study import Files, deletion_files, together

ARMS = {
    ("reprefill", "all", ""): "11",
    ("replay", "suffix", "packed"): "11",
    ("sur", "p05", "packed"): "11",
    ("shift", "0", ""): "00",
}


def table_of(files: Files) -> pd.DataFrame:
    return tidy(files.plans, files.records, files.verdicts).table


def by_allocator(table: pd.DataFrame) -> dict[str, Recovery]:
    return {r.cell[CELL.index("allocator")]: r for r in recoveries(table)}


def test_stages_total_and_both_ratios() -> None:
    """Selection, shift, question, decoding take 1.125 s; SUR refreshes 1 and 2 s, Re-prefill 4 and 8 s."""
    found = by_allocator(table_of(deletion_files(ARMS)))["sur"]
    assert found.means_s == {
        "allocate_s": 0.25,
        "relocate_s": 0.125,
        "refresh_s": 1.5,
        "question_s": 0.25,
        "decode_s": 0.5,
    }
    assert (found.n, found.n_paired, found.total_s, found.answer_tokens) == (2, 2, 2.625, 5.0)
    assert found.ratio_of_means == pytest.approx((5.125 + 9.125) / (2.125 + 3.125), rel=1e-12)
    assert found.paired is not None
    assert found.paired.ratio == pytest.approx(math.sqrt(5.125 / 2.125 * 9.125 / 3.125), rel=1e-12)
    assert found.cell == ("qwen3_8b", "erasing_niah", "full", "r10", "original", "sur", "p05", "packed")


def test_answers_of_a_shared_batch_are_not_timed() -> None:
    """A row that was left over from a batch decoded alone, but beside others that did not."""
    alone = deletion_files({("reprefill", "all", ""): "11"})
    shared = deletion_files({("sur", "p05", "packed"): "11"}, rows=3, run_id="other")
    files = together(alone, shared)
    assert recoveries(table_of(files)) == ()
    key = next(key for key, record in files.records.items() if record.cell.allocator == "sur")
    files.records[key] = files.records[key].model_copy(update={"batch_rows": 1})
    found = by_allocator(table_of(files))
    assert {name: (r.n, r.n_shared, r.n_paired) for name, r in found.items()} == {
        "reprefill": (1, 1, 1),
        "sur": (1, 1, 1),
    }
    assert found["sur"].paired is not None and found["sur"].paired.low is None


def test_the_arms_of_another_cache_do_not_untime_a_case() -> None:
    whole = deletion_files(ARMS)
    other = deletion_files(ARMS, cache=("bm25", "r10", "original"), rows=3)
    found = recoveries(table_of(together(whole, other)))
    assert [(r.cell[CELL.index("selector")], r.n, r.n_shared) for r in found] == [("full", 2, 0)] * len(ARMS)


def test_the_interval_is_over_source_questions() -> None:
    """Two cases of one question: their geometric mean as before, and no interval from a single cluster."""
    found = by_allocator(table_of(deletion_files(ARMS, clusters="aa")))["sur"]
    assert found.paired is not None and (found.n_paired, found.paired.n, found.paired.low) == (2, 1, None)
    assert found.paired.ratio == pytest.approx(math.sqrt(5.125 / 2.125 * 9.125 / 3.125), rel=1e-12)


def test_without_the_baseline_there_is_no_ratio() -> None:
    found = by_allocator(table_of(deletion_files({("sur", "p05", "packed"): "1f"})))["sur"]
    assert (found.n, found.n_paired, found.ratio_of_means, found.paired) == (1, 0, None, None)


def test_shares_of_replay_are_ratios_of_totals() -> None:
    """S 1,000 and 1,100, B 50 and 55: 105 of 2,100 states and as many updates; 48,775 + 59,015 of 1,106,050 pairs."""
    arms = split(table_of(deletion_files(ARMS)), REPAIR)
    found = shares_of_replay(arms["sur", "p05", "packed"], arms["replay", "suffix", "packed"])
    assert found["refreshed_percent"] == found["updates_percent"] == 5.0
    assert found["pairs_percent"] == pytest.approx(100 * 107_790 / 1_106_050, rel=1e-12)
    whole = shares_of_replay(arms["replay", "suffix", "packed"], arms["replay", "suffix", "packed"])
    assert set(whole.values()) == {100.0}
    assert shares_of_replay(arms["sur", "p05", "packed"], None)["updates_percent"] is None
