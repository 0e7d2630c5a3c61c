"""From a resolved configuration to the stages of a run. The one place where configuration becomes objects."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from kvrelay.core.errors import ConfigError, DataError, IncompleteError
from kvrelay.judging.protocol import Judge
from kvrelay.judging.stage import is_final, judge_records
from kvrelay.report.write import write_report
from kvrelay.run.build import build, build_group
from kvrelay.run.experiment import Experiment, print_plan
from kvrelay.run.progress import Progress
from kvrelay.run.settings import RunSettings
from kvrelay.run.store import read_plans, read_records, read_verdicts, verdict_appender

STAGES = ("run", "judge", "report")
GROUPS = frozenset({"model", "dataset", "selector", "retention", "position", "judge"})
SCRIPT_KEYS = frozenset({"data", "stages", "dry_run", "report"})
SAMPLING = frozenset({"limit", "per_conversation"})
"""What makes a data set's config a published sample; a user's own file is read whole."""
DATASET_CONFIGS = Path(__file__).resolve().parent.parent / "conf" / "dataset"


def say(line: str) -> None:
    """Progress and notes go to stderr; tables and paths to stdout."""
    sys.stderr.write(f"{line}\n")


def compose_run(config: Any) -> int:
    """Run the stages that ``stages`` names. Returns the exit status; raises for everything that stops a run early."""
    _, experiment, judges = compose(config)
    if config["dry_run"]:
        print_plan(experiment)
        return 0
    stages = _stages(config["stages"])
    status = 0
    if "judge" in stages:
        for judge in judges.values():
            judge.check()
    if "run" in stages:
        try:
            experiment.run(say)
        except IncompleteError as error:
            say(f"{error}")
            status = error.exit_code
    if "judge" in stages:
        _judge(experiment.folder, judges)
    if "report" in stages:
        return max(status, _report(experiment.folder, config["report"]))
    return status


def compose(config: Any) -> tuple[RunSettings, Experiment, dict[str, Judge]]:
    """Settings, experiment and judges, every key checked."""
    dataset = dict(config["dataset"])
    plain = {key: value for key, value in config.items() if key not in GROUPS | SCRIPT_KEYS}
    target = f"{RunSettings.__module__}.{RunSettings.__qualname__}"
    plain["max_history_tokens"] = dataset.pop("max_history_tokens", None)
    settings: RunSettings = build({"_target_": target, **plain}, "config")
    if config["data"] is not None:
        dataset = recognised(str(config["data"]))
    composed = {**config, "dataset": {name: _limited(part, settings.limit) for name, part in dataset.items()}}
    judges: dict[str, Judge] = build_group(config["judge"], "judge")
    experiment = Experiment(composed, settings, tuple(judge.id for judge in judges.values()))
    return settings, experiment, judges


def recognised(path: str) -> dict[str, Any]:
    """Configs of the data sets whose adapters recognise a file or folder, pointed at it."""
    if not Path(path).exists():
        raise DataError(f"data = {path}: there is no such file or folder (key: data, or DATA= for make)")
    found: dict[str, Any] = {}
    for file in sorted(DATASET_CONFIGS.glob("*.yaml")):
        for name, part in yaml.safe_load(file.read_text(encoding="utf-8")).items():
            located = _adapter(part).located(Path(path))
            if located is not None:
                found[name] = {**part, **dict.fromkeys(SAMPLING & part.keys()), **located}
    if not found:
        raise DataError(
            f"data = {path}: no data set recognises it; wanted records of LongMemEval, Long-MT-Bench+ or PersonaMem "
            "(or set dataset=NAME dataset.NAME.path=FILE to see what is wrong with a file)"
        )
    return found


def _adapter(part: Mapping[str, Any]) -> Any:
    """The adapter's class; one that makes its own records locates none."""
    module, _, name = str(part["_target_"]).rpartition(".")
    adapter = getattr(__import__(module, fromlist=[name]), name)
    return adapter if hasattr(adapter, "located") else _Nothing


class _Nothing:
    @staticmethod
    def located(path: Path) -> None:
        return None


def _limited(part: Mapping[str, Any], limit: int | None) -> dict[str, Any]:
    """Adapters that can draw a sample draw it; for the others the run stops at the limit."""
    if limit is None or "limit" not in part:
        return dict(part)
    own = part["limit"]
    return {**part, "limit": limit if own is None else min(limit, own)}


def _stages(given: Any) -> list[str]:
    unknown = [stage for stage in given if stage not in STAGES]
    if unknown:
        raise ConfigError(f"stages = {given}: {unknown[0]!r} is unknown; wanted some of {', '.join(STAGES)}")
    return list(given)


def _judge(folder: Path, judges: Mapping[str, Judge]) -> None:
    planned = {key for plan in read_plans(folder) for cell in plan.cells for key in cell.keys}
    records = [record for key, record in read_records(folder).items() if key in planned]
    known = {key for key, verdict in read_verdicts(folder).items() if is_final(verdict)}
    for judge in judges.values():
        with verdict_appender(folder, judge.id) as appender:
            progress = Progress(0, f"answers by {judge.id}")

            def show(done: int, total: int, progress: Progress = progress) -> None:
                progress.total = total
                progress.advance()

            counts = judge_records(records, judge, known, appender.append, show)
            progress.close()
        unscored = sum(counts.unscored.values())
        say(
            f"{judge.id}: {counts.judged} judged, {counts.known} known before, "
            f"{unscored} unscored {counts.unscored or ''}"
        )


def _report(folder: Path, settings: Mapping[str, Any]) -> int:
    table = folder / "report" / "table1.md"
    status = 0
    try:
        table = write_report(
            folder, baseline=settings["baseline"], seed=settings["seed"], resamples=settings["resamples"]
        )
    except IncompleteError as error:
        say(f"{error}")
        status = error.exit_code
    sys.stdout.write(table.read_text(encoding="utf-8"))
    sys.stdout.write(f"\n{table}\n")
    return status
