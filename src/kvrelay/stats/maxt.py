"""Westfall and Young's step-down max-T over a family of paired comparisons: what Holm would be if it saw dependence.

The cluster sums S_g of each comparison are studentised by what no sign flip changes, T = |sum S_g| / sqrt(sum S_g^2).
A flip turns a cluster's sign in all comparisons of its data set at once, because they are about the same questions;
clusters of different data sets turn independently. The j-th largest T is adjusted by the chance that the largest of it
and all smaller ones comes as far under a flip, and no p lies below that of a larger T.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from kvrelay.core.errors import DataError
from kvrelay.stats.bootstrap import ClusterSums, Floats

_BLOCK = 1024
Signs = Mapping[str, Floats]
"""Flips of one block by data set: ±1, (rows, clusters)."""


def max_t(
    parts: Sequence[ClusterSums | None], datasets: Sequence[str], *, seed: int = 0, flips: int = 10_000
) -> list[float | None]:
    """Adjusted two-sided p of each comparison; ``None`` for one that has no pair or fewer than two clusters with pairs.

    All flips where they are no more than ``flips``; else (1 + hits) / (flips + 1) over random ones. Raises `DataError`
    where comparisons of one data set are over different clusters.
    """
    made = [i for i, part in enumerate(parts) if part is not None and len(part.paired) > 1]
    adjusted: list[float | None] = [None] * len(parts)
    if not made:
        return adjusted
    sums = _by_dataset(made, parts, datasets)
    observed = np.concatenate([_studentised(np.ones((1, len(columns))), columns)[0] for columns in sums.values()])
    of = [i for name in sums for i in made if datasets[i] == name]
    ascending = np.argsort(observed, kind="stable")
    # Sums that are equal on paper differ by the roundings of G terms, none larger than one.
    reached = observed[ascending] - 1e-12 * max(len(columns) for columns in sums.values())
    hits, total = np.zeros(len(of)), 0
    sizes = {name: len(columns) for name, columns in sums.items()}
    for block in _flips(sizes, seed, flips):
        flipped = np.concatenate([_studentised(block[name], columns) for name, columns in sums.items()], axis=1)
        largest = np.maximum.accumulate(flipped[:, ascending], axis=1)
        hits += np.count_nonzero(largest >= reached, axis=0)
        total += len(largest)
    p = hits / total if _enumerable(sizes, flips) else (1 + hits) / (total + 1)
    stepped = np.maximum.accumulate(p[::-1])[::-1]
    for place, value in zip(ascending, stepped, strict=True):
        adjusted[of[place]] = float(value)
    return adjusted


def _by_dataset(made: Sequence[int], parts: Sequence[ClusterSums | None], datasets: Sequence[str]) -> dict[str, Floats]:
    """The tested comparisons' sums as columns, by data set."""
    columns: dict[str, list[Floats]] = {}
    for i in made:
        part = parts[i]
        assert part is not None
        columns.setdefault(datasets[i], []).append(part.sums)
    for name, found in columns.items():
        if len(sizes := {len(column) for column in found}) > 1:
            raise DataError(f"max-T: comparisons on {name} are over {sorted(sizes)} clusters; wanted the data set's")
    return {name: np.column_stack(found) for name, found in columns.items()}


def _studentised(signs: Floats, columns: Floats) -> Floats:
    """T under each row of signs, (rows, comparisons); zero where no difference is."""
    size = np.sqrt((columns**2).sum(axis=0))
    found: Floats = np.abs(signs @ (columns / np.where(size > 0, size, 1.0)))
    return found


def _enumerable(sizes: Mapping[str, int], flips: int) -> bool:
    return sum(sizes.values()) < 63 and 2 ** sum(sizes.values()) <= flips


def _flips(sizes: Mapping[str, int], seed: int, flips: int) -> Iterator[Signs]:
    if _enumerable(sizes, flips):
        clusters = sum(sizes.values())
        bits = (np.arange(2**clusters)[:, None] >> np.arange(clusters)) & 1
        ends = np.cumsum(list(sizes.values()))[:-1]
        yield dict(zip(sizes, np.split(2.0 * bits - 1.0, ends, axis=1), strict=True))
        return
    streams = {name: np.random.PCG64(np.random.SeedSequence([seed, flips, 2, *words(name)])) for name in sizes}
    for start in range(0, flips, _BLOCK):
        rows = min(_BLOCK, flips - start)
        yield {name: _signs(streams[name], rows, size) for name, size in sizes.items()}


def _signs(stream: np.random.PCG64, rows: int, size: int) -> Floats:
    """One bit of the raw stream a sign, whatever the machine's byte order."""
    raw = np.asarray(stream.random_raw(rows * -(-size // 64)), dtype="<u8").view(np.uint8)
    return np.unpackbits(raw.reshape(rows, -1), axis=1, count=size).astype(np.float64) * 2.0 - 1.0


def words(name: str) -> list[int]:
    """A data set's name as numbers for a seed."""
    return np.frombuffer(hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest(), dtype="<u4").tolist()
