"""How often nominal 95 % intervals hold the true difference: percentile and cluster-t, by number of clusters.

Differences of right and wrong answers are drawn with a known mean: a question's latent normal value is shared within
its cluster to the degree of the intraclass correlation, and the question is repaired above one threshold and regressed
below another.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy import stats

from kvrelay.stats.bootstrap import ClusterSums, Estimate, estimates

SIMULATIONS = 400
REPAIRED, REGRESSED = 0.10, 0.05
UNEVEN = (1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """Questions in each cluster, and how much of a question's latent value its cluster decides."""

    sizes: tuple[int, ...]
    correlation: float

    @property
    def label(self) -> str:
        even = len(set(self.sizes)) == 1
        return f"{len(self.sizes)} x {self.sizes[0]}" if even else f"{len(self.sizes)} uneven"


DESIGNS = tuple(
    Design(sizes=sizes, correlation=correlation)
    for sizes, correlation in (
        ((1,) * 500, 0.0),
        ((1,) * 88, 0.0),
        ((4,) * 50, 0.3),
        ((10,) * 20, 0.3),
        ((8,) * 11, 0.0),
        ((8,) * 11, 0.3),
        (UNEVEN, 0.3),
        ((40,) * 5, 0.3),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Shares of the simulations whose interval holds the truth; ``percentile_flat`` had all resamples equal."""

    clusters: str
    correlation: float
    percentile: float
    cluster_t: float
    percentile_flat: float


def simulated(design: Design, rng: np.random.Generator) -> list[Estimate]:
    """Intervals of `SIMULATIONS` experiments of one design, all from one draw of the bootstrap."""
    counts = np.array(design.sizes, dtype=float)
    up, down = stats.norm.ppf(1 - REPAIRED), stats.norm.ppf(REGRESSED)
    starts = np.concatenate([[0], np.cumsum(design.sizes)[:-1]])
    parts = []
    for _ in range(SIMULATIONS):
        shared = np.repeat(rng.standard_normal(len(counts)), design.sizes)
        own = rng.standard_normal(len(shared))
        latent = math.sqrt(design.correlation) * shared + math.sqrt(1 - design.correlation) * own
        differences = (latent > up).astype(float) - (latent < down)
        parts.append(ClusterSums(sums=np.add.reduceat(differences, starts), counts=counts))
    return estimates(parts, scales=[1.0] * SIMULATIONS)


def _holds(low: float | None, high: float | None) -> bool:
    # Means are multiples of 1 / questions, and an end that is the truth holds it.
    return low is not None and high is not None and low - 1e-12 <= REPAIRED - REGRESSED <= high + 1e-12


def measure(config: Any) -> dict[str, Any]:
    """Every design from its own seeded stream."""
    rows = []
    for number, design in enumerate(DESIGNS):
        found = simulated(design, np.random.default_rng([0, number]))
        rows.append(
            Row(
                clusters=design.label,
                correlation=design.correlation,
                percentile=sum(_holds(e.low, e.high) for e in found) / SIMULATIONS,
                cluster_t=sum(_holds(e.low_t, e.high_t) for e in found) / SIMULATIONS,
                percentile_flat=sum(e.degenerate for e in found) / SIMULATIONS,
            )
        )
    error = math.sqrt(0.95 * 0.05 / SIMULATIONS)
    lines = [
        f"{SIMULATIONS} simulations each, so that a share errs by {error:.3f}; {100 * REPAIRED:.0f} % repaired, "
        f"{100 * REGRESSED:.0f} % regressed",
        "",
        "| clusters x questions | correlation | percentile | cluster-t | all resamples equal |",
        "| -------------------- | ----------: | ---------: | --------: | ------------------: |",
        *(
            f"| {row.clusters:20} | {row.correlation:11.1f} | {row.percentile:10.3f} | {row.cluster_t:9.3f} "
            f"| {row.percentile_flat:19.3f} |"
            for row in rows
        ),
    ]
    return {"rows": [asdict(row) for row in rows], "lines": lines}
