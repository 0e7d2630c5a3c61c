"""Imports point one way: scripts -> run -> selection, placement, repair, backend -> core; report -> stats."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {"kvrelay": ROOT / "src" / "kvrelay"} | {
    name: ROOT / name for name in ("data_adapters", "judges", "hydra_plugins", "scripts")
}
CORE = ("kvrelay.core",)
RECORDS = ("kvrelay.run.places", "kvrelay.run.record", "kvrelay.run.store")
ALLOWED: Mapping[str, tuple[str, ...]] = {
    "kvrelay": CORE,
    "kvrelay.core": CORE,
    "kvrelay.selection": (*CORE, "kvrelay.selection"),
    "kvrelay.placement": (*CORE, "kvrelay.placement"),
    "kvrelay.repair": (*CORE, "kvrelay.repair"),
    "kvrelay.backend": (*CORE, "kvrelay.backend"),
    "kvrelay.run": (*CORE, *(f"kvrelay.{name}" for name in ("selection", "placement", "repair", "backend", "run"))),
    "kvrelay.judging": (*CORE, "kvrelay.judging", *RECORDS, "kvrelay.run.progress"),
    "kvrelay.stats": ("kvrelay.core.errors", "kvrelay.stats", *RECORDS),
    "kvrelay.report": ("kvrelay.core.errors", "kvrelay.report", "kvrelay.stats", *RECORDS),
    "data_adapters": (*CORE, "kvrelay.run.record", "data_adapters"),
    "judges": (*CORE, "kvrelay.judging", "kvrelay.run.record", "judges"),
    "hydra_plugins": (*CORE, "hydra_plugins"),
    "scripts": ("kvrelay", "data_adapters", "judges", "scripts"),
}
"""Who may import what of ours. The package itself is not listed anywhere: it never imports a plug-in or a script."""
CONFINED: Mapping[str, tuple[str, ...]] = {
    "transformers": ("kvrelay.backend",),
    "hydra": ("hydra_plugins", "scripts"),
    "omegaconf": ("hydra_plugins", "scripts"),
    "openai": ("judges",),
    "matplotlib": ("kvrelay.report",),
    "torch": (
        "scripts",
        *(f"kvrelay.{name}" for name in ("core", "selection", "placement", "repair", "backend", "run")),
    ),
}
"""Libraries that may be imported in some places only."""


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def ours() -> dict[str, Path]:
    """Every module of the project by its dotted name."""
    found = {}
    for package, folder in PACKAGES.items():
        for path in folder.rglob("*.py"):
            parts = [package, *path.relative_to(folder).with_suffix("").parts]
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = ours()


def imported(source: str, module: str, *, is_package: bool = False) -> set[str]:
    """Dotted names that a module imports, wherever in it the import stands; a name that is a module is one."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                here = module.split(".")[: None if is_package and node.level == 1 else -(node.level - is_package)]
                base = ".".join([*here, *filter(None, [node.module])])
            found |= {full if (full := f"{base}.{alias.name}") in MODULES else base for alias in node.names}
    return found


def imports_of(module: str) -> set[str]:
    path = MODULES[module]
    return imported(path.read_text(encoding="utf-8"), module, is_package=path.name == "__init__.py")


def owner(module: str) -> str:
    """The part of the project that a module belongs to, as `ALLOWED` names it."""
    return max((package for package in ALLOWED if within(module, package)), key=len)


def wrong_arrows(module: str, names: set[str]) -> Iterator[str]:
    for name in sorted(names):
        top = name.split(".")[0]
        foreign = top in PACKAGES and name != "kvrelay"
        if foreign and not any(within(name, package) for package in ALLOWED[owner(module)]):
            yield f"{module} -> {name}"
        if top in CONFINED and not any(within(module, package) for package in CONFINED[top]):
            yield f"{module} -> {name}"


@pytest.mark.parametrize("module", sorted(MODULES))
def test_imports_point_one_way(module: str) -> None:
    assert list(wrong_arrows(module, imports_of(module))) == []


@pytest.mark.parametrize(
    ("module", "source", "wrong"),
    [
        ("kvrelay.core.cache", "from kvrelay.run import record", "kvrelay.run.record"),
        ("kvrelay.core.cache", "def f():\n    from ..run.record import digest", "kvrelay.run.record"),
        ("kvrelay.run.store", "import data_adapters.longmemeval", "data_adapters.longmemeval"),
        ("kvrelay.run.store", "from kvrelay.report.write import write_report", "kvrelay.report.write"),
        ("kvrelay.selection.full", "from kvrelay.backend import load", "kvrelay.backend.load"),
        ("kvrelay.selection.full", "import transformers.cache_utils", "transformers.cache_utils"),
        ("kvrelay.run.worker", "if TYPE_CHECKING:\n    from omegaconf import DictConfig", "omegaconf"),
        ("kvrelay.stats.frame", "from kvrelay.core.cache import KVCache", "kvrelay.core.cache"),
        ("kvrelay.stats.frame", "from kvrelay.run.worker import Worker", "kvrelay.run.worker"),
        ("kvrelay.report.write", "import torch", "torch"),
        ("judges.lexical", "from kvrelay.stats.frame import tidy", "kvrelay.stats.frame"),
    ],
)
def test_a_wrong_arrow_is_seen(module: str, source: str, wrong: str) -> None:
    assert list(wrong_arrows(module, imported(source, module))) == [f"{module} -> {wrong}"]


def test_relative_imports_of_a_package_are_resolved() -> None:
    assert imported("from . import record\nfrom .store import x", "kvrelay.run", is_package=True) == {
        "kvrelay.run.record",
        "kvrelay.run.store",
    }
    assert imported("from .record import x\nfrom ..core import errors", "kvrelay.run.store") == {
        "kvrelay.run.record",
        "kvrelay.core.errors",
    }


def test_the_core_stands_on_torch_and_the_standard_library() -> None:
    libraries = {name.split(".")[0] for module in MODULES if within(module, CORE[0]) for name in imports_of(module)}
    assert libraries - sys.stdlib_module_names <= {"torch", "kvrelay"}


def components() -> set[str]:
    """Modules that a configuration names: what a user can add or leave out."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "conf").rglob("*.yaml"))
    return {target.rpartition(".")[0] for target in re.findall(r"_target_: *([\w.]+)", text)} & set(MODULES)


@pytest.mark.parametrize("package", ["kvrelay.selection", "kvrelay.placement", "kvrelay.repair"])
def test_components_of_one_kind_do_not_import_each_other(package: str) -> None:
    """What two selectors share stands in a file of its own, so that either can go without the other."""
    siblings = {module for module in components() if within(module, package)}
    assert [f"{module} -> {name}" for module in siblings for name in imports_of(module) & (siblings - {module})] == []


def test_the_configuration_names_components_of_every_kind() -> None:
    named = {module.rpartition(".")[0] for module in components()}
    assert {"kvrelay.selection", "kvrelay.placement", "data_adapters", "judges"} <= named


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=240)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


SETUP = "import importlib, sys; sys.path[:0] = ['src', '.']\n"


def test_reports_and_judges_load_without_torch() -> None:
    light = ("kvrelay.report", "kvrelay.stats", "kvrelay.judging", "judges", "kvrelay.run.store", "kvrelay.run.build")
    names = [name for name in MODULES if any(within(name, package) for package in light) and "__main__" not in name]
    code = f"for name in {sorted(names)}: importlib.import_module(name)\n"
    assert len(names) > len(light)
    assert python(f"{SETUP}{code}print({{'torch', 'transformers'}} & set(sys.modules) or 'none')") == "none"


STATE = """
import logging, os, random, warnings
import datasets, matplotlib.pyplot, numpy, openai, pandas, scipy.stats, torch, transformers
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
def state():
    return {
        "attention": sorted(ALL_ATTENTION_FUNCTIONS.valid_keys()),
        "masks": sorted(ALL_MASK_ATTENTION_FUNCTIONS.valid_keys()),
        "torch": (torch.get_default_dtype(), torch.get_num_threads(), torch.is_grad_enabled(),
                  torch.are_deterministic_algorithms_enabled(), torch.initial_seed()),
        "random": (hash(random.getstate()), numpy.random.get_state()[1].tolist(), torch.get_rng_state().tolist()),
        "logging": (logging.root.level, list(logging.root.handlers)),
        "warnings": list(warnings.filters),
        "environment": dict(os.environ),
        "style": dict(matplotlib.rcParams),
        "threads": __import__("threading").active_count(),
    }
before = state()
"""


def test_importing_changes_nothing() -> None:
    """No attention function registered, no generator seeded, no logging or style set up."""
    names = [name for name in MODULES if not within(name, "scripts") and "__main__" not in name]
    code = f"for name in {sorted(names)}: importlib.import_module(name)\nafter = state()\n"
    assert python(f"{SETUP}{STATE}{code}print([key for key in before if before[key] != after[key]])") == "[]"
