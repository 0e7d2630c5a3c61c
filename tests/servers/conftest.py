"""The real servers that `make judge-vllm-test` and `make judge-serve-test` start; without them their tests skip."""

from __future__ import annotations

import os

import pytest
from real_server import RealServer


@pytest.fixture(scope="session")
def vllm() -> RealServer:
    url = os.environ.get("KVRELAY_VLLM_URL")
    if not url:
        pytest.skip("no vLLM (KVRELAY_VLLM_URL is not set); make judge-vllm-test starts one")
    key = os.environ.get("VLLM_API_KEY", "")
    model = os.environ["KVRELAY_VLLM_MODEL"]
    return RealServer(url=url, model=model, script="vllm.sh", key=key, name="smollm2-judge")


@pytest.fixture(scope="session")
def serve() -> RealServer:
    url = os.environ.get("KVRELAY_SERVE_URL")
    if not url:
        pytest.skip("no transformers serve (KVRELAY_SERVE_URL is not set); make judge-serve-test starts one")
    return RealServer(url=url, model=os.environ["KVRELAY_SERVE_MODEL"], script="serve.sh")
