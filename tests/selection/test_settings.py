"""Settings out of range are refused by the name of their key."""

from __future__ import annotations

import pytest

from kvrelay.core.checks import basis_points
from kvrelay.core.errors import ConfigError
from kvrelay.selection.bm25 import BM25
from kvrelay.selection.cam import CaM
from kvrelay.selection.chunkkv import ChunkKV
from kvrelay.selection.h2o import H2O
from kvrelay.selection.pyramidkv import PyramidKV
from kvrelay.selection.random import Random
from kvrelay.selection.snapkv import SnapKV

REFUSED = [
    (SnapKV, "snapkv", "window", 0),
    (SnapKV, "snapkv", "window", 32.0),
    (SnapKV, "snapkv", "window", True),
    (SnapKV, "snapkv", "kernel", 6),
    (SnapKV, "snapkv", "kernel", -1),
    (SnapKV, "snapkv", "pooling", "avg"),
    (SnapKV, "snapkv", "edges", "zero"),
    (SnapKV, "snapkv", "group", "first"),
    (SnapKV, "snapkv", "order", "pool"),
    (SnapKV, "snapkv", "observe", "answer"),
    (PyramidKV, "pyramidkv", "beta", 0),
    (PyramidKV, "pyramidkv", "kernel", 4),
    (ChunkKV, "chunkkv", "chunk", 0),
    (ChunkKV, "chunkkv", "observe", None),
    (H2O, "h2o", "heavy_share", 1.5),
    (H2O, "h2o", "heavy_share", float("nan")),
    (H2O, "h2o", "heavy_share", 0.33333),
    (H2O, "h2o", "recent_states", -1),
    (H2O, "h2o", "group", "first"),
    (H2O, "h2o", "normalise", "yes"),
    (BM25, "bm25", "tokens", "bpe"),
    (BM25, "bm25", "k1", 0.0),
    (BM25, "bm25", "b", "0.75"),
    (BM25, "bm25", "b", 1.01),
    (BM25, "bm25", "epsilon", -0.1),
    (BM25, "bm25", "negative_idf", "lucene"),
    (BM25, "bm25", "zero_units", "random"),
    (CaM, "cam", "window", 0),
    (CaM, "cam", "merge_window", 0),
    (CaM, "cam", "start_ratio", -0.1),
    (CaM, "cam", "group", "median"),
    (CaM, "cam", "sinks", "none"),
    (CaM, "cam", "seed", -1),
    (Random, "random", "seed", "0"),
]


@pytest.mark.parametrize(("build", "name", "field", "value"), REFUSED)
def test_refused_by_key(build, name, field, value) -> None:
    with pytest.raises(ConfigError) as caught:
        build(**{field: value})
    assert f"(key: selector.{name}.{field})" in str(caught.value)
    assert str(value) in str(caught.value)


def test_shares_are_integers() -> None:
    assert basis_points("k", 0.29) == 2900
    assert 100 * basis_points("k", 0.29) // 10_000 == 29 > int(100 * 0.29)
