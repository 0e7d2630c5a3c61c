"""Blind by type: every name in the records changed, the same items in the same order; members of a pair apart."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import pytest
from judging_server import MODEL, judging
from scripted_judge import ScriptedJudge

from judges.endpoint import OpenAICompatibleJudge
from kvrelay.judging.blind import blind_sheet
from kvrelay.judging.stage import judge_records
from kvrelay.run.record import Cell, RepairFacts, RunRecord, Timings

NAMES = ("model", "dataset", "selector", "retention", "position", "allocator", "budget", "executor")
GIVEN = dict(zip(NAMES, ("llama", "talks", "snapkv", "r10", "original", "sur", "p05", "packed"), strict=True))

HIDDEN = ("secret-", "hidden", "roperelay", "snapkv", "kept-", "example-", "cluster-", "history-", "worker-", "run-")


def record(question: int, arm: str, answer: str, tag: str = "given", **names: str) -> RunRecord:
    """A record in which everything that a judge may not see carries ``tag`` or one of ``names``."""
    return RunRecord(
        key=f"key-{tag}-{question}-{arm}",
        pair_key=f"pair-{tag}-{question}",
        cell=Cell(**{**GIVEN, "position": arm, **names}),
        run_id=f"run-{tag}",
        worker=f"worker-{tag}",
        example_id=f"example-{tag}-{question}",
        cluster_id=f"cluster-{tag}-{question % 7}",
        history_id=f"history-{tag}-{question % 5}",
        question=f"Where is cup number {question}?",
        question_type="single-session-user",
        references=(f"On shelf {question}",),
        status="ok",
        answer=answer,
        stop="eos" if tag == "given" else "length",
        answer_tokens=len(tag),
        kept_sha256=f"kept-{tag}",
        values_sha256=f"values-{tag}",
        batch_sha256=f"batch-{tag}",
        batch_rows=len(tag),
        repair=RepairFacts(splice=len(tag), n_suffix=9, n_deleted=2, requested=3, refreshed=3, notes={"by": tag}),
        timings=Timings(prefill_s=float(len(tag))),
        notes={"erased_value": tag},
    )


def study(tag: str = "given", arms: Sequence[str] = ("original", "roperelay"), **names: str) -> list[RunRecord]:
    """200 questions under two arms; of every fourth question both arms give the same answer."""
    return [
        record(question, arm, f"Shelf {question}{' of the left' if side and question % 4 else ''}", tag, **names)
        for question in range(200)
        for side, arm in enumerate(arms)
    ]


def seen(records: Sequence[RunRecord]) -> bytes:
    """What the judge is given, in its order, to the byte."""
    judge = ScriptedJudge(decide=lambda item: True)
    judge_records(records, judge, set(), lambda verdict: None)
    return json.dumps([asdict(item) for item in judge.asked]).encode()


@pytest.mark.parametrize("name", NAMES)
def test_another_name_gives_the_same_items_in_the_same_order(name: str):
    arms = ("original", "roperelay")
    if name == "position":
        assert seen(study(arms=("arm-a", "arm-b"))) == seen(study(arms=arms))
    else:
        assert seen(study(**{name: "renamed"})) == seen(study())


def test_run_worker_ids_hashes_and_times_give_the_same_items_in_the_same_order():
    assert seen(study(tag="altogether-different")) == seen(study())


def test_swapped_arms_and_shuffled_records_give_the_same_items_in_the_same_order():
    """A method's answers told under the other's name."""
    swapped = study(arms=("roperelay", "original"))
    random.Random(11).shuffle(swapped)
    assert seen(swapped) == seen(study())


def sent(records: Sequence[RunRecord]) -> list[bytes]:
    """What goes over the wire, one request after the other."""
    with judging() as server:
        judge = OpenAICompatibleJudge(base_url=server.url, model=MODEL, concurrency=1).settled("j")
        judge_records(records, judge, set(), lambda verdict: None)
        return list(server.bodies)


def test_requests_are_the_same_to_the_byte_and_in_the_same_order_and_hold_no_name():
    names = {name: f"secret-{name}" for name in NAMES if name != "position"}
    hidden = study(tag="hidden", arms=("roperelay", "original"), **names)[:40]
    random.Random(5).shuffle(hidden)
    bodies = sent(study()[:40])
    assert len(bodies) == 35 and sent(hidden) == bodies
    told = b"".join(bodies).decode()
    assert [name for name in (*HIDDEN, *GIVEN.values()) if name in told] == []


def test_an_answer_that_differs_gives_another_item():
    """The comparison above can fail."""
    changed = study()
    changed[5] = changed[5].model_copy(update={"answer": "In the cellar."})
    assert seen(changed) != seen(study())


def test_no_item_holds_a_name():
    given = study(tag="hidden", **{name: f"secret-{name}" for name in NAMES if name != "position"})
    told = seen(given).decode()
    assert "Where is cup number 7?" in told
    assert [name for name in HIDDEN if name in told] == []


def test_equal_answers_are_one_item():
    sheet = blind_sheet(study(), "j")
    assert (sheet.answers, len(sheet.items)) == (400, 350)


def test_members_of_a_pair_stand_as_far_apart_as_in_any_random_order():
    """150 pairs among 350 items. In a random order the distance of two has mean (N + 1) / 3 and variance
    (N - 2)(N + 1) / 18, and stands beside each other with probability 2 / N; both bounds are of four standard
    deviations, where 150 pairs are taken as independent and neighbours as Poisson with mean 150 * 2 / 350 = 0.86.
    """
    sheet = blind_sheet(study(), "j")
    n = len(sheet.items)
    places: dict[str, list[int]] = {}
    for place, item in enumerate(sheet.items):
        places.setdefault(item.question, []).append(place)
    distances = [abs(pair[0] - pair[1]) for pair in places.values() if len(pair) == 2]
    assert len(distances) == 150
    mean, deviation = (n + 1) / 3, ((n - 2) * (n + 1) / 18 / len(distances)) ** 0.5
    assert abs(sum(distances) / len(distances) - mean) <= 4 * deviation
    assert sum(distance == 1 for distance in distances) <= 0.86 + 4 * 0.86**0.5


@pytest.mark.parametrize("judge_id", ["j", "k"])
def test_arms_do_not_take_turns(judge_id: str):
    """Nor does one arm stand before the other: the first of a pair is the original's in half of the pairs, within four
    standard deviations of 150 fair coins."""
    sheet = blind_sheet(study(), judge_id)
    first: dict[str, str] = {}
    for item in sheet.items:
        first.setdefault(item.question, item.candidate)
    paired = [candidate for question, candidate in first.items() if int(question.split()[-1][:-1]) % 4]
    originals = sum("left" not in candidate for candidate in paired)
    assert len(paired) == 150 and abs(originals - 75) <= 4 * (150 / 4) ** 0.5


def test_every_field_of_a_record_that_is_judged_is_declared():
    """A new field of `RunRecord.item_fields` would be seen by judges: it is looked at here first."""
    fields: dict[str, Any] = study()[0].item_fields()
    allowed = {"question", "references", "candidate", "question_type", "question_date", "choices", "gold_choice"}
    assert fields.keys() - {"checklist"} == allowed | {"unanswerable"}
