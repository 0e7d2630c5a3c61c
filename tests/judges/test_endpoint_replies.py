"""Every way in which a server can answer, and the one verdict or error that may come of it."""

from __future__ import annotations

import socket

import pytest

from judges.endpoint import OpenAICompatibleJudge
from kvrelay.core.errors import EndpointError

TRUE = '{"correct": true}'
FALSE = '{"correct": false}'


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503])
def test_a_passing_failure_is_retried(server, make_judge, make_item, status):
    busy = server.json({"error": {"message": "busy"}}, status=status, Retry_After="0.01")
    server.says(busy, busy, server.completion(TRUE))
    verdict = make_judge(retries=2).judge(make_item())
    assert (verdict.correct, verdict.usage["retries"], len(server.asked)) == (True, 2, 3)
    assert len({asked.body for asked in server.asked}) == 1


def test_a_server_that_asks_for_a_long_wait_is_left_for_the_next_run(server, make_judge, make_item):
    server.says(server.json({"error": {"message": "quota of the day"}}, status=429, Retry_After="600"))
    verdict = make_judge(retries=3).judge(make_item())
    assert (verdict.correct, verdict.reason, len(server.asked)) == (None, "transport_error", 1)
    assert "quota of the day" in verdict.raw


def test_waiting_counts_against_the_deadline(server, make_judge, make_item):
    server.says(server.json({}, status=429, Retry_After="100"), server.completion(TRUE))
    verdict = make_judge(retries=1, timeout_s=0.3).judge(make_item())
    assert (verdict.correct, verdict.reason) == (None, "transport_error")
    assert "judge.*.timeout_s" in verdict.raw


def test_the_deadline_holds_against_a_drip(server, make_judge, make_item):
    """No pause reaches the timeout, and after two seconds the body would be a whole, good verdict."""
    whole = server.completion(TRUE)
    server.says(type(whole)(body=b" " * 40 + whole.body, drip_s=2.0 / (40 + len(whole.body))))
    verdict = make_judge(timeout_s=0.4).judge(make_item())
    assert (verdict.correct, verdict.reason) == (None, "transport_error")


@pytest.mark.parametrize(
    "body",
    [
        b"<html><body>Bad gateway</body></html>",
        b"plain words",
        b'{"choices": [',
        b"",
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b"null",
        b'"text"',
        b"[]",
        b"{}",
        b'{"error": {"message": "overloaded"}}',
        b'{"choices": null}',
        b'{"choices": []}',
        b'{"choices": {}}',
        b'{"choices": [null]}',
        b'{"choices": [{"message": null}]}',
        b'{"choices": [{"text": "{\\"correct\\": true}"}]}',
    ],
)
def test_a_body_that_is_no_completion_is_a_transport_error(server, make_judge, make_item, body):
    server.says(type(server.answers[0])(body=body))
    verdict = make_judge().judge(make_item())
    assert (verdict.correct, verdict.reason, verdict.parse) == (None, "transport_error", "none")


def test_a_body_cut_short_is_a_transport_error(server, make_judge, make_item):
    whole = server.completion(TRUE)
    server.says(type(whole)(body=whole.body[:-5], announced=len(whole.body)))
    assert make_judge().judge(make_item()).reason == "transport_error"


@pytest.mark.parametrize(
    ("content", "finish", "message", "reason"),
    [
        (None, "length", {"reasoning": "Let me think"}, "truncated"),
        ('{"correct"', "length", {}, "truncated"),
        ("\n" * 32, "length", {}, "truncated"),
        (None, "stop", {"reasoning": TRUE}, "empty"),
        (" \n", "stop", {}, "empty"),
        (None, "stop", {"refusal": "I will not judge this."}, "refused"),
        ("", "content_filter", {}, "refused"),
        (f"{TRUE} {FALSE}", "stop", {}, "malformed"),
        ("yes", "stop", {}, "malformed"),
        (17, "stop", {}, "malformed"),
    ],
)
def test_a_reply_without_a_verdict_is_unscored_with_its_reason(
    server, make_judge, make_item, content, finish, message, reason
):
    server.says(server.completion(content, finish, **message))
    verdict = make_judge().judge(make_item())
    assert (verdict.correct, verdict.reason, len(server.asked)) == (None, reason, 1)
    assert verdict.parse == ("failed" if reason == "malformed" else "none")


@pytest.mark.parametrize("finish", ["stop", "eos", None])
def test_content_in_parts_and_unknown_finish_reasons_are_read(server, make_judge, make_item, finish):
    server.says(
        server.completion([{"type": "text", "text": '{"correct": '}, {"type": "text", "text": "false}"}], finish)
    )
    assert make_judge().judge(make_item()).correct is False


def test_a_fence_is_lenient_and_declared(server, make_judge, make_item):
    server.says(server.completion(f"```json\n{FALSE}\n```"))
    verdict = make_judge().judge(make_item())
    assert (verdict.correct, verdict.parse) == (False, "lenient:fence")
    assert make_judge(accept_fence=False).judge(make_item()).reason == "malformed"
    assert make_judge(accept_fence=False).id != make_judge().id


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (400, {"error": {"message": "This model's maximum context length is 4096 tokens."}}, "too_long"),
        (400, {"object": "error", "message": "The prompt is too long for the model", "code": 400}, "too_long"),
        (413, {"detail": "Payload"}, "too_long"),
        (422, {"detail": [{"loc": ["body", "structured_outputs"], "msg": "extra field"}]}, "rejected"),
        (400, {"error": "response_format is not supported"}, "rejected"),
    ],
)
def test_a_refused_request_is_not_repeated(server, make_judge, make_item, status, body, reason):
    server.says(server.json(body, status=status))
    verdict = make_judge(retries=3).judge(make_item())
    assert (verdict.correct, verdict.reason, len(server.asked)) == (None, reason, 1)
    assert verdict.raw.startswith(f"HTTP {status}: ")
    assert len(verdict.raw) > len("HTTP 400: ")


def test_a_server_that_is_away(make_item):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{holder.getsockname()[1]}/v1"
        judge = OpenAICompatibleJudge(base_url=url, model="m", retries=0, timeout_s=20)
        with pytest.raises(EndpointError) as caught:
            judge.check()
        verdict = judge.judge(make_item())
    assert url in str(caught.value)
    assert "judge.*.base_url" in str(caught.value)
    assert (verdict.correct, verdict.reason) == (None, "transport_error")
