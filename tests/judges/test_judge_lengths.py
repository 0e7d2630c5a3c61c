"""Which refusals mean that a prompt is too long: final for the item, so that a wrong reading loses it for good."""

from __future__ import annotations

import json

import pytest
from judge_server import always, answer_json, item, items, states

from judges.overlong import is_too_long

TOO_LONG = {
    "OpenAI": "This model's maximum context length is 4097 tokens. However, your messages resulted in 6164 tokens.",
    "OpenAI, Responses": "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "OpenAI, a limit": "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000.",
    "OpenRouter": "This endpoint's maximum context length is 32768 tokens. However, you requested about 40000 tokens.",
    "vLLM": "This model's maximum context length is 4096 tokens. However, your request has 5000 input tokens.",
    "vLLM, reply included": "'max_tokens' or 'max_completion_tokens' is too large: 64. This model's maximum context "
    "length is 4096 tokens and your request has 4090 input tokens (64 > 4096 - 4090).",
    "vLLM, the engine": "The decoder prompt (length 5000) is longer than the maximum model length of 4096. Make sure",
    "vLLM, in Rust": "this model's maximum context length is 4096 tokens, but the prompt contains 5000 input tokens",
    "llama.cpp": "the request exceeds the available context size. try increasing the context size",
    "llama.cpp, counted": "request (4390 tokens) exceeds the available context size (4096 tokens), try increasing it",
    "llama.cpp, in mid-way": "Context size has been exceeded.",
    "LM Studio, with MLX": "Context length exceeded",
    "LM Studio, in mid-way": "Reached context length of 4096 tokens with model (arch: qwen2)",
    "llama-cpp-python": "Requested tokens (2285) exceed context window of 2048",
    "LM Studio": "Trying to keep the first 4845 tokens when context the overflows. However, the model is loaded with "
    "context length of only 4096 tokens, which is not enough.",
    "LM Studio, newer": "The number of tokens to keep from the initial prompt is greater than the context length.",
    "TGI": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048. Given: 2000 `inputs` tokens",
    "TGI, inputs": "Input validation error: `inputs` must have less than 1024 tokens. Given: 2000",
    "SGLang": "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
    "SGLang, reply included": "Requested token count exceeds the model's maximum context length of 4096 tokens.",
    "Anthropic": "prompt is too long: 210000 tokens > 200000 maximum",
    "Gemini": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048575).",
    "Mistral": "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
    "through a proxy": "litellm.BadRequestError: OpenAIException: This model's maximum context length is 4096 tokens.",
}

SOMETHING_ELSE = (
    "max_tokens is too large: 64",
    "Invalid request: max_tokens is too large: 64",
    "max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you gave 100000.",
    "message role too long",
    "Request rejected: message role too long",
    "Rate limit: exceeds 100 tokens per minute",
    "Request too large: it exceeds 100 tokens per minute",
    "context window canceled by admin",
    "Unrecognized request argument supplied: context_length",
    "max_model_len is not a parameter",
    "structured_outputs: extra fields not permitted",
    "the input field 'name' is too long",
    "too many tokens requested; lower max_tokens",
    "",
)

WORDS = "This model's maximum context length is 4096 tokens. Prompt is too long; context_length_exceeded."
"""What a candidate may say."""


def body(value: object) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.parametrize("name", TOO_LONG)
@pytest.mark.parametrize("status", [400, 422])
def test_servers_words_for_a_prompt_that_does_not_fit(name, status):
    told = TOO_LONG[name]
    for value in (
        {"error": {"message": told, "code": 400}},
        {"error": {"message": told.upper()}},
        {"error": told, "error_type": "validation"},
        {"object": "error", "message": told},
        {"detail": told},
        {"detail": [{"msg": told}]},
    ):
        assert is_too_long(status, body(value)), value


@pytest.mark.parametrize("told", SOMETHING_ELSE)
def test_what_only_sounds_like_it(told):
    for value in ({"error": {"message": told}}, {"error": told}, {"message": told}, {"detail": [{"msg": told}]}):
        assert not is_too_long(400, body(value)), value


@pytest.mark.parametrize("code", ["context_length_exceeded", "exceed_context_size_error"])
def test_a_code_says_it_whatever_the_words(code):
    assert is_too_long(400, body({"error": {"message": "no", "code": code}}))
    assert is_too_long(400, body({"error": {"message": "no", "type": code}}))
    assert not is_too_long(400, body({"error": {"message": f"no {code}", "param": code}}))


@pytest.mark.parametrize("status", [402, 405, 409, 500])
def test_other_statuses_never_say_it(status):
    assert not is_too_long(status, body({"error": {"message": WORDS, "code": "context_length_exceeded"}}))


@pytest.mark.parametrize("content", [b"", b"<html>", b"Payload", b"\xff\xfe", b"[" * 100_000, b"null", b"[1]"])
def test_413_says_it_and_no_other_status_without_a_readable_body(content):
    assert is_too_long(413, content)
    assert not is_too_long(400, content)


ECHOES = {
    "FastAPI's input": {"detail": [{"type": "extra_forbidden", "loc": ["body"], "msg": "no extras", "input": WORDS}]},
    "a list of inputs": {"detail": [{"msg": "no extras", "input": {"messages": [{"message": WORDS, "msg": WORDS}]}}]},
    "pydantic in a message": {"error": {"message": f"1 validation error: {{'msg': 'no extras', 'input': {WORDS!r}}}"}},
    "a quoted body": {"error": {"message": f"cannot parse: {WORDS}", "param": WORDS}},
    "a body beside the error": {"error": {"message": "no extras"}, "request": {"message": WORDS}, "body": WORDS},
    "a context": {"error": {"message": "no extras", "context": {"message": WORDS, "code": "context_length_exceeded"}}},
}


@pytest.mark.parametrize("name", ECHOES)
@pytest.mark.parametrize("status", [400, 422])
def test_a_candidates_own_words_sent_back_are_not_the_servers(server, settled, name, status):
    """The item is asked again by the next run, not lost."""
    given = [*items(2, 2), item(9, WORDS)]
    server.faults = {WORDS: always(answer_json(ECHOES[name], status=status))}
    found = list(settled().verdicts(given))
    assert states(given, found) == {"correct": 2, "wrong": 2, "rejected": 1}
    (left,) = [verdict for verdict in found if verdict.correct is None]
    assert not left.is_final
