"""Budgets and suffixes at which others' allocators failed, and questions that say nothing: each its defined result.

docs/known_faults.md has the whole list, with the tests that hold the other entries.
"""

from __future__ import annotations

import math
import pathlib
import re

import pytest
import yaml

from kvrelay.core.budget import Refreshed, Share
from kvrelay.repair.units import segment
from kvrelay.run.build import build

ROOT = pathlib.Path(__file__).parents[2]
FOLDER = ROOT / "conf" / "allocator"
BUILT = {
    name: build(yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))[name], f"allocator.{name}")
    for name in sorted(path.stem for path in FOLDER.glob("*.yaml"))
}
BUDGETED = sorted(name for name, one in BUILT.items() if not hasattr(one, "fixed_budget"))
CONTENT = {"sur", "window", "token", "edit_local"}
"""With no content word to rank by, these take what stands first."""
WORDS = CONTENT | {"sur_all_tokens", "bm25_units"}
ATTENTION = {"infoflow", "prophetkv", "fusionrag", "cacheclip", "kvshare", "a3"}
FROM_THE_SPLICE = {"": WORDS | ATTENTION, "?!": CONTENT | {"bm25_units"}, "What is it?": CONTENT}
"""Of questions without a token, without a word, and without a content word."""


@pytest.mark.parametrize("basis_points", [0, 100, 200, 500, 1000, 2000, 2900, 4000, 5700, 8000, 10_000])
def test_a_share_is_the_floor_of_the_exact_product_and_may_be_nothing(basis_points: int) -> None:
    """LMCache 2791 took one token at ratio 0; int(0.29 * 100) is 28."""
    for n in range(301):
        states = Share(share=basis_points / 10_000).states(n)
        assert 10_000 * states <= n * basis_points < 10_000 * (states + 1)
    assert [Share(share=0.02).states(n) for n in (0, 1, 49, 50, 99, 100)] == [0, 0, 0, 1, 1, 2]
    assert Share(share=0.29).states(100) == 29


def test_a_number_of_states_above_the_suffix_is_the_whole_suffix() -> None:
    assert [Refreshed(count=64).states(n) for n in (0, 1, 63, 64, 65)] == [0, 1, 63, 64, 64]
    assert Refreshed(count=0).states(9) == 0


@pytest.mark.parametrize("name", BUDGETED)
@pytest.mark.parametrize("n", [31, 32, 33, 65])
def test_budgets_around_a_kernels_block_are_exact(
    make_context, make_question, fake_probe, clean_fake_probe, name: str, n: int
) -> None:
    """LMCache 2791 and 3092 failed below a block of 32, and at one token above it."""
    context, question = make_context([f" w{place % 7}." for place in range(70)]), make_question("Which w3?")
    probe = (clean_fake_probe if name == "oracle" else fake_probe)(context, question)
    slots = BUILT[name].allocate(context, question, n, probe).slots
    assert len(set(slots)) == len(slots) == n


@pytest.mark.parametrize("name", BUDGETED)
def test_a_suffix_shorter_than_a_unit_is_one_unit(
    make_context, make_question, fake_probe, clean_fake_probe, name: str
) -> None:
    """The deletion took the rest of its sentence's end: no border is left in the suffix."""
    question = make_question("Which boat sank?")
    for pieces in ([" boat"], [" the", " old", " boat"]):
        context = make_context(pieces)
        assert segment(context.suffix_pieces, context.suffix_special) == ((0, len(pieces)),)
        probe = (clean_fake_probe if name == "oracle" else fake_probe)(context, question)
        assert BUILT[name].allocate(context, question, Share(share=0.05).states(len(pieces)), probe).slots == ()
        for budget in range(len(pieces) + 1):
            slots = BUILT[name].allocate(context, question, budget, probe).slots
            assert len(set(slots)) == len(slots) == budget
        found = BUILT[name].allocate(context, question, 1, probe).slots
        if name in ("sur", "token", "window", "bm25_units"):
            assert found == (context.splice + len(pieces) - 1,), "the one token that the question names"
        elif name in ("edit_local", "epic"):
            assert found == (context.splice,)


@pytest.mark.parametrize("name", BUDGETED)
@pytest.mark.parametrize("text", FROM_THE_SPLICE)
def test_a_question_that_says_nothing_has_a_defined_result(
    make_context, make_question, fake_probe, clean_fake_probe, name: str, text: str
) -> None:
    context, question = make_context("Rain fell. The boat sank; nobody saw it.\nThen dark. End."), make_question(text)
    for budget in (1, 4, context.n_suffix - 1):
        probes = [(clean_fake_probe if name == "oracle" else fake_probe)(context, question) for _ in range(2)]
        one, other = (BUILT[name].allocate(context, question, budget, probe).slots for probe in probes)
        assert one == other and len(set(one)) == budget
        if name in FROM_THE_SPLICE[text]:
            assert one == tuple(range(context.splice, context.splice + budget))


def test_no_budget_is_rounded_up_for_any_allocator(make_context, make_question, fake_probe, clean_fake_probe) -> None:
    """InfoFlow's code and LMCache force a token where the share is none."""
    context, question = make_context("The old boat sank."), make_question("Which boat?")
    budget = Share(share=0.02).states(context.n_suffix)
    assert budget == math.floor(0.02 * context.n_suffix) == 0
    for name in BUDGETED:
        probe = (clean_fake_probe if name == "oracle" else fake_probe)(context, question)
        assert BUILT[name].allocate(context, question, budget, probe).slots == ()


def test_the_list_of_known_faults_is_whole_and_names_tests_that_exist() -> None:
    text = (ROOT / "docs" / "known_faults.md").read_text(encoding="utf-8")
    rows = {int(row[1]): row[0] for row in re.finditer(r"^\| (\d+) \|.*$", text, re.MULTILINE)}
    assert sorted(rows) == list(range(1, 37))
    named = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
    assert all(named.search(row) for row in rows.values())
    missing = []
    for file, name in named.findall(text):
        path = ROOT / file
        if not path.is_file() or f"\ndef {name}(" not in path.read_text(encoding="utf-8"):
            missing.append(f"{file}::{name}")
    assert missing == []
