"""The executor benchmark runs and its facts hold; how fast anything is, no test says."""

from __future__ import annotations

import json
from pathlib import Path

from bench import run_bench
from plain_config import plain_config

FRAGMENTS = 3


def test_the_executor_bench_reports_equal_bits_and_errors_within_bounds(tmp_path: Path) -> None:
    config = {
        "bench": "executor",
        "out": str(tmp_path),
        "model": plain_config(tmp_path)["model"],
        "dtype": "bfloat16",
        "tokens": 160,
        "new_tokens": 3,
        "repetitions": 1,
    }
    found = json.loads(run_bench(config).read_text(encoding="utf-8"))
    assert all(found["preparation"]["bitwise_equal"].values())
    assert found["targets"]["errors_within_bound"]
    sweep = [row for row in found["timings"] if "even" in row["support"]]
    assert [row["intervals"] for row in sweep] == [1, FRAGMENTS] and {row["states"] for row in sweep} == {FRAGMENTS}
    real = [row for row in found["timings"] if "SUR" in row["support"]]
    assert {row["states"] for row in real} == {152 * 500 // 10_000}
    assert found["controls"]["cases"] == 3 * len(sweep)
    assert len(found["layer_errors"]) == 2 * 3
    first = found["layer_errors"][:2]
    assert all(row["packed_from_interval"] <= 2.0**-6 * row["largest_state"] for row in first)
