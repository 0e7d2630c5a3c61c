"""A sweep of one experiment: a job for each model, data set and part of the histories, all into one folder.

    python scripts/sweep.py --shards=4 --launcher=slurm_gpu experiment=table1 profile=paper hydra.launcher.partition=gpu

The plan of all of it is written here, before anything is submitted, so that what is missing has a name whatever becomes
of the jobs; models and data sets that have all their answers get no jobs. Jobs answer; judging and the report come
after them, once, from their common folder.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from command import CONF, INTERRUPTED, told
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from kvrelay.core.errors import ConfigError, IncompleteError

SCRIPTS = Path(__file__).resolve().parent
COMMAND = "KVRELAY_COMMAND"
MADE_HERE = frozenset({"shard", "stages", "hydra/launcher", "dry_run"})


def main() -> None:
    """Plan, then hand over to the sweep itself. Raises `IncompleteError` if a part of it did not end well."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", type=int, default=1, help="parts of the histories, a job each (1)")
    parser.add_argument("--launcher", default="local", help="local, slurm_cpu or slurm_gpu")
    parser.add_argument("overrides", nargs="*", help="as for scripts/run.py")
    given = parser.parse_args()
    if given.shards < 1:
        raise ConfigError(f"--shards={given.shards}: wanted at least 1 (SHARDS= for make)")
    own = [f"hydra/launcher={given.launcher}", "stages=[run]"]
    if given.shards > 1:
        own.append("shard=" + ",".join(f"{index}/{given.shards}" for index in range(1, given.shards + 1)))
    parts = [[*part, *own] for part in _planned(given.overrides)]
    os.environ.setdefault(COMMAND, shlex.join(["python", *sys.argv]))
    statuses = _run(parts, at_once=given.launcher != "local")
    if INTERRUPTED in statuses:
        raise KeyboardInterrupt
    if any(statuses):
        raise IncompleteError("the sweep did not end well; the lines above say which of its jobs, and why")


def _run(parts: Sequence[Sequence[str]], at_once: bool) -> list[int]:
    """Exit statuses of the multiruns. On SLURM they wait for their jobs side by side."""
    commands = [[sys.executable, str(SCRIPTS / "run.py"), "-m", *part] for part in parts]
    if at_once:
        return [process.wait() for process in [subprocess.Popen(command) for command in commands]]
    return [subprocess.run(command).returncode for command in commands]


def _planned(overrides: Sequence[str]) -> list[list[str]]:
    """Write the plan and say what it holds; the overrides of the multiruns for what has answers missing."""
    plain, config = _composed(overrides)
    from compose import compose  # late: torch takes its time, and a misspelt key should not

    _, experiment, _ = compose(config)
    stages, plan, records = experiment.plan()
    experiment.announce(plan, records)
    names = {id(spec): name for name, spec in experiment.models.items()}
    left = [(names[id(stage.spec)], stage.dataset) for stage in stages if stage.missing_questions]
    sys.stderr.write(
        f"{experiment.folder}: {sum(len(cell.keys) for cell in plan.cells)} answers planned, "
        f"{sum(stage.missing_questions for stage in stages)} questions to work on\n"
    )
    return list(multiruns(left, plain, names.values(), experiment.datasets, swept=config.get("data") is None))


def multiruns(
    left: Sequence[tuple[str, str]],
    overrides: Mapping[str, str],
    models: Iterable[str],
    datasets: Iterable[str],
    swept: bool = True,
) -> Iterator[list[str]]:
    """One multirun for all (model, data set) that take the same overrides (``overrides``: as given, by their keys).

    A job composes its own model and data set alone, so that a setting of another one (``model.NAME.source``) would be
    an unknown key there. A user's own records (``swept=False``) name their data sets themselves.
    """
    groups = {"model": frozenset(models), "dataset": frozenset(datasets)}
    together: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for model, dataset in left:
        mine = {"model": model, "dataset": dataset if swept else None}
        fits = tuple(given for key, given in overrides.items() if not _of_another(key, mine, groups))
        together.setdefault(fits, []).append((model, dataset))
    for fits, cells in together.items():
        axes = [f"model={','.join(dict.fromkeys(model for model, _ in cells))}"]
        if swept:
            axes.append(f"dataset={','.join(dict.fromkeys(dataset for _, dataset in cells))}")
        yield [*fits, *axes]


def _of_another(key: str, mine: Mapping[str, str | None], groups: Mapping[str, frozenset[str]]) -> bool:
    """Whether an override is of a choice that this job does not compose, or of the choice itself."""
    group, _, rest = key.lstrip("+~").partition(".")
    if group not in mine or mine[group] is None:
        return False
    name = rest.partition(".")[0]
    return not rest or (name in groups[group] and name != mine[group])


def _composed(overrides: Sequence[str]) -> tuple[dict[str, str], Any]:
    """The overrides by key, and the configuration that they make. Raises `ConfigError` for what is made here."""
    parsed = {one.get_key_element(): one for one in OverridesParser.create().parse_overrides(list(overrides))}
    if swept := [str(one.input_line) for one in parsed.values() if one.is_sweep_override()]:
        raise ConfigError(f"{', '.join(swept)}: jobs are made of models, data sets and shards; give a list: key=[a,b]")
    if taken := sorted(MADE_HERE & parsed.keys()):
        raise ConfigError(f"{', '.join(taken)}: the sweep sets this itself (--shards, --launcher)")
    launcher = [key for key in parsed if key.startswith("hydra.launcher.")]
    with initialize_config_dir(str(CONF), version_base=None):
        plain = [str(one.input_line) for key, one in parsed.items() if key not in launcher]
        config = OmegaConf.to_container(hydra_compose("config", overrides=plain), resolve=True)
    return {key: str(one.input_line) for key, one in parsed.items()}, config


if __name__ == "__main__":
    with told():
        main()
