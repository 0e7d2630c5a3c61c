"""What a plan will need, from configs and texts alone: no weights are loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvrelay.backend.model import ModelFacts
from kvrelay.backend.prompt import PromptRenderer
from kvrelay.core.history import ColumnMass, Need, WindowMass
from kvrelay.core.trim import trim
from kvrelay.run.grid import EVERYTHING, GridCell
from kvrelay.run.settings import RunSettings
from kvrelay.run.work import HistoryWork

FLOAT32_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Counts and bytes of one (model, data set). ``longest_tokens`` is measured on the longest text."""

    model: str
    dataset: str
    cells: int
    questions: int
    records_done: int
    records_missing: int
    records_failed: int
    prefills_shared: int
    prefills_unshared: int
    longest_tokens: int
    over_range: bool
    weight_bytes: int
    cache_bytes: int
    peak_bytes: int


def estimate(
    facts: ModelFacts,
    dataset: str,
    work: Sequence[HistoryWork],
    cells: Sequence[GridCell],
    failed: int,
    renderer: PromptRenderer,
    settings: RunSettings,
) -> Estimate:
    """Peak memory = weights + full cache + the fullest batch of rows + evidence + one layer's activations."""
    items = [item for history in work for item in history.items]
    missing = sum(len(item.missing) for item in items)
    n_tokens, over = _longest(facts, work, renderer, settings)
    weights = facts.n_parameters * facts.element_bytes
    cache = facts.state_bytes * n_tokens
    return Estimate(
        model=facts.name,
        dataset=dataset,
        cells=len(cells),
        questions=len(items),
        records_done=len(items) * len(cells) - missing,
        records_missing=missing,
        records_failed=failed,
        prefills_shared=sum(bool(history.missing) for history in work),
        prefills_unshared=missing,
        longest_tokens=n_tokens,
        over_range=over,
        weight_bytes=weights,
        cache_bytes=cache,
        peak_bytes=weights
        + cache
        + _rows(facts, cells, n_tokens)
        + _evidence(facts, cells, n_tokens)
        + _activations(facts, n_tokens),
    )


def _longest(
    facts: ModelFacts, work: Sequence[HistoryWork], renderer: PromptRenderer, settings: RunSettings
) -> tuple[int, bool]:
    if not work:
        return 0, False
    example = max((history.items[0].example for history in work), key=lambda one: sum(len(u.text) for u in one.units))
    if settings.max_history_tokens is not None:
        example = trim(example, settings.max_history_tokens, renderer.count)
    n_tokens = renderer.render(example).text.n_prefilled
    return n_tokens, n_tokens + settings.max_new_tokens > facts.position_range


def _rows(facts: ModelFacts, cells: Sequence[GridCell], n_tokens: int) -> int:
    """Kept caches, moved copies and the batch's own buffer; a full row is copied once, into its batch."""
    kept: dict[tuple[str, str], int] = {}
    rows = 0
    for cell in cells:
        states = n_tokens if cell.cell.retention == EVERYTHING else cell.retention.states(n_tokens)
        kept[cell.group] = 0 if cell.cell.retention == EVERYTHING else states
        rows += states if cell.cell.retention == EVERYTHING else 2 * states
    return facts.state_bytes * (sum(kept.values()) + rows)


def _evidence(facts: ModelFacts, cells: Sequence[GridCell], n_tokens: int) -> int:
    needs: set[Need] = {need for cell in cells for need in cell.selector.needs}
    recorded = sum(isinstance(need, WindowMass | ColumnMass) for need in needs)
    return recorded * facts.n_layers * facts.n_query_heads * n_tokens * FLOAT32_BYTES


def _activations(facts: ModelFacts, n_tokens: int) -> int:
    """Residual stream, normed copy, attention and the widest feed-forward product of one layer at a time."""
    return 12 * facts.hidden_size * n_tokens * facts.element_bytes


def as_lines(estimates: Sequence[Estimate]) -> list[str]:
    """The plan as text, a block a (model, data set)."""
    lines = []
    for one in estimates:
        lines += [
            f"{one.model} on {one.dataset}: {one.cells} cells x {one.questions} questions",
            f"  records   done {one.records_done} · missing {one.records_missing} · failed before {one.records_failed}",
            f"  prefills  {one.prefills_shared} with sharing · {one.prefills_unshared} without",
            f"  longest   {one.longest_tokens} tokens" + (" — BEYOND THE MODEL'S RANGE" if one.over_range else ""),
            f"  memory    weights {_size(one.weight_bytes)} · full cache {_size(one.cache_bytes)} · "
            f"peak about {_size(one.peak_bytes)}",
        ]
    return lines


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 2**30:.2f} GiB" if n_bytes >= 2**30 else f"{n_bytes / 2**20:.0f} MiB"
