"""Benchmarks run and write their numbers; how fast anything is, no test says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bench import run_bench
from plain_config import SELECTORS, group, plain_config

from kvrelay.core.errors import ConfigError


def bench_config(tmp_path: Path, bench: str) -> dict[str, Any]:
    return {
        "bench": bench,
        "out": str(tmp_path),
        "model": plain_config(tmp_path)["model"],
        "selector": group("selector", *SELECTORS),
        "retention": group("retention", "r10"),
        "position": group("position", "original", "roperelay"),
        "dtype": "bfloat16",
        "tokens": 200,
        "new_tokens": 3,
        "repetitions": 1,
        "cell_by_cell": 1,
        "memory_tokens": [500, 1000, 2000],
        "judging": {"items": [20, 40], "concurrency": 4, "latency_s": 0.0},
    }


def test_the_grid_bench_compares_its_ways_and_evidence_grows_linearly(tmp_path: Path) -> None:
    found = json.loads(run_bench(bench_config(tmp_path, "grid")).read_text(encoding="utf-8"))
    assert found["cells"] == 14
    assert all(seconds > 0 for times in found["times"].values() for seconds in times)
    assert set(found["ratios"]) == {
        "whole grid / one FullKV answer",
        "cell by cell / whole grid",
        "window evidence / prefill",
        "column mass / prefill",
    }
    kept = [found["evidence_bytes"][tokens]["kept"] for tokens in ("500", "1000", "2000")]
    assert kept[2] - kept[1] == 2 * (kept[1] - kept[0])
    assert all(size["largest"] < size["t_by_t"] for size in found["evidence_bytes"].values())


def test_the_bootstrap_bench_finds_scipys_interval(tmp_path: Path) -> None:
    found = json.loads(run_bench(bench_config(tmp_path, "bootstrap")).read_text(encoding="utf-8"))
    assert found["largest_difference"] <= 1e-12
    assert len(found["times_s"]["ours"]) == len(found["times_s"]["scipy"]) == 1


def test_the_judging_bench_gets_a_verdict_for_every_item(tmp_path: Path) -> None:
    found = json.loads(run_bench(bench_config(tmp_path, "judging")).read_text(encoding="utf-8"))
    assert [(row["items"], row["correct"]) for row in found["rows"]] == [(20, 20), (40, 40)]
    assert all(row["seconds"] > 0 and row["cpu_s"] > 0 and row["peak_bytes"] > 2**20 for row in found["rows"])


def test_an_unknown_bench_names_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="grid, judging"):
        run_bench(bench_config(tmp_path, "speed"))
