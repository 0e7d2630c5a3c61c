"""The strict parse and its one lenient form."""

from __future__ import annotations

import pytest

from judges.reply import parse_verdict


@pytest.mark.parametrize(
    ("text", "correct"),
    [
        ('{"correct": true}', True),
        ('{"correct":false}', False),
        (' \n{\n  "correct" : true\n}\n', True),
    ],
)
def test_strict(text, correct):
    assert parse_verdict(text, accept_fence=False) == (correct, "strict")


@pytest.mark.parametrize(
    ("text", "correct"),
    [('```json\n{"correct": true}\n```', True), ('\n```\n{"correct": false}```\n', False)],
)
def test_a_fence_around_the_whole_text(text, correct):
    assert parse_verdict(text, accept_fence=True) == (correct, "lenient:fence")
    assert parse_verdict(text, accept_fence=False) == (None, "failed")


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
    assert parse_verdict(text, accept_fence=True) == (None, "failed")
