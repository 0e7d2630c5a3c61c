"""Which constructions of erasing_niah a model can use: python scripts/calibrate.py model=... dataset=...

Prints a table, writes out/calibrate/NAME.json. The answers themselves lie beside it and are not asked for twice.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import hydra
from omegaconf import DictConfig, OmegaConf

# Before torch starts its threads: ones that spin while they wait make a busy machine several times slower.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from kvrelay.core.errors import ConfigError
from kvrelay.judging.blind import blind_item
from kvrelay.judging.protocol import SettledJudge
from kvrelay.run.build import build_group
from kvrelay.run.experiment import Experiment
from kvrelay.run.provenance import provenance
from kvrelay.run.record import RunRecord
from kvrelay.run.settings import RunSettings
from kvrelay.run.store import write_atomic

ARMS = ("shift", "reprefill")
DIRTY = "dirty"
MIRRORED = "_mirrored"
MEASURES = ("em", "em_lenient", "leak")


def run_calibration(config: Mapping[str, Any]) -> Path:
    """Answer, score, print and write; the path of the numbers."""
    datasets = dict(_datasets(config))
    (model,) = config["model"] or {"": None}
    name = f"{model}-{next(iter(config['dataset']))}"
    records = {arm: _answers(config, datasets, name, arm) for arm in ((True, False) if config["dirty"] else (True,))}
    ((judge_name, judge),) = build_group(config["judge"], "judge").items()
    rows = [_row(dataset, records, judge.settled(judge_name), config) for dataset in datasets]
    lines = _lines(rows, config)
    sys.stdout.write("\n".join(lines) + "\n")
    path = Path(config["out"]) / "calibrate" / f"{name}.json"
    found = {"rows": rows, "lines": lines, "provenance": provenance(dict(config))}
    write_atomic(path, json.dumps(found, indent=1, default=str) + "\n")
    sys.stdout.write(f"\n{path}\n")
    return path


def _datasets(config: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The chosen data set once a construction, gap and side, by name."""
    given = config["dataset"] or {}
    if len(given) != 1 or "construction" not in next(iter(given.values())):
        raise ConfigError(f"dataset = {list(given)}: wanted one data set of erasing_niah (key: dataset)")
    base = dict(next(iter(given.values())))
    base["cases_per_length"] = config["limit"]
    if config["lengths"] is not None:
        base["lengths"] = config["lengths"]
    for construction in config["constructions"]:
        for gap in config["gaps"]:
            for side in ("", MIRRORED) if config["control"] else ("",):
                part = {**base, "construction": construction, "gap": gap, "mirrored": bool(side)}
                yield f"{construction}_{gap}{side}", part


def _answers(
    config: Mapping[str, Any], datasets: Mapping[str, Any], name: str, repaired: bool
) -> dict[tuple[str, str], list[RunRecord]]:
    """Records by data set and arm: of both endpoints, or of the context before the deletion."""
    settings = RunSettings(
        name=name if repaired else f"{name}-{DIRTY}",
        out=f"{config['out']}/calibrate",
        max_new_tokens=config["max_new_tokens"],
        decode_batch_rows=config["decode_batch_rows"],
        gate=config["gate"],
    )
    composed = {**config, "dataset": dict(datasets)}
    if not repaired:
        composed |= dict.fromkeys(("allocator", "budget", "executor"))
    experiment = Experiment(composed, settings)
    experiment.run(lambda line: _say(line))
    _, plan, records = experiment.plan()
    found: dict[tuple[str, str], list[RunRecord]] = {}
    for key in (key for cell in plan.cells for key in cell.keys):
        record = records[key]
        found.setdefault((record.cell.dataset, record.cell.allocator or DIRTY), []).append(record)
    return found


def _row(
    dataset: str, records: Mapping[bool, Mapping[tuple[str, str], list[RunRecord]]], judge: SettledJudge, config: Any
) -> dict[str, Any]:
    """Rates of one data set by arm, and whether it meets the two limits."""
    arms = {
        arm: _rates(found[dataset, arm], judge)
        for found in records.values()
        for arm in (*ARMS, DIRTY)
        if (dataset, arm) in found
    }
    meets = arms["shift"]["em"] <= config["shift_at_most"] and arms["reprefill"]["em"] >= config["reprefill_at_least"]
    mirrored = dataset.endswith(MIRRORED)
    return {"name": dataset, "n": arms["shift"]["n"], "arms": arms, "meets": meets and not mirrored}


def _rates(records: Iterable[RunRecord], judge: SettledJudge) -> dict[str, float]:
    """Shares of the answers: strict and lenient exact match, and those that hold the deleted value."""
    found = list(records)
    scores = [verdict.scores for verdict in judge.verdicts(blind_item(record, judge.facts.id) for record in found)]
    leaks = [str(record.notes["erased_value"]) in (record.answer or "") for record in found]
    n = len(found)
    return {
        "n": n,
        "em": sum(score["em"] for score in scores) / n,
        "em_lenient": sum(score["em_lenient"] for score in scores) / n,
        "leak": sum(leaks) / n,
    }


def _lines(rows: list[dict[str, Any]], config: Mapping[str, Any]) -> list[str]:
    shown = [arm for arm in (*ARMS, DIRTY) if arm in rows[0]["arms"]]
    head = ["construction", "n", *(f"{arm} {measure}" for arm in shown for measure in MEASURES), "meets"]
    lines = [_cells(head), _cells(["---", *["--:"] * (len(head) - 2), "---"])]
    for row in rows:
        rates = [f"{100 * row['arms'][arm][measure]:.1f}" for arm in shown for measure in MEASURES]
        lines.append(_cells([row["name"], str(row["n"]), *rates, "yes" if row["meets"] else ""]))
    limits = f"Shift EM <= {config['shift_at_most']:.0%}, Re-prefill EM >= {config['reprefill_at_least']:.0%}"
    meeting = [row["name"] for row in rows if row["meets"]]
    candidates = [row for row in rows if not row["name"].endswith(MIRRORED)]
    best = max(candidates, key=lambda row: row["arms"]["reprefill"]["em"] - row["arms"]["shift"]["em"])
    return [
        *lines,
        "",
        f"{limits}: {', '.join(meeting) or 'none'}. Largest difference of the two: {best['name']}.",
        "A mirrored row is the control: its answer stands in the exact prefix, so Shift should do as Re-prefill does.",
    ]


def _cells(texts: Iterable[str]) -> str:
    return f"| {' | '.join(texts)} |"


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


@hydra.main(version_base=None, config_path="../conf", config_name="calibrate")
def main(config: DictConfig) -> None:
    """One model's calibration."""
    run_calibration(OmegaConf.to_container(config, resolve=True))  # type: ignore[arg-type]


if __name__ == "__main__":
    from command import call

    call(main)
