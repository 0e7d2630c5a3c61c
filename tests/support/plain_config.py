"""A small whole configuration as nested dicts, the way the scripts hand it on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
SELECTORS = ("full", "bm25", "h2o", "snapkv", "pyramidkv", "chunkkv", "cam")


def group(name: str, *choices: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for choice in choices:
        found.update(yaml.safe_load((ROOT / "conf" / name / f"{choice}.yaml").read_text(encoding="utf-8")))
    return found


def plain_config(tmp_path: Path, **changes: Any) -> dict[str, Any]:
    """Everything that `scripts/compose.py` reads; changes replace root keys."""
    models = group("model", "tiny")
    models["tiny"]["cache_folder"] = str(tmp_path / "models")
    return {
        "name": "plain",
        "out": str(tmp_path / "out"),
        "data": None,
        "limit": None,
        "stages": ["run", "judge", "report"],
        "dry_run": False,
        "max_new_tokens": 4,
        "score_references": True,
        "choice_by": "answer",
        "decode_batch_rows": 16,
        "only_positions": {"full": ["original"]},
        "only_selectors": {"key_only": ["bm25"]},
        "gate": True,
        "retry_errors": True,
        "stamps": [],
        "report": {"baseline": "original", "resamples": 100, "seed": 0},
        "model": models,
        "dataset": {"plain": {"_target_": "plain_data.PlainData"}, "max_history_tokens": None},
        "selector": group("selector", *SELECTORS),
        "retention": group("retention", "r10"),
        "position": group("position", "original", "roperelay", "key_only"),
        "judge": group("judge", "lexical"),
        **changes,
    }
