"""Executors of one repair, interleaved in one run: time by fragmentation, layer errors, and where answers part ways.

A context of prose loses a passage; a fixed budget of its suffix is refreshed in more and more intervals (SUR, sections
4.4, E and G.3 to G.5). The deletion, copies of the cache and the custom kernel's gate are done before the clock runs.
"""

from __future__ import annotations

import copy
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from kvrelay.backend.custom_gate import CustomGate
from kvrelay.backend.decode import Answer, Asked, answer_rows
from kvrelay.backend.load import ModelSpec, load_model, read_tokenizer
from kvrelay.backend.model import CausalModel
from kvrelay.backend.prefill import prefill
from kvrelay.backend.probe import ModelProbe
from kvrelay.backend.refresh import WorkingCache, refresh, refreshed
from kvrelay.core.cache import KVCache
from kvrelay.core.edit import Edit
from kvrelay.core.history import HistoryText, Question
from kvrelay.core.repair import Allocation, EditedContext, Executor, intervals
from kvrelay.core.rope import RotaryTable
from kvrelay.repair.executors import Auto, Custom, Interval, Packed
from kvrelay.repair.sur import SUR
from kvrelay.run.build import build_group

CUSTOM = Custom(experimental=True)
EXECUTORS: dict[str, Executor] = {"interval": Interval(), "packed": Packed(), "auto": Auto(), "custom": CUSTOM}
FRAGMENTS = (1, 4, 16, 64, 76)
"""Intervals that the budget is cut into; 76 is 2 % of 3,800, one state an interval."""
SWEEP_BP, SUR_BP, CONTROLS_A_GEOMETRY = 200, 500, 3
TARGET_SPEED_UP, TARGET_AUTO = 16.1, 0.95
PLACES = ("harbour", "library", "mill", "orchard", "station", "market", "lighthouse", "bakery")
THINGS = ("ropes", "letters", "lamps", "apples", "maps", "barrels", "clocks", "seeds")
PEOPLE = ("Ines", "Tomas", "Wanda", "Henrik", "Salma", "Piotr", "Lucia", "Anselm")


class Case:
    """One deletion: the shifted cache of ``tokens`` edited tokens, 1/20 of them prefix, and questions about it."""

    def __init__(self, config: Any) -> None:
        spec: ModelSpec = next(iter(build_group(config["model"], "model").values()))
        self.model: CausalModel = replace(load_model(replace(spec, dtype=config["dtype"])), eos_ids=())
        self.tokenizer = read_tokenizer(spec)
        tokens = int(config["tokens"])
        self.splice = tokens // 20
        self.n_tokens = tokens + self.splice
        self.ids = self.encoded(_prose(self.n_tokens))[: self.n_tokens]
        self.edit = Edit.of_tokens([(self.splice, 2 * self.splice)], self.n_tokens)
        kept = [self.ids[place] for place in self.edit.kept(self.n_tokens)]
        self.context = EditedContext(
            token_ids=tuple(kept),
            pieces=tuple(self.tokenizer.decode([token]) for token in kept),
            special=(False,) * len(kept),
            splice=self.splice,
            case_id="bench",
        )
        self.table = RotaryTable.of(self.model.rope, self.n_tokens, self.model.device)
        text = HistoryText(
            protected=0, n_history=self.n_tokens, unit_ids=("u",), unit_spans=((0, self.n_tokens),), index_texts=("",)
        )
        dirty = prefill(self.model, self.model.row(self.ids), text, "bench", ()).cache
        self.short = dirty.edited(self.edit, self.n_tokens)
        self.shifted = self.shift()
        self.gate = CustomGate(self.model)

    def encoded(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def shift(self) -> KVCache:
        """Keys of the suffix moved to close the gap."""
        return self.short.at_source(len(self.context.token_ids), self.table)

    def question(self, number: int) -> Question:
        text = f"How many {THINGS[number % 8]} did {PEOPLE[(3 * number) % 8]} carry to the {PLACES[(5 * number) % 8]}?"
        ids = tuple(self.encoded(text))
        pieces = tuple(self.tokenizer.decode([token]) for token in ids)
        return Question(text=text, token_ids=ids, example_id=str(number), text_ids=ids, text_pieces=pieces)

    def budget(self, basis_points: int) -> int:
        return self.context.n_suffix * basis_points // 10_000

    def spread(self, n_intervals: int) -> tuple[int, ...]:
        """The sweep's budget in so many runs of equal length, evenly over the suffix."""
        n_states, room = self.budget(SWEEP_BP), self.context.n_suffix // n_intervals
        slots: list[int] = []
        for run in range(n_intervals):
            length = n_states // n_intervals + (run < n_states % n_intervals)
            start = self.splice + run * room + (room - length) // 2
            slots.extend(range(start, start + length))
        return tuple(slots)

    def drawn(self, n_intervals: int, seed: int) -> tuple[int, ...]:
        """The same with runs at random places, each within its own share of the suffix."""
        generator = torch.Generator().manual_seed(seed)
        room = self.context.n_suffix // n_intervals
        slots: list[int] = []
        for run, (start, end) in enumerate(intervals(self.spread(n_intervals))):
            first = int(torch.randint(0, room - (end - start) + 1, (1,), generator=generator))
            slots.extend(self.splice + run * room + first + offset for offset in range(end - start))
        return tuple(slots)

    def repaired(self, executor: Executor, slots: Sequence[int]) -> KVCache:
        return refreshed(self.model, self.shifted, executor.schedule(slots), self.context.token_ids, self.gate)[0]

    def answer(self, cache: KVCache, question: Question, new_tokens: int) -> Answer:
        return answer_rows(self.model, [cache], Asked(question_ids=question.token_ids, max_new_tokens=new_tokens))[0]


def _prose(n_tokens: int) -> str:
    """Sentences of facts, more than ``n_tokens`` tokens of them."""
    return " ".join(
        f"On day {day} {PEOPLE[(day * 5 + day // 8) % 8]} carried {(37 * day) % 211 + 2} {THINGS[(day * 3) % 8]} "
        f"to the {PLACES[(day + day // 64) % 8]}."
        for day in range(1, n_tokens)
    )


def timings(case: Case, supports: dict[str, tuple[int, ...]], repetitions: int) -> list[dict[str, Any]]:
    """Medians in milliseconds and medians of paired ratios; every round times each executor once, in turned order."""
    rows = []
    work, ids = WorkingCache(case.shifted), case.context.token_ids
    for name, slots in supports.items():
        case.gate.check(work, slots, ids)
        runs: dict[str, Callable[[], object]] = {
            way: partial(refresh, case.model, work, executor.schedule(slots), ids, case.gate)
            for way, executor in EXECUTORS.items()
        }
        times = _interleaved(runs, repetitions)
        rows.append({"support": name, "states": len(slots), "intervals": len(intervals(slots)), **_summary(times)})
    return rows


def _interleaved(runs: dict[str, Callable[[], object]], repetitions: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in runs}
    names = list(runs)
    for round_ in range(repetitions + 1):
        shift = round_ % len(names)
        for name in names[shift:] + names[:shift]:
            started = time.perf_counter()
            runs[name]()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            if round_:  # the first round warms caches up
                times[name].append(1000 * (time.perf_counter() - started))
    return times


def _summary(times: dict[str, list[float]]) -> dict[str, Any]:
    better = min(("interval", "packed"), key=lambda name: statistics.median(times[name]))
    return {
        "ms": {name: statistics.median(spent) for name, spent in times.items()},
        "min_ms": {name: min(spent) for name, spent in times.items()},
        "packed_over_interval": _paired(times["interval"], times["packed"]),
        "custom_over_interval": _paired(times["interval"], times["custom"]),
        "auto_over_better": _paired(times[better], times["auto"]),
    }


def _paired(slow: Sequence[float], fast: Sequence[float]) -> float:
    """Median of the ratios of one round's times."""
    return statistics.median(one / other for one, other in zip(slow, fast, strict=True))


def layer_errors(case: Case, slots: tuple[int, ...]) -> list[dict[str, Any]]:
    """Each executor's error against float32 arithmetic on the same weights and stale states; a row a layer.

    The bound on an executor's root mean square is the direct executor's own error plus what the custom gate allows two
    kernels to differ by (the triangle's inequality). Maxima are given beside it, in units of the largest state.
    """
    wide = replace(case.model, module=copy.deepcopy(case.model.module).float())
    stale = replace(
        case.shifted,
        layers=tuple(
            replace(layer, keys_HKD=layer.keys_HKD.float(), values_HKD=layer.values_HKD.float())
            for layer in case.shifted.layers
        ),
    )
    exact = _rows(refreshed(wide, stale, Packed().schedule(slots), case.context.token_ids)[0], slots)
    found = {name: _rows(case.repaired(executor, slots), slots) for name, executor in EXECUTORS.items()}
    allowed = case.gate.measured(WorkingCache(case.shifted), slots, case.context.token_ids)
    rows = []
    for at, (wanted, one) in enumerate(zip(exact, allowed, strict=True)):
        off = {name: (states[at] - wanted).abs() for name, states in found.items()}
        rms = {name: float(error.square().mean().sqrt()) for name, error in off.items()}
        rows.append(
            {
                "layer": at // 2,
                "states": ("keys", "values")[at % 2],
                "rms": rms,
                "max": {name: float(error.max()) for name, error in off.items()},
                "largest_state": float(wanted.abs().max()),
                "packed_from_interval": float((found["packed"][at] - found["interval"][at]).abs().max()),
                "bound_rms": rms["interval"] + one.bound,
                "passed": all(rms[name] <= rms["interval"] + one.bound for name in EXECUTORS),
            }
        )
    return rows


def _rows(cache: KVCache, slots: Sequence[int]) -> list[Tensor]:
    return [states[:, list(slots)].double() for one in cache.layers for states in (one.keys_HKD, one.values_HKD)]


def controls(case: Case, fragments: Sequence[int], new_tokens: int) -> dict[str, Any]:
    """How often an executor's answer parts from the direct one's: in any bit of the first logits, argmax, sequence."""
    counts = {name: {"logits": 0, "argmax": 0, "sequence": 0} for name in ("packed", "custom")}
    n_cases = 0
    for number in range(CONTROLS_A_GEOMETRY):
        for n_intervals in fragments:
            slots, question = case.drawn(n_intervals, number), case.question(n_cases)
            base = case.answer(case.repaired(EXECUTORS["interval"], slots), question, new_tokens)
            n_cases += 1
            for name, count in counts.items():
                other = case.answer(case.repaired(EXECUTORS[name], slots), question, new_tokens)
                count["logits"] += not torch.equal(base.first_logits, other.first_logits)
                count["argmax"] += bool(base.first_logits.argmax() != other.first_logits.argmax())
                count["sequence"] += base.token_ids != other.token_ids
    return {"cases": n_cases, "disagreements": counts}


def preparation(case: Case, repetitions: int) -> dict[str, Any]:
    """Scoring, units and allocation before the shift, or in a thread while the shift runs: times, and equal bits."""
    question = case.question(3)
    probe = ModelProbe(case.model, case.short, case.context, question)  # its embeddings need no shifted cache

    def allocate() -> Allocation:
        return SUR().allocate(case.context, question, case.budget(SUR_BP), probe)

    def serial() -> tuple[Allocation, KVCache]:
        return allocate(), case.shift()

    def overlapped() -> tuple[Allocation, KVCache]:
        found: list[Allocation] = []
        thread = threading.Thread(target=lambda: found.append(allocate()))
        thread.start()
        shifted = case.shift()
        thread.join()
        return found[0], shifted

    ways = {"serial": serial, "overlapped": overlapped, "scoring": allocate, "shift": case.shift}
    times = _interleaved(ways, repetitions)
    (slots, one), (other_slots, other) = serial(), overlapped()
    schedule = Auto().schedule(slots.slots)
    caches = [refreshed(case.model, cache, schedule, case.context.token_ids)[0] for cache in (one, other)]
    logits = [case.answer(cache, question, 0).first_logits for cache in caches]
    equal = {"shifted": _equal(one, other), "refreshed": _equal(*caches), "logits": torch.equal(*logits)}
    return {
        "ms": {name: statistics.median(spent) for name, spent in times.items()},
        "serial_over_overlapped": _paired(times["serial"], times["overlapped"]),
        "bitwise_equal": {"support": slots == other_slots, **equal},
    }


def _equal(one: KVCache, other: KVCache) -> bool:
    pairs = zip(one.layers, other.layers, strict=True)
    return all(torch.equal(a.keys_HKD, b.keys_HKD) and torch.equal(a.values_HKD, b.values_HKD) for a, b in pairs)


def measure(config: Any) -> dict[str, Any]:
    """The sweep, real supports, errors, controls and the overlap. What misses its target is said, not hidden."""
    case = Case(config)
    fragments = sorted({min(one, case.budget(SWEEP_BP)) for one in FRAGMENTS})
    supports = {f"{one} even runs": case.spread(one) for one in fragments}
    for number in range(2):
        question = case.question(number)
        probe = ModelProbe(case.model, case.shifted, case.context, question)
        found = SUR().allocate(case.context, question, case.budget(SUR_BP), probe)
        supports[f"SUR 5 %, question {number + 1}"] = found.slots
    timed = timings(case, supports, int(config["repetitions"]))
    errors = layer_errors(case, case.spread(fragments[len(fragments) // 2]))
    result = {
        "threads": torch.get_num_threads(),
        "timings": timed,
        "layer_errors": errors,
        "controls": controls(case, fragments, int(config["new_tokens"])),
        "preparation": preparation(case, max(5, int(config["repetitions"]))),
        "targets": {
            "packed_over_interval": timed[len(fragments) - 1]["packed_over_interval"],
            "packed_over_interval_wanted": TARGET_SPEED_UP,
            "least_auto_over_better": min(row["auto_over_better"] for row in timed),
            "auto_over_better_wanted": TARGET_AUTO,
            "errors_within_bound": all(row["passed"] for row in errors),
        },
    }
    return {**result, "told": _told(case, result)}


def _told(case: Case, found: dict[str, Any]) -> str:
    facts, context = case.model.facts, case.context
    return (
        f"{facts.name}, {facts.dtype}, {len(context.token_ids)} tokens of which {context.n_suffix} suffix, "
        f"{found['threads']} threads."
    )
