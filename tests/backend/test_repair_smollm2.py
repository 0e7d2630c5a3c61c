"""The oracles on a real model in float32: what README and docs state comes from these numbers."""

from __future__ import annotations

import pytest
import torch
from edited_caches import Deletion, largest, states, support
from tiny_models import SMOLLM2

from kvrelay.backend.custom_gate import CustomGate
from kvrelay.backend.gate import check_gate
from kvrelay.backend.load import read_tokenizer
from kvrelay.backend.model import CausalModel
from kvrelay.backend.refresh import WorkingCache, refreshed
from kvrelay.core.cache import KVCache
from kvrelay.core.repair import Executor
from kvrelay.repair.executors import Custom, Interval, Packed

pytestmark = pytest.mark.slow
EXECUTORS: tuple[Executor, ...] = (Interval(), Packed(), Custom(experimental=True))


@pytest.fixture(scope="module")
def deletion(smollm2: CausalModel) -> Deletion:
    """700 tokens of prose, of which 150 are deleted."""
    text = " ".join(
        f"On day {day} the ferry carried {3 * day} crates of {what} to the island, and the keeper wrote it down."
        for day, what in enumerate(("salt", "apples", "rope", "paint", "lamps", "nails", "flour", "books") * 4)
    )
    return Deletion(smollm2, [(200, 350)], ids=read_tokenizer(SMOLLM2)(text)["input_ids"][:700])


@pytest.fixture(scope="module")
def noise(smollm2: CausalModel, deletion: Deletion) -> float:
    """What one rounding of every attention output moves the refreshed states by, largest over all of them.

    Root mean squares are the custom gate's (bound / 3); a largest difference over 10^6 states may be ten times that.
    """
    checks = CustomGate(smollm2).measured(WorkingCache(deletion.shifted), deletion.suffix, deletion.edited_ids)
    return 10 * max(one.bound for one in checks)


def repair(deletion: Deletion, executor: Executor, slots: list[int] | tuple[int, ...]) -> KVCache:
    gate = CustomGate(deletion.model)
    return refreshed(deletion.model, deletion.shifted, executor.schedule(slots), deletion.edited_ids, gate)[0]


@pytest.mark.parametrize("executor", EXECUTORS, ids=lambda one: type(one).__name__)
def test_replay_is_re_prefill(deletion: Deletion, noise: float, executor: Executor) -> None:
    stale = largest(deletion.shifted, deletion.clean)
    assert largest(repair(deletion, executor, deletion.suffix), deletion.clean) <= noise < stale / 100


def test_layer_0_is_clean_after_the_shift(deletion: Deletion) -> None:
    first, clean = deletion.shifted.layers[0], deletion.clean.layers[0]
    eps = torch.finfo(torch.float32).eps
    size = float(clean.keys_HKD.abs().max())
    # five roundings of the composed rotation, and the model's own angles p w, rounded at both positions
    assert float((first.keys_HKD - clean.keys_HKD).abs().max()) <= 10 * 2**0.5 * eps * size
    assert float((first.values_HKD - clean.values_HKD).abs().max()) <= 10 * eps * float(clean.values_HKD.abs().max())


@pytest.mark.parametrize("n_intervals", [1, 4, 16, 64])
def test_packed_is_interval(deletion: Deletion, noise: float, n_intervals: int) -> None:
    slots = support(deletion, n_intervals)
    packed, one_by_one = repair(deletion, Packed(), slots), repair(deletion, Interval(), slots)
    assert largest(packed, one_by_one, slots) <= noise
    assert largest(repair(deletion, EXECUTORS[2], slots), one_by_one, slots) <= noise
    others = [slot for slot in range(deletion.end) if slot not in slots]
    assert torch.equal(states(packed, others), states(deletion.shifted, others))


def test_a_window_at_the_splice_is_exact(deletion: Deletion, noise: float) -> None:
    window = deletion.suffix[:100]
    assert largest(repair(deletion, Packed(), window), deletion.clean, window) <= noise
    further = deletion.suffix[100:200]
    assert largest(repair(deletion, Packed(), further), deletion.clean, further) > 100 * noise


def test_the_model_passes_its_gate_after_all_this(smollm2: CausalModel) -> None:
    assert all(check.passed for check in check_gate(smollm2))
