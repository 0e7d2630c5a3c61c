"""What repair is measured against: its number of states follows from the context."""

from __future__ import annotations

import pytest

from kvrelay.core.errors import EditError
from kvrelay.repair.endpoints import Localized, Replay, Reprefill, Shift


@pytest.fixture
def case(make_context, make_question, fake_probe):
    question = make_question("Which boat?")

    def make(slot=None):
        context = make_context("The boat lay here. The end.", slot=slot)
        return context, question, fake_probe(context, question)

    return make


@pytest.mark.parametrize(
    ("allocator", "name", "slots"),
    [(Shift(), "0", ()), (Replay(), "suffix", tuple(range(3, 11))), (Reprefill(), "all", ())],
)
def test_fixed_budgets(case, allocator, name: str, slots: tuple[int, ...]) -> None:
    context, question, probe = case()
    assert allocator.fixed_budget == name
    assert allocator.fixed_states(context) == len(slots)
    assert allocator.allocate(context, question, len(slots), probe).slots == slots
    with pytest.raises(EditError, match="exactly 5"):
        allocator.allocate(context, question, 5, probe)
    assert getattr(allocator, "afresh", False) is isinstance(allocator, Reprefill)
    assert getattr(allocator, "refreshes", True) is isinstance(allocator, Replay)


def test_localized_refreshes_its_slot(case) -> None:
    context, question, probe = case(slot=(5, 8))
    assert Localized().fixed_budget == "slot" and Localized().fixed_states(context) == 3
    assert Localized().allocate(context, question, 3, probe).slots == (5, 6, 7)
    with pytest.raises(EditError, match="exactly 4"):
        Localized().allocate(context, question, 4, probe)


@pytest.mark.parametrize("slot", [None, (2, 5), (5, 12), (6, 6), (7, 6), (0, 3)])
def test_localized_without_a_slot_in_the_suffix_is_an_error(case, slot) -> None:
    context, question, probe = case(slot=slot)
    with pytest.raises(EditError, match="slot"):
        Localized().fixed_states(context)
    with pytest.raises(EditError, match="slot"):
        Localized().allocate(context, question, 1, probe)
