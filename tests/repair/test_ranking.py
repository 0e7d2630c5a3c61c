"""The one order: score descending, position ascending, float32, and no number that is none."""

from __future__ import annotations

import pytest
import torch

from kvrelay.core.errors import EditError
from kvrelay.repair.ranking import best_first, finite, settled, top_slots


def test_ties_go_to_the_earlier_position() -> None:
    scores = torch.tensor([0.0, 2.0, 1.0, 2.0, -0.0, 1.0])
    assert best_first(scores) == [1, 3, 2, 5, 0, 4]
    assert best_first(scores, last=[False, True, False, False, False, False]) == [3, 2, 5, 0, 4, 1]
    assert best_first(torch.zeros(500)) == list(range(500))


def test_scores_closer_than_a_bf16_step_are_told_apart() -> None:
    # NVIDIA/kvpress#276: in bf16 most scores tie, and a tie falls to the index
    scores = torch.tensor([0.899, 0.900])
    assert scores.bfloat16()[0] == scores.bfloat16()[1]
    assert best_first(scores) == [1, 0]
    for dtype in (torch.bfloat16, torch.float16):
        with pytest.raises(EditError, match="16 bits"):
            finite(scores.to(dtype))


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), float("-inf")])
def test_what_cannot_be_ranked_is_refused(wrong: float) -> None:
    with pytest.raises(EditError, match="1 of 3 scores"):
        finite(torch.tensor([0.0, wrong, 1.0]))


def test_the_ends_of_the_budget(make_context, offsets) -> None:
    context = make_context("a b c d")
    assert settled(context, 0).slots == ()
    assert settled(context, 3) is None
    assert settled(context, 4).slots == (3, 4, 5, 6)
    assert offsets(top_slots(context, torch.tensor([0.0, 3, 1, 3]), 3), context) == [1, 2, 3]
    for budget in (-1, 5):
        with pytest.raises(EditError, match=f"exactly {budget}"):
            settled(context, budget)
    assert settled(make_context(""), 0).slots == ()
