"""Repairs of several caches in one run: each stands under its own name, and beside its own arms alone."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from stored_records import record

from kvrelay.report import mixed
from kvrelay.report.names import memory
from kvrelay.run.record import Cell, RepairFacts, RunRecord
from kvrelay.stats.arms import MEMORY
from tests.report.deletion_reports import csv_rows, grid, part_of, reported
from tests.stats.deletion_study import Files, deletion_files, together

SHIFT, SUR, REPREFILL = ("shift", "0", ""), ("sur", "p05", "packed"), ("reprefill", "all", "")
BEFORE, AFTER, WHOLE = ("bm25", "r10", "original"), ("bm25", "r10", "roperelay"), ("full", "all", "original")
WORSE = {SHIFT: "0000", SUR: "1100", REPREFILL: "1111"}
BETTER = {SHIFT: "1000", SUR: "1111", REPREFILL: "1111"}
TOKENS = ("token", "p05", "packed")


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (WHOLE, ""),
        (("full", "r10", "original"), ""),
        (("full", "all", "roperelay"), "RoPERelay"),
        (BEFORE, "BM25 10 %"),
        (AFTER, "BM25 10 %, RoPERelay"),
        (("snapkv", "b2048", "key_only"), "SnapKV 2048 states, Key-only"),
        (("bm25", "half", "original"), "BM25 half"),
        (("none", "nothing", "original"), "No history"),
    ],
)
def test_a_cache_is_named_where_it_is_not_whole_and_in_place(names: tuple[str, str, str], told: str) -> None:
    assert memory(dict(zip(MEMORY, names, strict=True))) == told


def two_caches(datasets: tuple[str, ...] = ("lab_hotpotqa", "lab_musique"), rows: int = 1) -> Files:
    shape = {"clusters": "aabb", "kinds": ["bridge"] * 4, "rows": rows}
    arms = {BEFORE: WORSE, AFTER: BETTER}
    return together(
        *(deletion_files(arms[c], dataset=name, cache=c, **shape) for c in (AFTER, BEFORE) for name in datasets)
    )


@pytest.fixture(scope="module")
def qa(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return reported(two_caches(), tmp_path_factory.mktemp("qa"), "qa")


def test_each_cache_has_its_sections_and_its_pool(qa: Path) -> None:
    """SUR has 2 of 4 right at the original places and all 4 at RoPERelay's, on each of two data sets."""
    for name, right in (("All data sets", 4), ("Lab HotpotQA", 2)):
        for cache, share in (("BM25 10 %", 0.5), ("BM25 10 %, RoPERelay", 1.0)):
            shown = grid(qa / "qa.md", f"{name}, Qwen3-8B, {cache}: every cell")
            assert [row["Allocator"] for row in shown] == ["Shift", "SUR", "Re-prefill"]
            assert (shown[1]["EM"], shown[1]["n"]) == (f"{100 * share:.1f}", str(2 * right))
    pools = {(r["position"], r["allocator"]): r for r in csv_rows(qa / "qa.csv") if r["dataset"] == "pooled"}
    assert {key: (r["right"], r["n_em"]) for key, r in pools.items() if key[1] != "reprefill"} == {
        ("original", "shift"): ("0", "8"),
        ("original", "sur"): ("4", "8"),
        ("roperelay", "shift"): ("2", "8"),
        ("roperelay", "sur"): ("8", "8"),
    }
    assert len({tuple(r.values()) for r in csv_rows(qa / "qa.csv")}) == 3 * 2 * 3


def test_sound_caches_fail_no_check(qa: Path) -> None:
    assert not [s for s in json.loads((qa / "summary.json").read_text())["stamps"] if "VERIFY" in s]
    tried = {check["check"]: check["tried"] for check in part_of(qa, "qa")["verify"]}
    assert tried["pooled counts are sums of integers"] == 6


def test_locality_and_latency_tell_the_caches_apart(qa: Path) -> None:
    """Re-prefill is right everywhere: SUR reaches 95 % of it at RoPERelay's places alone."""
    found = {(r["Data set"], r["Cache"]): r["EM target"] for r in grid(qa / "qa.md", "Repair locality")}
    assert found["Lab MuSiQue", "BM25 10 %"] == "> 5 %" and found["Lab MuSiQue", "BM25 10 %, RoPERelay"] == "5 %"
    for cache in ("BM25 10 %", "BM25 10 %, RoPERelay"):
        assert len(grid(qa / "qa_latency.md", f"All data sets, Qwen3-8B, {cache}: by executor")) == 3
    points = csv_rows(qa / "qa_quality_latency.csv")
    assert {(r["dataset"], r["position"]) for r in points} == {("pooled", "original"), ("pooled", "roperelay")}


def test_an_arm_that_one_cache_lacks_is_named_with_it(tmp_path: Path) -> None:
    shape = {"clusters": "aabb", "kinds": ["bridge"] * 4}
    extra = deletion_files({TOKENS: "1111"}, dataset="lab_musique", cache=AFTER, **shape)
    text = (reported(together(two_caches(), extra), tmp_path, "qa") / "qa.md").read_text(encoding="utf-8")
    assert "Not pooled, as a data set lacks them: qwen3_8b · bm25 · r10 · roperelay · token · p05 · packed" in text


@pytest.mark.parametrize("view", ["niah", "holdout", "location"])
def test_every_view_parts_the_caches(tmp_path: Path, view: str) -> None:
    kinds = ("suffix-short", "prefix-short", "suffix-long", "prefix-long") if view == "location" else ["niah-1024"] * 4
    arms = {BEFORE: WORSE | {TOKENS: "1000"}, AFTER: BETTER | {TOKENS: "0000"}}
    files = together(
        *(
            deletion_files(arms[c], dataset="lab_location", cache=c, kinds=kinds, clusters="aaaa")
            for c in (AFTER, BEFORE)
        )
    )
    report = reported(files, tmp_path, view)
    heads = [line for line in (report / f"{view}.md").read_text(encoding="utf-8").splitlines() if line[:3] == "## "]
    assert len(heads) == len(set(heads)) >= 2
    named = [
        sum(f"Qwen3-8B, {cache}:" in f"{head}:" for head in heads) for cache in ("BM25 10 %", "BM25 10 %, RoPERelay")
    ]
    assert named[0] == named[1] > 0
    if view == "holdout":
        # Regions less tokens: 2 - 1 of 4 at the original places, 4 - 0 of 4 at RoPERelay's.
        rows = {
            (r["position"], r["question_type"]): r["em_minus_token_difference"]
            for r in csv_rows(report / "holdout.csv")
        }
        assert (rows["original", "all lengths"], rows["roperelay", "all lengths"]) == ("25.0", "100.0")


def test_the_papers_numbers_are_of_whole_caches(tmp_path: Path) -> None:
    arms = {SHIFT: "0000", SUR: "1111", REPREFILL: "1111"}
    for cache, printed in ((WHOLE, "98.96"), (BEFORE, "")):
        report = reported(deletion_files(arms, cache=cache), tmp_path / cache[0], "niah")
        assert [r["paper_em"] for r in csv_rows(report / "niah.csv") if r["allocator"] == "sur"] == [printed]


# --- inside caches --------------------------------------------------------------------------------------------------


def looked(position: str, key_deviation: float) -> RunRecord:
    facts = RepairFacts(
        splice=1, n_suffix=4, n_deleted=1, requested=2, refreshed=2, mixed=[{"key_deviation": key_deviation}]
    )
    names = {"selector": "bm25", "retention": "r10", "position": position, "allocator": "sur", "budget": "p05"}
    cell = Cell(model="m", dataset="d", executor="packed", **names)
    return record(position).model_copy(update={"cell": cell, "repair": facts})


def test_states_inside_several_caches_are_not_averaged_together() -> None:
    made = mixed.files([looked("original", 0.25), looked("roperelay", 0.75)])
    rows = list(csv.DictReader(io.StringIO(str(made["mixed.csv"]))))
    assert [(r["position"], r["key_deviation"], r["n"]) for r in rows] == [
        ("original", "0.25", "1"),
        ("roperelay", "0.75", "1"),
    ]
    assert "| BM25 10 %, RoPERelay |" in str(made["mixed.md"]) and "| BM25 10 %            |" in str(made["mixed.md"])


def test_a_whole_cache_adds_no_columns_inside() -> None:
    whole = looked("original", 0.25)
    cell = whole.cell.model_copy(update={"selector": "full", "retention": "all"})
    made = mixed.files([whole.model_copy(update={"cell": cell})])
    heads = str(made["mixed.csv"]).splitlines()[0]
    assert heads.startswith("dataset,model,allocator,budget,executor,layer,") and "Cache" not in str(made["mixed.md"])
