"""A whole run on a tiny model: what is written, what is skipped, what fails and what does not stop for it."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from compose import compose, compose_run
from plain_config import ROOT, group, plain_config

from kvrelay.core.errors import ConfigError, IncompleteError
from kvrelay.run.experiment import Experiment, print_plan
from kvrelay.run.store import read_manifest, read_plans, read_records


def run(config: dict[str, Any]) -> tuple[Experiment, list[str]]:
    """Run a configuration's first stage; the experiment and what it said."""
    said: list[str] = []
    _, experiment, _ = compose(config)
    experiment.run(said.append)
    return experiment, said


def shards(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "records").glob("*.jsonl"))}


def forbid_models(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("a model was loaded")

    monkeypatch.setattr("kvrelay.run.experiment.load_model", refuse)


def test_a_run_answers_every_cell_and_its_records_prove_the_pairs(tmp_path: Path) -> None:
    experiment, _ = run(plain_config(tmp_path))
    records = read_records(experiment.folder)
    assert len(records) == 4 * (1 + 6 * 2 + 1)
    pairs: dict[str, list[Any]] = {}
    for record in records.values():
        assert record.status == "ok" and record.error is None
        assert record.reference_nll is not None and record.reference_nll > 0
        assert record.n_history > 0 and record.n_protected > 0
        assert set(record.choice_logprobs) == set(record.choices)
        pairs.setdefault(record.pair_key, []).append(record)
    for arms in pairs.values():
        for receipt in ("kept_sha256", "values_sha256", "slots_LH", "batch_sha256", "anchor", "budget"):
            assert len({str(getattr(arm, receipt)) for arm in arms}) == 1
        if len(arms) > 1:
            starts = {arm.cell.position: arm.next_position for arm in arms}
            assert starts["original"] == arms[0].n_history + arms[0].n_protected
            assert starts["roperelay"] == arms[0].anchor
    manifest = read_manifest(experiment.folder)
    assert manifest is not None and manifest.done == manifest.expected == len(records) and not manifest.failed


def test_budgets_are_exact_in_every_record(tmp_path: Path) -> None:
    experiment, _ = run(plain_config(tmp_path))
    for record in read_records(experiment.folder).values():
        kept = [count - record.n_protected for layer in record.slots_LH for count in layer]
        wanted = record.n_history if record.cell.selector == "full" else record.n_history // 10
        assert sum(kept) == wanted * len(kept)
        if record.cell.selector != "pyramidkv":
            assert set(kept) == {wanted}


def test_the_same_settings_again_do_no_model_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment, _ = run(plain_config(tmp_path))
    before = shards(experiment.folder)
    forbid_models(monkeypatch)
    _, said = run(plain_config(tmp_path))
    assert "56 there already, 0 questions to work on" in said[0]
    assert shards(experiment.folder) == before


def test_one_changed_setting_redoes_only_what_it_touches(tmp_path: Path) -> None:
    experiment, _ = run(plain_config(tmp_path))
    before = read_records(experiment.folder)
    selectors = group("selector", "full", "bm25", "h2o", "snapkv", "pyramidkv", "chunkkv", "cam")
    selectors["snapkv"]["kernel"] = 3
    run(plain_config(tmp_path, selector=selectors))
    after = read_records(experiment.folder)
    fresh = [record for key, record in after.items() if key not in before]
    assert {record.cell.selector for record in fresh} == {"snapkv"}
    assert len(fresh) == 4 * 2
    assert all(after[key] == record for key, record in before.items())


def test_answers_do_not_depend_on_what_shares_their_prefill_or_batch(tmp_path: Path) -> None:
    whole, _ = run(plain_config(tmp_path))
    alone, _ = run(
        plain_config(
            tmp_path,
            out=str(tmp_path / "alone"),
            selector=group("selector", "cam"),
            decode_batch_rows=1,
        )
    )
    many = read_records(whole.folder)
    for key, record in read_records(alone.folder).items():
        assert many[key].answer == record.answer
        assert many[key].reference_nll == pytest.approx(record.reference_nll, rel=1e-4)
        assert many[key].values_sha256 == record.values_sha256


def test_in_half_precision_batches_follow_from_the_example_and_late_arms_are_stamped(tmp_path: Path) -> None:
    few = plain_config(tmp_path, selector=group("selector", "bm25", "h2o"))
    few["model"]["tiny"]["dtype"] = "bfloat16"
    few["position"] = group("position", "original", "roperelay")
    experiment, _ = run(few)
    before = read_records(experiment.folder)
    lost = sorted(before)[:3]
    for shard in (experiment.folder / "records").glob("*.jsonl"):
        lines = [line for line in shard.read_bytes().splitlines(True) if not any(key.encode() in line for key in lost)]
        shard.write_bytes(b"".join(lines))
    run(few)
    again = read_records(experiment.folder)
    assert again.keys() == before.keys()
    assert all(again[key].batch_sha256 == before[key].batch_sha256 for key in before)
    assert all(again[key].answer == before[key].answer for key in before)
    assert not any("unlike batches" in stamp for stamp in read_plans(experiment.folder)[-1].stamps)
    few["position"] = group("position", "original", "roperelay", "ranksync")
    run(few)
    assert any("unlike batches" in stamp for plan in read_plans(experiment.folder) for stamp in plan.stamps)


def test_a_broken_example_is_a_record_and_the_rest_goes_on(tmp_path: Path) -> None:
    config = plain_config(tmp_path)
    config["dataset"]["plain"].update(histories=3, empty=1)
    with pytest.raises(IncompleteError, match="28 answers failed") as caught:
        run(config)
    assert "empty history" in str(caught.value)
    records = read_records(Path(config["out"]) / "plain")
    failed = [record for record in records.values() if record.status == "error"]
    assert {record.example_id for record in failed} == {"1-0", "1-1"}
    assert all(record.error and record.error.kind == "DataError" and record.answer is None for record in failed)
    manifest = read_manifest(Path(config["out"]) / "plain")
    assert manifest is not None and len(manifest.failed) == 28 and manifest.done == 56


def test_a_history_beyond_the_range_is_refused_by_its_key_or_trimmed(tmp_path: Path) -> None:
    config = plain_config(tmp_path, selector=group("selector", "bm25"))
    config["dataset"]["plain"].update(histories=2, long=1, questions=1)
    with pytest.raises(IncompleteError, match=r"dataset\.max_history_tokens="):
        run(config)
    config["dataset"]["max_history_tokens"] = 400
    experiment, _ = run(config)
    records = [record for record in read_records(experiment.folder).values() if record.notes.get("trimmed")]
    assert {record.example_id for record in records} >= {"1-0"}
    stamps = [stamp for plan in read_plans(experiment.folder) for stamp in plan.stamps]
    assert any("TRIMMED to 400 tokens" in stamp and "1 of 2" in stamp for stamp in stamps)
    assert all(record.n_history <= 400 for record in records)


def test_shifted_arms_count_their_reach_for_every_arm(tmp_path: Path) -> None:
    """Range is checked once for all arms: a history that fits without the shift is refused in all of them."""
    config = plain_config(tmp_path, selector=group("selector", "bm25"), only_selectors={})
    config["model"]["tiny"]["position_range"] = 1200
    run(config)
    config["position"] = group("position", "original", "query_only")
    config["out"] = str(tmp_path / "shifted")
    with pytest.raises(IncompleteError, match="2048 of shift"):
        run(config)
    assert {record.status for record in read_records(tmp_path / "shifted" / "plain").values()} == {"error"}


def test_a_dry_run_says_what_is_missing_without_loading_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    forbid_models(monkeypatch)
    _, experiment, _ = compose(plain_config(tmp_path))
    print_plan(experiment)
    shown = capsys.readouterr().out
    assert "14 cells x 4 questions" in shown
    assert "done 0 · missing 56" in shown
    assert "2 with sharing · 56 without" in shown
    assert re.search(r"peak about \d+ MiB", shown)


def test_a_folder_of_others_and_of_another_experiment_is_refused(tmp_path: Path) -> None:
    foreign = tmp_path / "out" / "plain"
    foreign.mkdir(parents=True)
    (foreign / "thesis.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"thesis\.txt"):
        run(plain_config(tmp_path))


def test_unknown_settings_and_wrong_types_name_their_key(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="max_new_tokens"):
        compose(plain_config(tmp_path, max_new_tokens="many"))
    with pytest.raises(ConfigError, match="typo"):
        compose(plain_config(tmp_path, typo=1))
    config = plain_config(tmp_path)
    config["selector"]["snapkv"]["windw"] = 3
    with pytest.raises(ConfigError, match=r"selector\.snapkv\.windw"):
        compose(config)
    for ratio in (0.0, -0.1, 1.5):
        config = plain_config(tmp_path)
        config["retention"]["r10"]["ratio"] = ratio
        with pytest.raises(ConfigError, match="retention"):
            compose(config)


def test_the_whole_path_ends_with_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compose_run(plain_config(tmp_path)) == 0
    printed = capsys.readouterr().out.strip().splitlines()
    assert Path(printed[-1]).is_file()
    report = tmp_path / "out" / "plain" / "report"
    assert {"summary.json", "table1.md", "table1.csv", "table1.tex"} <= {path.name for path in report.iterdir()}


CHILD = """
import sys
sys.path[:0] = {paths!r}
from pathlib import Path
from compose import compose_run
from plain_config import plain_config
config = plain_config(Path(sys.argv[1]), out=sys.argv[2])
config["dataset"]["plain"].update(histories=6, questions=2)
sys.exit(compose_run(config))
"""


def child(tmp_path: Path, out: Path) -> subprocess.Popen[bytes]:
    paths = [str(ROOT / part) for part in ("src", ".", "scripts", "tests/support")]
    command = [sys.executable, "-c", CHILD.format(paths=paths), str(tmp_path), str(out)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)


def tables(folder: Path) -> dict[str, bytes]:
    """Everything that a report prints, less timings and the list of input files."""
    return {path.name: path.read_bytes() for path in folder.glob("*.csv")}


def test_killed_at_random_moments_a_run_loses_and_doubles_nothing(tmp_path: Path) -> None:
    undisturbed = tmp_path / "undisturbed"
    assert child(tmp_path, undisturbed).wait() == 0
    disturbed, moments = tmp_path / "disturbed", random.Random(0)
    kept = 0
    for _ in range(3):
        process = child(tmp_path, disturbed)
        before = kept
        deadline = time.monotonic() + 60
        while process.poll() is None and kept <= before and time.monotonic() < deadline:
            kept = len(read_records(disturbed / "plain"))
            time.sleep(0.01)
        time.sleep(moments.uniform(0, 0.05))
        process.send_signal(signal.SIGKILL)
        process.wait()
        after = len(read_records(disturbed / "plain"))
        assert after >= kept
        kept = after
    assert child(tmp_path, disturbed).wait() == 0
    one, other = read_records(undisturbed / "plain"), read_records(disturbed / "plain")
    assert one.keys() == other.keys()
    assert all(one[key].answer == other[key].answer for key in one)
    assert len(other) % 14 == 0 and kept % 14 == 0, "a question's answers are written together or not at all"
    written = [line for data in shards(disturbed / "plain").values() for line in data.splitlines()]
    assert len(written) - len(one) <= 3 * 14
    assert tables(undisturbed / "plain" / "report") == tables(disturbed / "plain" / "report")


def test_two_runs_in_one_folder_at_once_make_one_result(tmp_path: Path) -> None:
    out = tmp_path / "both"
    first, second = child(tmp_path, out), child(tmp_path, out)
    assert first.wait() == 0 and second.wait() == 0
    alone = tmp_path / "alone"
    assert child(tmp_path, alone).wait() == 0
    assert read_records(out / "plain").keys() == read_records(alone / "plain").keys()
    assert tables(out / "plain" / "report") == tables(alone / "plain" / "report")


def test_a_choice_by_texts_is_the_letter_of_the_most_likely_reply(tmp_path: Path) -> None:
    experiment, _ = run(plain_config(tmp_path, choice_by="texts"))
    asked = [record for record in read_records(experiment.folder).values() if record.choices]
    assert asked
    for record in asked:
        best = max(record.choice_logprobs, key=record.choice_logprobs.__getitem__)
        assert record.answer == f"<final_answer> ({best})"
        assert record.stop is None and record.answer_tokens == 0
