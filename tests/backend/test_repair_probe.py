"""What allocators see: right values, stopped in time, from the shifted cache alone, and nothing of it kept."""

from __future__ import annotations

import pytest
import torch
from edited_caches import Deletion, shift, states
from tiny_models import token_ids
from torch import Tensor

from kvrelay.backend.attention import ATTENTION_NAME, CausalPrefill
from kvrelay.backend.decode import batched_cache
from kvrelay.backend.layers import capture_cache
from kvrelay.backend.model import CausalModel
from kvrelay.backend.probe import CleanModelProbe, ModelProbe, question_softmax
from kvrelay.core.errors import ConfigError, EditError
from kvrelay.core.history import Question
from kvrelay.core.repair import EditedContext

TEXT_IDS, TEMPLATE_IDS = tuple(token_ids(6, seed=21)), tuple(token_ids(11, seed=22))
QUESTION = Question(text="q", token_ids=TEMPLATE_IDS, text_ids=TEXT_IDS)
FLOAT32 = 64 * torch.finfo(torch.float32).eps
"""A state passes float32 at the protocol's border and inside norms; differences of a few roundings are all there is."""


@pytest.fixture
def deletion(tiny: CausalModel) -> Deletion:
    return Deletion(tiny)


@pytest.fixture
def probe(deletion: Deletion) -> ModelProbe:
    return ModelProbe(deletion.model, deletion.shifted, deletion.context, QUESTION)


class Watching:
    """An attention around another that keeps each layer's queries and keys."""

    def __init__(self, inner: object) -> None:
        self.inner = inner
        self.seen: list[tuple[Tensor, Tensor, float]] = []

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Tensor:
        self.seen.append((query, key, scaling))
        return self.inner.attend(layer, query, key, value, scaling)  # type: ignore[attr-defined, no-any-return]


def asked(deletion: Deletion, ids: tuple[int, ...]) -> list[Tensor]:
    """The question's attention, layer by layer, softmax written out: (Hq, U, n)."""
    buffer, attend = batched_cache([deletion.shifted], len(ids))
    watching = Watching(attend)
    positions = torch.arange(deletion.end, deletion.end + len(ids))[None]
    deletion.model.forward(deletion.model.row(ids), positions, buffer, watching)
    found = []
    for query, key, scaling in watching.seen:
        group = query.shape[1] // key.shape[1]
        rows = torch.zeros(query.shape[1], len(ids), deletion.end, dtype=torch.float64)
        for head in range(query.shape[1]):
            for row in range(len(ids)):
                visible = key[0, head // group, : deletion.end + row + 1].double()
                rows[head, row] = torch.softmax(visible @ query[0, head, row].double() * scaling, 0)[: deletion.end]
        found.append(rows)
    return found


def test_embeddings_are_the_models_own_in_float32(probe: ModelProbe) -> None:
    table = probe.model.module.get_input_embeddings().weight
    found = probe.embeddings([5, 7, 5])
    assert found.dtype == torch.float32
    assert torch.equal(found, table[[5, 7, 5]].detach().float())
    assert probe.embeddings([]).shape == (0, table.shape[1])


def test_question_attention_is_softmax_over_the_shifted_cache(deletion: Deletion, probe: ModelProbe) -> None:
    found: list[tuple[int, Tensor]] = []
    probe.question_attention([2, 0, 1, 1], lambda layer, attention: found.append((layer, attention)))
    assert [layer for layer, _ in found] == [0, 1, 2]
    for (_, attention), wanted in zip(found, asked(deletion, TEXT_IDS), strict=True):
        assert attention.dtype == torch.float32 and attention.shape == (4, 6, deletion.end)
        assert float((attention - wanted).abs().max()) <= FLOAT32


def test_the_pass_ends_after_the_last_layer_that_was_asked_for(
    probe: ModelProbe, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[int] = []
    layers = probe.model.module.get_decoder().layers
    for index, layer in enumerate(layers):
        layer.mlp.register_forward_hook(lambda *_, index=index: ran.append(index))
    probe.question_attention([1], lambda layer, attention: None)
    assert ran == [0]
    probe.question_attention([], lambda layer, attention: ran.append(99))
    assert ran == [0]
    probe.fresh_states(2)
    assert ran == [0, 0, 1]


def test_without_bare_text_the_prompts_tokens_are_asked(deletion: Deletion) -> None:
    probe = ModelProbe(deletion.model, deletion.shifted, deletion.context, Question(text="q", token_ids=TEMPLATE_IDS))
    found: list[Tensor] = []
    probe.question_attention([1], lambda layer, attention: found.append(attention))
    assert float((found[0] - asked(deletion, TEMPLATE_IDS)[1]).abs().max()) <= FLOAT32


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_fresh_states_are_those_of_the_edited_text(deletion: Deletion, probe: ModelProbe, layer: int) -> None:
    """The prefix is exact, so the whole suffix run after it is a fresh pass; layer 1 needs one layer for that."""
    found = probe.fresh_states(layer)
    clean, stale = deletion.clean.layers[layer], deletion.shifted.layers[layer]
    start = deletion.splice
    assert found.key_HSD.dtype == torch.float32 and found.key_HSD.shape == (2, 115, 16)
    for state, wanted in ((found.key_HSD, clean.keys_HKD), (found.value_HSD, clean.values_HKD)):
        assert float((state - wanted[:, start:]).abs().max()) <= FLOAT32
    assert torch.equal(found.stale_key_HSD, stale.keys_HKD[:, start:].float())
    assert torch.equal(found.stale_value_HSD, stale.values_HKD[:, start:].float())
    if layer:
        assert float((found.value_HSD - found.stale_value_HSD).abs().amax()) > 1e-3


def test_fresh_questions_stand_after_the_edited_text(deletion: Deletion, probe: ModelProbe) -> None:
    """As the last tokens of one pass over the edited text and the question."""
    whole = (*deletion.edited_ids, *TEXT_IDS)
    watching = Watching(CausalPrefill())
    positions = torch.arange(len(whole))[None]
    deletion.model.forward(deletion.model.row(whole), positions, capture_cache(3), watching)
    for layer in range(3):
        found = probe.fresh_states(layer)
        query, key, scaling = watching.seen[layer]
        assert float((found.question_query - query[0, :, -6:]).abs().max()) <= FLOAT32
        assert float((found.question_key_HUD - key[0, :, -6:]).abs().max()) <= FLOAT32
        assert found.scaling == scaling


def test_a_probe_changes_nothing(deletion: Deletion, probe: ModelProbe) -> None:
    before = states(deletion.shifted).clone()
    probe.question_attention(range(3), lambda layer, attention: attention.zero_())
    probe.fresh_states(1).stale_key_HSD.add_(1.0)
    assert torch.equal(states(deletion.shifted), before)
    assert deletion.model.module.config._attn_implementation == ATTENTION_NAME


def test_an_edit_at_the_start_and_one_of_the_last_tokens_are_probed_too(tiny: CausalModel) -> None:
    for span in ((0, 10), (100, 160)):
        deletion = Deletion(tiny, spans=[span])
        probe = ModelProbe(tiny, deletion.shifted, deletion.context, QUESTION)
        found = probe.fresh_states(1)
        assert found.key_HSD.shape[1] == deletion.end - deletion.splice
        wanted = deletion.clean.layers[1].keys_HKD[:, deletion.splice :]
        assert torch.allclose(found.key_HSD, wanted.float(), atol=FLOAT32, rtol=0)


def test_what_cannot_be_probed_is_refused(deletion: Deletion, probe: ModelProbe) -> None:
    with pytest.raises(ConfigError, match="layer 3 of a model with layers 0 … 2"):
        probe.fresh_states(3)
    with pytest.raises(ConfigError, match="allocator"):
        probe.question_attention([0, -1], lambda layer, attention: None)
    mute = ModelProbe(deletion.model, deletion.shifted, deletion.context, Question(text="", token_ids=()))
    with pytest.raises(EditError, match="no tokens"):
        mute.question_attention([0], lambda layer, attention: None)
    other = EditedContext(token_ids=(1,), pieces=("",), special=(False,), splice=0, case_id="c")
    with pytest.raises(EditError, match="135 states, the edited context 1"):
        ModelProbe(deletion.model, deletion.shifted, other, QUESTION)


def test_deviation_is_relative_per_layer_and_token(deletion: Deletion) -> None:
    probe = CleanModelProbe(deletion.model, deletion.shifted, deletion.context, QUESTION, deletion.clean)
    found = probe.deviation()
    assert found.shape == (3, 115) and found.dtype == torch.float32
    assert float(found[0].max()) <= 1e-10  # layer 0 is clean after the shift: float32 roundings, squared
    assert float(found[1:].amax(0).min()) > 1e-6
    layer, token = 2, 17
    wanted = 0.0
    for name in ("keys_HKD", "values_HKD"):
        shifted = getattr(deletion.shifted.layers[layer], name)[:, deletion.splice + token].flatten()
        clean = getattr(deletion.clean.layers[layer], name)[:, deletion.splice + token].flatten()
        wanted += float(sum((a - b) ** 2 for a, b in zip(shifted, clean, strict=True)) / sum(b * b for b in clean))
    assert float(found[layer, token]) == pytest.approx(wanted, rel=1e-6)
    same = CleanModelProbe(deletion.model, deletion.clean, deletion.context, QUESTION, deletion.clean)
    assert float(same.deviation().abs().max()) == 0.0


def test_question_softmax_hides_later_questions_only() -> None:
    generator = torch.Generator().manual_seed(0)
    query, key = torch.randn(4, 3, 8, generator=generator), torch.randn(2, 10, 8, generator=generator)
    found = question_softmax(query, key, 0.5)
    assert torch.allclose(found.sum(-1), torch.ones(4, 3))
    assert found[:, 0, 8:].abs().max() == 0 and found[:, 1, 9:].abs().max() == 0
    assert float(found[3, 2, 4]) == pytest.approx(
        float(torch.softmax(key[1].double() @ query[3, 2].double() * 0.5, 0)[4]), rel=1e-5
    )


def test_the_shifted_cache_of_a_later_edit_is_probed_at_its_own_end(tiny: CausalModel) -> None:
    both = Deletion(tiny, spans=[(20, 45), (80, 90)])
    probe = ModelProbe(tiny, shift(both.dirty, both.edit, len(both.ids)), both.context, QUESTION)
    assert len(probe.coordinate_K) == probe.cache.next_position == 125
