"""What repair works on, and the protocols of those who choose what to refresh and how (SUR, sections 3 and A).

Shape letters as in `core.cache`; S suffix token (after the first deletion), U question token that is probed with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, Protocol

from torch import Tensor

from kvrelay.core.edit import Edit
from kvrelay.core.errors import EditError
from kvrelay.core.history import HistoryText, Question

Kernel = Literal["causal", "masked", "blocks"]
"""How refreshed tokens read the cache: one interval against the keys before it, any slots under one mask, or the
experimental blockwise kernel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EditedContext:
    """The tokens whose states a cache holds after a deletion, by slot.

    ``token_ids`` (n,), ``pieces`` each token's own text (together they are the edited text; a token that is only a part
    of a character may have none), ``special`` marks the chat template's tokens. Slots from ``splice`` (P) on are the
    suffix: S = n - P stale states, the base of every repair budget. ``case_id`` seeds random controls. ``slot`` is a
    place that an experiment's design holds fixed (half-open, in slots), where it has one.
    """

    token_ids: tuple[int, ...]
    pieces: tuple[str, ...]
    special: tuple[bool, ...]
    splice: int
    case_id: str
    slot: tuple[int, int] | None = None

    @classmethod
    def after(
        cls,
        edit: Edit,
        text: HistoryText,
        prefilled_ids: Sequence[int],
        *,
        held: Sequence[int] | None = None,
        case_id: str = "",
        slot_unit: str | None = None,
    ) -> EditedContext:
        """What is left of a prompt's beginning. ``held``: positions in the edited text whose states the cache holds,
        where a selector dropped some; ``slot_unit`` is the unit that stands in the fixed slot, if there is one."""
        left = edit.kept(text.n_prefilled)
        where = left if held is None else [left[position] for position in held]
        slot = None
        if slot_unit is not None:
            ((start, end),) = text.spans_of([slot_unit])
            inside = [index for index, position in enumerate(where) if start <= position < end]
            slot = (inside[0], inside[-1] + 1) if inside else None
        return cls(
            token_ids=tuple(prefilled_ids[position] for position in where),
            pieces=tuple(text.pieces[position] for position in where),
            special=tuple(text.special[position] for position in where),
            splice=sum(position < edit.splice for position in where),
            case_id=case_id,
            slot=slot,
        )

    @property
    def n_suffix(self) -> int:
        """S."""
        return len(self.token_ids) - self.splice

    @property
    def suffix_ids(self) -> tuple[int, ...]:
        return self.token_ids[self.splice :]

    @property
    def suffix_pieces(self) -> tuple[str, ...]:
        return self.pieces[self.splice :]

    @property
    def suffix_special(self) -> tuple[bool, ...]:
        return self.special[self.splice :]


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """Which slots are refreshed: ascending, each once, all in the suffix. ``notes`` go to the record."""

    slots: tuple[int, ...]
    notes: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def of_suffix(
        cls, context: EditedContext, offsets: Iterable[int], notes: Mapping[str, object] | None = None
    ) -> Allocation:
        """From positions counted from the first suffix token, in any order."""
        return cls(slots=tuple(sorted(context.splice + int(offset) for offset in offsets)), notes=dict(notes or {}))

    def checked(self, context: EditedContext, budget: int) -> Allocation:
        """Itself. Raises `EditError` unless it holds exactly ``budget`` different slots of the suffix, ascending."""
        slots = self.slots
        wrong = len(slots) != budget or any(later <= slot for slot, later in pairwise(slots))
        if wrong or (slots and (slots[0] < context.splice or slots[-1] >= len(context.token_ids))):
            raise EditError(
                f"an allocator chose {len(slots)} slots ({len(set(slots))} different) of the suffix "
                f"{context.splice} … {len(context.token_ids) - 1}; wanted exactly {budget}, ascending"
            )
        return self


def intervals(slots: Sequence[int]) -> list[tuple[int, int]]:
    """Maximal runs of consecutive slots, half-open, ascending."""
    found: list[tuple[int, int]] = []
    for slot in slots:
        if found and found[-1][1] == slot:
            found[-1] = (found[-1][0], slot + 1)
        else:
            found.append((slot, slot + 1))
    return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FreshStates:
    """One layer as a forward of the edited suffix and the question gives it, before that layer's attention.

    ``key_HSD``, ``value_HSD`` and their stale counterparts from the shifted cache; ``question_query`` (Hq, U, D) and
    ``question_key_HUD``; float32, keys rotated.
    """

    key_HSD: Tensor
    value_HSD: Tensor
    stale_key_HSD: Tensor
    stale_value_HSD: Tensor
    question_query: Tensor
    question_key_HUD: Tensor
    scaling: float


class Probe(Protocol):
    """What an allocator may look at besides tokens. Whatever it computes is thrown away and counted as selection.

    All of it comes from the shifted cache of the edited context: nothing here has seen a clean cache or an answer.
    """

    @property
    def n_layers(self) -> int: ...

    def embeddings(self, token_ids: Sequence[int]) -> Tensor:
        """Frozen input embeddings (len, hidden) in float32."""
        ...

    def question_attention(self, layers: Iterable[int], visit: Callable[[int, Tensor], None]) -> None:
        """Run the bare question's tokens over the shifted cache, at the positions after it.

        ``visit(layer, attention)`` gets each asked layer's softmax in float32, (Hq, U, n): over the context's n slots
        and the question's own tokens, of which the columns of the slots are handed on. It stops after the last layer
        that was asked for.
        """
        ...

    def fresh_states(self, layer: int) -> FreshStates:
        """Run all suffix tokens and the bare question through the layers before ``layer``, over the shifted cache."""
        ...


class CleanProbe(Probe, Protocol):
    """What only a diagnostic may look at: the states of the edited text run afresh."""

    def deviation(self) -> Tensor:
        """(L, S) float32: relative squared deviation of the shifted from the clean states, keys plus values."""
        ...


class Allocator(Protocol):
    """Chooses the states to refresh. A frozen dataclass that Hydra builds; equal inputs give equal slots.

    Optional attributes: ``fixed_budget`` (a name for records) with a method ``fixed_states(context)``, where the
    number of states follows from the context alone, whatever the budget; ``refreshes`` (False where an executor has
    nothing to do); ``reads_clean`` (True for a diagnostic, which
    gets a `CleanProbe` and is no method); ``afresh`` (True for Re-prefill, which repairs nothing).
    """

    def allocate(self, context: EditedContext, question: Question, budget: int, probe: Probe) -> Allocation:
        """Exactly ``budget`` slots of the suffix, 0 <= budget <= S."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Traversal:
    """One pass through all layers: the slots that it recomputes together, and how they read the cache."""

    slots: tuple[int, ...]
    kernel: Kernel


class Executor(Protocol):
    """How chosen slots are recomputed: a schedule of passes that run one after another on the evolving cache."""

    def schedule(self, slots: Sequence[int]) -> tuple[Traversal, ...]: ...
