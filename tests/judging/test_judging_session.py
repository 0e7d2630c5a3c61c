"""A folder judged: facts before verdicts, resumed without a doubled one, several judges, exact words at the end."""

from __future__ import annotations

import json
import multiprocessing
import re
from collections import Counter
from pathlib import Path

import pytest
from scripted_judge import ScriptedJudge, answered_run, is_right

from judges.lexical import LexicalJudge
from kvrelay.core.errors import EndpointError
from kvrelay.judging.protocol import BlindItem
from kvrelay.judging.session import JudgingSettings, judge_folder, planned_records, settle, settle_each
from kvrelay.run.record import Cell
from kvrelay.run.store import read_judges, read_verdicts, record_appender

SETTINGS = JudgingSettings()


def lines_of(folder: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in (folder / "verdicts").glob("*.jsonl"))


def test_what_is_said_and_what_is_on_file(tmp_path: Path):
    """Of 20 answers (10 questions, 2 arms) 5 share a verdict; of the 15 items the originals 0, 3, 6, 9 are right, and
    the others of the odd questions 1, 3, 5, 7, 9."""
    folder, said = answered_run(tmp_path / "run"), []
    judge = ScriptedJudge(decide=is_right, usage={"prompt_tokens": 100, "completion_tokens": 6})
    counts = judge_folder(folder, settle({"mine": judge}), SETTINGS, said.append)["mine"]
    assert (counts.answers, counts.items, counts.correct, counts.wrong) == (20, 15, 9, 6)
    assert said[0] == "mine: 20 answers, 15 distinct items: 25 % shared; 0 judged before, 15 to judge (scripted-1)"
    told = r"mine: of 15 items 9 correct, 6 wrong; 15 verdicts now, [\d.]+ a second, 1,500 tokens in, 90 out"
    assert re.fullmatch(told, said[1]) and len(said) == 2
    assert len(read_verdicts(folder)) == lines_of(folder) == 15
    assert [facts.name for facts in read_judges(folder)] == ["mine"]


def test_facts_stand_before_the_first_verdict(tmp_path: Path):
    folder = answered_run(tmp_path / "run")
    seen: list[list[str]] = []

    def decide(item: BlindItem) -> bool:
        seen.append([facts.id for facts in read_judges(folder)])
        return True

    judge_folder(folder, {"scripted": ScriptedJudge(decide=decide)}, SETTINGS, lambda line: None)
    assert seen == [["scripted-1"]] * 15


def test_a_stopped_stage_goes_on_with_the_rest_and_names_the_command(tmp_path: Path):
    folder, said = answered_run(tmp_path / "run"), []
    dying = ScriptedJudge(decide=is_right, gives_out_after=4)
    with pytest.raises(EndpointError, match=r"scripted: the server stays away.*judge the rest with: python x\.py a=b$"):
        judge_folder(folder, {"scripted": dying}, SETTINGS, said.append, command="python x.py a=b")
    assert "11 unjudged; 4 verdicts now" in said[-1]
    rest = ScriptedJudge(decide=is_right)
    counts = judge_folder(folder, {"scripted": rest}, SETTINGS, said.append)["scripted"]
    assert (counts.known, len(rest.asked)) == (4, 11)
    assert {item.key for item in dying.asked}.isdisjoint(item.key for item in rest.asked)
    assert "4 judged before, 11 to judge" in said[-2] and "of 15 items 9 correct, 6 wrong; 11 verdicts now" in said[-1]
    assert lines_of(folder) == len(read_verdicts(folder)) == 15
    third = ScriptedJudge(decide=is_right)
    judge_folder(folder, {"scripted": third}, SETTINGS, said.append)
    assert third.asked == [] and said[-1] == "scripted: of 15 items 9 correct, 6 wrong; 0 verdicts now"


def test_items_without_a_reply_are_asked_again_and_malformed_ones_are_not(tmp_path: Path):
    folder, said = answered_run(tmp_path / "run"), []
    reasons = {"Question 0?": "transport_error", "Question 2?": "malformed", "Question 4?": "rejected"}
    first = ScriptedJudge(decide=lambda item: reasons.get(item.question, True))
    judge_folder(folder, {"scripted": first}, SETTINGS, said.append)
    assert "of 15 items 12 correct, 1 malformed, 1 rejected, 1 transport_error; 15 verdicts now" in said[1]
    assert said[2] == "scripted: 2 items got no reply; the same command asks about them again"
    second = ScriptedJudge(decide=lambda item: False)
    judge_folder(folder, {"scripted": second}, SETTINGS, said.append)
    assert sorted(item.question for item in second.asked) == ["Question 0?", "Question 4?"]
    assert "of 15 items 12 correct, 2 wrong, 1 malformed; 2 verdicts now" in said[-1]


def test_another_identity_shares_nothing(tmp_path: Path):
    folder = answered_run(tmp_path / "run")
    for number in (1, 2):
        judge = ScriptedJudge(decide=lambda item: True, id=f"scripted-{number}")
        judge_folder(folder, {"scripted": judge}, SETTINGS, lambda line: None)
        assert len(judge.asked) == 15
    assert Counter(verdict.judge_id for verdict in read_verdicts(folder).values()) == {
        "scripted-1": 15,
        "scripted-2": 15,
    }


def test_a_judge_that_fails_does_not_keep_the_others_from_judging(tmp_path: Path):
    folder = answered_run(tmp_path / "run")
    judges = {
        "a": ScriptedJudge(decide=is_right, id="a-1", name="a", gives_out_after=2),
        "b": ScriptedJudge(decide=lambda item: False, id="b-1", name="b", reads_a_template=True),
        "c": ScriptedJudge(decide=is_right, id="c-1", name="c"),
    }
    with pytest.raises(EndpointError) as told:
        judge_folder(folder, judges, SETTINGS, lambda line: None)
    assert "a: the server stays away; b: judge b (b-1) got 10 of 20 gold items right" in str(told.value)
    assert Counter(verdict.judge_id for verdict in read_verdicts(folder).values()) == {"a-1": 2, "c-1": 15}
    assert [facts.name for facts in read_judges(folder)] == ["a", "c"]


def test_judges_that_are_away_are_named_each(tmp_path: Path):
    """Before a run nothing has cost time yet, so that one that is away ends it; all that are are told at once."""

    class Away(ScriptedJudge):
        def settled(self, name: str) -> ScriptedJudge:
            raise EndpointError("nobody listens")

    here = ScriptedJudge(decide=is_right)
    judges = {"a": Away(decide=is_right), "b": here, "c": Away(decide=is_right)}
    assert settle_each(judges) == ({"b": here}, ["a: nobody listens", "c: nobody listens"])
    with pytest.raises(EndpointError, match=r"^a: nobody listens; c: nobody listens$"):
        settle(judges)


def test_records_that_no_plan_expects_are_not_judged(tmp_path: Path):
    folder = answered_run(tmp_path / "run")
    records = planned_records(folder)
    cell = Cell(model="m", dataset="d", selector="h2o", retention="r10", position="original")
    with record_appender(folder, worker="stray") as shard:
        shard.append(records[0].model_copy(update={"key": "stray", "cell": cell, "answer": "right, strayed"}))
    assert sorted(record.key for record in planned_records(folder)) == sorted(record.key for record in records)


def _judge_beside(folder: Path, start: multiprocessing.synchronize.Event) -> None:
    start.wait(30)
    judge_folder(folder, {"scripted": ScriptedJudge(decide=is_right)}, SETTINGS, lambda line: None)


def test_two_processes_on_one_folder_do_double_work_at_most(tmp_path: Path):
    folder = answered_run(tmp_path / "run", questions=60)
    ways = multiprocessing.get_context("fork")
    start = ways.Event()
    both = [ways.Process(target=_judge_beside, args=(folder, start)) for _ in range(2)]
    for process in both:
        process.start()
    start.set()
    for process in both:
        process.join(60)
    assert [process.exitcode for process in both] == [0, 0]
    verdicts = read_verdicts(folder)
    assert len(verdicts) == 90 and all(verdict.correct is not None for verdict in verdicts.values())
    assert 90 <= lines_of(folder) <= 180
    said: list[str] = []
    third = ScriptedJudge(decide=is_right)
    judge_folder(folder, {"scripted": third}, SETTINGS, said.append)
    assert third.asked == [] and "of 90 items" in said[-1]


def test_a_rule_judge_of_the_project(tmp_path: Path):
    """Containment: ``wrong i`` does not hold ``right i``; everything else does."""
    folder = answered_run(tmp_path / "run")
    counts = judge_folder(folder, settle({"lexical": LexicalJudge()}), SETTINGS, lambda line: None)["lexical"]
    assert (counts.correct, counts.wrong, counts.unscored) == (9, 6, {})
    (facts,) = read_judges(folder)
    assert facts.name == "lexical" and facts.gold is None and facts.template_sha256 == ""


def test_a_share_is_asked_again_without_touching_the_verdicts(tmp_path: Path):
    folder, said = answered_run(tmp_path / "run", questions=100), []
    judge_folder(folder, {"scripted": ScriptedJudge(decide=lambda item: True)}, SETTINGS, said.append)
    before = {path.name: path.read_bytes() for path in (folder / "verdicts").iterdir()}
    again = ScriptedJudge(
        decide=lambda item: "malformed" if item.question == "Question 7?" else not item.question.endswith("1?")
    )
    settings = JudgingSettings(rejudge=0.5)
    judge_folder(folder, {"scripted": again}, settings, said.append)
    assert {path.name: path.read_bytes() for path in (folder / "verdicts").iterdir()} == before
    found = json.loads((folder / "judges" / "audits" / "scripted-1.json").read_text(encoding="utf-8"))
    drawn = [item.question for item in again.asked]
    silent = sum(question == "Question 7?" for question in drawn)
    flips = sum(question.endswith("1?") for question in drawn)
    assert (found["asked"], found["compared"]) == (len(drawn), len(drawn) - silent)
    assert len(found["flipped"]) == flips > 0 and found["flip_rate"] == flips / (len(drawn) - silent)
    assert sorted(found["without_a_verdict_again"].values()) == ["malformed"] * silent
    # 150 items, each drawn with probability a half: four standard deviations are 24.5
    assert abs(len(drawn) - 75) <= 24
    assert f"asked again about {len(drawn)} of 150 judged items" in said[-1]
    once_more = ScriptedJudge(decide=lambda item: True)
    judge_folder(folder, {"scripted": once_more}, settings, said.append)
    assert [item.key for item in once_more.asked] == [item.key for item in again.asked]
