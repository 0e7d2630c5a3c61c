"""Cells, keys and batches: what is the same measurement, and what decodes together."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kvrelay.core.budget import Ratio
from kvrelay.core.errors import ConfigError
from kvrelay.core.example import Example, Unit
from kvrelay.placement.key_only import KeyOnly
from kvrelay.placement.original import Original
from kvrelay.placement.roperelay import RoPERelay
from kvrelay.run.batches import batches
from kvrelay.run.grid import Components, GridCell, cells_of, example_digest
from kvrelay.run.settings import RunSettings
from kvrelay.run.work import gather, planned_cells
from kvrelay.selection.bm25 import BM25
from kvrelay.selection.full import Full
from kvrelay.selection.snapkv import SnapKV

SETTINGS = RunSettings(name="t", only_positions={"full": ["original"]}, only_selectors={"key_only": ["bm25"]})
PARTS = Components(
    selectors={"full": Full(), "bm25": BM25(), "snapkv": SnapKV()},
    retentions={"r10": Ratio(ratio=0.1), "r20": Ratio(ratio=0.2)},
    positions={"original": Original(), "roperelay": RoPERelay(), "key_only": KeyOnly()},
)


def grid(parts: Components = PARTS, settings: RunSettings = SETTINGS, model: Any = "m") -> list[GridCell]:
    return cells_of("m", {"name": model}, "d", parts, settings)


def example(name: str = "e", history: str = "a", **changes: Any) -> Example:
    given: dict[str, Any] = {
        "id": name,
        "cluster_id": name,
        "units": (Unit(id="u", text=history, index_text=history),),
        "question": "q",
        "question_prompt": "q?",
        "references": ("r",),
        "question_type": "t",
        **changes,
    }
    return Example(**given)


def test_the_grid_is_a_product_less_what_makes_no_sense() -> None:
    names = [(cell.cell.selector, cell.cell.retention, cell.cell.position) for cell in grid()]
    assert names == [
        ("full", "all", "original"),
        *[("bm25", retention, place) for retention in ("r10", "r20") for place in PARTS.positions],
        *[("snapkv", retention, place) for retention in ("r10", "r20") for place in ("original", "roperelay")],
    ]


def test_keys_tell_every_setting_apart() -> None:
    base = {cell.cell.label: cell.key("x") for cell in grid()}
    assert len(set(base.values())) == len(base)
    for changed in (
        grid(model="other"),
        grid(settings=replace(SETTINGS, max_new_tokens=3)),
        grid(settings=replace(SETTINGS, max_history_tokens=9)),
    ):
        assert not {cell.key("x") for cell in changed} & set(base.values())
    wider = replace(PARTS, selectors={**PARTS.selectors, "snapkv": SnapKV(window=16)})
    moved = {cell.cell.label: cell.key("x") for cell in grid(wider)}
    assert {label for label in base if base[label] != moved[label]} == {label for label in base if "snapkv" in label}


def test_keys_do_not_depend_on_what_else_is_in_the_grid_or_how_it_runs() -> None:
    alone = grid(replace(PARTS, selectors={"bm25": BM25()}, retentions={"r10": Ratio(ratio=0.1)}))
    whole = {cell.cell.label: cell.key("x") for cell in grid()}
    assert all(whole[cell.cell.label] == cell.key("x") for cell in alone)
    other = grid(settings=replace(SETTINGS, decode_batch_rows=1, out="elsewhere", limit=3, gate=False))
    assert [cell.key("x") for cell in other] == [cell.key("x") for cell in grid()]


def test_arms_of_a_pair_share_their_pair_key_and_nothing_else_does() -> None:
    pairs: dict[str, set[tuple[str, str]]] = {}
    for cell in grid():
        pairs.setdefault(cell.pair_key("x"), set()).add(cell.group)
    assert all(len(groups) == 1 for groups in pairs.values())
    assert len(pairs) == 5


def test_an_empty_grid_names_its_keys() -> None:
    with pytest.raises(ConfigError, match="only_positions"):
        grid(replace(PARTS, selectors={"full": Full()}), replace(SETTINGS, only_positions={"full": ["nowhere"]}))


def test_an_example_is_its_content_and_its_notes_do_not_count() -> None:
    base = example_digest(example())
    assert example_digest(example(notes={"flag": 1})) == base
    for change in ({"question": "other"}, {"references": ("s",)}, {"question_prompt": "other"}, {"system": "s"}):
        assert example_digest(example(**change)) != base
    assert example_digest(example(history="b")) != base


def test_questions_of_one_history_are_gathered_even_when_they_stand_apart() -> None:
    cells = grid()
    work = gather([example("1", "a"), example("2", "b"), example("3", "a")], cells, ())
    assert [[item.example.id for item in one.items] for one in work] == [["1", "3"], ["2"]]
    done = {cells[0].key(work[0].items[0].sha256)}
    again = gather([example("1", "a")], cells, done)
    assert [cell.cell.label for cell in again[0].items[0].missing] == [cell.cell.label for cell in cells[1:]]
    assert len(next(planned_cells(work, cells)).keys) == 3


def row(cell: GridCell, states: int) -> Any:
    layer = SimpleNamespace(keys_HKD=torch.zeros(1, states, 1))
    return SimpleNamespace(cell=cell, states=states, cache=SimpleNamespace(layers=(layer,)))


def test_batches_keep_pairs_together_long_rows_apart_and_limits() -> None:
    cells = {cell.cell.label: cell for cell in grid()}
    rows = [row(cell, 1000 if cell.cell.selector == "full" else 100) for cell in cells.values()]
    found = [[one.cell.group for one in batch] for batch in batches(rows, limit=5)]
    assert sum(len(batch) for batch in found) == len(rows)
    assert all(len(batch) <= 5 for batch in found)
    assert found[-1] == [("full", "all")]
    for group in {cell.group for cell in cells.values()}:
        assert sum(group in batch for batch in found) == 1
    assert [len(batch) for batch in batches(rows, limit=1)] == [1] * len(rows)
    assert [len(batch) for batch in batches(rows[1:4], limit=2)] == [3]
