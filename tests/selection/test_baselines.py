"""full, none, random and recent: selectors that ask no model."""

from __future__ import annotations

import pytest
import torch

from kvrelay.selection.full import Full
from kvrelay.selection.none import NoHistory
from kvrelay.selection.random import Random
from kvrelay.selection.recent import Recent


@pytest.mark.parametrize("budget", [1, 9, 10])
def test_full_keeps_all_whatever_the_budget(make_history, question, kept_tokens, budget) -> None:
    selection = Full().select(make_history(10), question, budget)
    assert kept_tokens(selection) == [[list(range(10))] * 2] * 2
    assert selection.budget == 10 and selection.anchor == 13


@pytest.mark.parametrize("protected", [0, 3])
def test_none_keeps_the_protected_states_alone(make_history, question, kept_tokens, protected) -> None:
    selection = NoHistory().select(make_history(10, protected=protected), question, 5)
    assert kept_tokens(selection) == [[[], []]] * 2
    assert selection.budget == 0 and selection.anchor == protected


def test_none_gives_a_cache_of_the_protected_states(make_history, question) -> None:
    history = make_history(10)
    cache = history.cache.restricted(NoHistory().select(history, question, 5))
    assert torch.equal(cache.layers[1].values_HKD, history.cache.layers[1].values_HKD[:, :3])


@pytest.mark.parametrize(
    ("budget", "kept"), [(1, [9]), (4, [6, 7, 8, 9]), (10, list(range(10))), (99, list(range(10)))]
)
def test_recent_keeps_the_last(make_history, question, kept_tokens, budget, kept) -> None:
    selection = Recent().select(make_history(10), question, budget)
    assert kept_tokens(selection) == [[kept] * 2] * 2
    assert selection.budget == len(kept)


def test_a_later_token_is_more_relevant_to_recent(make_history, question) -> None:
    scores = Recent().select(make_history(10), question, 3).layers[0].score_HK
    assert scores[:, 3:].tolist() == [[7.0, 8.0, 9.0]] * 2


def test_random_is_one_set_seeded_by_history_and_seed(make_history, question, kept_tokens) -> None:
    def draw(history_id: str, seed: int, budget: int = 20) -> list[int]:
        kept = kept_tokens(Random(seed=seed).select(make_history(200, history_id=history_id), question, budget))
        assert kept == [[kept[0][0]] * 2] * 2
        return kept[0][0]

    assert draw("a", 0) == draw("a", 0)
    assert len({tuple(draw(*parts)) for parts in [("a", 0), ("a", 1), ("b", 0)]}) == 3
    assert set(draw("a", 0, 20)) < set(draw("a", 0, 50))


def test_random_draws_evenly(make_history, question, kept_tokens) -> None:
    history = make_history(10, protected=0, n_layers=1)
    counts = torch.zeros(10)
    for seed in range(500):
        counts[kept_tokens(Random(seed=seed).select(history, question, 3))[0][0]] += 1
    # binomial(500, 0.3): mean 150, standard deviation 10.2; five of them
    assert float((counts - 150).abs().max()) < 51
