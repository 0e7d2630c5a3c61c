"""How tables and figures call things, and in which order they stand: configuration names are kept in the CSV files."""

from __future__ import annotations

from collections.abc import Mapping

from kvrelay.stats.compare import METRICS

MODELS = {
    "llama31_8b": "Llama-3.1-8B",
    "qwen2_7b": "Qwen2-7B",
    "smollm2": "SmolLM2-135M",
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
    "lab_long_mt_bench_plus": "Lab LongMTBench+",
    "lab_personamem": "Lab PersonaMem",
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
MEASURES = {
    "accuracy": "Accuracy, %",
    "choice_accuracy": "Choice by likelihood of the options, accuracy in %",
    "sound": "Choice read by the sound rule, %",
    "official": "Choice read by the data set's official rule, %",
    "f1": "Token F1, %",
    "em": "Exact match, %",
    "loglik": "Mean log-likelihood of the reference, nats a token",
}
CLUSTERS = {
    "longmemeval_s": "question record",
    "long_mt_bench_plus": "conversation",
    "personamem_128k": "persona",
    "lab_longmemeval": "question record",
    "lab_long_mt_bench_plus": "conversation",
    "lab_personamem": "persona",
}
_METRIC_ORDER = {metric.name: metric.name for metric in METRICS}
_KINDS: Mapping[str, Mapping[str, str]] = {
    "model": MODELS,
    "dataset": DATASETS,
    "selector": SELECTORS,
    "position": POSITIONS,
    "metric": _METRIC_ORDER,
}


def label(kind: str, name: str) -> str:
    """The printed form of a configuration name; a name that nobody listed is printed as it is."""
    return _KINDS[kind].get(name, name) if kind in _KINDS else name


def rank(kind: str, name: str) -> tuple[int, int, str]:
    """Sort key: listed names in their order, others after them by the alphabet; numbers by size, not as text."""
    listed = list(_KINDS.get(kind, {}))
    digits = "".join(ch for ch in name if ch.isdigit()) if kind == "retention" else ""
    return (listed.index(name) if name in listed else len(listed), int(digits or 0), name)


def cluster_unit(dataset: str) -> str:
    """What a data set's bootstrap resamples, in words."""
    return CLUSTERS.get(dataset, "cluster of the data set")
