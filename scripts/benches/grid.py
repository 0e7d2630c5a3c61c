"""What sharing one prefill is worth: prefill alone, one FullKV answer, the whole grid, and the grid cell by cell."""

from __future__ import annotations

import dataclasses
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kvrelay.backend.decode import Asked, answer_rows
from kvrelay.backend.load import ModelSpec, load_model
from kvrelay.backend.model import CausalModel
from kvrelay.backend.prefill import prefill
from kvrelay.backend.recorders import recorder_for
from kvrelay.core.history import ColumnMass, HistoryText, Need, PrefilledHistory, Question, WindowMass
from kvrelay.core.rope import RotaryTable
from kvrelay.run.batches import Row, batches
from kvrelay.run.build import build_group
from kvrelay.run.grid import Components, GridCell, cells_of
from kvrelay.run.settings import RunSettings

UNIT_TOKENS = 50
PROTECTED = 30
QUESTION_TOKENS = 30
NO_EOS: tuple[int, ...] = ()


class Grid:
    """One seeded history of random tokens, one question, and the cells of Table 1 on it."""

    def __init__(self, config: Any, tokens: int) -> None:
        spec: ModelSpec = next(iter(build_group(config["model"], "model").values()))
        self.model: CausalModel = dataclasses.replace(
            load_model(dataclasses.replace(spec, dtype=config["dtype"])), eos_ids=NO_EOS
        )
        parts = Components(
            selectors=build_group(config["selector"], "selector"),
            retentions=build_group(config["retention"], "retention"),
            positions=build_group(config["position"], "position"),
        )
        self.cells = cells_of("m", {}, "d", parts, RunSettings(name="bench"))
        generator = torch.Generator().manual_seed(0)
        vocabulary = self.model.facts.vocab_size
        self.ids = torch.randint(0, vocabulary, (1, PROTECTED + tokens), generator=generator)
        asked = torch.randint(0, vocabulary, (QUESTION_TOKENS,), generator=generator).tolist()
        self.asked = Asked(question_ids=tuple(asked), max_new_tokens=config["new_tokens"])
        self.question = Question(text="v7 of w3", token_ids=tuple(asked))
        self.text = _text(tokens)
        self.table = RotaryTable.of(self.model.rope, PROTECTED + tokens + 1, self.model.device)

    def read(self, needs: Sequence[Need] = ()) -> PrefilledHistory:
        return prefill(self.model, self.ids, self.text, "bench", needs)

    def full_answer(self) -> None:
        """What one FullKV answer costs: prefill, question, answer."""
        answer_rows(self.model, [self.read().cache], self.asked)

    def cell(self, cell: GridCell) -> None:
        """One cell the usual way, with a prefill of its own."""
        self._answer(self.read(sorted(cell.selector.needs, key=repr)), [cell])

    def cell_by_cell(self) -> None:
        """Every cell the usual way, one after another."""
        for cell in self.cells:
            self.cell(cell)

    def whole(self) -> None:
        """All cells from one prefill; a full cache moved to where it stands already is the same row, answered once."""
        needs = sorted({need for cell in self.cells for need in cell.selector.needs}, key=repr)
        moved_full = [cell for cell in self.cells if cell.cell.selector == "full" and cell.cell.position != "original"]
        self._answer(self.read(needs), [cell for cell in self.cells if cell not in moved_full])

    def _answer(self, prefilled: PrefilledHistory, cells: Sequence[GridCell]) -> None:
        made: dict[tuple[str, str], Any] = {}
        rows = []
        for cell in cells:
            if cell.group not in made:
                budget = cell.retention.states(self.text.n_history)
                selection = cell.selector.select(prefilled, self.question, budget)
                made[cell.group] = selection, prefilled.cache.restricted(selection)
            selection, kept = made[cell.group]
            plan = cell.position.place(selection, self.text.n_prefilled, "bench")
            rows.append(Row(cell=cell, kept=None, cache=kept.moved(plan, self.table), relocate_s=0.0))  # type: ignore[arg-type]
        for batch in batches(rows, limit=16):
            answer_rows(self.model, [row.cache for row in batch], self.asked)


def _text(tokens: int) -> HistoryText:
    spans = tuple((start, min(start + UNIT_TOKENS, tokens)) for start in range(0, tokens, UNIT_TOKENS))
    return HistoryText(
        protected=PROTECTED,
        n_history=tokens,
        unit_ids=tuple(str(index) for index in range(len(spans))),
        unit_spans=spans,
        index_texts=tuple(f"v{index % 11} of w{index % 7}" for index in range(len(spans))),
    )


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call; an accelerator's queue is waited for."""
    started = time.perf_counter()
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - started


def measure(config: Any) -> dict[str, Any]:
    """Times in seconds, medians of interleaved repetitions; ratios are medians of the pairs' ratios."""
    grid = Grid(config, config["tokens"])
    window: list[Need] = sorted(
        {n for c in grid.cells for n in c.selector.needs if isinstance(n, WindowMass)}, key=repr
    )
    ways: dict[str, Callable[[], object]] = {
        "prefill": grid.read,
        "prefill + window evidence": lambda: grid.read(window),
        "prefill + column mass": lambda: grid.read([ColumnMass()]),
        "one FullKV answer": grid.full_answer,
        "whole grid": grid.whole,
    }
    grid.full_answer()
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(config["repetitions"]):
        for name, work in ways.items():
            times[name].append(seconds(work))
            _say(f"{name}: {times[name][-1]:.2f} s")
    times["cell by cell"] = [seconds(grid.cell_by_cell) for _ in range(config["cell_by_cell"])]
    needs = sorted({need for cell in grid.cells for need in cell.selector.needs}, key=repr)
    memory = {tokens: _evidence_bytes(grid.model, needs, tokens) for tokens in config["memory_tokens"]}
    return {"cells": len(grid.cells), "times": times, **_ratios(times), "evidence_bytes": memory} | {
        "lines": _lines(config, grid, times, memory)
    }


def _ratios(times: dict[str, list[float]]) -> dict[str, Any]:
    def ratio(one: str, other: str) -> float:
        if len(times[one]) != len(times[other]):
            return statistics.median(times[one]) / statistics.median(times[other])
        return statistics.median(a / b for a, b in zip(times[one], times[other], strict=True))

    return {
        "ratios": {
            "whole grid / one FullKV answer": ratio("whole grid", "one FullKV answer"),
            "cell by cell / whole grid": ratio("cell by cell", "whole grid"),
            "window evidence / prefill": ratio("prefill + window evidence", "prefill"),
            "column mass / prefill": ratio("prefill + column mass", "prefill"),
        }
    }


class LargestTensor(TorchDispatchMode):
    """Remembers the bytes of the largest tensor that any operation gave while it was in force."""

    def __init__(self) -> None:
        super().__init__()
        self.n_bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for one in out if isinstance(out, tuple | list) else (out,):
            if isinstance(one, torch.Tensor):
                self.n_bytes = max(self.n_bytes, one.untyped_storage().nbytes())
        return out


def _evidence_bytes(model: CausalModel, needs: Sequence[Need], tokens: int) -> dict[str, int]:
    """What recording adds to one layer: the evidence kept (all layers) and the largest tensor that it makes."""
    facts, generator = model.facts, torch.Generator().manual_seed(0)
    shape = (tokens + PROTECTED, facts.head_dim)
    query = torch.randn(1, facts.n_query_heads, *shape, generator=generator).to(model.dtype)
    key = torch.randn(1, facts.n_kv_heads, *shape, generator=generator).to(model.dtype)
    kept = 0
    with LargestTensor() as largest:
        for need in needs:
            recorder = recorder_for(need, _text(tokens))
            recorder.record(0, query, key, facts.head_dim**-0.5)
            kept += recorder.mass_L[0].untyped_storage().nbytes() * facts.n_layers
    return {"kept": kept, "largest": largest.n_bytes, "t_by_t": facts.n_query_heads * shape[0] ** 2 * 4}


def _lines(config: Any, grid: Grid, times: dict[str, list[float]], memory: dict[int, dict[str, int]]) -> list[str]:
    lines = [
        f"{grid.model.facts.name}, {config['dtype']}, {config['tokens']} history tokens, one question of "
        f"{QUESTION_TOKENS}, {config['new_tokens']} new tokens, {torch.get_num_threads()} threads",
        "",
        "| what | median s | min | max | runs |",
        "| ---- | -------: | --: | --: | ---: |",
    ]
    for name, values in times.items():
        shown = f"{name} ({len(grid.cells)} cells)" if name in ("whole grid", "cell by cell") else name
        row = f"| {shown} | {statistics.median(values):.2f} | {min(values):.2f} | {max(values):.2f} | {len(values)} |"
        lines.append(row)
    lines += ["", "| ratio (median of pairs; of medians for cell by cell) | value |", "| ----- | ----: |"]
    lines += [f"| {name} | {value:.2f} |" for name, value in _ratios(times)["ratios"].items()]
    lines += [
        "",
        "| history tokens | evidence kept, all layers | largest tensor while recording | a T x T matrix would be |",
    ]
    lines += ["| ----: | ----: | ----: | ----: |"]
    for tokens, size in memory.items():
        sizes = " | ".join(f"{size[key] / 2**20:.1f} MiB" for key in ("kept", "largest", "t_by_t"))
        lines.append(f"| {tokens} | {sizes} |")
    return lines


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
