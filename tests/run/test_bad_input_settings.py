"""Settings that are wrong: the key is named before anything is loaded, by the command as by the functions under it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import call, smoke
from compose import compose, compose_run
from plain_config import group, plain_config

from kvrelay.core.errors import ConfigError
from kvrelay.report.write import write_report


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"limit": 0}, r"limit = 0: wanted at least 1 \(key: limit\)"),
        ({"limit": -3}, r"limit = -3: wanted at least 1"),
        ({"limit": "many"}, r"^limit = 'many' \(str\): wanted int"),
        ({"limit": 1.5}, r"^limit = 1.5 \(float\): wanted int"),
        ({"limit": ""}, r"^limit = ''"),
        ({"max_new_tokens": 0}, r"max_new_tokens = 0: wanted at least 1"),
        ({"out": ""}, r"out = '': wanted a folder.*OUT="),
        ({"out": None}, r"^out = None \(NoneType\): wanted str"),
        ({"name": "a/b"}, r"name = 'a/b': wanted a plain name"),
        ({"name": ".."}, r"name = '..': wanted a plain name"),
        ({"stages": ["run", "rport"]}, r"stages = .*'rport'.*the fault is at stages\[1\]"),
        ({"stages": "report"}, r"stages = 'report' \(str\): wanted tuple.*'run', 'judge', 'report'"),
        ({"stages": []}, r"stages = \[\]: nothing is to be done"),
        ({"stages": None}, r"^stages = None"),
        ({"dry_run": "maybe"}, r"^dry_run = 'maybe' \(str\): wanted bool"),
        ({"gate": 1}, r"^gate = 1 \(int\): wanted bool"),
        ({"choice_by": "luck"}, r"^choice_by = 'luck'.*'answer', 'texts'"),
        ({"seed": 1}, r"^seed = 1: RunSettings has no such field"),
        ({"report": None}, r"report = None: wanted a mapping"),
        (
            {"report": {"baseline": "orignal"}},
            r"report\.baseline names the position 'orignal'; wanted one of .*original",
        ),
        ({"report": {"resamples": 9}}, r"report\.resamples = 9: .*at least 100"),
        ({"report": {"seed": -1}}, r"report\.seed = -1: wanted 0 or more"),
        ({"report": {"sed": 1}}, r"report\.sed = 1.*Did you mean 'seed'"),
        ({"only_positions": {"full": ["orignal"]}}, r"only_positions\.full names the position 'orignal'"),
        ({"only_positions": {"ful": ["original"]}}, r"only_positions names the selector 'ful'"),
        ({"only_selectors": {"key_only": ["bm52"]}}, r"only_selectors\.key_only names the selector 'bm52'"),
        ({"selector": {}}, r"selector = \{\}: wanted at least one choice"),
        ({"position": None}, r"position = None: wanted at least one choice"),
        ({"judge": None}, r"judge = None: wanted at least one choice"),
        ({"dataset": None}, r"dataset = \{\}: wanted at least one choice"),
    ],
    ids=lambda value: "" if isinstance(value, str) else str(value),
)
def test_a_wrong_setting_is_one_error_that_names_its_key(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        compose_run(plain_config(tmp_path, **changes))
    assert caught.value.exit_code == 2 and "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("value", "words"),
    [(0, "= 0: wanted at least 1"), ("a", r"= 'a' \(str\): wanted int"), (-7, "= -7: wanted at least 1")],
)
def test_the_history_limit_is_named_as_it_is_written(value: Any, words: str, tmp_path: Path) -> None:
    config = plain_config(tmp_path)
    config["dataset"]["max_history_tokens"] = value
    with pytest.raises(ConfigError, match=rf"^dataset\.max_history_tokens {words}"):
        compose(config)


@pytest.mark.parametrize("ratio", [0.0, -0.1, 1.0001, 0.00001, 0.12345, float("nan"), "a tenth", True])
def test_a_retention_that_is_no_whole_basis_point_of_the_history_is_refused(ratio: Any, tmp_path: Path) -> None:
    config = plain_config(tmp_path)
    config["retention"]["r10"]["ratio"] = ratio
    with pytest.raises(ConfigError, match=r"retention.*ratio"):
        compose(config)


@pytest.mark.parametrize("count", [0, -1, 2.5])
def test_a_budget_of_less_than_a_state_is_refused(count: Any, tmp_path: Path) -> None:
    config = plain_config(tmp_path, retention={"b": {"_target_": "kvrelay.core.budget.States", "count": count}})
    with pytest.raises(ConfigError, match=r"retention.*count"):
        compose(config)


def test_a_job_may_speak_of_parts_that_only_its_sweep_composes(tmp_path: Path) -> None:
    config = plain_config(tmp_path, selector=group("selector", "bm25"), position=group("position", "roperelay"))
    settings, _, _ = compose(config)
    assert "full" in settings.only_positions and "key_only" in settings.only_selectors


def test_without_a_judging_stage_no_judge_is_needed(tmp_path: Path) -> None:
    _, _, judges = compose(plain_config(tmp_path, judge=None, stages=["run"]))
    assert judges == {}


def test_a_baseline_where_nothing_stands_is_refused_with_what_stands(tmp_path: Path) -> None:
    config = plain_config(tmp_path, selector=group("selector", "bm25"), limit=1)
    assert compose_run(config) == 0
    with pytest.raises(ConfigError, match=r"report\.baseline = half_gap: no answers.*key_only, original, roperelay"):
        write_report(tmp_path / "out" / "plain", baseline="half_gap", resamples=100)


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("selector=[bm25,nope]", "selector = nope: there is no such choice; wanted one of bm25, cam, chunkkv"),
        ("dataset=[nope]", "dataset = nope: there is no such choice; wanted one of erasing_niah, hellobench_"),
        ("position=nope", "position = nope: there is no such choice; wanted one of common_shift"),
        ("judge=[nope]", "judge = nope: there is no such choice; wanted one of gpt_oss_20b, helloeval_local"),
        ("profile=nope", "profile = nope: there is no such choice; wanted one of laptop, laptop_helloeval"),
        ("selectr=bm25", "Could not override 'selectr'"),
        ("selector.bm25.k9=1", "Could not override 'selector.bm25.k9'"),
        ("limit=[", "no viable alternative"),
        ("out=${nope}", "'nope' not found"),
    ],
)
def test_what_hydra_refuses_is_one_line_without_a_stack_trace(override: str, words: str) -> None:
    status, out, err = call("experiment=smoke", override)
    assert (status, out) == (2, "")
    (line,) = err.strip().split("\n")
    assert line.startswith("ConfigError: ") and words in line


def test_hydras_own_variable_brings_the_stack_trace_back() -> None:
    status, _, err = call("selector=[nope]", HYDRA_FULL_ERROR="1")
    assert status == 1 and "Traceback" in err


def test_a_wrong_limit_by_the_command(tmp_path: Path) -> None:
    status, out, err = call(*smoke(tmp_path, 1), "limit=0")
    assert (status, out, err) == (2, "", "\nConfigError: limit = 0: wanted at least 1 (key: limit)\n")
    assert not (tmp_path / "out").exists()


def test_help_names_choices_keys_examples_and_exit_codes() -> None:
    status, out, err = call("--help")
    assert (status, err) == (0, "")
    for words in (
        "experiment=table1 profile=paper",
        "selector: bm25, cam",
        "position: common_shift",
        "judge: gpt_oss_20b",
    ):
        assert words in out
    for key in ("out=", "data=", "limit=", "stages=", "dry_run=", "dataset.max_history_tokens", "report.baseline"):
        assert key in out
    assert "Exit status" in out and "_target_" not in out


def test_a_folder_with_spaces_and_signs_holds_results(tmp_path: Path) -> None:
    out = tmp_path / "my results = {v1}, 100 %"
    assert compose_run(plain_config(tmp_path, out=str(out), selector=group("selector", "bm25"), limit=1)) == 0
    assert (out / "plain" / "report" / "table1.md").is_file()
