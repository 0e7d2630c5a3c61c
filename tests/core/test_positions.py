"""From a rule for one layer to a plan for all of them."""

from __future__ import annotations

import torch
from torch import Tensor

from kvrelay.core.selection import LayerSelection, Selection


def layer(*rows: list[int]) -> LayerSelection:
    source = torch.tensor(rows)
    return LayerSelection(source_HK=source, score_HK=torch.full(source.shape, torch.nan))


def test_a_plan_evaluates_a_rule_once_a_distinct_layer_and_shares_its_tensor() -> None:
    first, second = layer([0, 4]), layer([1, 2])
    seen: list[LayerSelection] = []

    def rule(given: LayerSelection) -> Tensor:
        seen.append(given)
        return given.source_HK + 10

    plan = Selection(layers=(first, second, first, second), protected=0, budget=2).plan(rule, 7)
    assert len(seen) == 2 and seen[0] is first and seen[1] is second
    assert [table.tolist() for table in plan.coordinate_LHK] == [[[10, 14]], [[11, 12]], [[10, 14]], [[11, 12]]]
    assert plan.coordinate_LHK[0] is plan.coordinate_LHK[2]
    assert plan.coordinate_LHK[1] is plan.coordinate_LHK[3]
    assert plan.next_position == 7


def test_equal_layers_that_are_not_one_object_are_planned_apart() -> None:
    plan = Selection(layers=(layer([0, 4]), layer([0, 4])), protected=0, budget=2).plan(lambda one: one.source_HK, 5)
    assert plan.coordinate_LHK[0] is not plan.coordinate_LHK[1]


def test_padding_stands_at_zero_whatever_the_rule_gives_it() -> None:
    ragged = layer([-1, -1, 3], [0, 1, 2])
    plan = Selection(layers=(ragged,), protected=0, budget=2).plan(lambda one: one.source_HK + 100, 200)
    assert plan.coordinate_LHK[0].tolist() == [[0, 0, 103], [100, 101, 102]]
    assert ragged.source_HK.tolist() == [[-1, -1, 3], [0, 1, 2]]
