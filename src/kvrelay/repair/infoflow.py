"""InfoFlow-motivated: what the question reads in the last layers (arXiv 2603.05353), under our operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from torch import Tensor

from kvrelay.core import checks
from kvrelay.core.errors import ConfigError
from kvrelay.core.history import Question
from kvrelay.core.repair import Allocation, EditedContext, Probe
from kvrelay.repair.admission import Support, supported
from kvrelay.repair.attention import suffix_mass
from kvrelay.repair.ranking import settled

KEY = "allocator.infoflow.layers"


@dataclass(frozen=True, slots=True, kw_only=True)
class InfoFlow:
    """Refreshes the tokens with the highest mean over ``layers`` of || mean_h A_l[h, :, k] ||_2 over question tokens.

    ``layers``: "last2", layers counted from 0 (the authors' configurations have 22 to 25), or depths below 1 (0.65 is
    layer floor(0.65 L)). ``support="units"``: SUR's units by the sum of these scores, since the paper says that its
    comparison changes the support too.
    """

    layers: Literal["last2"] | tuple[int | float, ...] = "last2"
    support: Support = "tokens"

    def __post_init__(self) -> None:
        checks.one_of("allocator.infoflow.support", self.support, get_args(Support))
        listed = isinstance(self.layers, tuple) and bool(self.layers) and all(map(_is_place, self.layers))
        if self.layers != "last2" and not listed:
            raise ConfigError(
                f"{KEY} is {self.layers!r}; wanted last2, or a list of layers (0, 1, …) or depths below 1 (key: {KEY})"
            )

    def scores(self, context: EditedContext, question: Question, probe: Probe) -> Tensor:
        """(S,) float32."""
        return suffix_mass(context, question, probe, self.chosen_layers(probe.n_layers), _read)

    def chosen_layers(self, n_layers: int) -> list[int]:
        """Ascending, each once. Raises `ConfigError` for a layer that the model does not have."""
        if isinstance(self.layers, str):
            return list(range(max(0, n_layers - 2), n_layers))
        places = {place if isinstance(place, int) else int(place * n_layers) for place in self.layers}
        return sorted(checks.layer_of(KEY, place, n_layers) for place in places)

    def allocate(self, context: EditedContext, question: Question, budget: int, probe: Probe) -> Allocation:
        if (done := settled(context, budget)) is not None:
            return done
        return supported(context, self.scores(context, question, probe), budget, self.support)


def _read(attention: Tensor) -> Tensor:
    return attention.mean(0).norm(dim=0)


def _is_place(place: object) -> bool:
    if isinstance(place, bool):
        return False
    return place >= 0 if isinstance(place, int) else isinstance(place, float) and 0 <= place < 1
