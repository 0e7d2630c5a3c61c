"""What every configured data set promises, whoever wrote its adapter."""

from __future__ import annotations

import dataclasses
import importlib
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import yaml

from kvrelay.core.example import Example

CONFIGS = sorted((Path(__file__).parents[2] / "conf" / "dataset").glob("*.yaml"))
MULTI_HOP: dict[str, dict[str, Any]] = {
    "hotpotqa": {"path": "hotpotqa/hotpot_train_v1.1_sample.json"},
    "twowikimultihopqa": {"path": "2wikimultihopqa/2wiki_data_ids_sample.json"},
    "musique": {"path": "musique/musique_ans_v1.0_train_sample.jsonl"},
    "iirc": {
        "path": "iirc/iirc_dev_schema_RECONSTRUCTED_20passages.json",
        "articles_path": "iirc/context_articles_RECONSTRUCTED.json",
    },
}
LONGMEMEVAL, PERSONAMEM = "longmemeval", "personamem"

SAMPLES: dict[str, dict[str, Any]] = {
    "longmemeval_s": {"path": f"{LONGMEMEVAL}/longmemeval_s_small_assembled_6records.json"},
    "long_mt_bench_plus": {
        "path": "long_mt_bench_plus/long_mt_bench_plus_1conversation_REAL_sessions_NO_gold_answers.jsonl"
    },
    "personamem_128k": {
        "path": f"{PERSONAMEM}/questions_32k_sample.csv",
        "contexts_path": f"{PERSONAMEM}/shared_contexts_32k_FIXTURE.jsonl",
    },
    "hellobench_text_completion": {"path": "hellobench/text_completion.jsonl"},
    **MULTI_HOP,
    **{f"location_{name}": paths for name, paths in MULTI_HOP.items()},
}
"""Where a sample of a data set lies under the samples' folder. A set without an entry is built and not read."""


def settings(config: Path) -> tuple[type, dict[str, Any]]:
    """The class and the fields of the one node in a file, which bears the file's name."""
    nodes = yaml.safe_load(config.read_text(encoding="utf-8"))
    assert list(nodes) == [config.stem]
    fields = dict(nodes[config.stem])
    module, _, name = fields.pop("_target_").rpartition(".")
    return getattr(importlib.import_module(module), name), fields


def plain(fields: dict[str, Any]) -> dict[str, Any]:
    """Without the values that Hydra would fill in from elsewhere."""
    return {key: value for key, value in fields.items() if not (isinstance(value, str) and "${" in value)}


def read(config: Path, samples: Path) -> list[Example]:
    if config.stem not in SAMPLES:
        pytest.skip(f"no sample of {config.stem} is known")
    adapter, fields = settings(config)
    paths = {key: str(samples / place) for key, place in SAMPLES[config.stem].items()}
    return list(adapter(**{**plain(fields), **paths}).examples(lambda text: len(text.split())))


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.stem)
def test_a_config_sets_fields_that_exist_and_builds_a_frozen_adapter(config: Path) -> None:
    adapter, fields = settings(config)
    known = {field.name: field for field in dataclasses.fields(adapter)}
    assert set(fields) <= set(known)
    assert all(field.kw_only for field in known.values())
    built = adapter(**plain(fields))
    assert callable(built.examples) and callable(built.fingerprint)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(built, next(iter(known)), None)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.stem)
def test_examples_can_be_asked_paired_and_resampled(config: Path, samples: Path) -> None:
    examples = read(config, samples)
    assert examples
    assert len({example.id for example in examples}) == len(examples)
    for example in examples:
        assert example.id and example.cluster_id and example.question and example.question_type
        assert example.question_prompt.strip() and example.question in example.question_prompt
        assert example.units and len({unit.id for unit in example.units}) == len(example.units)
        assert all(isinstance(reference, str) and reference.strip() for reference in example.references)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.stem)
def test_no_prompt_tells_where_the_evidence_is(config: Path, samples: Path) -> None:
    for example in read(config, samples):
        shown = [example.preamble, example.system or "", example.question_prompt]
        shown += [unit.text + unit.index_text + "".join(turn.content for turn in unit.turns) for unit in example.units]
        assert not any("has_answer" in text or "answer_session" in text for text in shown)
        assert not any(unit.id in text for unit in example.units if unit.evidence for text in shown)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.stem)
def test_choices_have_one_gold_label(config: Path, samples: Path) -> None:
    for example in read(config, samples):
        labels = [choice.label for choice in example.choices]
        assert len(set(labels)) == len(labels) and all(label == label.strip("() ").lower() for label in labels)
        assert (example.gold_choice in labels) if labels else example.gold_choice is None


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.stem)
def test_reading_twice_gives_the_same_and_histories_stand_together(config: Path, samples: Path) -> None:
    examples = read(config, samples)
    assert examples == read(config, samples)
    runs = [history for history, _ in groupby(example.history_id for example in examples)]
    assert len(runs) == len(set(runs))
    if examples[0].layout == "chat":
        assert all(unit.turns for example in examples for unit in example.units)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.stem)
def test_the_fingerprint_is_a_sha256(config: Path, samples: Path) -> None:
    if config.stem not in SAMPLES:
        pytest.skip(f"no sample of {config.stem} is known")
    adapter, fields = settings(config)
    paths = {key: str(samples / place) for key, place in SAMPLES[config.stem].items()}
    mark = adapter(**{**plain(fields), **paths}).fingerprint()
    assert len(mark) == 64 and set(mark) <= set("0123456789abcdef")
