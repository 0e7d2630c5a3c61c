"""Deletions on the whole path: what is deleted, what all arms share, and what the endpoints must be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compose import changed, compose, compose_run
from plain_config import group, plain_config

from kvrelay.core.errors import ConfigError, IncompleteError
from kvrelay.run.record import RunRecord
from kvrelay.run.store import read_records

ALLOCATORS = ("shift", "replay", "reprefill", "sur", "random_units")


def repair_config(tmp_path: Path, *, dtype: str = "float64", **changes: Any) -> dict[str, Any]:
    """Five arms at two budgets over two placements of one deletion in each of two questions."""
    data = {"_target_": "erasing_data.ErasingData", **changes.pop("data", {})}
    config = plain_config(
        tmp_path,
        name="repair",
        dataset={"erasing": data, "max_history_tokens": None},
        selector=group("selector", *changes.pop("selectors", ["full"])),
        position=group("position", *changes.pop("positions", ["original"])),
        allocator=group("allocator", *changes.pop("allocators", ALLOCATORS)),
        budget=group("budget", "p05", "p20"),
        executor=group("executor", *changes.pop("executors", ["packed"])),
        report={"view": "table1", "baseline": "shift", "resamples": 100, "seed": 0},
        **changes,
    )
    config["model"]["tiny"]["dtype"] = dtype
    return config


def run(config: dict[str, Any]) -> list[RunRecord]:
    _, experiment, _ = compose(config)
    experiment.run(lambda _: None)
    return list(read_records(experiment.folder).values())


def of(records: list[RunRecord], **names: str) -> list[RunRecord]:
    example = names.pop("example_id", None)
    found = [r for r in records if all(getattr(r.cell, name) == value for name, value in names.items())]
    found = [record for record in found if example in (None, record.example_id)]
    return sorted(found, key=lambda record: (record.example_id, record.cell.budget))


def test_every_arm_refreshes_exactly_its_budget_from_one_start(tmp_path: Path) -> None:
    records = run(repair_config(tmp_path))
    assert len(records) == 4 * (3 + 2 * 2)
    for record in records:
        facts = record.repair
        assert facts is not None and record.status == "ok"
        wanted = {"p05": facts.n_suffix * 5 // 100, "p20": facts.n_suffix * 20 // 100, "suffix": facts.n_suffix}
        assert facts.requested == facts.refreshed == wanted.get(record.cell.budget, 0)
        assert sum(facts.interval_lengths) == facts.refreshed
        assert facts.n_deleted == len("Item 3 is wrong.\n")
        assert record.next_position == facts.splice + facts.n_suffix
        assert record.slots_LH == [[record.next_position] * 2] * 3
        assert facts.token_layer_updates == 3 * facts.refreshed
    for example in {record.example_id for record in records}:
        arms = [record for record in records if record.example_id == example]
        for receipt in ("pair_key", "kept_sha256", "values_sha256", "n_history"):
            assert len({getattr(arm, receipt) for arm in arms}) == 1
    assert len({record.repair.edited_sha256 for record in records if record.cluster_id == "0" and record.repair}) == 1
    assert len({record.history_id for record in records if record.cluster_id == "0"}) == 2


def test_replay_is_re_prefill_and_shift_is_not(tmp_path: Path) -> None:
    records = run(repair_config(tmp_path))
    for arm in ("replay", "reprefill"):
        assert all(abs(record.repair.kl) < 1e-12 for record in of(records, allocator=arm) if record.repair)
    again = of(records, allocator="replay")
    afresh = of(records, allocator="reprefill")
    assert [a.answer for a in again] == [b.answer for b in afresh]
    assert [a.reference_nll for a in again] == pytest.approx([b.reference_nll for b in afresh], abs=1e-10)
    assert all(record.repair.kl > 1e-6 for record in of(records, allocator="shift") if record.repair)


def test_the_answer_afresh_does_not_depend_on_where_the_deleted_line_stood(tmp_path: Path) -> None:
    afresh = of(run(repair_config(tmp_path)), allocator="reprefill")
    by_question = {cluster: [r for r in afresh if r.cluster_id == cluster] for cluster in ("0", "1")}
    for placements in by_question.values():
        assert len({record.reference_nll for record in placements}) == 1
        assert len({record.timings.refresh_s for record in placements}) == 1, "it is read afresh once a question"


def test_executors_agree_and_are_cells_of_their_own(tmp_path: Path) -> None:
    records = run(
        repair_config(tmp_path, executors=["interval", "packed", "auto"], allocators=["shift", "random_units"])
    )
    assert len(records) == 4 * (1 + 2 * 3)
    one, *others = (of(records, allocator="random_units", executor=name) for name in ("interval", "packed", "auto"))
    for other in others:
        assert [r.repair.interval_lengths for r in one] == [r.repair.interval_lengths for r in other]
        assert [r.reference_nll for r in one] == pytest.approx([r.reference_nll for r in other], abs=1e-10)


def test_a_compact_memory_loses_a_unit_and_is_repaired(tmp_path: Path) -> None:
    config = repair_config(
        tmp_path, selectors=["bm25"], positions=["roperelay"], allocators=["shift", "replay", "reprefill", "sur"]
    )
    config["retention"] = {"half": {"_target_": "kvrelay.core.budget.Ratio", "ratio": 0.6}}
    records = run(config)
    for record in records:
        assert record.status == "ok" and record.repair
        kept = record.slots_LH[0][0]
        assert kept < record.n_history + record.n_protected - record.repair.n_deleted
        assert record.next_position == kept == record.repair.splice + record.repair.n_suffix
    assert any(record.repair.kl > 1e-9 for record in of(records, allocator="shift") if record.repair)


def test_heads_that_hold_different_states_are_refused_by_name(tmp_path: Path) -> None:
    config = repair_config(tmp_path, selectors=["snapkv"], allocators=["shift", "sur"])
    config["selector"]["snapkv"]["window"] = 4
    with pytest.raises(IncompleteError, match="one coordinate a token"):
        run(config)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"erase": ()}, "deletes nothing"),
        ({"erase": ("nowhere",)}, "no unit 'nowhere'"),
        ({"erase": ("erased", *map(str, range(8)))}, "nothing would be left"),
    ],
)
def test_a_deletion_that_cannot_be_is_one_clear_error(tmp_path: Path, data: dict[str, Any], said: str) -> None:
    with pytest.raises(IncompleteError, match=said):
        run(repair_config(tmp_path, data=data))


def test_half_of_a_repair_is_refused(tmp_path: Path) -> None:
    config = {**repair_config(tmp_path), "executor": None}
    with pytest.raises(ConfigError, match="without executor"):
        compose(config)


def test_a_deleted_last_line_leaves_nothing_stale(tmp_path: Path) -> None:
    records = run(repair_config(tmp_path, data={"places": (8,)}))
    for record in records:
        assert record.repair and record.repair.n_suffix == record.repair.refreshed == 0
        assert abs(record.repair.kl) < 1e-12


def test_a_look_inside_shows_what_refreshed_states_read_and_where_they_end(tmp_path: Path) -> None:
    records = run(
        repair_config(tmp_path, allocators=["shift", "replay", "edit_local", "random_units"], mixed_cache=True)
    )
    for record in records:
        facts = record.repair
        assert facts is not None
        assert len(facts.mixed) == (3 if facts.refreshed else 0)
        for number, layer in enumerate(facts.mixed):
            key, before, mass = layer["key_deviation"], layer["stale_key_deviation"], layer["stale_mass"]
            assert key is not None and before is not None and (mass is None) == (number == 2)
            if number == 0:
                assert before < 1e-12, "the first layer's keys are clean after the shift"
            if record.cell.allocator in ("replay", "edit_local"):
                assert key < 1e-12 and not mass, "no stale state stands before them"
    masses = [r.repair.mixed[1]["stale_mass"] for r in of(records, allocator="random_units") if r.repair]
    assert all(mass is not None and 0 <= mass < 1 for mass in masses) and any(masses)


@pytest.mark.parametrize("view", ["qa", "niah", "geometry", "signals"])
def test_a_run_is_reported_and_passes_its_own_checks(tmp_path: Path, view: str) -> None:
    config = repair_config(tmp_path, allocators=[*ALLOCATORS, "token", "window"])
    config["report"]["view"] = view
    assert compose_run(config) == 0
    report = tmp_path / "out" / "repair" / "report"
    assert {f"{view}.md", f"{view}.csv", f"{view}.tex", "summary.json"} <= {path.name for path in report.iterdir()}
    found = json.loads((report / "summary.json").read_text())
    assert not [stamp for stamp in found["stamps"] if "verify" in stamp.lower()], found["stamps"]


def test_a_changed_setting_under_an_old_name_is_stamped(tmp_path: Path) -> None:
    config = repair_config(tmp_path, dtype="float32", allocators=["shift", "sur"])
    config["allocator"]["sur"]["tie_terms"] = 1
    config["budget"]["p20"]["share"] = 0.3
    assert list(changed(config)) == ["allocator.sur", "budget.p20"]
    _, experiment, _ = compose(config)
    _, plan, _ = experiment.plan()
    assert plan.changed == ("allocator.sur", "budget.p20")
    assert any("allocator.sur, budget.p20" in stamp for stamp in plan.stamps)


def test_re_prefill_is_that_of_the_position_and_not_what_came_before(tmp_path: Path) -> None:
    """Two conditions can place the question alike and the states apart."""
    half = {"half": {"_target_": "kvrelay.core.budget.Ratio", "ratio": 0.6}}
    given: dict[str, Any] = {"selectors": ["bm25"], "allocators": ["shift", "reprefill"], "retention": half}

    def found(name: str, *positions: str) -> dict[tuple[str, str, str], tuple[Any, Any]]:
        records = run(repair_config(tmp_path, out=str(tmp_path / name), positions=positions, **given))
        kept = [record for record in records if record.cell.position == "key_only" and record.repair]
        return {
            (r.example_id, r.cell.allocator, r.cell.budget): (r.reference_nll, r.repair and r.repair.kl) for r in kept
        }

    alone, both = found("alone", "key_only"), found("both", "original", "key_only")
    assert alone.keys() == both.keys() and alone
    for key, values in alone.items():
        assert both[key] == pytest.approx(values, abs=1e-9)


def test_a_shifted_question_reaches_as_far_as_its_condition_says(tmp_path: Path) -> None:
    given: dict[str, Any] = {"positions": ["common_shift"], "only_positions": {}}
    records = run(repair_config(tmp_path, allocators=["shift", "replay", "reprefill"], **given))
    assert {record.status for record in records} == {"ok"}
    assert all(abs(record.repair.kl) < 1e-6 for record in of(records, allocator="replay") if record.repair)


def test_re_prefill_pays_for_no_shift(tmp_path: Path) -> None:
    records = run(repair_config(tmp_path, allocators=["shift", "sur", "reprefill"]))
    shifts = {r.timings.relocate_s for name in ("shift", "sur") for r in of(records, allocator=name, example_id="0:1")}
    assert len(shifts) == 1
    assert not shifts & {record.timings.relocate_s for record in of(records, allocator="reprefill")}


def test_rows_that_decode_alone_are_decoded_alike_and_sweeps_are_counted(tmp_path: Path) -> None:
    given: dict[str, Any] = {"dtype": "bfloat16", "decode_batch_rows": 1}
    assert not stamps(tmp_path, allocators=["shift", "sur"], **given)
    given["decode_batch_rows"] = 16
    assert not stamps(tmp_path, out=str(tmp_path / "one"), allocators=["shift", "sur"], **given)
    assert not stamps(tmp_path, out=str(tmp_path / "two"), allocators=["shift"], **given)
    assert "4 questions had arms decoded in unlike batches" in stamps(
        tmp_path, out=str(tmp_path / "two"), allocators=["sur"], **given
    )


def stamps(tmp_path: Path, **given: Any) -> str:
    _, experiment, _ = compose(repair_config(tmp_path, **given))
    return " ".join(stamp for stamp in experiment.run(lambda _: None).stamps if "unlike batches" in stamp)


@pytest.mark.parametrize(
    ("data", "said"),
    [({"layout": "chat"}, "template tokens"), ({"double": True}, "several units"), ({"hollow": True}, "has no tokens")],
)
def test_units_that_cannot_be_deleted_whole_are_refused(tmp_path: Path, data: dict[str, Any], said: str) -> None:
    with pytest.raises(IncompleteError, match=said):
        run(repair_config(tmp_path, data=data))


def test_an_allocator_without_a_budget_is_refused(tmp_path: Path) -> None:
    _, experiment, _ = compose(repair_config(tmp_path, only_budgets={"sur": ["p40"]}))
    with pytest.raises(ConfigError, match="only_budgets leaves the allocator sur none"):
        experiment.plan()
