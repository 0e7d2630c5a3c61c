"""Faults of others that would show in records alone: ratios not in force, tokens counted twice, repairs left out.

docs/known_faults.md has the whole list, with the tests that hold the other entries.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compose import compose
from plain_config import group, plain_config

from kvrelay.core.errors import IncompleteError, InvariantError
from kvrelay.core.repair import Allocation, EditedContext, Traversal
from kvrelay.repair.edit_local import EditLocal
from kvrelay.repair.executors import Packed
from kvrelay.run.record import RunRecord
from kvrelay.run.store import read_records

SHARES = {"p02": 200, "p05": 500, "p10": 1000, "p20": 2000, "p40": 4000, "p80": 8000}


def erasing_config(tmp_path: Path, *allocators: str, budgets: tuple[str, ...] = tuple(SHARES)) -> dict[str, Any]:
    config = plain_config(
        tmp_path,
        name="faults",
        dataset={"erasing": {"_target_": "erasing_data.ErasingData", "questions": 1}, "max_history_tokens": None},
        selector=group("selector", "full"),
        position=group("position", "original"),
        allocator=group("allocator", *allocators),
        budget=group("budget", *budgets),
        executor=group("executor", "packed"),
        report={"view": "table1", "baseline": "shift", "resamples": 100, "seed": 0},
    )
    config["model"]["tiny"]["dtype"] = "float64"
    return config


def run(config: dict[str, Any]) -> list[RunRecord]:
    _, experiment, _ = compose(config)
    experiment.run(lambda _: None)
    return list(read_records(experiment.folder).values())


def at_the_end(self: object, context: EditedContext, question: object, budget: int, probe: object) -> Allocation:
    return Allocation.of_suffix(context, range(context.n_suffix - budget, context.n_suffix))


@pytest.mark.parametrize("worst", [False, True], ids=["at the splice", "at the end"])
def test_a_budget_costs_its_share_of_updates_and_at_most_twice_its_share_of_pairs(
    tmp_path: Path, worst: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refreshed token at offset i of the suffix reads i + 1 states of it, so B at the end cost most:

    B (2 S - B + 1) of S (S + 1) pairs, which is at most 1 - (1 - B/S)^2 and so at most 2 B/S: 3.96 % at 2 %, 9.75 % at
    5 %. The floor only lowers B, so no allowance is needed for it.
    """
    if worst:
        monkeypatch.setattr(EditLocal, "allocate", at_the_end)
    records = run(erasing_config(tmp_path, "shift", "replay", "edit_local", "random_units", "sur"))
    assert {record.cell.budget for record in records} == {*SHARES, "0", "suffix"}
    for record in records:
        facts = record.repair
        assert record.status == "ok" and facts is not None and facts.n_suffix > 50
        n, budget = facts.n_suffix, facts.refreshed
        assert facts.token_layer_updates == len(record.slots_LH) * budget == 3 * budget
        assert facts.replay_pairs == n * (n + 1) // 2
        assert facts.causal_pairs * n * n <= facts.replay_pairs * (n * n - (n - budget) ** 2)
        share = SHARES.get(record.cell.budget, 10_000)
        assert facts.causal_pairs * 10_000 <= 2 * share * facts.replay_pairs
        if record.cell.allocator == "edit_local":
            least, most = budget * (budget + 1) // 2, budget * (2 * n - budget + 1) // 2
            assert facts.causal_pairs == (most if worst else least)
        if record.cell.allocator in ("shift", "replay"):
            assert facts.causal_pairs == (facts.replay_pairs if budget else 0)


def test_the_share_that_was_asked_for_is_the_one_in_force(tmp_path: Path) -> None:
    """LMCache 1227: the configured ratio was read and not used."""
    records = run(erasing_config(tmp_path, "shift", "sur"))
    asked = [record for record in records if record.cell.allocator == "sur"]
    assert len({record.repair.requested for record in asked if record.repair}) >= len(SHARES)
    for record in asked:
        assert record.repair is not None
        wanted = record.repair.n_suffix * SHARES[record.cell.budget] // 10_000
        assert record.repair.requested == record.repair.refreshed == wanted == sum(record.repair.interval_lengths)


def test_every_token_is_counted_once(tmp_path: Path) -> None:
    """Suffix Cache Reuse counts moved rows as cached ones a second time; here prefix + suffix + deleted are all."""
    for record in run(erasing_config(tmp_path, "shift", "replay", "reprefill", "sur", budgets=("p20",))):
        facts = record.repair
        assert facts is not None
        assert facts.splice + facts.n_suffix + facts.n_deleted == record.n_protected + record.n_history
        stale = facts.n_suffix - facts.refreshed
        assert facts.splice + stale + facts.refreshed == record.next_position == record.slots_LH[0][0]
        assert record.cache_bytes == 2 * 3 * 2 * 16 * 8 * record.next_position


def test_a_repair_that_was_left_out_is_an_error_and_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LMCache 4476, 5101: blending was off without a word, seen only because it took as long as a cold prefill."""
    monkeypatch.setattr(Packed, "schedule", lambda self, slots: ())
    with pytest.raises(IncompleteError, match=r"0 states were refreshed, \d+ were asked for.*key: executor"):
        run(erasing_config(tmp_path, "shift", "sur", budgets=("p20",)))


def test_an_executor_that_recomputes_beyond_the_budget_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bridged gaps and whole blocks count: an executor may not refresh what no allocator paid for."""

    def bridging(self: Packed, slots: tuple[int, ...]) -> tuple[Traversal, ...]:
        return (Traversal(slots=tuple(range(slots[0] - 1, slots[-1] + 1)), kernel="masked"),) if slots else ()

    monkeypatch.setattr(Packed, "schedule", bridging)
    with pytest.raises(IncompleteError, match="skips or doubles some"):
        run(erasing_config(tmp_path, "shift", "random_units", budgets=("p20",)))


def test_a_model_that_fails_its_gate_answers_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LMCache 4666: moving keys is wrong for some architectures, and nothing looked."""
    monkeypatch.setattr("kvrelay.backend.gate.refresh_slots", lambda model, cache, slots, ids: cache)
    config = erasing_config(tmp_path, "shift", "sur", budgets=("p20",))
    with pytest.raises(InvariantError, match="fails its gate at 'replay equals re-prefill'"):
        run(config)
    assert read_records(Path(config["out"]) / "faults") == {}
