"""Every way in which a server can fail one item: its state, all others' verdicts, and how often it was asked."""

from __future__ import annotations

from collections import Counter

import pytest
from judge_server import FALSE, MODEL, TRUE, Answer, always, answer_json, completion, item, items, states

BUSY = answer_json({"error": {"message": "busy"}}, status=429)
BROKEN = answer_json({"error": {"message": "broken"}}, status=500)
HTML = Answer(body=b"<html><body>Bad gateway</body></html>", headers={"Content-Type": "text/html"})
WHOLE = completion(TRUE)
SHORT = Answer(body=WHOLE.body[:-5], announced=len(WHOLE.body))

PASSING = {
    "429 and Retry-After": (always(answer_json({}, status=429, Retry_After="0.02"), 1), 2),
    "429 bare, twice": (always(BUSY, 2), 3),
    "408": (always(answer_json({}, status=408), 1), 2),
    "409": (always(answer_json({}, status=409), 1), 2),
    "500 once": (always(BROKEN, 1), 2),
    "503 as a page, twice": ([Answer(body=HTML.body, status=503)] * 2, 3),
    "a connection that is dropped": ([Answer(drop=True)], 2),
    "a body cut short": ([SHORT], 2),
    "a dropped connection, then 500, then 429": ([Answer(drop=True), BROKEN, BUSY], 4),
    "a malformed reply at temperature 0": ([completion("yes")], 2),
}
"""Faults that pass: how the item is answered first, and how often it is asked in all."""

LASTING = {
    "429 for ever": (always(BUSY), "transport_error", 3),
    "429 with a long wait": (always(answer_json({}, status=429, Retry_After="600")), "transport_error", 1),
    "500 for ever": (always(BROKEN), "transport_error", 3),
    "503 as a page": (always(Answer(body=HTML.body, status=503)), "transport_error", 3),
    "402": (always(answer_json({"detail": "no funds"}, status=402)), "transport_error", 1),
    "cut short for ever": (always(SHORT), "transport_error", 6),
    "hangs up for ever": (always(Answer(drop=True)), "transport_error", 6),
    "a page with status 200": (always(HTML), "transport_error", 1),
    "plain words": (always(Answer(body=b"plain words")), "transport_error", 1),
    "broken JSON": (always(Answer(body=b'{"choices": [')), "transport_error", 1),
    "an empty body": (always(Answer()), "transport_error", 1),
    "no UTF-8": (always(Answer(body=b"\xff\xfe\x00")), "transport_error", 1),
    "deep JSON": (always(Answer(body=b"[" * 100_000)), "transport_error", 1),
    "null": (always(answer_json(None)), "transport_error", 1),
    "a list": (always(answer_json([])), "transport_error", 1),
    "an error with status 200": (always(answer_json({"error": {"message": "overloaded"}})), "transport_error", 1),
    "no choices": (always(answer_json({"model": MODEL})), "transport_error", 1),
    "choices: null": (always(answer_json({"choices": None})), "transport_error", 1),
    "choices: []": (always(answer_json({"choices": []})), "transport_error", 1),
    "choices: [null]": (always(answer_json({"choices": [None]})), "transport_error", 1),
    "no message": (always(answer_json({"choices": [{"text": TRUE}]})), "transport_error", 1),
    "an event stream": (always(Answer(body=b'data: {"choices": []}\n\ndata: [DONE]\n\n')), "transport_error", 1),
    "400 and a context length": (
        always(answer_json({"error": {"message": "This model's maximum context length is 4096 tokens."}}, status=400)),
        "too_long",
        1,
    ),
    "400 and a long prompt": (always(answer_json({"message": "The prompt is too long"}, status=400)), "too_long", 1),
    "413": (always(answer_json({"detail": "Payload"}, status=413)), "too_long", 1),
    "422": (always(answer_json({"detail": [{"msg": "extra field"}]}, status=422)), "rejected", 1),
    "400 for a field": (always(answer_json({"error": "response_format is not supported"}, status=400)), "rejected", 1),
    "reasoning ate the tokens": (always(completion(None, "length", reasoning="Let me think")), "truncated", 1),
    "white space without end": (always(completion("\n" * 32, "length")), "truncated", 1),
    "a verdict that was cut": (always(completion(TRUE, "length")), "truncated", 1),
    "a verdict as reasoning": (always(completion(None, "stop", reasoning=TRUE)), "empty", 1),
    "a verdict as reasoning_content": (always(completion(None, "stop", reasoning_content=TRUE)), "empty", 1),
    "white space": (always(completion(" \n")), "empty", 1),
    "a refusal": (always(completion(None, refusal="I will not judge this.")), "refused", 1),
    "content_filter": (always(completion("", "content_filter")), "refused", 1),
    "two objects": (always(completion(f"{TRUE} {FALSE}")), "malformed", 2),
    "yes": (always(completion("yes")), "malformed", 2),
    "a number": (always(completion(17)), "malformed", 2),
}
"""Faults that stay: the item's state, and how often it is asked with two retries."""


def judged_around(server, judge, faults) -> tuple[dict[str, int], list]:
    """Seven items as they should be and an eighth, right, that the server fails."""
    server.faults = {"right, but": list(faults)}
    given = [*items(4, 3), item(99, "right, but")]
    verdicts = list(judge.verdicts(given))
    return states(given, verdicts), [verdict for verdict in verdicts if verdict.item_key == "key-99"]


def times_asked(server) -> int:
    return Counter(asked.payload["candidate"] for asked in server.asked)["right, but"]


@pytest.mark.parametrize("name", PASSING)
def test_a_fault_that_passes_costs_nothing(server, settled, name):
    faults, asked = PASSING[name]
    found, _ = judged_around(server, settled(retries=3), faults)
    assert found == {"correct": 5, "wrong": 3}
    assert times_asked(server) == asked
    assert len({asked.body for asked in server.asked if asked.payload["candidate"] == "right, but"}) == 1
    assert len(server.asked) == 7 + asked


@pytest.mark.parametrize("name", LASTING)
def test_a_fault_that_stays_leaves_one_item_unscored(server, settled, name):
    """Broken connections are tried twice an attempt: once more by the client itself."""
    faults, state, asked = LASTING[name]
    found, (verdict,) = judged_around(server, settled(retries=2), faults)
    assert found == {"correct": 4, "wrong": 3, state: 1}
    assert times_asked(server) == asked
    assert verdict.is_final == (state not in ("transport_error", "rejected"))
    assert verdict.parse == ("failed" if state == "malformed" else "none")


def test_a_verdict_tells_what_it_cost(server, settled):
    judge = settled(retries=3)
    found, (verdict,) = judged_around(server, judge, [BROKEN, BUSY])
    assert found == {"correct": 5, "wrong": 3}
    assert (verdict.correct, verdict.parse, verdict.raw, verdict.judge_id) == (True, "strict", TRUE, judge.facts.id)
    usage = dict(verdict.usage)
    assert usage.pop("judge_s") > 0
    assert usage == {
        "prompt_tokens": 200,
        "completion_tokens": 7,
        "finish_reason": "stop",
        "model": MODEL,
        "attempts": 3,
        "last_error": "HTTP 429: busy",
    }


@pytest.mark.parametrize("status", [400, 422, 413, 500])
def test_the_servers_own_words_are_kept(server, settled, status):
    _, (verdict,) = judged_around(server, settled(retries=0), always(answer_json({"detail": "so it is"}, status)))
    assert verdict.raw == f"HTTP {status}: so it is"


def test_no_malformed_reply_is_asked_for_again_where_replies_are_drawn(server, settled):
    found, _ = judged_around(server, settled(temperature=0.7), always(completion("yes")))
    assert found == {"correct": 4, "wrong": 3, "malformed": 1}
    assert times_asked(server) == 1


@pytest.mark.parametrize("finish", ["stop", "eos", None])
def test_content_in_parts_and_unknown_endings_are_read(server, settled, finish):
    parts = [{"type": "text", "text": '{"correct": '}, {"type": "text", "text": "false}"}]
    found, _ = judged_around(server, settled(), [completion(parts, finish)])
    assert found == {"correct": 4, "wrong": 4}


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": "many", "completion_tokens": None}, [7]])
def test_a_reply_need_not_count_its_tokens(server, settled, usage):
    body = {"choices": [{"message": {"content": FALSE}}], "usage": usage}
    found, (verdict,) = judged_around(server, settled(), [answer_json(body)])
    assert found == {"correct": 4, "wrong": 4}
    assert verdict.usage.keys() == {"judge_s", "attempts"}


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_a_verdict_as_reasoning_counts_only_where_that_is_declared(server, settled, field):
    judge = settled(lenient=("reasoning",))
    found, (verdict,) = judged_around(server, judge, [completion(None, **{field: FALSE})])
    assert found == {"correct": 4, "wrong": 4}
    assert (verdict.parse, verdict.raw) == ("lenient:reasoning", FALSE)
    found, _ = judged_around(server, judge, always(completion(None, **{field: f"I think {FALSE}"})))
    assert found == {"correct": 4, "wrong": 3, "empty": 1}


def test_a_fence_and_an_end_of_reasoning_are_lenient_and_declared(server, settled):
    said = completion(f"<think>Hm.</think>\n```json\n{FALSE}\n```")
    found, (verdict,) = judged_around(server, settled(), [said])
    assert (found, verdict.parse) == ({"correct": 4, "wrong": 4}, "lenient:after_reasoning+fence")
    found, _ = judged_around(server, settled(lenient=()), always(said))
    assert found == {"correct": 4, "wrong": 3, "malformed": 1}


def test_without_references_and_beyond_the_length_nothing_is_asked(server, settled):
    given = [*items(2, 2), item(90, references=()), item(91, references=(" ", "")), item(92, "x" * 5000)]
    found = list(settled(max_prompt_chars=3000).verdicts(given))
    assert states(given, found) == {"correct": 2, "wrong": 2, "no_reference": 2, "too_long": 1}
    assert len(server.asked) == 4
    assert "judge.*.max_prompt_chars" in next(one.raw for one in found if one.reason == "too_long")
