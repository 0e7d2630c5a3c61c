"""The gold items: as many as announced, of every kind, never in the shards, and a gate that counts exactly."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from scripted_judge import GOLD, ScriptedJudge, answered_run, gold_says, is_right

from kvrelay.core.errors import ConfigError, EndpointError
from kvrelay.judging import gold
from kvrelay.judging.gold import ask_gold, gold_items
from kvrelay.judging.protocol import BlindItem
from kvrelay.judging.session import REFUSED, JudgingSettings, admit, judge_folder
from kvrelay.run.record import JudgeFacts
from kvrelay.run.store import read_judges, read_verdicts
from kvrelay.stats.judged import caveats


@pytest.fixture
def said() -> list[str]:
    return []


def reader(wrong: int = 0, **fields: object) -> ScriptedJudge:
    """A judge of a template that gets so many gold items wrong."""
    missed = set(list(GOLD)[:wrong])

    def decide(item: BlindItem) -> bool:
        known = is_right(item)
        return not known if (item.question, item.candidate) in missed else known

    return ScriptedJudge(decide=decide, reads_a_template=True, **fields)


def test_twenty_items_half_of_them_right_each_with_a_name_and_a_reference():
    items = gold_items()
    assert len(items) == 20 and Counter(item.correct for item in items) == {True: 10, False: 10}
    assert len({item.name for item in items}) == len(GOLD) == 20
    assert all(item.references and all(item.references) for item in items)
    assert sum(item.unanswerable for item in items) == 2
    assert sum(item.candidate == "" for item in items) == 1
    assert sum('"correct": true' in item.candidate and not item.correct for item in items) == 1
    assert sum('"correct": false' in item.candidate and item.correct for item in items) == 1


def test_a_judge_that_says_always_the_same_gets_half():
    for said in (True, False):
        facts = ask_gold(ScriptedJudge(decide=lambda item, said=said: said), 18)
        assert facts is not None and (facts.asked, facts.right, facts.threshold) == (20, 10, 18)
        assert facts.failed == [item.name for item in gold_items() if item.correct is not said]


def test_an_unscored_item_is_not_right():
    facts = ask_gold(ScriptedJudge(decide=lambda item: "malformed" if item.candidate == "" else is_right(item)), 18)
    assert facts is not None and (facts.right, facts.failed) == (19, ["empty answer"])


@pytest.mark.parametrize(("wrong", "passes"), [(0, True), (2, True), (3, False), (20, False)])
def test_the_threshold_is_exact(tmp_path: Path, said: list[str], wrong: int, passes: bool):
    folder, judge = answered_run(tmp_path / "run"), reader(wrong)
    if passes:
        judge_folder(folder, {"scripted": judge}, JudgingSettings(), said.append)
        (facts,) = read_judges(folder)
        assert facts.gold is not None and facts.gold.right == 20 - wrong
        assert len(judge.asked) == 20 + 15
    else:
        with pytest.raises(EndpointError, match=rf"got {20 - wrong} of 20 gold items right, wanted 18.*gold_threshold"):
            judge_folder(folder, {"scripted": judge}, JudgingSettings(), said.append)
        assert len(judge.asked) == 20 and read_judges(folder) == []
        kept = (folder / REFUSED / f"{judge.id}.json").read_text(encoding="utf-8")
        facts = JudgeFacts.model_validate_json(kept)
        assert facts.gold is not None and len(facts.gold.failed) == wrong
    keys = {item.key for item in judge.asked if gold_says(item) is not None}
    assert len(keys) == 20 and keys.isdisjoint(read_verdicts(folder))
    assert len(read_verdicts(folder)) == (15 if passes else 0)


def test_gold_of_an_identity_is_asked_once_and_again_when_the_items_change(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
):
    folder, settings = answered_run(tmp_path / "run"), JudgingSettings()
    asked = []
    for judge in (reader(), reader(), reader(id="scripted-2")):
        judge_folder(folder, {"scripted": judge}, settings, said.append)
        asked.append(len(judge.asked))
    assert asked == [35, 0, 35]
    monkeypatch.setattr(gold, "gold_sha256", lambda: "other items")
    again = reader()
    judge_folder(folder, {"scripted": again}, settings, said.append)
    assert len(again.asked) == 20


def test_a_higher_threshold_asks_again_and_one_that_failed_may_be_mended(tmp_path: Path, said: list[str]):
    folder = answered_run(tmp_path / "run")
    judge_folder(folder, {"scripted": reader(wrong=3)}, JudgingSettings(gold_threshold=17), said.append)
    with pytest.raises(EndpointError, match="got 17 of 20"):
        judge_folder(folder, {"scripted": reader(wrong=3)}, JudgingSettings(gold_threshold=18), said.append)
    judge_folder(folder, {"scripted": reader()}, JudgingSettings(gold_threshold=18), said.append)
    (facts,) = read_judges(folder)
    assert facts.gold is not None and facts.gold.right == 20


def test_the_threshold_of_the_last_admission_is_on_file_and_in_the_stamp(tmp_path: Path, said: list[str]):
    """19 of 20: held to nothing, then to 18 without a question, then to 20, which it fails; that changes nothing."""
    folder = answered_run(tmp_path / "run")
    stamp = "Judge scripted: 19 of 20 gold items right, held to no threshold"
    found = []
    for threshold in (None, 18, 20, None):
        judge = reader(wrong=1)
        try:
            judge_folder(folder, {"scripted": judge}, JudgingSettings(gold_threshold=threshold), said.append)
        except EndpointError:
            assert threshold == 20
        (facts,) = read_judges(folder)
        assert facts.gold is not None and facts.gold.right == 19
        found.append((facts.gold.threshold, len(judge.asked), stamp in caveats([facts])))
    assert found == [(0, 35, True), (18, 0, False), (18, 20, False), (0, 0, True)]


def test_another_system_fingerprint_has_to_pass_the_gold_items_too(tmp_path: Path, said: list[str]):
    """Known ones need not; one that fails is on no file but the refused one's, and judges nothing."""
    folder = answered_run(tmp_path / "run")
    asked = []
    for fingerprints in ((), ("a",), ("a",), ("b",), ("a",), ()):
        judge = reader(fingerprints=fingerprints)
        judge_folder(folder, {"scripted": judge}, JudgingSettings(), said.append)
        asked.append(len(judge.asked))
    assert asked == [35, 20, 0, 20, 0, 0]
    with pytest.raises(EndpointError, match="got 10 of 20 gold items right"):
        judge_folder(folder, {"scripted": reader(10, fingerprints=("c",))}, JudgingSettings(), said.append)
    (facts,) = read_judges(folder)
    assert facts.fingerprints == ("a", "b") and facts.gold is not None and facts.gold.right == 20
    assert caveats([facts]) == [
        "Judge scripted: answered under 2 system fingerprints (a, b): the server changed between commands"
    ]
    assert caveats([facts.model_copy(update={"fingerprints": ("a",)})]) == []


def test_without_a_threshold_the_number_is_recorded_and_nothing_blocked(tmp_path: Path, said: list[str]):
    folder = answered_run(tmp_path / "run")
    judge_folder(folder, {"scripted": reader(wrong=20)}, JudgingSettings(gold_threshold=None), said.append)
    (facts,) = read_judges(folder)
    assert facts.gold is not None and (facts.gold.right, facts.gold.threshold) == (0, 0)
    assert len(read_verdicts(folder)) == 15


def test_rules_and_checklists_have_no_gold(tmp_path: Path, said: list[str]):
    folder = answered_run(tmp_path / "run")
    rules = ScriptedJudge(decide=lambda item: False)
    admit(folder, rules, JudgingSettings(), said.append)
    checklist = ScriptedJudge(decide=lambda item: "no_checklist", reads_a_template=True, id="c", name="c")
    admit(folder, checklist, JudgingSettings(), said.append)
    assert rules.asked == [] and [facts.gold for facts in read_judges(folder)] == [None, None]


def test_a_silent_server_is_no_bad_judge(tmp_path: Path, said: list[str]):
    folder = answered_run(tmp_path / "run")
    silent = ScriptedJudge(decide=lambda item: "transport_error", reads_a_template=True)
    with pytest.raises(EndpointError, match=r"20 of 20 gold items got no reply"):
        admit(folder, silent, JudgingSettings(), said.append)
    assert read_judges(folder) == [] and not (folder / REFUSED).exists()


@pytest.mark.parametrize("threshold", [-1, 21])
def test_a_threshold_that_no_judge_can_reach_is_a_setting_error(threshold: int):
    with pytest.raises(ConfigError, match=r"0 to 20.*gold_threshold"):
        JudgingSettings(gold_threshold=threshold)


def test_facts_of_a_judge_are_read_as_any_other_file(tmp_path: Path, said: list[str]):
    """What stands beside them (refused judges, audits) is none of them."""
    folder = answered_run(tmp_path / "run")
    judge_folder(folder, {"scripted": reader()}, JudgingSettings(rejudge=1.0), said.append)
    with pytest.raises(EndpointError):
        judge_folder(folder, {"scripted": reader(wrong=9, id="scripted-9")}, JudgingSettings(), said.append)
    assert [facts.id for facts in read_judges(folder)] == ["scripted-1"]
    assert sorted(path.name for path in (folder / "judges").iterdir()) == ["audits", "refused", "scripted-1.json"]
