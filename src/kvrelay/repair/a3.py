"""A3-derived: what fresh queries of the question find among fresh keys in an early layer (arXiv 2511.17560)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from kvrelay.core import checks
from kvrelay.core.errors import ConfigError
from kvrelay.core.history import Question
from kvrelay.core.repair import Allocation, EditedContext, FreshStates, Probe
from kvrelay.repair.ranking import settled, top_slots

Edges = Literal["real", "as_in_code"]


@dataclass(frozen=True, slots=True, kw_only=True)
class A3:
    """Refreshes the tokens with the highest pooled attention at ``layer``, all heads joined into one vector.

    pool(sum_q softmax(<concat_h q, concat_h k> / sqrt(Hq D))), over the suffix's and the question's keys, causal inside
    the question, KV heads repeated. ``pool`` neighbours are averaged; at the ends ``edges="real"`` divides by how many
    there are, "as_in_code" by ``pool``, which damps the ends.
    """

    layer: int = 1
    pool: int = 5
    edges: Edges = "real"

    def __post_init__(self) -> None:
        checks.whole_number("allocator.a3.layer", self.layer, 0)
        checks.whole_number("allocator.a3.pool", self.pool, 1)
        checks.one_of("allocator.a3.edges", self.edges, get_args(Edges))
        if self.pool % 2 == 0:
            raise ConfigError(f"allocator.a3.pool is {self.pool}; wanted an odd number (key: allocator.a3.pool)")

    def scores(self, context: EditedContext, question: Question, probe: Probe) -> Tensor:
        """(S,) float32."""
        if not question.text_ids:
            return torch.zeros(context.n_suffix)
        layer = checks.layer_of("allocator.a3.layer", self.layer, probe.n_layers)
        return self.pooled(joint_attention(probe.fresh_states(layer)))

    def pooled(self, mass_S: Tensor) -> Tensor:
        """Means over neighbours, in float64 so that equal scores stay equal to the last bit."""
        row, half = mass_S.double().cpu()[None], self.pool // 2
        return F.avg_pool1d(row, self.pool, 1, half, count_include_pad=self.edges == "as_in_code")[0].float()

    def allocate(self, context: EditedContext, question: Question, budget: int, probe: Probe) -> Allocation:
        if (done := settled(context, budget)) is not None:
            return done
        return top_slots(context, self.scores(context, question, probe), budget)


def joint_attention(states: FreshStates) -> Tensor:
    """(S,): attention of the question's tokens to the suffix's, summed over the question.

    Query heads of one KV head meet the same key, so their queries are summed instead of repeating the key.
    ``scaling`` is one head's; that of the joined vector is 1 / sqrt(Hq) of it.
    """
    n_query_heads, n_question, width = states.question_query.shape
    n_kv_heads, n_suffix, _ = states.key_HSD.shape
    query = states.question_query.reshape(n_kv_heads, -1, n_question, width).sum(1)
    keys = torch.cat([states.key_HSD, states.question_key_HUD], 1)
    logits = torch.einsum("hud,hkd->uk", query, keys) * (states.scaling * n_query_heads**-0.5)
    later = torch.ones(n_question, n_question, dtype=torch.bool, device=logits.device).triu(1)
    logits[:, n_suffix:].masked_fill_(later, -torch.inf)
    return logits.softmax(-1)[:, :n_suffix].sum(0)
