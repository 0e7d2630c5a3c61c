"""What every allocator of conf/allocator must do, on contexts of every small length. A new YAML is picked up alone."""

from __future__ import annotations

import dataclasses
import pathlib
import random

import pytest
import torch
import yaml

from kvrelay.core.budget import Refreshed, Share
from kvrelay.core.errors import EditError
from kvrelay.run.build import build

CONF = pathlib.Path(__file__).parents[2] / "conf"
NAMES = sorted(path.stem for path in (CONF / "allocator").glob("*.yaml"))
BUDGETS = sorted(path.stem for path in (CONF / "budget").glob("*.yaml"))
WORDS = [" boat", "Boat", " the", " a", " captain", ".", "\n", ".\n", " sea", "", "好", "?", " 7", "<|end|>"]


def settings(group: str, name: str) -> dict[str, object]:
    found = yaml.safe_load((CONF / group / f"{name}.yaml").read_text(encoding="utf-8"))
    assert list(found) == [name], "one top-level key, the file's name"
    return found[name]


def made(name: str):
    return build(settings("allocator", name), f"allocator.{name}")


@pytest.fixture
def cases(make_context, make_question, fake_probe, clean_fake_probe):
    """(context, question, probe) for suffixes of the given lengths; only the oracle's probe knows clean states."""

    def make(lengths, name):
        question = make_question("Which captain had the boat?")
        draw = random.Random(7)
        for n in lengths:
            pieces = [draw.choice(WORDS) for _ in range(n)]
            special = [piece == "<|end|>" for piece in pieces]
            slot = (3, 3 + (n + 1) // 2) if n else None
            context = make_context(pieces, special=special, case_id=f"case {n}", slot=slot)
            probe = (clean_fake_probe if getattr(made(name), "reads_clean", False) else fake_probe)(context, question)
            yield context, question, probe

    return make


def test_the_table_holds_the_allocators() -> None:
    controls = {"token", "window", "random_units", "bm25_units", "edit_local"}
    prior = {"infoflow", "cacheblend", "epic", "prophetkv", "a3", "cacheclip", "kvshare", "fusionrag"}
    ends = {"shift", "replay", "reprefill", "localized"}
    assert set(NAMES) >= {"sur", "sur_all_tokens", "oracle"} | controls | prior | ends


@pytest.mark.parametrize("name", NAMES)
def test_exact_budgets(cases, name: str) -> None:
    allocator = made(name)
    for context, question, probe in cases(range(41), name):
        n = context.n_suffix
        budgets = {0, 1, n - 1, n} | {
            Share(share=bp / 10_000).states(n) for bp in (0, 200, 500, 1000, 2900, 4000, 8000)
        }
        if hasattr(allocator, "fixed_budget"):
            budgets = {allocator.fixed_states(context)} if n else set()
        for budget in sorted(budgets & set(range(n + 1))):
            slots = allocator.allocate(context, question, budget, probe).slots
            assert len(slots) == budget and list(slots) == sorted(set(slots))
            assert all(isinstance(slot, int) and context.splice <= slot < context.splice + n for slot in slots)


@pytest.mark.parametrize("name", NAMES)
def test_a_budget_above_the_suffix_or_below_nothing_is_an_error(cases, name: str) -> None:
    for context, question, probe in cases((0, 1, 9), name):
        for budget in (-1, context.n_suffix + 1):
            with pytest.raises(EditError):
                made(name).allocate(context, question, budget, probe)


@pytest.mark.parametrize("name", NAMES)
def test_deterministic_whatever_the_seed_the_threads_and_the_cases_before(cases, name: str) -> None:
    allocator = made(name)
    threads = torch.get_num_threads()
    found = []
    try:
        for seed, count, again in ((0, 1, allocator), (1, 2, allocator), (2, 1, made(name))):
            torch.manual_seed(seed)
            torch.set_num_threads(count)
            state = torch.random.get_rng_state()
            found.append([])
            for context, question, probe in cases((40, 17, 33), name):
                budget = again.fixed_states(context) if hasattr(again, "fixed_budget") else context.n_suffix // 3
                allocation = again.allocate(context, question, budget, probe)
                found[-1].append((allocation.slots, dict(allocation.notes)))
            assert torch.equal(torch.random.get_rng_state(), state), "the global generator moved"
    finally:
        torch.set_num_threads(threads)
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_handed_in_is_changed(cases, name: str) -> None:
    allocator = made(name)
    for context, question, probe in cases((23,), name):
        tensors = [probe.table, *probe.attention]
        tensors += [getattr(s, f) for s in probe.states for f in ("key_HSD", "value_HSD", "question_query")]
        before = [tensor.clone() for tensor in tensors]
        budget = allocator.fixed_states(context) if hasattr(allocator, "fixed_budget") else 7
        allocator.allocate(context, question, budget, probe)
        assert all(map(torch.equal, before, tensors))


@pytest.mark.parametrize("name", NAMES)
def test_settings_are_all_written_and_nothing_else_is_a_setting(name: str) -> None:
    given = settings("allocator", name)
    given.pop("_target_")
    assert dataclasses.asdict(made(name)) == given


def test_notes_can_be_written_as_json(cases) -> None:
    for name in NAMES:
        allocator = made(name)
        for context, question, probe in cases((23,), name):
            budget = allocator.fixed_states(context) if hasattr(allocator, "fixed_budget") else 7
            notes = allocator.allocate(context, question, budget, probe).notes
            assert all(type(value) in (bool, int, float, str) for value in notes.values())


def test_only_the_oracle_reads_clean_states(cases, fake_probe) -> None:
    assert [name for name in NAMES if getattr(made(name), "reads_clean", False)] == ["oracle"]
    for context, question, _ in cases((23,), "oracle"):
        with pytest.raises(EditError, match="run afresh"):
            made("oracle").allocate(context, question, 5, fake_probe(context, question))


def test_matched_controls_have_the_same_scores_as_sur() -> None:
    scoring = {name: settings("allocator", name) for name in ("sur", "token", "window")}
    shared = ("query_filter", "scorer", "idf_weight", "match_variants")
    assert len({tuple(given[key] for key in shared) for given in scoring.values()}) == 1


def test_budgets() -> None:
    found = {name: build(settings("budget", name), f"budget.{name}") for name in BUDGETS}
    shares = {name: value for name, value in found.items() if isinstance(value, Share)}
    assert {name: value.basis_points for name, value in shares.items()} == {
        f"p{percent:02}": 100 * percent for percent in (1, 2, 5, 10, 20, 40, 80)
    }
    assert {name: found[name] for name in set(BUDGETS) - set(shares)} == {
        "t64": Refreshed(count=64),
        "t256": Refreshed(count=256),
    }


def test_layers_of_infoflow_can_be_written_as_a_list() -> None:
    target = settings("allocator", "infoflow")
    assert build(target | {"layers": [22, 0.7]}, "allocator.infoflow").layers == (22, 0.7)
