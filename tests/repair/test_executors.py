"""Schedules: which slots are recomputed together, in which order, by which kernel."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from kvrelay.core.errors import ConfigError
from kvrelay.core.repair import Executor, Traversal
from kvrelay.repair.executors import Auto, Custom, Interval, Packed

SLOTS = (3, 4, 5, 9, 12, 13)
CONF = Path(__file__).resolve().parents[2] / "conf" / "executor"
BUILT: dict[str, Executor] = {
    "interval": Interval(),
    "packed": Packed(),
    "auto": Auto(),
    "custom": Custom(experimental=True),
}


def test_interval_runs_one_run_of_slots_after_another() -> None:
    assert Interval().schedule(SLOTS) == (
        Traversal(slots=(3, 4, 5), kernel="causal"),
        Traversal(slots=(9,), kernel="causal"),
        Traversal(slots=(12, 13), kernel="causal"),
    )


def test_packed_and_custom_run_all_slots_at_once() -> None:
    assert Packed().schedule(SLOTS) == (Traversal(slots=SLOTS, kernel="masked"),)
    assert Custom(experimental=True).schedule(SLOTS) == (Traversal(slots=SLOTS, kernel="blocks"),)


def test_auto_runs_one_interval_directly_and_several_packed() -> None:
    assert Auto().schedule((3, 4, 5)) == Interval().schedule((3, 4, 5))
    assert Auto().schedule((7,)) == (Traversal(slots=(7,), kernel="causal"),)
    assert Auto().schedule(SLOTS) == Packed().schedule(SLOTS)


@pytest.mark.parametrize("name", sorted(BUILT))
def test_every_schedule_holds_each_slot_once_and_none_for_none(name: str) -> None:
    executor = BUILT[name]
    assert executor.schedule(()) == ()
    assert sum((traversal.slots for traversal in executor.schedule(SLOTS)), ()) == SLOTS


def test_custom_must_be_asked_for_by_name() -> None:
    with pytest.raises(ConfigError, match=r"executor\.custom\.experimental"):
        Custom()


@pytest.mark.parametrize("path", sorted(CONF.glob("*.yaml")), ids=lambda path: path.stem)
def test_each_config_names_its_executor(path: Path) -> None:
    settings = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert list(settings) == [path.stem]
    module, _, name = settings[path.stem].pop("_target_").rpartition(".")
    assert (module, name) == (type(BUILT[path.stem]).__module__, type(BUILT[path.stem]).__name__)
    assert settings[path.stem] == ({"experimental": False} if path.stem == "custom" else {})
