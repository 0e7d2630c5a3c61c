"""What the question's tokens attend to on the shifted cache: the signal of several policies.

Shape letters: Hq query head, U question token, n slot of the context, S suffix token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from kvrelay.core.history import Question
from kvrelay.core.repair import EditedContext, Probe


def suffix_mass(
    context: EditedContext,
    question: Question,
    probe: Probe,
    layers: Iterable[int],
    reduce: Callable[[Tensor], Tensor],
) -> Tensor:
    """(S,) float32: the mean over ``layers`` of ``reduce``, from a layer's (Hq, U, n) to (n,), cut to the suffix.

    Each layer is reduced as it streams by. A question without tokens gives zeros: the order is then the positions'.
    """
    asked = sorted(set(layers))
    if not question.text_ids:
        return torch.zeros(context.n_suffix)
    found: dict[int, Tensor] = {}

    def visit(layer: int, attention: Tensor) -> None:
        found[layer] = reduce(attention.float())[context.splice :]

    probe.question_attention(asked, visit)
    return torch.stack([found[layer].cpu() for layer in asked]).mean(0)


def total(attention: Tensor) -> Tensor:
    """Attention summed over heads and question tokens: (n,)."""
    return attention.sum((0, 1))


def among_context(attention: Tensor) -> Tensor:
    """The softmax over the context's slots alone: what the question's own tokens took is given back, by proportion."""
    return attention / attention.sum(-1, keepdim=True).clamp_min(torch.finfo(attention.dtype).tiny)
