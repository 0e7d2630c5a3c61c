"""The position group's files: each builds its condition, under the name that its records will carry."""

from __future__ import annotations

from pathlib import Path

import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf

FOLDER = Path(__file__).parents[2] / "conf" / "position"
REACH = {"query_only": 2048, "common_shift": 2048}
NAMES = [
    "common_shift",
    "half_gap",
    "key_only",
    "original",
    "query_only",
    "random",
    "ranksync",
    "reverse",
    "roperelay",
    "score",
]


def test_the_ten_conditions_of_the_paper_are_there() -> None:
    assert set(NAMES) <= {path.stem for path in FOLDER.glob("*.yaml")}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_file_builds_the_condition_it_is_named_after(path: Path) -> None:
    settings = OmegaConf.load(path)
    assert list(settings) == [path.stem]
    position = instantiate(settings[path.stem])
    assert position.name == path.stem
    assert position.reach == REACH.get(path.stem, 0)


@pytest.mark.parametrize("name", NAMES)
def test_a_misspelt_setting_fails(name: str) -> None:
    settings = OmegaConf.load(FOLDER / f"{name}.yaml")[name]
    with pytest.raises(Exception, match="shfit"):
        instantiate(settings, shfit=1)
