"""Table 12 on the judged study: values by hand, files that agree, honest gaps, and whom the paper stands beside."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kvrelay.core.errors import ConfigError, IncompleteError
from kvrelay.report import reported
from kvrelay.report.write import write_report
from kvrelay.run.record import GoldFacts, JudgeFacts
from kvrelay.run.store import write_judge
from tests.report.deletion_reports import FEW, csv_rows, grid, on_disk, part_of
from tests.stats.golden_study import CLUSTERS
from tests.stats.judged_study import OUTCOMES, A, B, Judged, facts, judged_files

NAME_A, NAME_B = "Lexical, containment", "Lexical, F1"
QWEN, GPT = "qwen25_32b", "gpt_oss_20b"


def stored(files: Judged, folder: Path) -> Path:
    on_disk(files, folder)
    for judge in files.judges:
        write_judge(folder, judge)
    return folder


def made(files: Judged, folder: Path, *, incomplete: bool = False) -> Path:
    stored(files, folder)
    if incomplete:
        with pytest.raises(IncompleteError):
            write_report(folder, view="table12", resamples=FEW)
    else:
        write_report(folder, view="table12", resamples=FEW)
    return folder / "report"


def published(name: str, **fields: object) -> JudgeFacts:
    """A judge as the paper names it, as its identity is written down; ``fields`` are those of another one."""
    model, sent = {
        QWEN: ("Qwen/Qwen2.5-32B-Instruct", {"max_tokens": 32}),
        GPT: ("openai/gpt-oss-20b", {"max_tokens": 2048, "reasoning_effort": "medium"}),
    }.get(name, ("", {}))
    template = {"name": "memory_judge_v1", "system": "s", "rubric": "r"}
    identity = {"template": template, "model_asked": model, "fields": {**sent, "temperature": 0.0}}
    told = {key: value for key, value in fields.items() if key in ("template", "model_asked")}
    identity = {**identity, **told, "fields": {**identity["fields"], **{k: fields[k] for k in fields.keys() - told}}}  # type: ignore[dict-item]
    return facts(name, identity=identity)


def two(names: tuple[str, str], judges: tuple[JudgeFacts, ...] = (), **options: object) -> Judged:
    """LongMemEval's letters under judges of other names."""
    renamed = {cell: dict(zip(names, letters.values(), strict=True)) for cell, letters in LME.items()}
    judges = judges or tuple(published(name) for name in names)
    return judged_files(renamed, judges=judges, planned=names, **options)  # type: ignore[arg-type]


LME = {cell: letters for cell, letters in OUTCOMES.items() if cell[0] == "longmemeval_s"}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One of the talks answers is not judged by B."""
    return made(judged_files(), tmp_path_factory.mktemp("judges"), incomplete=True)


# --- what is printed ------------------------------------------------------------------------------------------------


def test_it_gives_its_files(report: Path) -> None:
    tables = {f"table12{part}.{kind}" for part in ("", "_agreement", "_signs") for kind in ("md", "csv", "tex")}
    figure = {f"table12_gains.{kind}" for kind in ("pdf", "png", "csv", "md")}
    assert {path.name for path in report.iterdir()} == tables | figure | {"summary.json", "sources.json"}
    assert (report / "table12_gains.png").read_bytes().startswith(b"\x89PNG")


def test_gains_stand_side_by_side(report: Path) -> None:
    bm25, snapkv = grid(report / "table12.md", "LongMemEval-S: accuracy under each judge, %")
    assert (bm25["Selector"], snapkv["Selector"], bm25["n"]) == ("BM25", "SnapKV", "6")
    values = {name: [row[f"{judge} {name}"] for row in (bm25, snapkv) for judge in (NAME_A, NAME_B)] for name in HEADS}
    assert values == {
        "Original": ["33.3", "16.7", "50.0", "33.3"],
        "RoPERelay": ["66.7", "66.7", "50.0", "50.0"],
        "Δ": ["+33.3", "+50.0", "0.0", "+16.7"],
    }
    (talks,) = grid(report / "table12.md", "talks: accuracy under each judge, %")
    assert (talks[f"{NAME_A} n"], talks[f"{NAME_B} n"]) == ("6", "4")
    assert (talks[f"{NAME_A} Δ"], talks[f"{NAME_B} Δ"]) == ("+33.3", "-50.0")


HEADS = ("Original", "RoPERelay", "Δ")


def test_agreement_is_that_of_the_letters(report: Path) -> None:
    """LongMemEval: 9 right and 11 wrong under both, 3 under the first alone, 1 under the second; p_e = 1/2."""
    _, lme, talks = grid(report / "table12.md", "Verdicts")
    assert [lme[head] for head in ("both right", "first only", "second only", "both wrong")] == ["9", "3", "1", "11"]
    missing = [talks[f"no verdict by {who}"] for who in ("first", "second", "both")]
    assert missing == ["0", "2", "0"] and talks["no answer"] == "0"
    everything, lme, _ = grid(report / "table12.md", "Agreement on answers")
    assert (lme["n"], lme["agree, %"], lme["κ"]) == ("24", "83.3", "0.67")
    assert (lme["on right, %"], lme["on wrong, %"]) == ("81.8", "84.6")
    assert (everything["Answers"], everything["n"], everything["clusters"]) == ("all", "34", "9")


def test_signs_and_moves(report: Path) -> None:
    rows = grid(report / "table12.md", f"Sign of the gain: {NAME_A} and {NAME_B}")
    assert [(row["Data set"], row["Selector"], row["same sign"], row["n"]) for row in rows] == [
        ("LongMemEval-S", "BM25", "yes", "6"),
        ("LongMemEval-S", "SnapKV", "one is zero", "6"),
        ("talks", "BM25", "opposite", "4"),
    ]
    assert [(row[f"{NAME_A} Δ"], row[f"{NAME_B} Δ"], row["first less second Δ"]) for row in rows] == [
        ("+33.3", "+50.0", "-16.7"),
        ("0.0", "+16.7", "-16.7"),
        ("+50.0", "-50.0", "+100.0"),
    ]
    assert "Same sign in 1 of 3 comparisons: 1 positive under both" in (report / "table12.md").read_text()
    moves = grid(report / "table12.md", "Questions by what moved under the first judge and under the second")
    counts = [[row[f"under the second {move}"] for move in ("repaired", "tie", "regressed")] for row in moves]
    assert counts == [["3", "2", "1"], ["1", "6", "1"], ["1", "0", "1"]]


def test_markdown_csv_latex_and_summary_agree(report: Path) -> None:
    part = part_of(report, "table12")
    assert [judge["id"] for judge in part["judges"]] == [f"{A}-1", f"{B}-1"]
    rows = csv_rows(report / "table12.csv")
    assert [(row["judge_id"], row["difference"]) for row in rows] == [
        (told["judge_id"], str(told["difference"])) for told in part["gains"]
    ]
    stored_answers = csv_rows(report / "table12_agreement.csv")
    assert [row["kappa"] for row in stored_answers] == [str(told["kappa"]) for told in part["agreement"]]
    (lme,) = (row for row in stored_answers if row["dataset"] == "longmemeval_s")
    # 12 right under the first, 10 under the second, of 24: p_e = (12 * 10 + 12 * 14) / 576 = 1/2
    assert float(lme["kappa"]) == pytest.approx((20 / 24 - 0.5) / 0.5, abs=1e-11)
    signs = csv_rows(report / "table12_signs.csv")
    assert [row["same_sign"] for row in signs] == ["true", "false", "false"]
    assert signs[0]["repaired_repaired"] == "3" and part["sign_counts"][0]["opposite"] == 1
    tex = (report / "table12.tex").read_text()
    assert r"$\Delta$" in tex and "κ" not in tex and r"$\kappa$" in tex


def test_the_same_inputs_give_the_same_bytes(report: Path) -> None:
    before = {path.name: path.read_bytes() for path in report.iterdir()}
    with pytest.raises(IncompleteError):
        write_report(report.parent, view="table12", resamples=FEW)
    assert {path.name: path.read_bytes() for path in report.iterdir()} == before


def test_who_judged_stands_below(tmp_path: Path) -> None:
    gold = GoldFacts(sha256="0" * 64, asked=20, right=19, threshold=18)
    template = {"template": "memory_judge_v1", "template_sha256": "abcdef" * 10 + "0123"}
    judges = (facts(A, gold=gold, caveats=["too small to judge"], **template), facts(B))
    text = (made(judged_files(judges=judges), tmp_path, incomplete=True) / "table12.md").read_text()
    (line,) = (line for line in text.splitlines() if line.startswith(f"- {NAME_A}: {A} ({A}-1)"))
    assert "template memory" in line and "sha256 abcdefabcdef" in line and "gold items 19/20" in line
    assert f"- {NAME_B}: {B} ({B}-1): rules, no template" in text
    assert f"> - Judge {A}: too small to judge\n" in text


# --- what is missing ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("judges", "told"), [((), "0 judge gave"), ((facts(A),), r"1 judge \(lexical\) gave")])
def test_fewer_than_two_judges_are_told(tmp_path: Path, judges: tuple[object, ...], told: str) -> None:
    folder = stored(judged_files(judges=judges), tmp_path)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=rf"{told} verdicts.*python scripts/judge\.py judge=NAME run=OUT/golden"):
        write_report(folder, view="table12", resamples=FEW)
    assert not (folder / "report").exists()


def test_gaps_of_one_judge_are_stamped_under_its_name(report: Path) -> None:
    stamps = [line for line in (report / "table12.md").read_text().splitlines() if line.startswith("> - ")]
    assert any(line.startswith(f"> - {NAME_B}: INCOMPLETE") for line in stamps)
    assert not any(NAME_A in line for line in stamps)


@pytest.mark.parametrize("reason", ["malformed", "transport_error", "rejected"])
def test_what_a_second_judge_lacks_makes_the_report_incomplete(tmp_path: Path, reason: str) -> None:
    """B has no verdict on 2 of 24 answers. One that a server away has left is owed, however many may be lacking."""
    cells = {cell: {A: letters[A], B: "u" + letters[B][1:]} for cell, letters in LME.items() if cell[1] == "bm25"}
    files = judged_files({**LME, **cells})
    changed = {key: v.model_copy(update={"reason": reason}) for key, v in files.verdicts.items() if v.correct is None}
    files.verdicts |= changed
    folder = stored(files, tmp_path)
    for limit in (None, 2):
        if reason == "malformed":
            write_report(folder, view="table12", resamples=FEW, max_unjudged=limit)
        else:
            with pytest.raises(IncompleteError, match=r"Judge lexical_f1: 2 of 24 answers are not judged; judge them"):
                write_report(folder, view="table12", resamples=FEW, max_unjudged=limit)
        assert "UNJUDGED" not in (folder / "report" / "table12.md").read_text()
    stamp = f"UNJUDGED: 2 of 24 answers have no verdict ({reason} 2): accuracy is only bounded"
    with pytest.raises(IncompleteError, match=re.escape(stamp)) as told:
        write_report(folder, view="table12", resamples=FEW, max_unjudged=1)
    assert told.value.exit_code == 5 and "judge=lexical_f1" in str(told.value)
    stamps = [line for line in (folder / "report" / "table12.md").read_text().splitlines() if line.startswith("> - ")]
    assert f"> - {NAME_B}: {stamp}" in stamps
    write_report(folder, view="table1", resamples=FEW, max_unjudged=0)  # whose judge is A


def test_the_headlines_judge_is_told_once(tmp_path: Path) -> None:
    cells = {cell: {A: "u" + letters[A][1:], B: letters[B]} for cell, letters in LME.items()}
    with pytest.raises(IncompleteError) as told:
        write_report(stored(judged_files(cells), tmp_path), view="table12", resamples=FEW, max_unjudged=0)
    assert str(told.value).count("UNJUDGED: 4 of 24 answers") == 1 and "Judge lexical" not in str(told.value)


def test_a_planned_judge_without_a_verdict_is_told(tmp_path: Path) -> None:
    files = judged_files(planned=(A, B, QWEN))
    report = made(files, tmp_path, incomplete=True)
    assert "> - Qwen2.5-32B is planned and has given no verdict" in (report / "table12.md").read_text()


def test_the_newest_identity_of_a_name_counts(tmp_path: Path) -> None:
    old = facts(B, mark="0", created="2025-01-01T00:00:00+00:00")
    report = made(judged_files(judges=(facts(A), facts(B), old)), tmp_path, incomplete=True)
    assert [judge["id"] for judge in part_of(report, "table12")["judges"]] == [f"{A}-1", f"{B}-1"]


def test_multiple_choice_is_left_out(tmp_path: Path) -> None:
    files = judged_files()
    for key, record in files.records.items():
        if record.cell.dataset == "talks":
            files.records[key] = record.model_copy(update={"choices": {"a": "x", "b": "y"}, "gold_choice": "a"})
    text = (made(files, tmp_path, incomplete=True) / "table12.md").read_text()
    assert "talks" not in text.split("---\n")[0].replace("experiment golden", "")
    assert "LongMemEval-S: accuracy" in text


def test_one_class_and_one_cluster_are_said_in_words(tmp_path: Path) -> None:
    cells = {
        ("talks", "bm25", "original"): {A: "000000", B: "000000"},
        ("talks", "bm25", "roperelay"): {A: "000000", B: "000000"},
    }
    report = made(judged_files(cells, clusters=CLUSTERS | {"talks": ("c",) * 6}), tmp_path)
    (row,) = grid(report / "table12.md", "Agreement on answers")
    assert (row["κ"], row["κ 95 %"], row["agree, %"]) == ("undefined (one class)", "–", "100.0")
    assert (row["AC1"], row["AC1 95 %"], row["on right, %"]) == ("1.00", "not estimable", "–")
    (gain,) = grid(report / "table12.md", "talks: accuracy under each judge, %")
    assert gain[f"{NAME_A} 95 %"] == "not estimable"


def test_kappa_of_a_judge_that_says_one_thing_is_explained(tmp_path: Path) -> None:
    cells = {
        ("talks", "bm25", "original"): {A: "000000", B: "000100"},
        ("talks", "bm25", "roperelay"): {A: "000000", B: "000000"},
    }
    report = made(judged_files(cells), tmp_path)
    assert "κ is 0 where one of the two gives all answers one verdict" in (report / "table12.md").read_text()


# --- people, and more than two judges -------------------------------------------------------------------------------


def test_human_labels_stand_beside_judges_and_their_gaps_are_no_fault(tmp_path: Path) -> None:
    people = ("human_anna", "human_ben")
    cells = {
        cell: {**letters, people[0]: "1jj" + letters[A][3:].replace("u", "j"), people[1]: letters[B].replace("u", "j")}
        for cell, letters in LME.items()
    }
    judges = (facts(A), facts(B), *(facts(name, identity={"kind": "human"}) for name in people))
    text = made(judged_files(cells, judges=judges), tmp_path) / "table12.md"
    pairs = [(row["First"], row["Second"]) for row in grid(text, "Agreement on answers")]
    assert (NAME_A, "Human (anna)") in pairs and ("Human (anna)", "Human (ben)") in pairs and len(pairs) == 6
    assert not any(line.startswith("> - Human") for line in text.read_text().splitlines())
    (alpha,) = grid(text, "Agreement of all judges")
    assert alpha["n"] == "24" and re.fullmatch(r"0\.\d\d", alpha["Krippendorff's α"])
    part = part_of(text.parent, "table12")
    assert part["agreement"][-1]["first"] == "all 4" and part["agreement"][-1]["second"] is None


# --- the paper ------------------------------------------------------------------------------------------------------


def paper_cells(report: Path) -> list[str]:
    rows = grid(report / "table12.md", "LongMemEval-S: accuracy under each judge, %")
    return [row.get(f"{judge} Paper Δ", "") for row in rows for judge in ("Qwen2.5-32B", "gpt-oss-20b")]


def test_the_paper_stands_beside_its_own_setting(tmp_path: Path) -> None:
    report = made(two((QWEN, GPT), model="qwen2_7b"), tmp_path)
    assert paper_cells(report) == ["> 0"] * 4
    assert "Paper: RoPERelay, Table 12: its text states which gains are positive" in (report / "table12.md").read_text()
    assert {row["paper_sign"] for row in csv_rows(report / "table12.csv")} == {"1"}


@pytest.mark.parametrize("case", ["model", "changed", "judge"])
def test_the_paper_does_not_stand_beside_another_setting(tmp_path: Path, case: str) -> None:
    files = two((A, GPT) if case == "judge" else (QWEN, GPT), model="llama31_8b" if case == "model" else "qwen2_7b")
    if case == "changed":
        files.plans = [plan.model_copy(update={"changed": ("model.qwen2_7b",)}) for plan in files.plans]
    expected = {"judge": ["", "> 0"] * 2}.get(case, [""] * 4)
    assert paper_cells(made(files, tmp_path)) == expected


SETTING = {"model": "qwen2_7b", "selector": "cam", "dataset": "longmemeval_s", "retention": "r10"}


@pytest.mark.parametrize(
    ("fields", "same"),
    [
        ({}, True),
        ({"model_asked": "/models/gpt-oss-20b"}, True),
        ({"max_tokens": None, "max_output_tokens": 2048}, False),
        ({"max_tokens": 4096}, False),
        ({"reasoning_effort": "high"}, False),
        ({"model_asked": "openai/gpt-oss-120b"}, False),
        ({"template": {"name": "mine"}}, False),
    ],
)
def test_a_judge_of_the_papers_name_must_be_its_judge(fields: dict[str, object], same: bool) -> None:
    identity = published(GPT, **fields).identity
    arms = {"baseline": "original", "position": "roperelay"}
    assert (reported.load().positive_under(GPT, identity, **SETTING, **arms) == "Table 12") is same
    assert reported.load().positive_under(QWEN, identity, **SETTING, **arms) is None


@pytest.mark.parametrize("other", [{"selector": "full"}, {"retention": "r20"}, {"position": "key_only"}])
def test_the_papers_sign_is_of_its_own_comparisons(other: dict[str, str]) -> None:
    names = {**SETTING, "baseline": "original", "position": "roperelay", **other}
    assert reported.load().positive_under(GPT, published(GPT).identity, **names) is None


def test_the_responses_api_has_other_names_for_limit_and_effort() -> None:
    identity = published(GPT).identity
    sent = {"max_output_tokens": 2048, "reasoning": {"effort": "medium"}}
    arms = {"baseline": "original", "position": "roperelay"}
    assert reported.load().positive_under(GPT, {**identity, "fields": sent}, **SETTING, **arms) == "Table 12"


def test_one_position_alone_still_shows_how_far_judges_agree(tmp_path: Path) -> None:
    cells = {cell: letters for cell, letters in LME.items() if cell[2] == "original"}
    text = made(judged_files(cells), tmp_path) / "table12.md"
    assert "accuracy under each judge" not in text.read_text() and "Sign of the gain" not in text.read_text()
    assert grid(text, "Agreement on answers")[0]["n"] == "12"
