"""How a reply ended, in every server's words: whole, cut, withheld or broken off; and what counts as a refusal."""

from __future__ import annotations

import json

import pytest
from judge_server import FALSE, TRUE, always, answer_json, completion, item, items, response, states

CUT = ("length", "LENGTH", "max_tokens", "MAX_TOKENS", "max_output_tokens", "Max-Tokens", "model_length", "incomplete")
WITHHELD = ("content_filter", "CONTENT_FILTER", "content-filter", "safety", "SAFETY", "refusal", "PROHIBITED_CONTENT")
BROKEN = ("error", "ERROR", "abort")
WHOLE = ("stop", "STOP", "eos_token", "end_turn", "stop_sequence", "tool_calls", "", None, ["length"], 7)


def state_of(server, settled, answer, **fields) -> tuple[dict[str, int], str]:
    """States of five items of which one gets this answer, and what its verdict says."""
    given = [*items(2, 2), item(9, "right, but")]
    server.faults = {"right, but": always(answer)}
    found = list(settled(**fields).verdicts(given))
    (mine,) = [verdict for verdict in found if verdict.item_key == "key-9"]
    return states(given, found), mine.raw


@pytest.mark.parametrize("finish", CUT)
def test_a_verdict_that_was_cut_is_none(server, settled, finish):
    assert state_of(server, settled, completion(TRUE, finish)) == ({"correct": 2, "wrong": 2, "truncated": 1}, TRUE)


@pytest.mark.parametrize("finish", WITHHELD)
def test_a_verdict_that_was_withheld_is_none(server, settled, finish):
    found, raw = state_of(server, settled, completion(TRUE, finish))
    assert (found, raw) == ({"correct": 2, "wrong": 2, "refused": 1}, TRUE)
    assert state_of(server, settled, completion(None, finish))[1] == finish


@pytest.mark.parametrize("finish", BROKEN)
def test_a_reply_that_its_server_broke_off_is_left_for_the_next_run(server, settled, finish):
    found, raw = state_of(server, settled, completion(TRUE, finish))
    assert found == {"correct": 2, "wrong": 2, "transport_error": 1} and raw.startswith("no completion: ")


@pytest.mark.parametrize("finish", WHOLE)
def test_any_other_word_is_an_end(server, settled, finish):
    assert state_of(server, settled, completion(FALSE, finish)) == ({"correct": 2, "wrong": 3}, FALSE)


@pytest.mark.parametrize(
    ("status", "why", "state"),
    [
        ("completed", None, "correct"),
        ("COMPLETED", None, "correct"),
        (None, None, "correct"),
        ("incomplete", None, "truncated"),
        ("incomplete", "", "truncated"),
        ("incomplete", "max_output_tokens", "truncated"),
        ("incomplete", "max_tokens", "truncated"),
        ("incomplete", "a reason that nobody knows", "truncated"),
        ("INCOMPLETE", ["odd"], "truncated"),
        ("incomplete", "content_filter", "refused"),
        ("incomplete", "error", "transport_error"),
        ("completed", "max_output_tokens", "truncated"),
        ("failed", None, "transport_error"),
        ("cancelled", None, "transport_error"),
        ("in_progress", None, "transport_error"),
        ("queued", None, "transport_error"),
    ],
)
def test_a_response_counts_only_when_it_is_complete(server, settled, status, why, state):
    body = json.loads(response(TRUE).body) | {"status": status, "incomplete_details": {"reason": why}}
    found, _ = state_of(server, settled, answer_json(body), api="responses")
    assert found == ({"correct": 3, "wrong": 2} if state == "correct" else {"correct": 2, "wrong": 2, state: 1})


@pytest.mark.parametrize("nothing", [None, False, "", " \n", [], {}, 0])
def test_a_refusal_that_is_empty_is_none(server, settled, nothing):
    assert state_of(server, settled, completion(FALSE, refusal=nothing)) == ({"correct": 2, "wrong": 3}, FALSE)


@pytest.mark.parametrize(
    ("message", "raw"),
    [
        ({"content": None, "refusal": "I will not."}, "I will not."),
        ({"content": None, "refusal": True}, "True"),
        ({"content": [{"type": "refusal", "refusal": "I cannot."}]}, "I cannot."),
        ({"content": [{"type": "refusal"}]}, "refusal"),
        ({"content": [{"type": "text", "text": TRUE}, {"type": "refusal", "refusal": "I cannot."}]}, TRUE),
    ],
)
def test_a_refusal_in_the_message_or_as_a_part_of_it(server, settled, message, raw):
    answer = answer_json({"choices": [{"message": message, "finish_reason": "stop"}]})
    assert state_of(server, settled, answer) == ({"correct": 2, "wrong": 2, "refused": 1}, raw)


def test_a_refusal_as_a_part_of_a_response(server, settled):
    body = json.loads(response(TRUE).body)
    body["output"][0]["content"].append({"type": "refusal", "refusal": "I cannot."})
    found, raw = state_of(server, settled, answer_json(body), api="responses")
    assert (found, raw) == ({"correct": 2, "wrong": 2, "refused": 1}, TRUE)
