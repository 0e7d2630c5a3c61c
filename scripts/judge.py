"""Judge the answers of a run: python scripts/judge.py judge=[qwen25_32b] run=outputs/table1 (``--help`` tells more)."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import hydra
from offline import cut_off
from omegaconf import DictConfig, OmegaConf
from stages import JUDGING_KEYS, built, command, judging_settings, report, report_settings, say

from kvrelay.core.errors import AssetError, ConfigError
from kvrelay.judging.session import judge_folder, settle_each
from kvrelay.run.build import build_group
from kvrelay.run.record import RunPlan
from kvrelay.run.settings import StageSettings
from kvrelay.run.store import MARKER, claim_folder, read_plans

STAGES = ("judge", "report")
KEYS = frozenset({"run", "judge", "stages", "report", "offline", *JUDGING_KEYS})


def judge_run(config: Mapping[str, Any]) -> int:
    """Judge, then report, as ``stages`` says. Returns the exit status; raises for all that stops it early."""
    if unknown := sorted(config.keys() - KEYS):
        raise ConfigError(f"{', '.join(unknown)}: no such key; wanted some of {', '.join(sorted(KEYS))}")
    stages = _stages(config)
    judging = judging_settings(config)
    judges = build_group(config.get("judge"), "judge") if "judge" in stages else {}
    folder = _folder(config["run"])
    told = report_settings(_as_reported(read_plans(folder), config["report"]))
    if judges:
        settled, away = settle_each(judges)
        judge_folder(folder, settled, judging, say, command=command(), away=away)
    return report(folder, told) if "report" in stages else 0


def _stages(config: Mapping[str, Any]) -> tuple[str, ...]:
    stages: tuple[str, ...] = built(StageSettings, {"stages": config["stages"]}).stages
    if set(stages) - set(STAGES):
        raise ConfigError(f"stages = {list(stages)}: wanted some of {', '.join(STAGES)}; scripts/run.py answers")
    return stages


def _folder(run: Any) -> Path:
    """The folder of a run that is there and can be written to."""
    if not isinstance(run, str) or not run.strip():
        raise ConfigError(f"run = {run!r}: wanted the folder of a run, as run=outputs/table1 (key: run, RUN= for make)")
    folder = Path(run)
    if not (folder / MARKER).is_file():
        raise AssetError(f"run = {run}: no run of kvrelay lies there ({MARKER}); wanted OUT/NAME (key: run)")
    try:
        owner = json.loads((folder / MARKER).read_bytes())["experiment"]
    except (ValueError, KeyError, TypeError):
        owner = ""  # damaged: said by the next line
    claim_folder(folder, str(owner))
    if not read_plans(folder):
        raise AssetError(f"run = {run}: nothing has been answered there yet; run the experiment first (key: run)")
    return folder


def _as_reported(plans: list[RunPlan], given: Any) -> dict[str, Any]:
    """The newest run's settings of the report, and those given here over them."""
    newest = plans[-1].settings
    if given is not None and not isinstance(given, Mapping):
        raise ConfigError(f"report = {given!r}: wanted a mapping, as report.seed=1 (key: report)")
    own = {key: value for key, value in (given or {}).items() if value is not None}
    return {"allocator": newest.get("allocator"), "report": {**(newest.get("report") or {}), **own}}


@hydra.main(version_base=None, config_path="../conf", config_name="judging")
def main(config: DictConfig) -> None:
    """One call."""
    from command import told

    with told():
        logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
        for ours in ("kvrelay", "judges"):
            logging.getLogger(ours).setLevel(logging.INFO)
        settings: Any = OmegaConf.to_container(config, resolve=True)
        cut_off(settings)
        status = judge_run(settings)
    if status:
        sys.exit(status)


if __name__ == "__main__":
    from command import call

    call(main)
