"""Where a server is, and its key: told clearly when they are wrong, and the key is written down nowhere."""

from __future__ import annotations

import logging

import pytest
from judge_server import MODEL, TRUE, Answer, answer_json, completion, item, items, states

from judges.endpoint import OpenAICompatibleJudge
from kvrelay.core.errors import ConfigError, EndpointError

SECRET = "sk-3f9aPrivate77"


@pytest.fixture
def key(monkeypatch) -> str:
    monkeypatch.setenv("KVRELAY_JUDGE_API_KEY", SECRET)
    return SECRET


def test_the_key_reaches_the_header_and_nothing_else(server, make_judge, key, caplog):
    """The server echoes it wherever it can: in replies, errors, its name and the list of what it serves."""
    caplog.set_level(logging.DEBUG)
    server.canary = completion("banana", model=f"m-{key}")
    config = make_judge(constraint="auto", retries=1)
    judge = config.settled("judge")
    server.judge = lambda asked: completion(f"key {key}", model=f"m-{key}", reasoning=key)
    given = [item(0), item(1, "cut"), item(2, "page"), item(3, "no")]
    server.faults = {
        "cut": [answer_json({"detail": key}, status=500)] * 9,
        "page": [Answer(body=f"<html>{key}".encode())] * 9,
        "no": [answer_json({"detail": f"too long {key}"}, status=400)] * 9,
    }
    found = list(judge.verdicts(given))
    assert states(given, found) == {"malformed": 1, "transport_error": 2, "rejected": 1}
    assert {asked.headers["authorization"] for asked in server.asked} == {f"Bearer {SECRET}"}
    written = [verdict.model_dump_json() for verdict in found]
    assert all("***" in text for text in written)
    server.says(answer_json({"error": {"message": f"bad key {key}"}}, status=401))
    server.served = [f"model-{key}"]
    with pytest.raises(EndpointError, match=r"bad key \*\*\*.*judge\.\*\.api_key_env") as caught:
        list(judge.verdicts(given))
    with pytest.raises(EndpointError, match=r"serves model-\*\*\*, not") as unserved:
        config.settled("judge")
    everything = [*written, judge.facts.model_dump_json(), repr(judge), repr(config), caplog.text]
    for error in (caught.value, unserved.value):
        everything += [str(error), repr(error), repr(error.__context__)]
    assert SECRET not in "\n".join(everything)


@pytest.mark.parametrize("before", range(280, 305))
def test_no_part_of_the_key_is_left_where_words_are_cut(server, settled, key, before):
    """The key lies across the place at which a page is cut for the record."""
    server.faults = {"right": [Answer(body=b"<" * before + key.encode() + b">" * 50)] * 9}
    (verdict,) = settled(retries=1).verdicts([item()])
    assert verdict.raw.startswith("no completion: <") and "sk" not in verdict.model_dump_json()


@pytest.mark.parametrize("before", range(470, 505, 2))
def test_no_part_of_the_key_is_left_where_an_error_is_cut(server, settled, key, before):
    said = [answer_json({"error": {"message": "<" * before + key + ">" * 50}}, status) for status in (500, 422)]
    server.faults = {"right": said}
    (verdict,) = settled(retries=1).verdicts([item()])
    assert verdict.raw.startswith("HTTP 422: <") and verdict.usage["last_error"].startswith("HTTP 422: <")
    assert "sk-" not in verdict.model_dump_json()


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_is_told_at_the_start(server, make_judge, key, status):
    server.models = answer_json({"error": {"message": f"bad key {key}"}}, status=status)
    with pytest.raises(EndpointError, match=r"judge\.\*\.api_key_env") as caught:
        make_judge().settled("judge")
    assert server.url in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_model_that_is_not_served_is_told_with_what_is(server, make_judge):
    server.served = ["tiny", "judge"]
    with pytest.raises(EndpointError, match=r"serves tiny, judge, not org/Judge-1B.*judge\.\*\.model"):
        make_judge().settled("judge")
    assert server.probes == []


@pytest.mark.parametrize("body", [b"<html>", b"{}", b'{"data": 3}', b'{"data": [{}]}', b"[]", b"[" * 200_000])
def test_what_is_no_list_of_models_is_no_server(server, make_judge, body):
    server.models = Answer(body=body)
    with pytest.raises(EndpointError, match=r"judge\.\*\.base_url"):
        make_judge().settled("judge")


def test_a_base_url_without_v1_is_told_with_the_one_that_is_meant(server, make_judge):
    server.models = answer_json({"detail": "Not Found"}, status=404)
    bare = server.url.removesuffix("/v1")
    for written in (bare, bare + "/"):
        with pytest.raises(EndpointError, match=rf"HTTP 404: Not Found.*perhaps to {bare}/v1:"):
            make_judge(base_url=written).settled("judge")
    with pytest.raises(EndpointError, match=r"HTTP 404: Not Found; set judge\.\*\.base_url to where the API is"):
        make_judge().settled("judge")


def test_a_slash_at_the_end_does_no_harm(server, settled):
    judge = settled(base_url=server.url + "/")
    assert states(items(2, 1), judge.verdicts(items(2, 1))) == {"correct": 2, "wrong": 1}
    assert {asked.path for asked in server.asked} == {"/v1/chat/completions"}


def test_a_redirect_is_not_followed(server, settled):
    """A server that redirects to itself would be asked 64 times; and another one would be sent the key."""
    judge = settled(retries=3)
    server.says(answer_json({}, status=307, Location="/v1/chat/completions"))
    with pytest.raises(EndpointError, match=r"HTTP 307.*judge\.\*\.base_url"):
        list(judge.verdicts([item()]))
    assert len(server.asked) == 1


def test_a_loopback_server_needs_neither_key_nor_proxy(server, settled, monkeypatch):
    monkeypatch.delenv("KVRELAY_JUDGE_API_KEY", raising=False)
    for name in ("HTTP_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert states(items(2, 1), settled().verdicts(items(2, 1))) == {"correct": 2, "wrong": 1}


def test_another_machine_needs_a_key(monkeypatch):
    monkeypatch.delenv("HOUSE_KEY", raising=False)
    judge = OpenAICompatibleJudge(base_url="https://judge.invalid/v1", model="m", api_key_env="HOUSE_KEY")
    with pytest.raises(EndpointError, match=r"HOUSE_KEY is not set.*judge\.\*\.api_key_env"):
        judge.settled("judge")
    monkeypatch.setenv("HOUSE_KEY", "two\nlines-of-a-key")
    with pytest.raises(EndpointError, match="HOUSE_KEY") as caught:
        judge.settled("judge")
    assert "lines" not in str(caught.value)


def test_a_short_word_as_key_may_stand_in_a_text(server, settled, monkeypatch):
    monkeypatch.setenv("KVRELAY_JUDGE_API_KEY", "none")
    server.faults = {"right": [completion(f"none {TRUE}")] * 9}
    (verdict,) = settled().verdicts([item()])
    assert verdict.raw == f"none {TRUE}"


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"base_url": "127.0.0.1:8000/v1"}, "base_url"),
        ({"base_url": "http://:8000/v1"}, "base_url"),
        ({"base_url": "http://127.0.0.1:99999/v1"}, "base_url"),
        ({"base_url": f"http://me:{SECRET}@host/v1"}, "api_key_env"),
        ({"base_url": f"http://host/v1?key={SECRET}"}, "api_key_env"),
        ({"api_key_env": SECRET}, "api_key_env"),
        ({"api": "completions"}, "api"),
        ({"constraint": "grammar"}, "constraint"),
        ({"lenient": ("fence", "prose")}, "lenient"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"temperature": -0.1}, "temperature"),
        ({"max_prompt_chars": 0}, "max_prompt_chars"),
        ({"retries": -1}, "retries"),
        ({"concurrency": 0}, "concurrency"),
        ({"timeout_s": 0.0}, "timeout_s"),
    ],
)
def test_settings_out_of_range_are_named_without_secrets(make_judge, change, key):
    with pytest.raises(ConfigError) as caught:
        make_judge(**change)
    assert f"judge.*.{key}" in str(caught.value)
    assert SECRET not in str(caught.value)


def test_the_model_is_not_the_address(server, settled):
    assert settled().facts.identity["model_asked"] == MODEL
    assert server.url not in settled().facts.model_dump_json()
