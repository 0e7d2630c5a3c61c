"""What a model must show before anything is measured with it.

Four checks on a short text: its attention scaling is as configured; a keep-all cache gives the logits of one pass
(identity); moved by a constant together with its question it still does (translation invariance); and repairing every
token after a deletion gives the logits of a fresh prefill (Replay = Re-prefill).

The bound is derived, not chosen: the same logits are computed with every cached key disturbed by as much as one
rounding (of the cache's type, or of float32 angles at the largest position), and with the text read in two pieces.
Whatever these harmless changes move the logits by (root mean square over all logits of the question), a correct model
may move them by, times a margin.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from kvrelay.backend.attention import CausalPrefill
from kvrelay.backend.decode import batched_cache
from kvrelay.backend.layers import capture_cache
from kvrelay.backend.model import CausalModel
from kvrelay.backend.prefill import full_cache
from kvrelay.backend.refresh import refresh_slots
from kvrelay.core.cache import KVCache
from kvrelay.core.edit import Edit
from kvrelay.core.errors import InvariantError
from kvrelay.core.positions import PositionPlan
from kvrelay.core.rope import RotaryTable

MARGIN = 3.0
"""The root mean square over some 10^5 logits hardly depends on the sample; a route may contain a few roundings."""

SPARSE_DRAWS = 3
GATE_TOKENS = 48
SHIFT = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class GateCheck:
    """One check: the logit difference seen (root mean square) and the derived bound that it must stay under."""

    name: str
    difference: float
    bound: float

    @property
    def passed(self) -> bool:
        return self.difference <= self.bound and math.isfinite(self.difference)


def check_gate(model: CausalModel, expected_scaling: float | None = None, seed: int = 0) -> list[GateCheck]:
    """Run all checks; `InvariantError` names the first that fails and by how much."""
    checks = [*_scaling(model, expected_scaling), *_Probe(model, seed).checks()]
    for check in checks:
        if not math.isfinite(check.difference):
            raise InvariantError(
                f"model {model.facts.name} fails its gate at {check.name!r}: its logits are not finite. Either it "
                f"overflows {model.facts.dtype} (key: model.{model.facts.name}.dtype; bfloat16 and float32 reach "
                "further), or its weights or rotary settings are broken (keys: model.*.source, model.*.rope_parameters)"
            )
        if not check.passed:
            raise InvariantError(
                f"model {model.facts.name} fails its gate at {check.name!r}: difference {check.difference:.3g}, "
                f"bound {check.bound:.3g}. Its rotary settings are not what its weights or its config say "
                "(keys: model.*.rope_parameters, model.*.expected_attention_scaling)"
            )
    return checks


def _scaling(model: CausalModel, expected: float | None) -> list[GateCheck]:
    rope = model.rope
    if expected is not None:
        wanted = expected
    elif rope.rope_type == "yarn":
        return []
    else:
        wanted = 1.0
    return [GateCheck(name="attention scaling", difference=abs(rope.scaling - wanted), bound=1e-6)]


class _Probe:
    """A seeded token text, its one-pass logits, and the same logits by the routes that are to be checked."""

    def __init__(self, model: CausalModel, seed: int) -> None:
        self.model = model
        generator = torch.Generator().manual_seed(seed)
        n_tokens = min(GATE_TOKENS, model.facts.position_range // 2)
        self.ids = torch.randint(0, model.facts.vocab_size, (1, n_tokens), generator=generator).to(model.device)
        self.n_question = n_tokens // 4
        self.n_history = n_tokens - self.n_question
        self.generator = generator
        self.shift = min(SHIFT, model.facts.position_range - n_tokens)
        self.table = RotaryTable.of(model.rope, n_tokens + self.shift, model.device)

    def checks(self) -> list[GateCheck]:
        whole = self.one_pass(self.ids)
        history = self.read(self.ids[:, : self.n_history])
        question = self.ids[:, self.n_history :]
        stepwise = self.distance(self.ask(history, question), whole)
        one_rounding = torch.finfo(self.model.dtype).eps
        angles = max(one_rounding, torch.finfo(torch.float32).eps * (self.shift + self.n_history))
        near = MARGIN * (stepwise + self.noise(history, question, one_rounding))
        far = MARGIN * (stepwise + self.noise(history, question, angles))
        moved = self.distance(self.ask(self.moved(history, self.shift), question), whole)
        replayed = self.distance(self.ask(self.replayed(), question), self.one_pass(self._edited_ids()))
        identity = self.distance(self.ask(self.moved(history, 0), question), whole)
        return [
            GateCheck(name="identity", difference=identity, bound=near),
            GateCheck(name="translation invariance", difference=moved, bound=far),
            GateCheck(name="replay equals re-prefill", difference=replayed, bound=far),
        ]

    def one_pass(self, ids: Tensor) -> Tensor:
        """Logits (Q, vocabulary) of the last Q tokens, everything read at once."""
        hidden = self.model.forward(ids, self._arange(ids), capture_cache(self.model.facts.n_layers), CausalPrefill())
        return self.model.logits(hidden[0, -self.n_question :])

    def read(self, ids: Tensor) -> KVCache:
        captured = capture_cache(self.model.facts.n_layers)
        self.model.forward(ids, self._arange(ids), captured, CausalPrefill())
        return full_cache(self.model, captured, ids.shape[1])

    def ask(self, cache: KVCache, question: Tensor) -> Tensor:
        buffer, attend = batched_cache([cache], question.shape[1])
        positions = self._arange(question) + cache.next_position
        return self.model.logits(self.model.forward(question, positions, buffer, attend)[0])

    def moved(self, cache: KVCache, shift: int) -> KVCache:
        plan = PositionPlan(
            coordinate_LHK=tuple(layer.coordinate_HK + shift for layer in cache.layers),
            next_position=cache.next_position + shift,
        )
        return cache.moved(plan, self.table)

    def _edited_ids(self) -> Tensor:
        cut = self.n_history // 3
        return torch.cat([self.ids[:, :cut], self.ids[:, 2 * cut :]], 1)

    def replayed(self) -> KVCache:
        """The history less its middle third: suffix shifted back, then every suffix token recomputed."""
        cut = self.n_history // 3
        n_left = self.n_history - cut
        whole = self.read(self.ids[:, : self.n_history])
        edit = Edit.of_tokens([(cut, 2 * cut)], self.n_history)
        shifted = whole.edited(edit, self.n_history).at_source(n_left, self.table)
        return refresh_slots(self.model, shifted, range(cut, n_left), self._edited_ids()[0, cut:n_left].tolist())

    def noise(self, cache: KVCache, question: Tensor, relative: float) -> float:
        """How far the logits move when every cached key moves by ``relative`` of its size.

        In a mixture of experts one rounding can send a token to another expert, and one draw may not show it: there
        the largest of several draws counts.
        """
        sparse = getattr(self.model.module.config, "num_experts_per_tok", None)
        undisturbed = self.ask(cache, question)
        found = []
        for _ in range(SPARSE_DRAWS if sparse else 1):
            layers = tuple(replace(layer, keys_HKD=self._disturbed(layer.keys_HKD, relative)) for layer in cache.layers)
            found.append(self.distance(self.ask(replace(cache, layers=layers), question), undisturbed))
        return max(found)

    def _disturbed(self, keys: Tensor, relative: float) -> Tensor:
        signs = torch.randint(0, 2, keys.shape, generator=self.generator).to(keys.device) * 2 - 1
        wide = keys.double() + signs * relative * keys.double().norm(dim=-1, keepdim=True) / keys.shape[-1] ** 0.5
        return wide.to(keys.dtype)

    @staticmethod
    def distance(one: Tensor, other: Tensor) -> float:
        return float((one.double() - other.double()).square().mean().sqrt())

    def _arange(self, ids: Tensor) -> Tensor:
        return torch.arange(ids.shape[1], device=ids.device)[None]
