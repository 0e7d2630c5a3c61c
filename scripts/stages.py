"""The stages that need no model: judging and the report, as every command that has them runs them."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kvrelay.core.errors import ConfigError, IncompleteError
from kvrelay.judging.session import JudgingSettings
from kvrelay.report.write import main_table, write_report
from kvrelay.run.build import build
from kvrelay.run.settings import ReportSettings

JUDGING_KEYS = frozenset({"gold_threshold", "rejudge"})


def say(line: str) -> None:
    """Progress and notes go to stderr; tables and paths to stdout."""
    sys.stderr.write(f"{line}\n")


def command() -> str:
    """The command in hand, as it can be given again."""
    return shlex.join(["python", *sys.argv])


def built(kind: type, given: Mapping[str, Any], key: str = "") -> Any:
    """Settings as their dataclass, every key and type checked."""
    return build({"_target_": f"{kind.__module__}.{kind.__qualname__}", **given}, key)


def judging_settings(config: Mapping[str, Any]) -> JudgingSettings:
    """How the judging stage goes about it."""
    settings: JudgingSettings = built(JudgingSettings, {key: config[key] for key in JUDGING_KEYS & config.keys()})
    return settings


def report_settings(config: Mapping[str, Any]) -> ReportSettings:
    """How the report is made; its view is ``qa`` where caches are repaired, else ``table1``, unless one is named."""
    given = config.get("report")
    if not isinstance(given, Mapping):
        raise ConfigError(f"report = {given!r}: wanted a mapping with baseline, resamples and seed (key: report)")
    usual = "qa" if config.get("allocator") else "table1"
    settings: ReportSettings = built(ReportSettings, {**given, "view": given.get("view") or usual}, "report")
    return settings


def report(folder: Path, settings: ReportSettings) -> int:
    """Write the report and print its main table; the status of an incomplete one is returned, its table printed."""
    status = 0
    try:
        write_report(folder, **asdict(settings))
    except IncompleteError as error:
        say(f"{error}")
        status = error.exit_code
    table = main_table(folder, settings.view)
    sys.stdout.write(table.read_text(encoding="utf-8"))
    sys.stdout.write(f"\n{table}\n")
    sys.stdout.flush()
    return status
