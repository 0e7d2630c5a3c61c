"""Grouping, pooling, forced windows, and one set for all layers."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from kvrelay.core.errors import ConfigError, UnsupportedModelError
from kvrelay.core.history import ColumnMass, WindowMass
from kvrelay.selection.draws import uniform
from kvrelay.selection.scores import group_heads, last_tokens, one_set, pool, recorded


def test_query_heads_are_grouped_in_contiguous_runs() -> None:
    mass = torch.tensor([[1.0, 8.0], [3.0, 2.0], [5.0, 0.0], [7.0, 6.0]])
    assert group_heads(mass, 2, "mean").tolist() == [[2.0, 5.0], [6.0, 3.0]]
    assert group_heads(mass, 2, "max").tolist() == [[3.0, 8.0], [7.0, 6.0]]
    assert group_heads(mass, 2, "sum").tolist() == [[4.0, 10.0], [12.0, 6.0]]
    assert group_heads(mass, 4, "mean").tolist() == mass.tolist()


def test_heads_that_do_not_divide_are_refused() -> None:
    with pytest.raises(UnsupportedModelError, match="5 query heads do not divide into 2"):
        group_heads(torch.ones(5, 3), 2, "mean")


def test_pooling_by_hand() -> None:
    row = torch.tensor([[4.0, 0.0, 2.0, 6.0]])
    assert pool(row, 3, "max", "padded").tolist() == [[4.0, 4.0, 6.0, 6.0]]
    assert pool(row, 3, "mean", "real").tolist() == [[2.0, 2.0, pytest.approx(8 / 3), 4.0]]
    # the published code counts the padding: the ends are damped
    assert pool(row, 3, "mean", "padded").tolist() == [
        [pytest.approx(4 / 3), 2.0, pytest.approx(8 / 3), pytest.approx(8 / 3)]
    ]


def test_a_maximum_takes_no_zero_from_beyond_the_ends() -> None:
    assert pool(torch.tensor([[-3.0, -2.0]]), 3, "max", "padded").tolist() == [[-2.0, -2.0]]


@pytest.mark.parametrize("n_tokens", [0, 1, 2])
def test_a_kernel_wider_than_the_row(n_tokens: int) -> None:
    row = torch.arange(1.0, n_tokens + 1)[None]
    assert pool(row, 7, "max", "padded").tolist() == [[float(n_tokens)] * n_tokens]


def test_last_tokens() -> None:
    cpu = torch.device("cpu")
    assert last_tokens(4, 2, cpu).tolist() == [False, False, True, True]
    assert last_tokens(2, 5, cpu).tolist() == [True, True]
    assert not last_tokens(3, 0, cpu).any()


def test_missing_evidence_names_what_was_recorded(make_history) -> None:
    history = make_history(needs=[ColumnMass()])
    with pytest.raises(ConfigError, match=r"WindowMass\(window=32.*recorded: ColumnMass\(\)"):
        recorded(history, WindowMass(window=32), 0)


def test_one_set_is_one_object(make_history) -> None:
    history = make_history(10, n_layers=3)
    layers = one_set(history, last_tokens(10, 4, torch.device("cpu")), torch.arange(10.0))
    assert layers[0] is layers[1] is layers[2]
    assert layers[0].source_HK.tolist() == [[0, 1, 2, 9, 10, 11, 12]] * 2


def test_layers_on_two_devices_get_their_own_copy(make_history) -> None:
    history = make_history(10, n_layers=3)
    far = history.cache.layers[2]
    layers = (*history.cache.layers[:2], replace(far, keys_HKD=far.keys_HKD.to("meta")))
    sharded = replace(history, cache=replace(history.cache, layers=layers))
    made = one_set(sharded, last_tokens(10, 4, torch.device("cpu")), torch.arange(10.0))
    assert made[0] is made[1]
    assert [layer.source_HK.device.type for layer in made] == ["cpu", "cpu", "meta"]


def test_draws_follow_the_whole_seed_and_leave_the_global_generator_alone() -> None:
    torch.manual_seed(7)
    state = torch.random.get_rng_state()
    first = uniform((4,), "cam", "h", 0, 1)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(first, uniform((4,), "cam", "h", 0, 1))
    others = [("cam", "h", 0, 2), ("cam", "h", 1, 1), ("cam", "g", 0, 1), ("random", "h", 0, 1), ("cam", "h", 0, 11)]
    assert all(not torch.equal(first, uniform((4,), *parts)) for parts in others)
    assert float(first.min()) >= 0 and float(first.max()) < 1
