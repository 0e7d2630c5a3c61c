"""PyramidKV (Cai et al., 2025, arXiv 2406.02069): SnapKV's scores, and more states in the lower layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kvrelay.core import checks
from kvrelay.core.history import PrefilledHistory, Question
from kvrelay.core.selection import Selection
from kvrelay.selection.window import WindowScored


def uniform_reason(n_layers: int, n_history: int, budget: int, beta: int) -> str | None:
    """Why these settings leave equal shares as the only choice, or None where a pyramid is possible."""
    if n_layers == 1:
        return "the model has one layer"
    if budget >= n_history:
        return "the budget is the whole history"
    if budget <= 1:
        return f"a budget of {budget} leaves nothing to move between layers"
    return "beta is 1" if beta == 1 else None


def layer_shares(n_layers: int, n_history: int, budget: int, window: int, beta: int) -> tuple[int, ...]:
    """History states of each layer: never increasing, each from 1 to T, their sum exactly L * budget.

    The published schedule, in integers: every layer has the floor w; b = budget - w is moved so that the last layer
    has lo = b // beta on top of it and the first hi = 2 b - lo, or T - w if that is less (then lo = 2 b - hi), and the
    layers between lie on a line. Published integer steps overshoot the sum (2.1 % at T = 4000, L = 28); here each
    layer takes the floor of the line and those with the largest remainders one state more. Where the window is more
    than half of the budget, the floor is half of the budget, so that a small budget still makes a pyramid.
    """
    if uniform_reason(n_layers, n_history, budget, beta):
        return (budget,) * n_layers
    floor = min(window, budget // 2)
    moved, steps = budget - floor, n_layers - 1
    low = moved // beta
    high = min(2 * moved - low, n_history - floor)
    low = 2 * moved - high
    line = [high * steps - layer * (high - low) for layer in range(n_layers)]
    shares = [floor + value // steps for value in line]
    by_remainder = sorted(range(n_layers), key=lambda layer: (-(line[layer] % steps), layer))
    for layer in by_remainder[: n_layers * budget - sum(shares)]:
        shares[layer] += 1
    return tuple(shares)


@dataclass(frozen=True, slots=True, kw_only=True)
class PyramidKV(WindowScored):
    """Each layer keeps its share of L * ``budget`` states by SnapKV's scores; see `layer_shares`.

    ``beta`` sets how steep the pyramid is: the last layer has a ``beta``-th of what is moved. A layer whose share is
    smaller than the window keeps the latest window tokens. Equal shares are never silent: the record says why.
    """

    name: ClassVar[str] = "pyramidkv"

    beta: int = 20

    def __post_init__(self) -> None:
        WindowScored.__post_init__(self)
        checks.whole_number("selector.pyramidkv.beta", self.beta, 1)

    def select(self, prefilled: PrefilledHistory, question: Question, budget: int) -> Selection:
        n_layers, n_history = prefilled.n_layers, prefilled.text.n_history
        protected, budget = prefilled.text.protected, min(budget, n_history)
        shares = layer_shares(n_layers, n_history, budget, self.window, self.beta)
        layers = tuple(
            self.kept(self.scores_HT(prefilled, layer), share, protected) for layer, share in enumerate(shares)
        )
        reason = uniform_reason(n_layers, n_history, budget, self.beta)
        return Selection(
            layers=layers, protected=protected, budget=budget, notes={} if reason is None else {"uniform": reason}
        )
