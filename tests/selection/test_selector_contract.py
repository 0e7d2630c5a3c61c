"""What every selector of conf/selector must do, on histories of random evidence. A new YAML file is picked up alone."""

from __future__ import annotations

import importlib
import json
import pathlib

import pytest
import torch
import yaml

from kvrelay.core.budget import Ratio
from kvrelay.core.history import PrefilledHistory

CONF = pathlib.Path(__file__).parents[2] / "conf" / "selector"
NAMES = sorted(path.stem for path in CONF.glob("*.yaml"))
BUDGET_OF = {"all": lambda n_history, budget: n_history, "nothing": lambda n_history, budget: 0}
"""What selectors of a ``fixed_retention`` keep instead of the budget."""
MOVES_BETWEEN_LAYERS = {"pyramidkv"}
SIZES = [(1, 1), (5, 1), (12, 11), (60, 6), (60, 60), (331, 33)]


def build(name: str):
    settings = yaml.safe_load((CONF / f"{name}.yaml").read_text(encoding="utf-8"))
    assert list(settings) == [name], "one top-level key, the file's name"
    module, _, cls = settings[name].pop("_target_").rpartition(".")
    return getattr(importlib.import_module(module), cls)(**settings[name])


def tensors(history: PrefilledHistory) -> list[torch.Tensor]:
    cache = [t for layer in history.cache.layers for t in (layer.keys_HKD, layer.values_HKD, layer.source_HK)]
    return cache + [mass for masses in history.evidence.values() for mass in masses]


def test_the_table_holds_the_selectors() -> None:
    assert set(NAMES) >= {"full", "none", "random", "recent", "bm25", "h2o", "snapkv", "pyramidkv", "chunkkv", "cam"}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("n_history", "budget"), SIZES)
@pytest.mark.parametrize(("n_layers", "protected"), [(2, 3), (3, 0), (1, 1)])
def test_budget_order_and_front(make_history, question, name, n_history, budget, n_layers, protected) -> None:
    selector = build(name)
    history = make_history(n_history, needs=selector.needs, n_layers=n_layers, protected=protected)
    selection = selector.select(history, question, budget)
    expected = BUDGET_OF.get(getattr(selector, "fixed_retention", ""), min)(n_history, budget)
    assert (selection.budget, selection.protected, len(selection.layers)) == (expected, protected, n_layers)
    counts = torch.tensor(selection.counts_LH()) - protected
    assert counts.shape == (n_layers, 2)
    assert int(counts.sum()) == expected * n_layers * 2
    assert name in MOVES_BETWEEN_LAYERS or bool((counts == expected).all())
    for layer in selection.layers:
        assert layer.source_HK.dtype == torch.int64 and layer.score_HK.dtype == torch.float32
        assert layer.score_HK.shape == layer.source_HK.shape
        for row in layer.source_HK:
            kept = row[row >= 0].tolist()
            assert kept == sorted(set(kept)) and (not kept or kept[-1] < protected + n_history)
            assert kept[:protected] == list(range(protected))
            assert row.tolist() == [-1] * (len(row) - len(kept)) + kept


@pytest.mark.parametrize("name", NAMES)
def test_deterministic_whatever_the_global_seed_and_the_histories_before(make_history, question, name) -> None:
    # KVCache-Factory#46, #25: state of one sample reached the next, or only the first was compressed
    selector = build(name)
    short, long = (make_history(n, needs=selector.needs, seed=n) for n in (120, 260))
    torch.manual_seed(0)
    state = torch.random.get_rng_state()
    first, longer = selector.select(short, question, 12), selector.select(long, question, 26)
    assert torch.equal(torch.random.get_rng_state(), state), "the global generator moved"
    torch.manual_seed(1)
    again, fresh = selector.select(short, question, 12), build(name).select(long, question, 26)
    assert first.digest() == again.digest() and longer.digest() == fresh.digest()
    assert first.notes == again.notes
    for one, other in zip(first.layers, again.layers, strict=True):
        torch.testing.assert_close(one.score_HK, other.score_HK, rtol=0, atol=0, equal_nan=True)
    if first.values_LHND is not None:
        assert all(map(torch.equal, first.values_LHND, again.values_LHND))


@pytest.mark.parametrize("name", NAMES)
def test_inputs_are_untouched(make_history, question, name) -> None:
    selector = build(name)
    history = make_history(80, needs=selector.needs, dtype=torch.bfloat16)
    before = [tensor.clone() for tensor in tensors(history)]
    selector.select(history, question, 9)
    assert all(map(torch.equal, tensors(history), before))


@pytest.mark.parametrize("name", NAMES)
def test_the_cache_can_be_restricted(make_history, question, name) -> None:
    selector = build(name)
    history = make_history(80, needs=selector.needs, n_query_heads=6)
    selection = selector.select(history, question, 9)
    cache = history.cache.restricted(selection)
    assert [layer.counts_H.tolist() for layer in cache.layers] == selection.counts_LH()
    assert {layer.keys_HKD.shape[0] for layer in cache.layers} == {2}


@pytest.mark.parametrize("name", NAMES)
def test_a_budget_beyond_the_history_keeps_it_whole(make_history, question, name) -> None:
    selector = build(name)
    history = make_history(20, needs=selector.needs)
    expected = BUDGET_OF.get(getattr(selector, "fixed_retention", ""), min)(20, 2048)
    selection = selector.select(history, question, 2048)
    assert selection.budget == expected and selection.counts_LH() == [[3 + expected] * 2] * 2


@pytest.mark.parametrize("name", NAMES)
def test_notes_can_be_recorded(make_history, question, name) -> None:
    selector = build(name)
    history = make_history(60, needs=selector.needs)
    notes = dict(selector.select(history, question, Ratio(ratio=0.1).states(60)).notes)
    assert json.loads(json.dumps(notes, allow_nan=False)) == notes


@pytest.mark.parametrize("name", NAMES)
def test_a_selector_unaware_of_the_question_ignores_it(make_history, question, name) -> None:
    selector = build(name)
    history = make_history(60, needs=selector.needs)
    other = type(question)(text="kiwi and lime", token_ids=(9,), example_id="x")
    digests = {selector.select(history, asked, 6).digest() for asked in (question, other)}
    assert selector.question_aware or len(digests) == 1
