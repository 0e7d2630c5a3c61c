"""Which constraint a server really enforces: tried with a question that no verdict answers, frozen, and recorded."""

from __future__ import annotations

import re

import pytest
from judge_server import FALSE, TRUE, Answer, always, answer_json, completion, item, items, states

from judges.asking import LADDER
from kvrelay.core.errors import EndpointError

FREE = dict.fromkeys(LADDER[:-1], "ignored") | {"none": "free"}


def found(judge) -> dict[str, str]:
    return {probe["constraint"]: probe["found"] for probe in judge.facts.probes}


@pytest.mark.parametrize(
    ("enforces", "refuses", "frozen", "probes"),
    [
        (("choice", "regex", "json_schema"), (), "choice", {"choice": "enforced"}),
        (("regex",), ("choice",), "regex", {"choice": "refused", "regex": "enforced"}),
        (
            ("json_schema", "json_object"),
            ("choice", "regex"),
            "json_schema",
            {"choice": "refused", "regex": "refused", "json_schema": "enforced"},
        ),
        (
            ("json_object",),
            (),
            "json_object",
            {"choice": "ignored", "regex": "ignored", "json_schema": "ignored", "json_object": "enforced"},
        ),
        ((), (), "none", FREE),
        ((), ("choice", "regex"), "none", FREE | {"choice": "refused", "regex": "refused"}),
    ],
    ids=["vLLM", "a server with expressions", "hosted", "JSON only", "ignores all", "transformers serve"],
)
def test_auto_takes_the_strongest_that_is_enforced(server, settled, enforces, refuses, frozen, probes):
    server.enforces, server.refuses = enforces, refuses
    judge = settled(constraint="auto")
    assert judge.facts.identity["constraint"] == frozen
    assert found(judge) == probes
    given = items(3, 2)
    assert states(given, judge.verdicts(given)) == {"correct": 3, "wrong": 2}
    assert {asked.constraint for asked in server.asked} == {frozen}


@pytest.mark.parametrize("constraint", LADDER)
def test_a_constraint_that_was_asked_for_is_kept_where_it_is_enforced(server, settled, constraint):
    server.enforces = ("choice", "regex", "json_schema", "json_object")
    judge = settled(constraint=constraint)
    assert found(judge) == {constraint: "free" if constraint == "none" else "enforced"}
    assert judge.facts.identity["constraint"] == constraint


def test_one_that_is_not_enforced_is_an_error_that_names_one_that_is(server, settled):
    server.enforces, server.refuses = ("json_schema",), ("choice",)
    with pytest.raises(
        EndpointError, match=r"constraint=choice \(refused: HTTP 422: choice.*holds them to json_schema"
    ):
        settled(constraint="choice")
    with pytest.raises(EndpointError, match=r"constraint=regex \(ignored: banana\).*constraint=json_schema, or auto"):
        settled(constraint="regex")
    server.enforces = ()
    with pytest.raises(EndpointError, match="holds them to none"):
        settled(constraint="json_object")


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        (completion("\n" * 32, "length"), "truncated"),
        (completion(TRUE, "length"), "truncated"),
        (completion(None, "stop", reasoning=TRUE), "empty"),
        (completion(f"```json\n{TRUE}\n```"), "ignored"),
        (completion('{"fruit": "banana"}'), "ignored"),
        (completion("Sure! banana"), "ignored"),
        (completion(f"<think>hm</think>{TRUE}"), "enforced"),
    ],
)
def test_what_a_first_reply_proves(server, settled, said, outcome):
    """White space up to the limit is what a schema does to a small model: the next rung is tried."""
    server.canary = said
    judge = settled(constraint="auto")
    assert found(judge)["choice"] == outcome
    assert (judge.facts.identity["constraint"] == "choice") == (outcome == "enforced")


def test_a_runaway_under_a_schema_is_truncated_and_choice_is_taken_before_it(server, settled):
    """The same server in the run: under its schema every reply is white space to the limit, under the literals none."""
    runaway = completion("\n" * 32, "length")
    server.judge = lambda asked: runaway if asked.constraint == "json_schema" else server.verdict(asked)
    server.enforces = ("choice", "json_schema")
    given = items(3, 2)
    judge = settled(constraint="auto")
    assert states(given, judge.verdicts(given)) == {"correct": 3, "wrong": 2}
    assert states(given, settled(constraint="json_schema").verdicts(given)) == {"truncated": 5}


def test_a_verdict_that_the_server_misroutes_is_enforced_only_where_it_can_be_read(server, settled):
    server.canary = completion(None, "stop", reasoning=FALSE)
    assert found(settled(constraint="auto", lenient=("reasoning",))) == {"choice": "enforced"}
    assert settled(constraint="auto", lenient=()).facts.identity["constraint"] == "none"


def test_the_rung_stays_for_the_run(server, settled):
    """A server that refuses the form later is not asked in another one: those items wait for the next run."""
    server.enforces = ("choice",)
    given = items(5, 5)
    refused = answer_json({"detail": "structured_outputs: extra fields not permitted"}, status=422)
    server.faults = {given[4].candidate: always(refused)}
    found = list(settled(constraint="auto").verdicts(given))
    assert states(given, found) == {"correct": 4, "wrong": 5, "rejected": 1}
    assert {asked.constraint for asked in server.asked} == {"choice"}
    assert not any(verdict.is_final for verdict in found if verdict.reason == "rejected")


def test_a_first_question_survives_a_passing_fault(server, settled):
    answers = [answer_json({}, status=500), Answer(drop=True)]
    server.enforces = ("choice",)
    probed = server._probed
    server._probed = lambda asked: answers.pop(0) if answers else probed(asked)
    assert found(settled(constraint="auto")) == {"choice": "enforced"}


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (answer_json({"detail": "broken"}, status=500), "HTTP 500: broken"),
        (answer_json({"detail": "no"}, status=400), "HTTP 400: no"),
        (Answer(body=b"<html>"), "no completion: <html>"),
        (answer_json({"choices": []}), "no completion"),
    ],
)
def test_without_any_reply_there_is_no_judge(server, make_judge, said, words):
    server.canary = said
    with pytest.raises(EndpointError, match=rf"gave no reply to a first question.*{re.escape(words)}"):
        make_judge(constraint="none", retries=0).settled("judge")


def test_one_server_that_answers_as_two_models_is_refused(server, make_judge):
    names = iter(["a", "b", "c", "d", "e"])
    server._probed = lambda asked: completion("banana", model=next(names))
    with pytest.raises(EndpointError, match=r"answers as several models: .*judge\.\*\.base_url"):
        make_judge(constraint="auto").settled("judge")


def test_the_canary_asks_for_no_verdict_and_the_probes_are_on_record(server, make_judge):
    server.refuses = ("choice",)
    facts = make_judge(constraint="auto").settled("judge").facts
    assert [asked.constraint for asked in server.probes] == list(LADDER)
    for asked in server.probes:
        assert not {"correct", "true", "false", "json"} & set(asked.messages[0]["content"].lower().split())
    assert facts.probes[0] == {
        "constraint": "choice",
        "found": "refused",
        "words": "HTTP 422: choice: extra fields not permitted",
        "model": None,
        "system_fingerprint": None,
    }
    assert facts.probes[-1]["model"] == "org/Judge-1B"
    assert item().candidate not in str(facts.probes)
