"""What makes a judge another judge, what does not, and what is on record of it."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest
from judge_server import FALSE, answer_json, completion, item, items, states

import judges.prompt
from kvrelay.core.errors import EndpointError
from kvrelay.run.record import JudgeFacts, digest

TEMPLATE = Path(judges.prompt.__file__).parent / "prompts" / "memory_judge_v1.txt"


def test_facts_hold_the_whole_identity(settled):
    facts = settled(reasoning_effort="medium").facts
    text = TEMPLATE.read_text(encoding="utf-8")
    template = facts.identity["template"]
    assert template["name"] == facts.template == "memory_judge_v1"
    assert f"[system]\n{template['system']}\n[rubric]\n{template['rubric']}" == text.strip()
    assert facts.template_sha256 == hashlib.sha256(TEMPLATE.read_bytes()).hexdigest()
    assert {name: value for name, value in facts.identity.items() if name != "template"} == {
        "model_asked": "org/Judge-1B",
        "model_answered": "org/Judge-1B",
        "fields": {
            "model": "org/Judge-1B",
            "temperature": 0.0,
            "max_tokens": 32,
            "seed": 0,
            "reasoning_effort": "medium",
        },
        "constraint": "none",
        "reading": ["after_reasoning", "fence"],
        "api": "chat",
        "max_prompt_chars": None,
        "request_version": 2,
        "parser_version": 3,
    }
    assert (facts.name, facts.id) == ("judge", f"judge-{digest(facts.identity)[:16]}")
    assert JudgeFacts.model_validate_json(facts.model_dump_json()) == facts
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00", facts.created)


def test_the_id_is_what_can_change_a_verdict(server, settled, tmp_path):
    server.enforces = ("choice", "regex", "json_schema", "json_object")
    server.served.append("org2/Judge-1B")
    base = settled().facts.id
    same = [
        {"base_url": server.url + "/"},
        {"api_key_env": "OTHER"},
        {"timeout_s": 5.0},
        {"retries": 3},
        {"concurrency": 2},
        {"breaker_after": 3},
        {"temperature": 0},
        {"lenient": ("after_reasoning", "fence", "fence")},
        {"caveats": ("too small to judge",)},
    ]
    assert {settled(**change).facts.id for change in same} == {base}
    own = tmp_path / "memory_judge_v1.txt"
    own.write_text("[system]\nJudge.\n[rubric]\nFairly.\n", encoding="utf-8")
    other = [
        {"model": "org2/Judge-1B"},
        {"max_tokens": 64},
        {"temperature": 0.5},
        {"seed": 1},
        {"seed": None},
        {"reasoning_effort": "high"},
        {"api": "responses"},
        {"lenient": ()},
        {"lenient": ("fence", "after_reasoning", "reasoning")},
        {"max_prompt_chars": 100_000},
        {"prompt": str(own)},
        *({"constraint": name} for name in server.enforces),
    ]
    assert len({base, *(settled(**change).facts.id for change in other)}) == 1 + len(other)
    assert settled(constraint="auto").facts.id == settled(constraint="choice").facts.id


def test_another_model_behind_the_same_name_is_another_judge(server, settled):
    before = settled().facts
    server.canary = completion("banana", model="org/Judge-1B-awq")
    after = settled().facts
    assert (before.identity["model_answered"], after.identity["model_answered"]) == ("org/Judge-1B", "org/Judge-1B-awq")
    assert before.id != after.id


def test_a_larger_limit_is_another_judge(settled):
    published, larger = (settled(max_tokens=n, reasoning_effort="medium").facts for n in (2048, 4096))
    assert published.id != larger.id
    assert (published.identity["fields"]["max_tokens"], larger.identity["fields"]["max_tokens"]) == (2048, 4096)


@pytest.mark.parametrize(
    ("version", "where"), [("PARSER_VERSION", "judges.settled"), ("REQUEST_VERSION", "judges.settled")]
)
def test_another_way_of_asking_or_reading_is_another_judge(settled, monkeypatch, version, where):
    before = settled().facts.id
    monkeypatch.setattr(f"{where}.{version}", 99)
    assert settled().facts.id != before


def with_fingerprint(answer, fingerprint):
    return answer_json({**json.loads(answer.body), "system_fingerprint": fingerprint})


@pytest.mark.parametrize("changed", ["model", "system_fingerprint"])
def test_a_server_that_changes_in_the_run_stops_it_and_its_reply_is_no_verdict(server, settled, changed):
    given = items(5, 5)
    server.canary = with_fingerprint(completion("banana"), "fp-1")
    judge = settled(concurrency=1)
    assert judge.facts.probes[0]["system_fingerprint"] == "fp-1"
    other = completion(FALSE, model="org/Other") if changed == "model" else with_fingerprint(completion(FALSE), "fp-2")
    server.judge = lambda asked: with_fingerprint(server.verdict(asked), "fp-1")
    server.faults = {given[4].candidate: [other]}
    found = []
    with pytest.raises(EndpointError, match=rf"changed while it judged: its {changed} was") as caught:
        for verdict in judge.verdicts(given):
            found.append(verdict)
    assert "What was judged is kept" in str(caught.value)
    assert states(given, found, unbegun=6) == {"correct": 2, "wrong": 2}
    assert given[4].key not in {verdict.item_key for verdict in found}


def test_a_server_that_names_no_model_is_believed(server, settled):
    server.canary = completion("banana", model=None)
    judge = settled()
    assert judge.facts.identity["model_answered"] is None
    assert states([item()], judge.verdicts([item()])) == {"correct": 1}
    server.canary = completion("banana")
    server.faults = {"right": [completion('{"correct": true}', model=None)]}
    assert states([item()], settled().verdicts([item()])) == {"correct": 1}


def test_a_model_that_is_named_late_is_held_to_for_the_rest_of_the_run(server, settled):
    """The first questions' replies name none: the first name of a later reply is the one, also in the next pass. The
    identity goes on saying that none was named, and each verdict tells its own."""
    server.canary = completion("banana", model=None)
    judge, given = settled(concurrency=1), items(6, 6)
    names = iter([None, "org/A", "org/A", None, "org/A"])
    server.judge = lambda asked: completion(FALSE, model=next(names))
    found = list(judge.verdicts(given[:5]))
    assert [verdict.usage.get("model") for verdict in found] == [None, "org/A", "org/A", None, "org/A"]
    server.judge = lambda asked: completion(FALSE, model="org/B")
    with pytest.raises(EndpointError, match="its model was 'org/A' and now is 'org/B'"):
        list(judge.verdicts(given[5:]))
    assert judge.facts.identity["model_answered"] is None
    other = settled()
    assert other.facts.id == judge.facts.id
    assert states(given[5:], other.verdicts(given[5:])) == {"wrong": 7}


@pytest.mark.parametrize(("said", "told"), [("fp-1", ("fp-1",)), ("", ()), (None, ()), (17, ())])
def test_the_fingerprint_of_the_start_is_on_record_and_no_part_of_the_identity(server, settled, said, told):
    before = settled().facts
    server.canary = with_fingerprint(completion("banana"), said)
    facts = settled().facts
    assert (facts.fingerprints, facts.id) == (told, before.id)


def test_caveats_are_on_record(settled):
    assert settled(caveats=("a model of 135M judges nothing",)).facts.caveats == ["a model of 135M judges nothing"]
