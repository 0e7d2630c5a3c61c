"""From a resolved configuration to the stages of a run. The one place where configuration becomes objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from command import CONF
from stages import JUDGING_KEYS, built, command, judging_settings, report, report_settings, say

from kvrelay.core.errors import AssetError, ConfigError, DataError, IncompleteError
from kvrelay.judging.protocol import Judge
from kvrelay.judging.session import admit, judge_folder, settle
from kvrelay.run.build import build_group, component
from kvrelay.run.experiment import Experiment, print_plan
from kvrelay.run.settings import ReportSettings, RunSettings, StageSettings
from kvrelay.run.store import claim_folder, read_plans

REPAIR = ("allocator", "budget", "executor")
GROUPS = frozenset({"model", "dataset", "selector", "retention", "position", *REPAIR, "judge"})
SCRIPT_KEYS = frozenset({"data", "data_as", "stages", "dry_run", "report", *JUDGING_KEYS})
SAMPLING = frozenset({"limit", "per_conversation"})
"""What makes a data set's config a published sample; a user's own file is read whole."""
STRATA = frozenset({"strata", "per_stratum"})
"""The same by lengths: which texts there are at all, so that another choice is another data set."""
FREE = {
    "model": frozenset({"source", "revision", "gguf_file", "device", "cache_folder"}),
    "dataset": SAMPLING | {"path", "contexts_path", "aliases_path", "articles_path", "hub_id", "revision", "folder"},
}
"""Where weights and records come from, where they run, how many are asked: none makes it another measurement."""


def compose_run(config: Any) -> int:
    """Run the stages that ``stages`` names. Returns the exit status; raises for everything that stops a run early.

    Judges are met, and held to their gold items, before the hours of answering; the judging stage goes on with them.
    """
    asked, told, judging = _stage_settings(config), report_settings(config), judging_settings(config)
    _, experiment, judges = compose(config)
    if asked.dry_run:
        print_plan(experiment)
        return 0
    status = 0
    settled = settle(judges) if "judge" in asked.stages else {}
    if "run" in asked.stages:
        claim_folder(experiment.folder, experiment.settings.name)
        for judge in settled.values():
            admit(experiment.folder, judge, judging, say)
        status = _run(experiment)
    else:
        _require_results(experiment)
    if settled:
        judge_folder(experiment.folder, settled, judging, say, command=command())
    if "report" in asked.stages:
        return max(status, report(experiment.folder, told))
    return status


def compose(config: Any) -> tuple[RunSettings, Experiment, dict[str, Judge]]:
    """Settings, experiment and judges, every key checked."""
    config = {**dict.fromkeys(GROUPS), **config}
    asked = _stage_settings(config)
    dataset = dict(config["dataset"] or {})
    plain = {key: value for key, value in config.items() if key not in GROUPS | SCRIPT_KEYS}
    plain["max_history_tokens"] = dataset.pop("max_history_tokens", None)
    settings: RunSettings = built(RunSettings, plain)
    _check_names(config, settings, report_settings(config))
    if asked.data is not None:
        dataset = recognised(asked.data, asked.data_as)
    composed = {**config, "dataset": {name: _limited(part, settings.limit) for name, part in dataset.items()}}
    judged = config["judge"] or "judge" in asked.stages
    judges: dict[str, Judge] = build_group(config["judge"], "judge") if judged else {}
    experiment = Experiment(composed, settings, tuple(judges), tuple(changed(config)))
    return settings, experiment, judges


def changed(config: Mapping[str, Any]) -> Iterator[str]:
    """Components, as ``group.name``, that differ from the file of that name: theirs is no published setting.

    Where they come from and where they run is free; a data set's sample is stamped by its own rules.
    """
    for group in ("model", "dataset", "selector", "retention", "position", *REPAIR):
        for name, part in (config.get(group) or {}).items():
            file = CONF / group / f"{name}.yaml"
            if file.is_file() and isinstance(part, Mapping):
                own = yaml.safe_load(file.read_text(encoding="utf-8"))[name]
                free = FREE.get(group, frozenset())
                if any(part.get(key) != own.get(key) for key in {*part, *own} - free):
                    yield f"{group}.{name}"


def _stage_settings(config: Mapping[str, Any]) -> StageSettings:
    given = {key: config[key] for key in ("stages", "dry_run", "data", "data_as") if key in config}
    settings: StageSettings = built(StageSettings, given)
    return settings


def _check_names(config: Mapping[str, Any], settings: RunSettings, report: ReportSettings) -> None:
    """Settings may speak of parts that are not composed here, but not of ones that nobody knows: those are misspelt."""
    spoken_of = [
        (
            "allocator" if config["allocator"] else "position",
            "report.baseline",
            [] if report.baseline is None else [report.baseline],
        ),
        ("selector", "only_positions", list(settings.only_positions)),
        ("position", "only_selectors", list(settings.only_selectors)),
        ("allocator", "only_budgets", list(settings.only_budgets)),
        *(("budget", f"only_budgets.{name}", said) for name, said in settings.only_budgets.items()),
        *(("position", f"only_positions.{name}", said) for name, said in settings.only_positions.items()),
        *(("selector", f"only_selectors.{name}", said) for name, said in settings.only_selectors.items()),
    ]
    for group, key, names in spoken_of:
        known = {path.stem for path in (CONF / group).glob("*.yaml")} | set(config[group] or ())
        for name in set(names) - known:
            wanted = ", ".join(sorted(known))
            raise ConfigError(f"{key} names the {group} {name!r}; wanted one of {wanted} (key: {key})")


def recognised(path: str, prefix: str = "") -> dict[str, Any]:
    """Configs of the data sets whose adapters recognise a file or folder, pointed at it; ``prefix`` takes another
    config of the same files."""
    if not Path(path).exists():
        raise DataError(f"data = {path}: there is no such file or folder (key: data, or DATA= for make)")
    found: dict[str, Any] = {}
    for file in sorted((CONF / "dataset").glob("*.yaml")):
        for name, part in yaml.safe_load(file.read_text(encoding="utf-8")).items():
            # an adapter that makes its own records locates none
            locate = getattr(component(part["_target_"], f"dataset.{name}._target_"), "located", None)
            located = locate(Path(path)) if locate else None
            read = CONF / "dataset" / f"{prefix}{name}.yaml"
            if located is not None and read.is_file():
                part = yaml.safe_load(read.read_text(encoding="utf-8"))[read.stem]
                found[read.stem] = {**part, **dict.fromkeys((SAMPLING | STRATA) & part.keys()), **located}
    if not found and prefix:
        wanted = ", ".join(sorted(file.stem for file in (CONF / "dataset").glob(f"{prefix}*.yaml")))
        raise DataError(f"data = {path}: none of the data sets {wanted} recognises it (keys: data, data_as)")
    if not found:
        raise DataError(
            f"data = {path}: no data set recognises it; wanted records of LongMemEval, Long-MT-Bench+, PersonaMem, "
            "HotpotQA, 2WikiMultiHopQA, MuSiQue, IIRC or HelloBench (or set dataset=NAME dataset.NAME.path=FILE to see "
            "what is wrong with a file)"
        )
    return found


def _limited(part: Mapping[str, Any], limit: int | None) -> dict[str, Any]:
    """Adapters that can draw a sample draw it; for the others the run stops at the limit."""
    if limit is None or "limit" not in part:
        return dict(part)
    own = part["limit"]
    return {**part, "limit": limit if own is None else min(limit, own)}


def _run(experiment: Experiment) -> int:
    try:
        experiment.run(say)
    except IncompleteError as error:
        say(f"{error}")
        return error.exit_code
    return 0


def _require_results(experiment: Experiment) -> None:
    """Judging and reporting alone need a run's results, in a folder of this experiment."""
    if not read_plans(experiment.folder):
        raise AssetError(
            f"{experiment.folder} holds no run of experiment {experiment.settings.name!r}; run it first, "
            "or point to its folder (keys: stages, out, name)"
        )
    claim_folder(experiment.folder, experiment.settings.name)
