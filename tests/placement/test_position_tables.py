"""Every condition on a small ragged selection, against coordinates worked by hand (0 stands in padding)."""

from __future__ import annotations

import pytest

from kvrelay.core.positions import Position
from kvrelay.core.selection import Selection
from kvrelay.placement.half_gap import HalfGap
from kvrelay.placement.key_only import KeyOnly
from kvrelay.placement.original import Original
from kvrelay.placement.permuted import Reverse, Score
from kvrelay.placement.ranksync import RankSync
from kvrelay.placement.roperelay import RoPERelay
from kvrelay.placement.shifted import CommonShift, QueryOnly

N = 12
SOURCE = ([[0, 1, 4, 7, 11], [0, 0, 1, 3, 9]], [[0, 0, 0, 0, 1, 6], [0, 1, 2, 8, 10, 11]])
ALIGNED = ([[1, 2, 3, 4, 5], [0, 2, 3, 4, 5]], [[0, 0, 0, 3, 4, 5], [0, 1, 2, 3, 4, 5]])
SHIFTED = (
    [[2048, 2049, 2052, 2055, 2059], [0, 2048, 2049, 2051, 2057]],
    [[0, 0, 0, 2048, 2049, 2054], [2048, 2049, 2050, 2056, 2058, 2059]],
)
TABLE = [
    (Original(), *SOURCE, 12),
    (RoPERelay(), *ALIGNED, 6),
    (
        RoPERelay(anchor_prefix=True),
        [[0, 1, 3, 4, 5], [0, 0, 1, 4, 5]],
        [[0, 0, 0, 0, 1, 5], [0, 1, 2, 3, 4, 5]],
        6,
    ),
    (RankSync(), [[0, 1, 2, 3, 4], [0, 0, 1, 2, 3]], [[0, 0, 0, 0, 1, 2], [0, 1, 2, 3, 4, 5]], 6),
    (KeyOnly(), *ALIGNED, 12),
    (QueryOnly(), *SOURCE, 2060),
    (CommonShift(), *SHIFTED, 2060),
    (HalfGap(), [[1, 2, 4, 6, 8], [0, 1, 2, 4, 7]], [[0, 0, 0, 2, 3, 6], [0, 1, 2, 6, 7, 8]], 9),
    (Score(), [[1, 2, 4, 3, 5], [0, 2, 3, 5, 4]], [[0, 0, 0, 3, 4, 5], [0, 1, 3, 4, 5, 2]], 6),
    (
        Score(most_relevant="last"),
        [[1, 2, 3, 5, 4], [0, 2, 3, 4, 5]],
        [[0, 0, 0, 3, 4, 5], [0, 1, 4, 3, 2, 5]],
        6,
    ),
    (Reverse(), [[1, 2, 5, 4, 3], [0, 2, 3, 5, 4]], [[0, 0, 0, 3, 4, 5], [0, 1, 5, 4, 3, 2]], 6),
]


@pytest.mark.parametrize(("position", "first", "second", "question"), TABLE, ids=lambda row: getattr(row, "name", ""))
def test_coordinates_and_question(
    position: Position, first: list[list[int]], second: list[list[int]], question: int, ragged: Selection
) -> None:
    plan = position.place(ragged, N, "q1")
    assert [plan.coordinate_LHK[layer].tolist() for layer in range(3)] == [first, second, first]
    assert plan.next_position == question
    assert all(str(coordinate.dtype) == "torch.int64" for coordinate in plan.coordinate_LHK)


@pytest.mark.parametrize("position", [row[0] for row in TABLE], ids=lambda position: position.name)
def test_layers_that_share_a_selection_share_one_tensor(position: Position, ragged: Selection) -> None:
    plan = position.place(ragged, N, "q1")
    assert plan.coordinate_LHK[0] is plan.coordinate_LHK[2]
    assert plan.coordinate_LHK[0] is not plan.coordinate_LHK[1]


def test_the_question_of_original_starts_behind_the_history_not_behind_the_kept_states(ragged: Selection) -> None:
    # VeloxQuant-MLX 171 and 389: keys at their sources, offset the number of kept states
    assert Original().place(ragged, N, "").next_position == 12 != ragged.anchor


def test_the_shift_is_a_setting(ragged: Selection) -> None:
    assert QueryOnly(shift=5).place(ragged, N, "").next_position == 17
    moved = CommonShift(shift=5).place(ragged, N, "")
    assert (moved.coordinate_LHK[0].tolist(), moved.next_position) == ([[5, 6, 9, 12, 16], [0, 5, 6, 8, 14]], 17)
