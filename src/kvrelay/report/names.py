"""How tables and figures call things, and in which order they stand: configuration names are kept in the CSV files."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kvrelay.stats import arms
from kvrelay.stats.arms import CELL, MEMORY
from kvrelay.stats.compare import METRICS, REPAIR_METRICS
from kvrelay.stats.pool import POOLED

MODELS = {
    "llama31_8b": "Llama-3.1-8B",
    "qwen2_7b": "Qwen2-7B",
    "smollm2": "SmolLM2-135M",
    "smollm2_plain": "SmolLM2-135M, no chat template",
    "qwen3_8b": "Qwen3-8B",
    "qwen3_30b": "Qwen3-30B",
    "qwen3_235b_a22b": "Qwen3-235B-A22B",
    "llama33_70b": "Llama-3.3-70B",
    "glm45_air": "GLM-4.5-Air",
}
SELECTORS = {
    "full": "FullKV",
    "none": "No history",
    "random": "Random",
    "recent": "Recent",
    "bm25": "BM25",
    "h2o": "H2O",
    "snapkv": "SnapKV",
    "pyramidkv": "PyramidKV",
    "chunkkv": "ChunkKV",
    "cam": "CaM",
    "finch": "FINCH",
}
DATASETS = {
    "longmemeval_s": "LongMemEval-S",
    "long_mt_bench_plus": "LongMTBench+",
    "personamem_128k": "PersonaMem-128K",
    "lab_longmemeval": "Lab LongMemEval",
    "tiny_longmemeval": "Tiny LongMemEval",
    "lab_long_mt_bench_plus": "Lab LongMTBench+",
    "lab_personamem": "Lab PersonaMem",
    "erasing_niah": "Erasing-NIAH",
    "lab_erasing_niah": "Lab Erasing-NIAH",
    "holdout_erasing_niah": "Erasing-NIAH holdout",
    "lab_holdout_erasing_niah": "Lab Erasing-NIAH holdout",
    "hotpotqa": "HotpotQA",
    "twowikimultihopqa": "2WikiMultiHopQA",
    "musique": "MuSiQue",
    "iirc": "IIRC",
    "lab_hotpotqa": "Lab HotpotQA",
    "lab_musique": "Lab MuSiQue",
    "location_hotpotqa": "Location, HotpotQA",
    "location_twowikimultihopqa": "Location, 2WikiMultiHopQA",
    "location_musique": "Location, MuSiQue",
    "location_iirc": "Location, IIRC",
    "lab_location": "Lab location",
    "hellobench_summarization": "HelloBench summarization",
    "hellobench_text_completion": "HelloBench text completion",
    "lab_hellobench": "Lab HelloBench",
    POOLED: "All data sets",
}
POSITIONS = {
    "original": "Original",
    "roperelay": "RoPERelay",
    "ranksync": "RankSync",
    "key_only": "Key-only",
    "query_only": "Query-only",
    "common_shift": "CommonShift",
    "half_gap": "Half-gap",
    "score": "Score",
    "reverse": "Reverse",
    "random": "Random",
}
ALLOCATORS = {
    "shift": "Shift",
    "sur": "SUR",
    "token": "Isolated tokens",
    "window": "Best window",
    "random_units": "Random units",
    "bm25_units": "BM25 units",
    "edit_local": "Edit-local",
    "infoflow": "InfoFlow",
    "cacheblend": "CacheBlend",
    "epic": "EPIC",
    "prophetkv": "ProphetKV",
    "a3": "A3",
    "cacheclip": "CacheClip",
    "kvshare": "KVShare",
    "fusionrag": "FusionRAG",
    "localized": "Localized",
    "replay": "Replay",
    "reprefill": "Re-prefill",
    "oracle": "Oracle",
}
PRIOR_WORK = ("infoflow", "cacheblend", "epic", "prophetkv", "a3", "cacheclip", "kvshare", "fusionrag")
"""Policies that carry a signal of prior work into our operator."""
ENDPOINTS = ("shift", "replay", "reprefill")
"""Arms whose extent no budget decides."""
JUDGES = {
    "qwen25_32b": "Qwen2.5-32B",
    "gpt_oss_20b": "gpt-oss-20b",
    "lexical": "Lexical, containment",
    "lexical_f1": "Lexical, F1",
    "short_answer": "Short answer",
    "human": "Human",
}
BUDGETS = {"0": "0 %", "slot": "slot", "suffix": "suffix", "all": "all"}
EXECUTORS = {"interval": "Interval", "packed": "Packed", "auto": "Auto", "custom": "Custom (experimental)"}
MEASURES = {
    "accuracy": "Accuracy, %",
    "choice_accuracy": "Choice by likelihood of the options, accuracy in %",
    "sound": "Choice read by the sound rule, %",
    "official": "Choice read by the data set's official rule, %",
    "f1": "Token F1, %",
    "em": "Exact match, %",
    "loglik": "Mean log-likelihood of the reference, nats a token",
}
_QUESTION = "source question, its placements together"
CLUSTERS = {
    "longmemeval_s": "question record",
    "long_mt_bench_plus": "conversation",
    "personamem_128k": "persona",
    "lab_longmemeval": "question record",
    "tiny_longmemeval": "question record",
    "lab_long_mt_bench_plus": "conversation",
    "lab_personamem": "persona",
    **dict.fromkeys((name for name in DATASETS if name.endswith("erasing_niah")), "deletion case"),
    **dict.fromkeys(("hotpotqa", "twowikimultihopqa", "musique", "iirc", "lab_hotpotqa", "lab_musique"), _QUESTION),
    **dict.fromkeys(("lab_location", *(name for name in DATASETS if name.startswith("location_"))), _QUESTION),
    **dict.fromkeys((name for name in DATASETS if "hellobench" in name), "question record"),
    POOLED: _QUESTION,
}
_METRIC_ORDER = {metric.name: metric.name for metric in (*METRICS, *REPAIR_METRICS)}
_KINDS: Mapping[str, Mapping[str, str]] = {
    "model": MODELS,
    "dataset": DATASETS,
    "selector": SELECTORS,
    "position": POSITIONS,
    "allocator": ALLOCATORS,
    "executor": EXECUTORS,
    "judge": JUDGES,
    "metric": _METRIC_ORDER,
}
_BUDGET = re.compile(r"([pt])(\d+)")
_RETENTION = re.compile(r"([rb])(\d+)")


def label(kind: str, name: str) -> str:
    """The printed form of a configuration name; a name that nobody listed is printed as it is."""
    if kind == "budget":
        return _budget(name)
    return _KINDS[kind].get(name, name) if kind in _KINDS else name


def rank(kind: str, name: str) -> tuple[int, int, str]:
    """Sort key: listed names in their order, others after them by the alphabet; numbers by size, not as text."""
    if kind == "budget":
        found = _BUDGET.fullmatch(name)
        if found:
            return "pt".index(found[1]) + 1, int(found[2]), name
        listed = list(BUDGETS)
        place = listed.index(name) if name in listed else len(listed)
        return (0 if place == 0 else 2 + place), 0, name
    listed = list(_KINDS.get(kind, {}))
    digits = "".join(ch for ch in name if ch.isdigit()) if kind == "retention" else ""
    return (listed.index(name) if name in listed else len(listed), int(digits or 0), name)


def cell_rank(row: Mapping[str, str]) -> tuple[tuple[int, int, str], ...]:
    """Sort key of a repair's row: data set, model, the cache that was edited, allocator, budget, executor."""
    first = ("dataset", "model", *MEMORY, "allocator", "budget", "executor")
    return tuple(rank(kind, row[kind]) for kind in (*first, *(name for name in CELL if name not in first)))


def memory(row: Mapping[str, str]) -> str:
    """The cache that was edited, in words: ``BM25 10 %, RoPERelay``; empty for a whole one that stands as it stood."""
    told = arms.memory(row)
    kept = [label("selector", told["selector"])] if "selector" in told else []
    kept += [_retention(told["retention"])] if "retention" in told else []
    moved = [label("position", told["position"])] if "position" in told else []
    return ", ".join([*([" ".join(kept)] if kept else []), *moved])


def _retention(name: str) -> str:
    found = _RETENTION.fullmatch(name)
    if found is None:
        return name
    return f"{int(found[2])} {'%' if found[1] == 'r' else 'states'}"


def _budget(name: str) -> str:
    found = _BUDGET.fullmatch(name)
    if found is None:
        return BUDGETS.get(name, name)
    return f"{int(found[2])} {'%' if found[1] == 'p' else 'tokens'}"


def kind_size(question_type: str) -> tuple[str, int]:
    """A question type that ends in a number of tokens, parted from it: ``niah-4096`` is ("niah", 4096), as is 4K."""
    found = re.fullmatch(r"(.*?)[-_ ]?(\d+)(k?)", question_type, re.IGNORECASE)
    if found is None:
        return question_type, 0
    return found[1], int(found[2]) * (1024 if found[3] else 1)


def kind_label(question_type: str) -> str:
    """Its printed form: a length in K where it is a whole number of them."""
    name, size = kind_size(question_type)
    if not size:
        return question_type
    length = f"{size // 1024}K" if size % 1024 == 0 else str(size)
    return length if name in ("", "niah") else f"{name} {length}"


def cluster_unit(dataset: str) -> str:
    """What a data set's bootstrap resamples, in words."""
    return CLUSTERS.get(dataset, "cluster of the data set")
