"""The calibration command: every construction and its control are answered, and the verdict follows from the limits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from calibrate import run_calibration
from plain_config import group, plain_config

from kvrelay.core.errors import ConfigError


def calibrate_config(tmp_path: Path, **changes: Any) -> dict[str, Any]:
    dataset = group("dataset", "lab_erasing_niah")
    return {
        "out": str(tmp_path / "out"),
        "model": plain_config(tmp_path)["model"],
        "dataset": dataset,
        "selector": group("selector", "full"),
        "retention": group("retention", "r10"),
        "position": group("position", "original"),
        "allocator": group("allocator", "shift", "reprefill"),
        "budget": group("budget", "p02"),
        "executor": group("executor", "packed"),
        "judge": group("judge", "short_answer"),
        "constructions": ["explicit", "list"],
        "gaps": ["near"],
        "limit": 2,
        "lengths": [512],
        "control": True,
        "dirty": True,
        "shift_at_most": 0.2,
        "reprefill_at_least": 0.95,
        "max_new_tokens": 2,
        "decode_batch_rows": 16,
        "gate": False,
        **changes,
    }


def test_every_construction_and_its_control_has_its_rates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(run_calibration(calibrate_config(tmp_path)).read_text(encoding="utf-8"))
    names = ["explicit_near", "explicit_near_mirrored", "list_near", "list_near_mirrored"]
    assert [row["name"] for row in found["rows"]] == names
    for row in found["rows"]:
        assert row["n"] == 2 and set(row["arms"]) == {"shift", "reprefill", "dirty"}
        assert all(rates == {"n": 2, "em": 0, "em_lenient": 0, "leak": 0} for rates in row["arms"].values())
        assert row["meets"] is False
    shown = capsys.readouterr().out
    assert all(f"| {name} | 2 |" in shown for name in names) and "none." in shown


def test_a_construction_meets_limits_that_its_rates_keep_and_a_control_never_does(tmp_path: Path) -> None:
    config = calibrate_config(tmp_path, dirty=False, constructions=["explicit"], reprefill_at_least=0.0)
    found = json.loads(run_calibration(config).read_text(encoding="utf-8"))
    assert [row["meets"] for row in found["rows"]] == [True, False]
    assert [set(row["arms"]) for row in found["rows"]] == [{"shift", "reprefill"}] * 2


def test_another_data_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="erasing_niah"):
        run_calibration(calibrate_config(tmp_path, dataset=group("dataset", "lab_longmemeval")))
