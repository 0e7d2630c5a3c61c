"""`build`: what a configuration becomes, and what a user is told when it cannot."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import pytest
from stored_records import environment

from kvrelay.core.errors import ConfigError, PositionError
from kvrelay.run.build import build, build_group

HERE = __name__


class Pool(Protocol):
    def pooled(self, width: int) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanPool:
    width: int = 3

    def pooled(self, width: int) -> int:
        return width


@dataclass(frozen=True, slots=True, kw_only=True)
class Scorer:
    """One of every kind of field that components have."""

    window: int
    share: float = 0.5
    name: str = "scorer"
    flag: bool = False
    limit: int | None = None
    layers: tuple[int, ...] = ()
    pair: tuple[int, str] = (1, "a")
    over: Literal["history", "question"] = "history"
    pool: Pool | None = None
    mean: MeanPool = MeanPool()
    pools: tuple[Pool, ...] = ()
    named: dict[str, MeanPool] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.window < 0:
            raise PositionError("window below nought")
        if self.window == 13:
            raise ValueError("no thirteen")


class NoComponent:
    pass


def scorer(**fields: Any) -> Scorer:
    return build({"_target_": f"{HERE}.Scorer", "window": 4, **fields}, "selector.mine")


def test_defaults_and_plain_values() -> None:
    made = scorer(share=0.25, name="x", flag=True, limit=7, over="question", extra={"a": [1, {"b": None}]})
    assert made == Scorer(
        window=4, share=0.25, name="x", flag=True, limit=7, over="question", extra={"a": [1, {"b": None}]}
    )
    assert scorer(limit=None) == Scorer(window=4)


def test_whole_numbers_pass_for_floats_and_lists_for_tuples() -> None:
    made = scorer(share=1, layers=[1, 2], pair=[3, "b"])
    assert made.share == 1.0 and isinstance(made.share, float)
    assert made.layers == (1, 2) and made.pair == (3, "b")


def test_nested_components_also_in_tuples_and_dicts() -> None:
    pool = {"_target_": f"{HERE}.MeanPool", "width": 5}
    made = scorer(pool=pool, mean=pool, pools=[pool, {"_target_": f"{HERE}.MeanPool"}], named={"one": pool})
    assert made.pool == made.mean == MeanPool(width=5)
    assert made.pools == (MeanPool(width=5), MeanPool())
    assert made.named == {"one": MeanPool(width=5)}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"window": "abc"}, ["selector.mine.window", "'abc'", "str", "wanted int"]),
        ({"window": "4"}, ["selector.mine.window", "'4'", "wanted int"]),
        ({"window": 4.0}, ["selector.mine.window", "4.0", "float", "wanted int"]),
        ({"window": True}, ["selector.mine.window", "True", "bool", "wanted int"]),
        ({"window": None}, ["selector.mine.window", "None", "wanted int"]),
        ({"share": "0.5"}, ["selector.mine.share", "wanted float"]),
        ({"share": False}, ["selector.mine.share", "bool", "wanted float"]),
        ({"name": 3}, ["selector.mine.name", "int", "wanted str"]),
        ({"flag": 1}, ["selector.mine.flag", "wanted bool"]),
        ({"flag": "true"}, ["selector.mine.flag", "wanted bool"]),
        ({"limit": "none"}, ["selector.mine.limit", "wanted int | None"]),
        ({"layers": [1, "2"]}, ["selector.mine.layers", "selector.mine.layers[1]", "wanted tuple[int, ...]"]),
        ({"layers": 3}, ["selector.mine.layers", "wanted tuple[int, ...]"]),
        ({"layers": "12"}, ["selector.mine.layers", "'12'", "wanted tuple[int, ...]"]),
        ({"pair": [1]}, ["selector.mine.pair", "wanted tuple[int, str]"]),
        ({"over": "answer"}, ["selector.mine.over", "'answer'", "history", "question"]),
        ({"pool": "mean"}, ["selector.mine.pool", "wanted Pool | None"]),
        ({"pools": [3]}, ["selector.mine.pools", "wanted tuple[Pool, ...]"]),
        ({"mean": {"width": 3}}, ["selector.mine.mean", "wanted MeanPool"]),
        ({"named": {"one": 3}}, ["selector.mine.named", "wanted dict[str, MeanPool]"]),
        ({"extra": [1]}, ["selector.mine.extra", "list", "wanted dict[str, Any]"]),
        ({"mean": {"_target_": f"{HERE}.Scorer", "window": 1}}, ["selector.mine.mean", "wanted MeanPool"]),
        ({"mean": {"_target_": f"{HERE}.MeanPool", "width": "w"}}, ["selector.mine.mean.width", "wanted int"]),
        ({"pools": [{"_target_": f"{HERE}.MeanPool", "wide": 1}]}, ["selector.mine.pools[0].wide", "width"]),
    ],
)
def test_a_wrong_type_names_key_value_and_what_was_wanted(fields: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        scorer(**fields)
    for word in words:
        assert word in str(caught.value)


def test_an_unknown_field_names_the_known_ones_and_the_likely_one() -> None:
    with pytest.raises(ConfigError) as caught:
        scorer(windw=9)
    message = str(caught.value)
    assert "selector.mine.windw = 9" in message and "Did you mean 'window'?" in message
    assert "share, name, flag" in message
    with pytest.raises(ConfigError, match="_partial_"):
        scorer(_partial_=True)


@pytest.mark.parametrize("config", [{}, {"window": "???"}])
def test_a_missing_field(config: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"selector\.mine\.window is missing: Scorer needs it \(int\)"):
        build({"_target_": f"{HERE}.Scorer", **config}, "selector.mine")


def test_own_errors_pass_and_others_are_wrapped_with_the_key() -> None:
    with pytest.raises(PositionError, match="below nought"):
        scorer(window=-1)
    with pytest.raises(ConfigError, match=r"selector\.mine: Scorer refuses these settings: no thirteen") as caught:
        scorer(window=13)
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (None, "judge.x = None"),
        ("bm25", "judge.x = 'bm25'"),
        ({"window": 3}, "_target_"),
        ({"_target_": 3}, "judge.x._target_ = 3"),
        ({"_target_": "Scorer"}, "judge.x._target_"),
        ({"_target_": "no_such_module.Scorer"}, "there is no module no_such_module"),
        ({"_target_": "kvrelay.run.nowhere.Scorer"}, "there is no module kvrelay.run.nowhere"),
        ({"_target_": f"{HERE}.Scorrer"}, "Did you mean 'Scorer'?"),
        ({"_target_": f"{HERE}.NoComponent"}, "no component"),
        ({"_target_": "os.system"}, "no component"),
    ],
)
def test_what_cannot_be_built_at_all(config: Any, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build(config, "judge.x")
    assert words in str(caught.value) and "judge.x" in str(caught.value)


def test_a_package_that_is_not_installed_is_named(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "needs_more.py").write_text("import package_that_nobody_has\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigError, match="needs the package package_that_nobody_has"):
        build({"_target_": "needs_more.Thing"}, "dataset.x")


def test_groups_keep_their_names_and_order() -> None:
    group = {"b": {"_target_": f"{HERE}.MeanPool"}, "a": {"_target_": f"{HERE}.MeanPool", "width": 1}}
    assert list(build_group(group, "selector").items()) == [("b", MeanPool()), ("a", MeanPool(width=1))]
    with pytest.raises(ConfigError, match=r"selector\.a\.width"):
        build_group({"a": {"_target_": f"{HERE}.MeanPool", "width": []}}, "selector")
    for empty in (None, {}, "bm25"):
        with pytest.raises(ConfigError, match=r"selector = .*wanted at least one choice"):
            build_group(empty, "selector")


def test_a_component_of_the_core_is_built_and_its_range_checked() -> None:
    ratio = {"_target_": "kvrelay.core.budget.Ratio", "ratio": 0.1}
    assert build(ratio, "retention.r10").states(1000) == 100
    with pytest.raises(ConfigError, match=r"retention ratio is 1\.5"):
        build(ratio | {"ratio": 1.5}, "retention.r150")


def test_building_needs_no_hydra() -> None:
    code = "import kvrelay.run.build, sys; print(sorted({'hydra', 'omegaconf', 'torch'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment())
    assert done.stdout.strip() == "[]"
