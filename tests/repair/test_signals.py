"""Signals of prior work against literal float64 formulas on random tensors, and the positions that follow."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from kvrelay.core.errors import ConfigError
from kvrelay.repair.a3 import A3
from kvrelay.repair.cacheblend import CacheBlend
from kvrelay.repair.cacheclip import CacheClip
from kvrelay.repair.fusionrag import FusionRAG
from kvrelay.repair.infoflow import InfoFlow
from kvrelay.repair.kvshare import KVShare
from kvrelay.repair.oracle import Oracle
from kvrelay.repair.prophetkv import ProphetKV
from kvrelay.repair.units import segment

TEXT = "The boat lay in the harbour.\nA captain came; his boat was old. Nobody saw the captain again.\nRain fell on us."
EPS = 2.0**-24
SUM = 200 * EPS
"""Of fewer than 200 float32 terms, none negative (squares, probabilities), relative to the sum."""


@pytest.fixture
def case(make_context, make_question, clean_fake_probe):
    context, question = make_context(TEXT), make_question("Who was the captain of my boat?")
    return context, question, clean_fake_probe(context, question)


def double(attention: list[Tensor], splice: int) -> list[Tensor]:
    return [layer.double()[:, :, splice:] for layer in attention]


def infoflow(context, probe, layers=(1, 2)) -> list[float]:
    return [
        sum(math.sqrt(sum(float(A[:, q, k].mean()) ** 2 for q in range(A.shape[1]))) for A in chosen) / len(chosen)
        for chosen in [[double(probe.attention, context.splice)[layer] for layer in layers]]
        for k in range(context.n_suffix)
    ]


def prophetkv(context, probe) -> list[float]:
    heads, asked, _ = probe.attention[0].shape
    return [
        sum(
            float(A[h, q, context.splice + k]) / sum(A[h, q].tolist())
            for A in (layer.double() for layer in probe.attention)
            for h in range(heads)
            for q in range(asked)
        )
        / len(probe.attention)
        for k in range(context.n_suffix)
    ]


def fusionrag(context, probe) -> list[float]:
    return [sum(column.flatten().tolist()) for column in double(probe.attention, context.splice)[-1].unbind(2)]


def cacheclip(context, probe, window=8) -> list[float]:
    mass = fusionrag(context, probe)
    return [sum(part) / len(part) for part in (mass[start : start + window] for start in range(0, len(mass), window))]


def deviation(fresh: Tensor, stale: Tensor, *, relative: bool) -> list[float]:
    found = []
    for i in range(fresh.shape[1]):
        new, old = fresh.double()[:, i].flatten().tolist(), stale.double()[:, i].flatten().tolist()
        square = sum((a - b) ** 2 for a, b in zip(new, old, strict=True))
        found.append(square / sum(a * a for a in new) if relative else square)
    return found


def cacheblend(context, probe, what: str = "value") -> list[float]:
    s = probe.states[1]
    keys = deviation(s.key_HSD, s.stale_key_HSD, relative=what == "both")
    values = deviation(s.value_HSD, s.stale_value_HSD, relative=what == "both")
    both = [key + value for key, value in zip(keys, values, strict=True)]
    return {"value": values, "key": keys, "both": both}[what]


def kvshare(context, probe) -> list[float]:
    A = double(probe.attention, context.splice)[1]
    both = cacheblend(context, probe, "both")
    return [float(A[:, :, k].mean()) * math.sqrt(both[k]) for k in range(context.n_suffix)]


def joint(context, probe, layer: int = 1) -> list[float]:
    """A3 before pooling: KV heads repeated, all heads one vector, causal inside the question."""
    s = probe.states[layer]
    heads, asked, width = s.question_query.shape
    repeat = heads // s.key_HSD.shape[0]
    keys = torch.cat([s.key_HSD, s.question_key_HUD], 1).double().repeat_interleave(repeat, 0)
    mass = [0.0] * context.n_suffix
    for u in range(asked):
        query = s.question_query[:, u].double().flatten()
        seen = range(context.n_suffix + u + 1)
        logits = [float(query @ keys[:, k].flatten()) / math.sqrt(heads * width) for k in seen]
        weights = [math.exp(logit) for logit in logits]
        for k in range(context.n_suffix):
            mass[k] += weights[k] / sum(weights)
    return mass


def a3(context, probe, edges: str = "real") -> list[float]:
    mass = joint(context, probe)
    near = [mass[max(0, k - 2) : k + 3] for k in range(len(mass))]
    return [sum(part) / (5 if edges == "as_in_code" else len(part)) for part in near]


def oracle(context, probe) -> list[float]:
    return [sum(column.tolist()) / 3 for column in probe.clean.double().unbind(1)]


# a joint logit sums 24 products of at most 4.5 x 4.5, scaled by 1 / sqrt(24): its rounding enters the softmax twice
LOGIT = 2 * 24 * EPS * 24 * 4.5 * 4.5 / math.sqrt(24)
CASES = {
    "infoflow": (InfoFlow(), infoflow, SUM),
    "infoflow_0": (InfoFlow(layers=(0,)), lambda c, p: infoflow(c, p, (0,)), SUM),
    "infoflow_depths": (InfoFlow(layers=(0.1, 0.7)), lambda c, p: infoflow(c, p, (0, 2)), SUM),
    "prophetkv": (ProphetKV(), prophetkv, SUM),
    "fusionrag": (FusionRAG(), fusionrag, SUM),
    "cacheblend": (CacheBlend(), cacheblend, SUM),
    "cacheblend_key": (CacheBlend(deviation="key"), lambda c, p: cacheblend(c, p, "key"), SUM),
    "cacheblend_both": (CacheBlend(deviation="both"), lambda c, p: cacheblend(c, p, "both"), SUM),
    "kvshare": (KVShare(), kvshare, SUM),
    "a3": (A3(), a3, SUM + LOGIT),
    "a3_as_in_code": (A3(edges="as_in_code"), lambda c, p: a3(c, p, "as_in_code"), SUM + LOGIT),
    "a3_unpooled": (A3(pool=1, layer=0), lambda c, p: joint(c, p, 0), SUM + LOGIT),
    "oracle": (Oracle(), oracle, SUM),
}


@pytest.mark.parametrize("name", CASES)
def test_scores_and_positions(case, best, offsets, name: str) -> None:
    allocator, literal, bound = CASES[name]
    context, question, probe = case
    expected = literal(context, probe)
    found = allocator.scores(context, question, probe)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), torch.tensor(expected).double(), rtol=bound, atol=0)
    for budget in (1, 5, 17):
        assert offsets(allocator.allocate(context, question, budget, probe), context) == best(expected, budget)


def test_cacheclip(case, offsets) -> None:
    context, question, probe = case
    expected = cacheclip(context, probe)
    found = CacheClip().scores(context, question, probe)
    torch.testing.assert_close(found.double(), torch.tensor(expected).double(), rtol=SUM, atol=0)
    ranking = sorted(range(len(expected)), key=lambda window: -expected[window])
    order = [k for window in ranking for k in range(8 * window, min(8 * window + 8, context.n_suffix))]
    for budget in range(context.n_suffix + 1):
        assert offsets(CacheClip().allocate(context, question, budget, probe), context) == sorted(order[:budget])


@pytest.mark.parametrize(
    ("allocator", "literal"), [(InfoFlow(support="units"), infoflow), (Oracle(support="units"), oracle)]
)
def test_units_by_their_sums(case, offsets, allocator, literal) -> None:
    context, question, probe = case
    scores = literal(context, probe)
    units = segment(context.suffix_pieces, context.suffix_special)
    ranking = sorted(units, key=lambda unit: -sum(scores[slice(*unit)]))
    whole = ranking[0][1] - ranking[0][0]
    start, end = ranking[1]
    peak = max(range(start, end), key=lambda k: scores[k])
    first = min(peak, end - 2)
    chosen = offsets(allocator.allocate(context, question, whole + 2, probe), context)
    assert end - start > 2 and chosen == sorted([*range(*ranking[0]), first, first + 1])


def test_uniform_scores_stay_uniform_at_the_edges() -> None:
    # the official A3 code pads with zeros and counts them: the first and last two tokens can never win
    for value in (0.1, 1 / 3, 0.9, 1e-7):
        mass = torch.full((9,), value)
        assert torch.equal(A3().pooled(mass), mass)
        damped = A3(edges="as_in_code").pooled(mass)
        assert damped[0] < damped[1] < damped[2] == damped[6] > damped[7] > damped[8]
    assert torch.equal(A3().pooled(torch.tensor([2.0])), torch.tensor([2.0]))


def test_equal_scores_go_to_the_first_positions(case) -> None:
    context, question, probe = case
    shape = probe.attention[0].shape
    probe.attention = [torch.full(shape, 1 / 64)] * 3
    probe.clean = torch.ones_like(probe.clean)
    for allocator in (InfoFlow(), ProphetKV(), FusionRAG(), CacheClip(), Oracle()):
        assert allocator.allocate(context, question, 11, probe).slots == tuple(range(3, 14))


def test_layers_asked_are_the_ones_needed(case) -> None:
    context, question, probe = case
    for allocator in (InfoFlow(), ProphetKV(), FusionRAG(), CacheClip(), KVShare()):
        allocator.allocate(context, question, 3, probe)
    assert probe.attended == [[1, 2], [0, 1, 2], [2], [2], [1]]
    assert InfoFlow().chosen_layers(1) == [0]
    assert InfoFlow(layers=(0.62, 0.65, 0.67, 0.7)).chosen_layers(36) == [22, 23, 24, 25]
    assert InfoFlow(layers=(25, 22, 22)).chosen_layers(36) == [22, 25]


def test_a_question_without_tokens_leaves_the_order_to_the_positions(
    make_context, make_question, clean_fake_probe
) -> None:
    context, question = make_context(TEXT), make_question("")
    probe = clean_fake_probe(context, question)
    for allocator in (InfoFlow(), ProphetKV(), FusionRAG(), CacheClip(), KVShare(), A3()):
        assert allocator.allocate(context, question, 5, probe).slots == (3, 4, 5, 6, 7)


def test_a_state_of_zeros_deviates_by_nothing(case) -> None:
    context, question, probe = case
    probe.states[1].key_HSD[:, 4] = 0
    scores = CacheBlend(deviation="both").scores(context, question, probe)
    assert scores.isfinite().all() and scores[4] < scores.max()


@pytest.mark.parametrize(
    ("make", "key"),
    [
        (lambda: InfoFlow(layers=()), r"infoflow\.layers"),
        (lambda: InfoFlow(layers=(-1,)), r"infoflow\.layers"),
        (lambda: InfoFlow(layers=(1.5,)), r"infoflow\.layers"),
        (lambda: InfoFlow(layers=(True,)), r"infoflow\.layers"),
        (lambda: InfoFlow(layers="last3"), r"infoflow\.layers"),
        (lambda: InfoFlow(layers=(3,)).chosen_layers(3), r"infoflow\.layers"),
        (lambda: InfoFlow(support="regions"), r"infoflow\.support"),
        (lambda: CacheBlend(layer=0), r"cacheblend\.layer"),
        (lambda: CacheBlend(deviation="all"), r"cacheblend\.deviation"),
        (lambda: KVShare(layer=0), r"kvshare\.layer"),
        (lambda: A3(pool=4), r"a3\.pool"),
        (lambda: A3(edges="none"), r"a3\.edges"),
        (lambda: CacheClip(window=0), r"cacheclip\.window"),
        (lambda: Oracle(support="all"), r"oracle\.support"),
    ],
)
def test_wrong_settings_name_their_key(make, key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        make()


@pytest.mark.parametrize("allocator", [A3(layer=3), CacheBlend(layer=3), KVShare(layer=3)])
def test_a_layer_that_the_model_does_not_have_is_named(case, allocator) -> None:
    context, question, probe = case
    with pytest.raises(ConfigError, match="layers 0 to 2"):
        allocator.allocate(context, question, 3, probe)
