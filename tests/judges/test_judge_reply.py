"""The strict parse and its declared lenient rules."""

from __future__ import annotations

import pytest

from judges.reply import RULES, parse_verdict


@pytest.mark.parametrize(
    ("text", "correct"),
    [
        ('{"correct": true}', True),
        ('{"correct":false}', False),
        (' \n{\n  "correct" : true\n}\n', True),
    ],
)
def test_strict(text, correct):
    assert parse_verdict(text) == (correct, "strict")


@pytest.mark.parametrize(
    ("text", "correct"),
    [('```json\n{"correct": true}\n```', True), ('\n```\n{"correct": false}```\n', False)],
)
def test_a_fence_around_the_whole_text(text, correct):
    assert parse_verdict(text, ("fence",)) == (correct, "lenient:fence")
    assert parse_verdict(text, ("after_reasoning", "reasoning")) == (None, "failed")


@pytest.mark.parametrize(
    ("text", "correct"),
    [
        ('<think>It is {"correct": false}.</think>\n{"correct": true}', True),
        ('a </think> b </think>{"correct": false}', False),
        (
            '<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>{"correct": true}',
            True,
        ),
        ('<|channel|>final<|message|>{"correct": false}<|return|>', False),
        ('x</think>y<|channel|>final<|message|>{"correct": false}<|end|>', False),
    ],
)
def test_what_follows_the_last_end_of_the_reasoning(text, correct):
    assert parse_verdict(text, ("fence", "after_reasoning")) == (correct, "lenient:after_reasoning")
    assert parse_verdict(text, ("fence",)) == (None, "failed")


@pytest.mark.parametrize(
    "text",
    [
        '<think>{"correct": true}',
        '{"correct": true}</think>',
        '</think>{"correct": true} so it is',
        '</think>{"correct": true}</think>',
        '<|channel|>final<|message|>{"correct": true}<|end|>{"correct": false}',
        '<|channel|>analysis<|message|>{"correct": true}',
        '</think>```json\n{"correct": true}\n``` and more',
    ],
)
def test_reasoning_itself_is_no_verdict(text):
    assert parse_verdict(text, tuple(RULES)) == (None, "failed")


@pytest.mark.parametrize(
    "text",
    [
        '{"correct": "true"}',
        '{"correct": 1}',
        '{"correct": null}',
        '{"correct": NaN}',
        '{"correct": [true]}',
        '{"correct": {"correct": true}}',
        '{"Correct": true}',
        '{"correct": True}',
        "{'correct': true}",
        '{"correct": true, "why": "it is"}',
        '{"correct": true, "correct": true}',
        '{"correct": true, "correct": false}',
        '{"correct": true} {"correct": false}',
        '{"correct": true}\n{"correct": true}',
        '[{"correct": true}]',
        '[["correct", true]]',
        '{"correct": true} as asked',
        'Verdict: {"correct": true}',
        '{"correct": true',
        '\ufeff{"correct": true}',
        "{}",
        "true",
        "yes",
        "",
        "{" * 5000,
        "[" * 200_000,
        "9" * 5000,
        'The fence:\n```json\n{"correct": true}\n```',
        '```json\n{"correct": true}\n```\n```json\n{"correct": false}\n```',
        '```python\n{"correct": true}\n```',
        '```json\n{"correct": 1}\n```',
    ],
)
def test_all_else_fails(text):
    assert parse_verdict(text, tuple(RULES)) == (None, "failed")
