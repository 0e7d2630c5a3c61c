"""Rows of docs/faults.md, played: a run's answers judged through each fault, counted, and judged again without it.

Of 15 items 9 are right and 6 wrong. After each pass every item has one state; no item is given a verdict twice; what is
final stays; no verdict differs from the truth; the second pass asks about what has no final verdict and about nothing
else. A row of the document holds the words that came out here, and both counts.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from judge_server import FALSE, TRUE, Answer, Asked, always, answer_json, completion
from played_faults import Played, assert_row, in_words, is_gold, revived, true_verdict
from scripted_judge import GOLD

from kvrelay.core.errors import EndpointError
from kvrelay.run.store import read_judges, read_verdicts

MET = "right 1, said otherwise"
"""The answer, a right one, that a fault meets."""
ALL = "9 correct, 6 wrong"
WHOLE = completion(TRUE)
BUSY = answer_json({"error": {"message": "busy"}}, status=429)
BROKEN = answer_json({"error": {"message": "broken"}}, status=500)
LONG = "This model's maximum context length is 4096 tokens."
LISTED = {"usage": None, "choices": [{"message": {"content": TRUE}}]}
NO_REPLY = "8 correct, 6 wrong, 1 transport_error"


def asks_to_wait(text: str) -> Answer:
    return answer_json({"error": {"message": "quota"}}, status=429, Retry_After=text)


@dataclass(frozen=True, kw_only=True)
class Fault:
    """``words`` are a part of what a user is told: ``reason: the server's own`` of the item, or the error."""

    answers: list[Answer]
    before: str = ALL
    words: str = ""
    after: str = ALL
    settings: dict[str, Any] = field(default_factory=dict)


def no_reply(answer: Answer, words: str, **settings: Any) -> Fault:
    return Fault(answers=always(answer), before=NO_REPLY, words=f"transport_error: {words}", settings=settings)


def final(answer: Answer, words: str, **settings: Any) -> Fault:
    """The item's own: it is not asked again."""
    counted = f"8 correct, 6 wrong, 1 {words.partition(':')[0]}"
    return Fault(answers=always(answer), before=counted, words=words, after=counted, settings=settings)


ONE_ITEM = {
    "429, Retry-After 1": Fault(answers=[asks_to_wait("1")]),
    "429, Retry-After 600": no_reply(
        asks_to_wait("600"),
        "HTTP 429: quota (asks to wait 600 s, beyond judge.*.retry_after_limit_s; left for the next run)",
    ),
    "429, Retry-After beyond the item's deadline": no_reply(
        asks_to_wait("30"),
        "HTTP 429: quota (no time left for a wait of 30.0 s within judge.*.timeout_s)",
        timeout_s=10.0,
    ),
    "429 without Retry-After, for ever": no_reply(BUSY, "HTTP 429: busy"),
    "408, 409, 500, then a reply": Fault(
        answers=[answer_json({}, status=408), answer_json({}, status=409), BROKEN], settings={"retries": 3}
    ),
    "500 for ever": no_reply(BROKEN, "HTTP 500: broken"),
    "200 and a page of HTML": no_reply(Answer(body=b"<html>Bad gateway</html>"), "no completion: <html>Bad gateway"),
    "200 and plain words": no_reply(Answer(body=b"plain words"), "no completion: plain words"),
    "200 and broken JSON": no_reply(Answer(body=b'{"choices": ['), 'no completion: {"choices": ['),
    "200 and an error": no_reply(
        answer_json({"error": {"message": "overloaded"}}), 'no completion: {"error": {"message": "overloaded"}}'
    ),
    "200 without choices": no_reply(answer_json({"id": "x"}), 'no completion: {"id": "x"}'),
    "200 and no choice in choices": no_reply(answer_json({"choices": []}), 'no completion: {"choices": []}'),
    "a body that is cut short": no_reply(
        Answer(body=WHOLE.body[:-5], announced=len(WHOLE.body)),
        f"Connection error. RemoteProtocolError: peer closed connection without sending complete message body "
        f"(received {len(WHOLE.body) - 5} bytes, expected {len(WHOLE.body)})",
    ),
    "a connection that is dropped, for ever": no_reply(
        Answer(drop=True), "Connection error. RemoteProtocolError: Server disconnected without sending a response."
    ),
    "a drip of bytes, each in time": no_reply(
        Answer(body=b" " * 40 + WHOLE.body, drip_s=0.02),
        "no whole reply within 1.5 s (judge.*.timeout_s)",
        timeout_s=1.5,
    ),
    "a server that hangs": no_reply(
        Answer(after_s=30.0), "no whole reply within 1.5 s (judge.*.timeout_s)", timeout_s=1.5
    ),
    "content null, length: reasoning ate the tokens": final(
        completion(None, "length", reasoning="Let me think"), "truncated"
    ),
    "white space up to the limit": final(completion("\n" * 32, "length"), "truncated"),
    "a whole verdict, but length": final(completion(TRUE, "length"), f"truncated: {TRUE}"),
    "content null, stop, the verdict in the reasoning": final(completion(None, "stop", reasoning=FALSE), "empty"),
    "the same where that rule is declared": Fault(
        answers=[completion(None, "stop", reasoning=TRUE)], settings={"lenient": ("reasoning",)}
    ),
    "a refusal": final(completion(None, refusal="I will not judge this."), "refused: I will not judge this."),
    "content_filter": final(completion("", "content_filter"), "refused: content_filter"),
    "400: the prompt is too long": final(
        answer_json({"error": {"message": LONG}}, status=400), f"too_long: HTTP 400: {LONG}"
    ),
    "400 or 422 for a field": Fault(
        answers=always(answer_json({"detail": "extra field"}, status=422)),
        before="8 correct, 6 wrong, 1 rejected",
        words="rejected: HTTP 422: extra field",
    ),
    "a finish_reason that nobody knows": Fault(answers=[completion(TRUE, "eos_token")]),
    "no usage, no finish_reason": Fault(answers=[answer_json(LISTED)]),
}
"""Faults that meet one item, by the name of their row."""

STOPS = {
    "401 in mid-run": Fault(
        answers=[answer_json({"error": {"message": "bad key"}}, status=401)],
        words="judge's server at URL: HTTP 401: bad key; put a valid key into the environment variable that "
        "judge.*.api_key_env names; it serves: org/Judge-1B. What was judged is kept; judge the rest with: COMMAND",
    ),
    "404 in mid-run": Fault(
        answers=[answer_json({"detail": "no such model"}, status=404)],
        words="judge's server at URL: HTTP 404: no such model; set judge.*.base_url to where the API is; its path is "
        "usually /v1 and nothing else, or judge.*.model to what is served; it serves: org/Judge-1B",
    ),
    "a redirect to itself": Fault(
        answers=[answer_json({}, status=307, Location="/v1/chat/completions")],
        words="judge's server at URL: HTTP 307: {}; set judge.*.base_url to where the API is",
    ),
    "another model answers": Fault(
        answers=[completion(FALSE, model="org/Other-2B")],
        words="judge's server at URL changed while it judged: its model was 'org/Judge-1B' and now is 'org/Other-2B'. "
        "What was judged is kept, and this reply is not",
    ),
}
"""Faults that every item would meet: they come as the tenth reply, with one request at a time."""

READ_AS_NOTHING = {
    "prose behind": f"{TRUE} as asked",
    "a word": '{"correct": "true"}',
    "a number": '{"correct": 1}',
    "another key": '{"correct": true, "why": "it is"}',
    "a key twice": '{"correct": true, "correct": false}',
    "two objects": f"{TRUE} {FALSE}",
    "Python's True": '{"correct": True}',
    "a byte order mark": f"\ufeff{TRUE}",
    "NaN": '{"correct": NaN}',
    "yes": "yes",
    "two fences": f"```json\n{TRUE}\n```\n```json\n{FALSE}\n```",
}
"""Replies that hold a verdict for a kind reader, and none for the strict one nor by a declared rule."""


@pytest.fixture
def play(tmp_path: Path, server: Any, make_judge: Any) -> Any:
    return lambda **settings: Played(tmp_path / "run", server, make_judge, **settings)


@pytest.mark.parametrize("name", ONE_ITEM)
def test_a_fault_of_one_item_and_the_same_command_without_it(name: str, play: Any) -> None:
    fault = ONE_ITEM[name]
    played = play(**fault.settings)
    played.server.faults = {MET: list(fault.answers)}
    counted, error = played.again()
    assert (in_words(counted), error) == (fault.before, "")
    assert any(fault.words in told for told in played.told()) == bool(fault.words)
    met, left = len(fault.answers) - len(played.server.faults[MET]), played.open()
    assert met == len(fault.answers) if fault.before == ALL else met > 0
    again = f"judge: {int(fault.before != fault.after)} items got no reply; the same command asks about them again"
    assert (again in played.said) == (fault.before != fault.after)
    played.server.faults = {}
    assert in_words(played.again()[0]) == fault.after
    assert played.about_answers() == left == ({MET} if fault.before != fault.after else set())
    assert_row(name, fault.words, fault.before, fault.after)


@pytest.mark.parametrize("name", STOPS)
def test_a_fault_of_every_item_stops_the_pass_and_the_same_command_judges_the_rest(name: str, play: Any) -> None:
    fault = STOPS[name]
    played, given = play(concurrency=1), []

    def judge(asked: Asked) -> Answer:
        if not is_gold(asked):
            given.append(asked)
        return fault.answers[0] if len(given) > 9 else true_verdict(asked)

    played.server.judge = judge
    counted, error = played.again()
    assert in_words(counted) == "9 judged, 6 unjudged" and fault.words in error
    assert len(given) == 10
    played.server.judge, left = true_verdict, played.open()
    assert in_words(played.again()[0]) == ALL
    assert played.about_answers() == left and len(left) == 6
    assert_row(name, fault.words, "9 judged, 6 unjudged", ALL)


def test_replies_that_are_no_strict_verdict_are_malformed(play: Any) -> None:
    """Eleven of the fifteen items get one each, twice: greedy replies that cannot be read are asked for once more."""
    played = play()
    met = sorted({item.candidate for item in played.items})[: len(READ_AS_NOTHING)]
    played.server.faults = {
        one: always(completion(text), 2) for one, text in zip(met, READ_AS_NOTHING.values(), strict=True)
    }
    left = Counter("correct" if item.candidate.startswith("right") else "wrong" for item in played.items)
    left -= Counter("correct" if one.startswith("right") else "wrong" for one in met)
    counted, _ = played.again()
    assert counted == {**left, "malformed": 11}
    assert sorted(played.told()) == sorted(f"malformed: {text}" for text in READ_AS_NOTHING.values())
    assert played.again()[0] == counted and played.about_answers() == set()
    assert_row("a reply that is no strict verdict", "malformed: yes", in_words(counted), in_words(counted))


def test_a_fence_is_read_by_a_declared_rule_and_recorded(play: Any) -> None:
    played = play()
    played.server.faults = {MET: [completion(f"```json\n{TRUE}\n```")]}
    assert in_words(played.again()[0]) == ALL
    assert Counter(verdict.parse for verdict in played.lines()) == {"strict": 14, "lenient:fence": 1}
    assert_row("a verdict in a fence", "", ALL, ALL)


def test_one_gold_item_without_a_reply_keeps_the_judge_from_judging(play: Any) -> None:
    """It is no wrong verdict: nothing is said of the judge, and the same command asks again."""
    played = play()
    (_, candidate), *_ = GOLD
    played.server.faults = {candidate: always(BROKEN)}
    counted, error = played.again()
    words = "judge judge: 1 of 20 gold items got no reply: "
    assert in_words(counted) == "0 judged, 15 unjudged" and words in error and read_judges(played.folder) == []
    played.server.faults = {}
    assert in_words(played.again()[0]) == ALL
    assert_row("a gold item without a reply", words, "0 judged, 15 unjudged", ALL)


def test_a_server_that_is_killed_and_comes_back(play: Any) -> None:
    """After nine replies; the items that it had not answered are left as they are, and not a verdict of any kind."""
    played = play(concurrency=1, retries=8, breaker_after=3, breaker_wait_s=0.02, breaker_patience_s=0.2)
    server, replied, died = played.server, [], threading.Event()

    def judge(asked: Asked) -> Answer:
        if not is_gold(asked):
            replied.append(asked)
        if len(replied) > 9:
            died.set()
            return Answer(drop=True)
        return true_verdict(asked)

    server.judge = judge
    killer = threading.Thread(target=lambda: (died.wait(20), server.close()))
    killer.start()
    counted, error = played.again()
    killer.join()
    words = (
        "judge's server at URL has failed for 0.2 s (judge.*.breaker_patience_s); the last failure: Connection error. "
        "ConnectError: All connection attempts failed. What was judged is kept: mend the server (judge.*.base_url) or "
        "lower judge.*.concurrency, and the same command judges the rest"
    )
    assert in_words(counted) == "9 judged, 6 unjudged" and words in error
    left = played.open()
    assert in_words(revived(played)) == ALL and played.about_answers() == left and len(left) == 6
    assert_row("a server that is killed after nine replies", words, "9 judged, 6 unjudged", ALL)


def test_a_server_that_is_away_at_the_start(play: Any, make_judge: Any) -> None:
    played = play()
    played.server.close()
    words = "Connection error. ConnectError: All connection attempts failed; start the server there or change"
    with pytest.raises(EndpointError, match=re.escape(words)):
        make_judge().settled("judge")
    assert read_judges(played.folder) == [] and read_verdicts(played.folder) == {}
    assert in_words(revived(played)) == ALL and len(played.about_answers()) == 15
    assert_row("a server that is away at the start", words, "0 judged, 15 unjudged", ALL)
