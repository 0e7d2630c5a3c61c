"""Every file in conf/ composes with the root and builds into its components; a typing error names its key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compose import compose
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.errors import ConfigCompositionException
from omegaconf import OmegaConf

from kvrelay.report import reported

CONF = Path(__file__).resolve().parents[1] / "conf"
REPAIR = ("allocator", "budget", "executor")
GROUPS = ("model", "dataset", "selector", "retention", "position", *REPAIR, "judge", "profile", "experiment")
CHOICES = [(group, path.stem) for group in GROUPS for path in sorted((CONF / group).glob("*.yaml"))]
SEVERAL = frozenset({"dataset", "selector", "retention", "position", *REPAIR, "judge", "model"})
WHOLE = {"allocator": "shift", "budget": "p02", "executor": "packed"}
"""Repair takes all three."""
PROFILES = {
    **dict.fromkeys(("sur_niah", "sur_geometry", "sur_signals"), "niah"),
    "sur_location": "location",
    "sur_holdout": "holdout",
    "helloeval": "helloeval",
    "table12": "table12",
}
"""The data of experiments that have profiles of their own; SUR's others ask natural questions."""


def composed(*overrides: str) -> dict[str, Any]:
    with initialize_config_dir(str(CONF), version_base=None):
        found = OmegaConf.to_container(hydra_compose("config", overrides=list(overrides)), resolve=True)
    assert isinstance(found, dict)
    return {str(key): value for key, value in found.items()}


@pytest.mark.parametrize(("group", "choice"), CHOICES, ids=lambda one: str(one))
def test_every_choice_composes_and_builds(group: str, choice: str) -> None:
    overrides = [f"{group}=[{choice}]" if group in SEVERAL else f"{group}={choice}"]
    if group in WHOLE:
        overrides += [f"{other}=[{name}]" for other, name in WHOLE.items() if other != group]
    if (group, choice) == ("executor", "custom"):
        overrides.append("executor.custom.experimental=true")
    if group == "experiment" and (choice.startswith("sur_") or choice in PROFILES):
        overrides.append(f"profile=laptop_{PROFILES.get(choice, 'qa')}")
    if group == "profile" and "_" in choice:
        kind = choice.partition("_")[2]
        overrides.append(f"experiment={kind if kind in PROFILES else f'sur_{kind}'}")
    config = composed(*overrides)
    _, experiment, judges = compose(config)
    assert experiment.models and experiment.datasets and experiment.parts.selectors and judges
    if group in SEVERAL:
        assert list(part for part in config[group] if part != "max_history_tokens") == [choice]


def test_every_group_has_choices() -> None:
    assert {group for group, _ in CHOICES} == set(GROUPS)


def test_choices_of_a_group_stand_side_by_side() -> None:
    config = composed("experiment=table1", "selector=[bm25,snapkv]", "retention=[r05,b2048]")
    assert list(config["selector"]) == ["bm25", "snapkv"]
    assert list(config["retention"]) == ["r05", "b2048"]


def test_a_sweep_over_one_choice_leaves_the_others_alone() -> None:
    config = composed("experiment=table1", "selector=cam")
    assert list(config["selector"]) == ["cam"]
    assert list(config["position"]) == ["original", "roperelay", "key_only"]


@pytest.mark.parametrize(
    "override", ["selectr=bm25", "selector.bm25.k9=1", "max_new_token=3", "selector=[no_such_selector]"]
)
def test_unknown_keys_and_choices_are_named(override: str) -> None:
    with pytest.raises((ConfigCompositionException, Exception)) as caught:
        composed(override)
    assert override.split("=")[0].split(".")[-1] in str(caught.value) or "no_such_selector" in str(caught.value)


def test_the_paper_profile_is_the_published_setting() -> None:
    config = composed("experiment=table1", "profile=paper")
    settings, experiment, judges = compose(config)
    assert settings.max_new_tokens == 512
    assert set(experiment.models) == {"llama31_8b", "qwen2_7b"}
    assert set(experiment.datasets) == {"longmemeval_s", "long_mt_bench_plus", "personamem_128k"}
    assert set(experiment.parts.selectors) == {"full", "bm25", "h2o", "snapkv", "pyramidkv", "chunkkv", "cam"}
    assert list(judges) == ["qwen25_32b", "lexical"]
    qwen = experiment.models["qwen2_7b"]
    assert qwen.position_range == 131072
    assert qwen.rope_parameters["factor"] * qwen.rope_parameters["original_max_position_embeddings"] == 131072
    assert "key_only" not in {cell for cell, where in settings.only_selectors.items() if where}


def test_the_cross_judge_profile_is_the_published_setting() -> None:
    """RoPERelay, appendix F.2: Qwen2-7B, 500 questions of LongMemEval-S, six selectors at 10 %, two judges."""
    settings, experiment, judges = compose(composed("experiment=table12", "profile=paper_table12"))
    assert settings.max_new_tokens == 512 and settings.name == "table1"
    assert (set(experiment.models), set(experiment.datasets)) == ({"qwen2_7b"}, {"longmemeval_s"})
    assert set(experiment.parts.selectors) == {"bm25", "h2o", "snapkv", "pyramidkv", "chunkkv", "cam"}
    assert (set(experiment.parts.retentions), set(experiment.parts.positions)) == ({"r10"}, {"original", "roperelay"})
    assert list(judges) == ["qwen25_32b", "gpt_oss_20b"]
    told = reported.load().facts["roperelay"]["cross_judge"]["judges"]
    assert {name: judge.max_tokens for name, judge in judges.items()} == {
        name: told[name]["max_tokens"] for name in told
    }
    assert judges["gpt_oss_20b"].reasoning_effort == told["gpt_oss_20b"]["reasoning_effort"]
    assert {judge.prompt for judge in judges.values()} == {"memory_judge_v1"}


def test_the_laptop_profile_needs_no_network_and_no_server() -> None:
    _, experiment, judges = compose(composed("experiment=table1"))
    assert set(experiment.models) == {"smollm2"}
    assert all(name.startswith("lab_") for name in experiment.datasets)
    assert list(judges) == ["lexical"]


def test_published_sample_counts(samples: Path) -> None:
    """500, 88 and 200 questions a model, as far as configuration decides it."""
    datasets = composed("experiment=table1", "profile=paper")["dataset"]
    assert datasets["longmemeval_s"]["limit"] is None
    assert datasets["long_mt_bench_plus"]["per_conversation"] == 8
    assert datasets["personamem_128k"]["limit"] == 200
