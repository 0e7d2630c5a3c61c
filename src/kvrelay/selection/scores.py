"""The mathematics that selectors share: evidence, query heads to KV heads, pooling, windows, one set for all layers.

Shape letters: Q query head here (Hq), H KV head, T history token, N prefilled token; G = Hq / H query heads a KV head.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from kvrelay.core.errors import ConfigError, UnsupportedModelError
from kvrelay.core.history import Need, PrefilledHistory
from kvrelay.core.selection import LayerSelection, expand_heads, pack, shared

Grouping = Literal["mean", "max", "sum"]
Pooling = Literal["max", "mean"]
Edges = Literal["padded", "real"]


def recorded(prefilled: PrefilledHistory, need: Need, layer: int) -> Tensor:
    """One layer's evidence (Hq, N) as float32 on that layer's device. Raises `ConfigError` if prefill has none."""
    if need not in prefilled.evidence:
        have = ", ".join(map(repr, prefilled.evidence)) or "none"
        raise ConfigError(
            f"history {prefilled.history_id} was prefilled without {need!r} (recorded: {have}); "
            "prefill it with the `needs` of every selector (key: selector)"
        )
    return prefilled.evidence[need][layer].to(prefilled.cache.layers[layer].keys_HKD.device, torch.float32)


def group_heads(mass_QT: Tensor, n_kv_heads: int, how: Grouping) -> Tensor:
    """(Hq, T) to (H, T): query heads G h ... G h + G - 1 share KV head h and are reduced to one score.

    A cache holds KV heads, so scores at query-head granularity would keep G copies (FasterDecoding/SnapKV#22).
    Raises `UnsupportedModelError` where Hq is not a multiple of H.
    """
    n_query_heads, n_tokens = mass_QT.shape
    if n_query_heads % n_kv_heads:
        raise UnsupportedModelError(
            f"{n_query_heads} query heads do not divide into {n_kv_heads} KV heads; "
            "wanted whole groups (key: model, or another selector)"
        )
    grouped = mass_QT.reshape(n_kv_heads, n_query_heads // n_kv_heads, n_tokens)
    if how == "max":
        return grouped.amax(1)
    return grouped.mean(1) if how == "mean" else grouped.sum(1)


def pool(scores_HT: Tensor, kernel: int, how: Pooling, edges: Edges) -> Tensor:
    """Each score becomes the maximum or mean of the ``kernel`` scores around it; shape unchanged.

    At the ends the kernel hangs over. A maximum is taken over real neighbours in any case. A mean counts the missing
    ones as zeros with ``edges="padded"`` (the published code: the first and last kernel // 2 scores are damped), and
    divides by the number of real neighbours with ``edges="real"``.
    """
    if kernel == 1 or scores_HT.shape[-1] == 0:
        return scores_HT
    rows, half = scores_HT[:, None], kernel // 2
    if how == "max":
        return F.max_pool1d(rows, kernel, stride=1, padding=half)[:, 0]
    return F.avg_pool1d(rows, kernel, stride=1, padding=half, count_include_pad=edges == "padded")[:, 0]


def last_tokens(n_history: int, count: int, device: torch.device) -> Tensor:
    """Mask (T,) of the last ``count`` history tokens. A mask and no sentinel score: sentinels tie (kvpress#226)."""
    return torch.arange(n_history, device=device) >= n_history - count


def one_set(prefilled: PrefilledHistory, keep_T: Tensor, scores_T: Tensor) -> tuple[LayerSelection, ...]:
    """One decision (T,) for every layer and head: one `LayerSelection` object a device, so one object as a rule."""
    made = pack(*expand_heads(keep_T, scores_T, prefilled.n_kv_heads), prefilled.text.protected)
    devices = [layer.keys_HKD.device for layer in prefilled.cache.layers]
    if set(devices) == {made.source_HK.device}:
        return shared(made, len(devices))
    copies = {
        device: replace(made, source_HK=made.source_HK.to(device), score_HK=made.score_HK.to(device))
        for device in set(devices)
    }
    return tuple(copies[device] for device in devices)


def no_scores(n_history: int) -> Tensor:
    """The scores (T,) of a selector that gives none."""
    return torch.full((n_history,), torch.nan)
