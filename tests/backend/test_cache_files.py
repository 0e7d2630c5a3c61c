"""Caches as files: what comes back is bit for bit what was kept; damage and another's cache are refused."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from edited_caches import prefilled
from safetensors import safe_open
from safetensors.torch import save_file
from tiny_models import keep_all, make_tiny, ragged_selection, token_ids

from kvrelay.backend import cachefile
from kvrelay.backend.cachefile import CacheIdentity, find_cache, load_cache, save_cache, tensor_sha256
from kvrelay.backend.decode import Asked, answer_rows
from kvrelay.core.cache import KVCache
from kvrelay.core.errors import AssetError
from kvrelay.core.positions import PositionPlan
from kvrelay.core.rope import RotaryTable

WHO = CacheIdentity(model="m", dtype="float32", template="t", history_id="h", tokens="i", selection="s")


def equal(one: KVCache, other: KVCache) -> bool:
    """Bit for bit, number formats included."""
    told = ("next_position", "master")
    layers = zip(one.layers, other.layers, strict=True)
    parts = [(getattr(a, part.name), getattr(b, part.name)) for a, b in layers for part in fields(a)]
    parts.append((one.rope.inv_freq, other.rope.inv_freq))
    return (
        all(a.dtype == b.dtype and tensor_sha256(a) == tensor_sha256(b) for a, b in parts)
        and all(getattr(one, name) == getattr(other, name) for name in told)
        and (one.rope.scaling, one.rope.rope_type) == (other.rope.scaling, other.rope.rope_type)
    )


@pytest.fixture
def kept(read: Callable[..., Any]) -> KVCache:
    """A ragged cache: heads and layers keep unlike numbers of states."""
    model, _ = make_tiny("llama")
    whole = read(model, token_ids(40))
    return whole.cache.restricted(ragged_selection(whole))


@pytest.mark.parametrize("family", ["llama", "qwen2-yarn", "glm4_moe"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_a_cache_comes_back_bit_for_bit_and_gives_the_same_answer(
    family: str, dtype: torch.dtype, read: Callable[..., Any], tmp_path: Path
) -> None:
    model, _ = make_tiny(family, dtype)
    whole = read(model, token_ids(40))
    for cache in (
        whole.cache,
        whole.cache.restricted(ragged_selection(whole)),
        whole.cache.restricted(keep_all(whole)),
    ):
        back = load_cache(save_cache(tmp_path, cache, WHO))
        assert equal(back, cache) and back.layers[0].keys_HKD.dtype == dtype
        assert back.content_digest() == cache.content_digest()
        table = RotaryTable.of(model.rope, 200, "cpu")
        plan = PositionPlan(
            coordinate_LHK=tuple(layer.source_HK.clamp(min=0) + 7 for layer in cache.layers), next_position=60
        )
        asked = Asked(question_ids=(3, 4, 5), max_new_tokens=6, reference_ids=(7, 8), option_ids=())
        answers = [answer_rows(model, [one.moved(plan, table)], asked)[0] for one in (cache, back)]
        assert answers[0].token_ids == answers[1].token_ids and answers[0].reference_nll == answers[1].reference_nll


def test_a_moved_cache_stays_one_that_is_not_moved_again(kept: KVCache, tmp_path: Path) -> None:
    plan = PositionPlan(
        coordinate_LHK=tuple(layer.source_HK.clamp(min=0) + 1 for layer in kept.layers), next_position=50
    )
    moved = kept.moved(plan, RotaryTable.of(kept.rope, 100, "cpu"))
    back = load_cache(save_cache(tmp_path, moved, WHO))
    assert equal(back, moved) and not back.master and back.next_position == 50


def test_layers_that_share_where_their_states_stood_share_it_again(read: Callable[..., Any], tmp_path: Path) -> None:
    model, _ = make_tiny("llama")
    whole = read(model, token_ids(40))
    cache = whole.cache.restricted(keep_all(whole))
    assert cache.layers[0].source_HK is cache.layers[1].source_HK
    path = save_cache(tmp_path, cache, WHO)
    back = load_cache(path)
    assert back.layers[0].source_HK.data_ptr() == back.layers[1].source_HK.data_ptr()
    with safe_open(path, framework="pt") as file:
        assert "source_HK.0" in file.keys() and "source_HK.1" not in file.keys()  # noqa: SIM118


def test_equal_caches_are_one_file_and_others_are_not(kept: KVCache, tmp_path: Path) -> None:
    first = save_cache(tmp_path, kept, WHO)
    assert save_cache(tmp_path, kept, WHO) == first and list(tmp_path.iterdir()) == [first]
    assert find_cache(tmp_path, WHO) == first
    for field in fields(CacheIdentity):
        other = replace(WHO, **{field.name: "another"})
        assert find_cache(tmp_path, other) is None
        with pytest.raises(AssetError, match=rf"is of another {field.name} \(.*key: keep_caches\)"):
            load_cache(first, other)
    assert equal(load_cache(first, WHO), kept)


def test_a_flipped_bit_anywhere_is_found(kept: KVCache, tmp_path: Path) -> None:
    path = save_cache(tmp_path, kept, WHO)
    whole, rng = path.read_bytes(), random.Random(4)
    head = 8 + struct.unpack("<Q", whole[:8])[0]
    places = [*range(8), *rng.sample(range(8, head), 400), *rng.sample(range(head, len(whole)), 60), len(whole) - 1]
    unseen = []
    for place in places:
        spoilt = bytearray(whole)
        spoilt[place] ^= 1 << rng.randrange(8)
        path.write_bytes(spoilt)
        try:
            back = load_cache(path, WHO)
        except AssetError:
            continue
        assert equal(back, kept)  # white space and the like in the header
        unseen.append(place)
    assert all(place < head for place in unseen) and len(unseen) < 10


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.999])
def test_a_file_that_was_cut_is_found(share: float, kept: KVCache, tmp_path: Path) -> None:
    path = save_cache(tmp_path, kept, WHO)
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(AssetError, match=r"is damaged: .*key: keep_caches"):
        load_cache(path, WHO)


def test_what_is_no_cache_of_ours_or_of_a_newer_version_is_refused(
    kept: KVCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_file({"a": torch.zeros(2)}, tmp_path / "a.b.safetensors")
    with pytest.raises(AssetError, match="does not say that it is a cache of kvrelay"):
        load_cache(tmp_path / "a.b.safetensors")
    with pytest.raises(AssetError, match="is damaged"):
        load_cache(tmp_path / "nowhere.safetensors")
    monkeypatch.setattr(cachefile, "VERSION", 2)
    path = save_cache(tmp_path, kept, WHO)
    monkeypatch.undo()
    with pytest.raises(AssetError, match=r"newer kvrelay \(version 2 of its caches; this one reads up to 1\)"):
        load_cache(path)


def test_a_file_under_anothers_name_is_refused(kept: KVCache, tmp_path: Path) -> None:
    path = save_cache(tmp_path, kept, WHO)
    renamed = path.rename(path.with_name(f"{WHO.sha256[:24]}.{'0' * 24}.safetensors"))
    with pytest.raises(AssetError, match="not the one that its name was made of"):
        load_cache(renamed, WHO)


def test_a_write_that_fails_leaves_nothing(kept: KVCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: Any, **named: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        save_cache(tmp_path, kept, WHO)
    assert list(tmp_path.iterdir()) == []


def test_views_of_a_larger_tensor_are_written_whole(tmp_path: Path) -> None:
    model, _ = make_tiny("llama")
    cache = prefilled(model, token_ids(30))
    half = replace(
        cache,
        layers=tuple(
            replace(layer, **{part.name: getattr(layer, part.name)[:, 10:] for part in fields(layer)})
            for layer in cache.layers
        ),
    )
    path = save_cache(tmp_path, half, WHO)
    assert equal(load_cache(path), half)
    with safe_open(path, framework="pt") as file:
        about = json.loads(file.metadata()["about"])
    assert set(about["sha256"]).isdisjoint(about["same"]) and about["identity"]["model"] == "m"
