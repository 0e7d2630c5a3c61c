"""Re-rotation against its literal two-step definition, both timed in one run (8 heads x 8192 states x 128).

The literal reference computes both positions' factors per head at
full width and turns the keys twice; the fast path gathers from a table, composes one rotation and turns them once.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from kvrelay.core.errors import InvariantError
from kvrelay.core.rope import RotarySpec, RotaryTable, rotate

U = 2.0**-24
MOVE_BOUND = 5 * 2**0.5 + 2
"""How far a float32 move may be from the exact one, in U times the pair's length (derived in the tests of rope)."""
ROPE_THETA = 500_000.0
MIN_PAIRS = 7
HEADS, STATES, WIDTH = 8, 8192, 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One case: medians in milliseconds, ratios as medians of paired ratios, errors over all elements.

    ``fast_ms`` composes and rotates, with the table made before; ``rotate_ms`` rotates alone (further layers of one
    selection); ``table_ms`` makes the table that serves all layers of a prompt, ``ratio_with_table`` charges it to
    this one. ``ratio_of_minima`` is what a machine without other work would show. ``max_ulp`` is the difference to the
    literal result in units of the output's last place at the length of the pair (x, y); the two errors are against
    float64, in U times that length, before the last cast.
    """

    dtype: str
    indices: str
    literal_ms: float
    fast_ms: float
    rotate_ms: float
    table_ms: float
    ratio: float
    ratio_with_table: float
    ratio_of_minima: float
    identical: float
    max_ulp: float
    fast_error_u: float
    literal_error_u: float

    @property
    def equal_within_a_rounding(self) -> bool:
        """One last place where the cast rounds (half precision); in float32 both keep the derived bound instead."""
        exact_enough = self.fast_error_u <= MOVE_BOUND
        return exact_enough and (self.dtype == "float32" or self.max_ulp <= 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Keys (H, K, D) and where each head's states come from and go to; ``rope`` and N give the table."""

    rope: RotarySpec
    n_prefilled: int
    keys: Tensor
    source_HK: Tensor
    target_HK: Tensor
    shared: bool


def literal(keys: Tensor, rope: RotarySpec, source_HK: Tensor, target_HK: Tensor) -> Tensor:
    """Appendix A as written, (H, K, D): inverse rotation divided by c^2 + s^2, target rotation, one cast."""
    return two_step(keys.float(), rope, source_HK, target_HK).to(keys.dtype)


def two_step(keys: Tensor, rope: RotarySpec, source_HK: Tensor, target_HK: Tensor) -> Tensor:
    """The same in the dtype of ``keys``, from float32 factors."""
    cos, sin = _full_width(rope, source_HK, keys.dtype)
    raw = (keys * cos - _rotate_half(keys) * sin) / (cos * cos + sin * sin)
    cos, sin = _full_width(rope, target_HK, keys.dtype)
    return raw * cos + _rotate_half(raw) * sin


def _full_width(rope: RotarySpec, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    angles = positions.float()[..., None] * rope.inv_freq
    angles = torch.cat((angles, angles), -1)
    return (angles.cos() * rope.scaling).to(dtype), (angles.sin() * rope.scaling).to(dtype)


def _rotate_half(keys: Tensor) -> Tensor:
    x, y = keys.chunk(2, -1)
    return torch.cat((-y, x), -1)


def make_case(heads: int, states: int, width: int, dtype: torch.dtype, shared: bool) -> Case:
    """A tenth of a history, drawn once (shared) or for each head, and compacted to 0 .. K - 1."""
    draw = torch.Generator().manual_seed(0)
    n_prefilled = 10 * states
    rows = [torch.randperm(n_prefilled, generator=draw)[:states].sort().values for _ in range(1 if shared else heads)]
    return Case(
        rope=RotarySpec(inv_freq=1.0 / ROPE_THETA ** (torch.arange(0, width, 2) / width)),
        n_prefilled=n_prefilled,
        keys=torch.randn(heads, states, width, generator=draw).to(dtype),
        source_HK=torch.stack(rows).expand(heads, states).contiguous(),
        target_HK=torch.arange(states).expand(heads, states).contiguous(),
        shared=shared,
    )


def compare(case: Case, pairs: int) -> Row:
    """Interleaved: every round times each way once, so that both see the same machine."""
    table = RotaryTable.of(case.rope, case.n_prefilled, "cpu")
    source, target = (case.source_HK[0], case.target_HK[0]) if case.shared else (case.source_HK, case.target_HK)
    factors = table.composed(source, target)
    ways: dict[str, Callable[[], object]] = {
        "literal": lambda: literal(case.keys, case.rope, case.source_HK, case.target_HK),
        "fast": lambda: rotate(case.keys, *table.composed(source, target)),
        "rotate": lambda: rotate(case.keys, *factors),
        "table": lambda: RotaryTable.of(case.rope, case.n_prefilled, "cpu"),
    }
    for way in ways.values():
        way()
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(max(pairs, MIN_PAIRS)):
        for name, way in ways.items():
            times[name].append(_milliseconds(way))
    paired = list(zip(times["literal"], times["fast"], times["table"], strict=True))
    return Row(
        dtype=str(case.keys.dtype).removeprefix("torch."),
        indices="shared" if case.shared else "per head",
        ratio=statistics.median(slow / fast for slow, fast, _ in paired),
        ratio_with_table=statistics.median(slow / (fast + made) for slow, fast, made in paired),
        ratio_of_minima=min(times["literal"]) / min(times["fast"]),
        **{f"{name}_ms": statistics.median(spent) for name, spent in times.items()},
        **_differences(case, rotate(case.keys, *factors), rotate(case.keys.float(), *factors)),
    )


def _milliseconds(way: Callable[[], object]) -> float:
    start = time.perf_counter()
    way()
    return 1000 * (time.perf_counter() - start)


def _differences(case: Case, fast: Tensor, fast_float: Tensor) -> dict[str, float]:
    """Head by head, because float64 at full width is large."""
    worst = dict.fromkeys(("max_ulp", "fast_error_u", "literal_error_u"), 0.0)
    identical = 0
    for head in range(len(case.keys)):
        one = case.keys[head], case.rope, case.source_HK[head], case.target_HK[head]
        slow_float = two_step(one[0].float(), *one[1:])
        slow, exact = slow_float.to(fast.dtype), two_step(one[0].double(), *one[1:])
        length = torch.hypot(*exact.chunk(2, -1)).repeat(1, 2)
        last_place = 2 ** length.log2().floor() * torch.finfo(fast.dtype).eps
        identical += int((slow == fast[head]).sum())
        found = {
            "max_ulp": (slow.double() - fast[head].double()).abs() / last_place,
            "fast_error_u": (fast_float[head].double() - exact).abs() / length / U,
            "literal_error_u": (slow_float.double() - exact).abs() / length / U,
        }
        worst = {name: max(worst[name], float(error.max())) for name, error in found.items()}
    return {"identical": identical / fast.numel(), **worst}


COLUMNS: dict[str, Callable[[Row], str]] = {
    "literal ms": lambda row: f"{row.literal_ms:.1f}",
    "fast ms": lambda row: f"{row.fast_ms:.1f}",
    "ratio": lambda row: f"{row.ratio:.1f}",
    "of minima": lambda row: f"{row.ratio_of_minima:.1f}",
    "rotate ms": lambda row: f"{row.rotate_ms:.1f}",
    "table ms": lambda row: f"{row.table_ms:.1f}",
    "ratio+table": lambda row: f"{row.ratio_with_table:.1f}",
    "identical": lambda row: f"{row.identical:.5f}",
    "max ulp": lambda row: f"{row.max_ulp:.2f}",
    "error u": lambda row: f"{row.fast_error_u:.2f}",
    "literal u": lambda row: f"{row.literal_error_u:.2f}",
    "equal": lambda row: "yes" if row.equal_within_a_rounding else "NO",
}


def render(rows: list[Row]) -> list[str]:
    """A Markdown table, one case a line."""
    lines = [["dtype", "indices", *COLUMNS]]
    lines += [[row.dtype, row.indices, *(cell(row) for cell in COLUMNS.values())] for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    return [f"| {' | '.join(map(str.rjust, line, widths))} |" for line in lines]


def measure(config: Any) -> dict[str, Any]:
    """All cases. Raises `InvariantError` where a result is not equal to the literal one within its bound."""
    rows = [
        compare(make_case(HEADS, STATES, WIDTH, dtype, shared), config["repetitions"])
        for dtype in (torch.bfloat16, torch.float32)
        for shared in (True, False)
    ]
    wrong = [f"{row.dtype}, {row.indices}" for row in rows if not row.equal_within_a_rounding]
    if wrong:
        raise InvariantError(f"re-rotation differs from its literal definition by more than its bound: {wrong}")
    return {
        "rows": [asdict(row) for row in rows],
        "lines": [f"{HEADS} heads x {STATES} states x {WIDTH}, {torch.get_num_threads()} threads", "", *render(rows)],
    }
