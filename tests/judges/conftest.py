"""A server that misbehaves as a test says, and judges that ask it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import judge_server
import pytest
from judge_server import MODEL, JudgeServer

from judges.endpoint import OpenAICompatibleJudge
from judges.settled import EndpointJudge
from kvrelay.judging.protocol import BlindItem


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    fake = JudgeServer()
    yield fake
    fake.close()


@pytest.fixture
def make_judge(server: JudgeServer) -> Callable[..., OpenAICompatibleJudge]:
    """Impatient where waiting is not the matter of the test, and without a constraint to probe."""

    def make(**settings: Any) -> OpenAICompatibleJudge:
        defaults: dict[str, Any] = {
            "base_url": server.url,
            "model": MODEL,
            "constraint": "none",
            "timeout_s": 20.0,
            "retry_wait_s": 0.01,
            "breaker_wait_s": 0.05,
        }
        return OpenAICompatibleJudge(**(defaults | settings))

    return make


@pytest.fixture
def settled(server: JudgeServer, make_judge: Callable[..., OpenAICompatibleJudge]) -> Callable[..., EndpointJudge]:
    """A judge that has asked its first question; what it asked is forgotten."""

    def make(**settings: Any) -> EndpointJudge:
        judge = make_judge(**settings).settled("judge")
        server.probes.clear()
        return judge

    return make


@pytest.fixture
def make_item() -> Callable[..., BlindItem]:
    def make(**fields: Any) -> BlindItem:
        defaults: dict[str, Any] = {
            "key": "k" * 64,
            "question": "Where did I leave the blue kayak?",
            "candidate": "right: you left it at the boathouse.",
        }
        return judge_server.item(**(defaults | fields))

    return make
