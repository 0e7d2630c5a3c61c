"""``explain``: the records behind a number add up to it, lie where it says, and cannot play with the terminal."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kvrelay.core.errors import IncompleteError, InvariantError
from kvrelay.report.__main__ import main
from kvrelay.report.explain import pairs
from kvrelay.report.explain.terminal import printable, shortened
from kvrelay.report.write import write_report
from kvrelay.run.lines import encode
from kvrelay.run.record import Verdict, item_key
from kvrelay.run.store import write_atomic
from tests.report.deletion_reports import on_disk
from tests.stats.deletion_study import NIAH, deletion_files, together
from tests.stats.golden_study import JUDGE, OUTCOMES, study_files

MOVED = ("dataset", "model", "selector", "retention", "position")
REPAIRED = (*MOVED, "allocator", "budget", "executor")


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The golden study with its gaps, and a third position."""
    outcomes = {**OUTCOMES, ("longmemeval_s", "bm25", "key_only"): "000001"}
    folder = on_disk(study_files(outcomes), tmp_path_factory.mktemp("golden"))
    with pytest.raises(IncompleteError):
        write_report(folder, resamples=100)
    return folder


@pytest.fixture(scope="module")
def deletions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = on_disk(deletion_files({**NIAH, ("token", "p05", "packed"): "0100"}), tmp_path_factory.mktemp("deletions"))
    write_report(folder, view="niah", resamples=100)
    return folder


def asked(names: dict[str, str], **more: str) -> str:
    return " ".join(f"{name}={value}" for name, value in {**names, **more}.items() if value)


def told(capsys: pytest.CaptureFixture[str], folder: Path, cell: str, *options: str) -> list[str]:
    """The lines of a call that went well."""
    code = main(["explain", str(folder), "--cell", cell, *options])
    printed = capsys.readouterr()
    assert (code, printed.err) == (0, "")
    return printed.out.splitlines()


def refused(capsys: pytest.CaptureFixture[str], folder: Path, cell: str, *options: str) -> str:
    """The one line of error of a call that asks for what is not there."""
    code = main(["explain", str(folder), "--cell", cell, *options])
    printed = capsys.readouterr()
    assert (code, printed.out) == (2, "") and printed.err.count("\n") == 1
    return printed.err


def test_every_number_of_a_study_is_the_sum_of_its_records(golden: Path, capsys: pytest.CaptureFixture[str]) -> None:
    summary = json.loads((golden / "report" / "summary.json").read_text())
    numbers = [
        (asked({name: row[name] for name in MOVED}, metric=row["metric"], column="difference"), row["difference"])
        for row in summary["comparisons"]
    ]
    numbers += [
        (asked({name: cell[name] for name in MOVED}, metric=metric, column="value"), cell[metric])
        for cell in summary["cells"]
        for metric in ("accuracy", "f1", "em", "loglik")
    ]
    assert len(numbers) == 5 * 4 + 10 * 4
    for cell, number in numbers:
        lines = told(capsys, golden, cell)
        found = re.fullmatch(
            r"Sum \S+ over \d+ (?:pairs|answers)(?: x 100)? = (\S+) .*", lines[-3 if "diff" in cell else -2]
        )
        assert found and float(found[1]) == pytest.approx(number, rel=2e-12, abs=1e-12)
        assert lines[-1] == f"report/summary.json: {number}, equal"


@pytest.mark.parametrize("baseline", ["shift", "reprefill"])
def test_every_repair_of_a_study_too(deletions: Path, capsys: pytest.CaptureFixture[str], baseline: str) -> None:
    cells = json.loads((deletions / "report" / "summary.json").read_text())["views"]["niah"]["cells"]
    checked = 0
    for row in cells:
        for metric in ("em", "f1", "nll", "kl"):
            names = asked({name: row[name] for name in REPAIRED}, metric=metric)
            options = ("--view", "niah", "--baseline", baseline)
            assert told(capsys, deletions, f"{names} column=value", *options)[-1].endswith(f"{row[metric]}, equal")
            number = row[f"{metric}_minus_{baseline}_difference"]
            if row["allocator"] != baseline:
                lines = told(capsys, deletions, f"{names} column=difference", *options)
                assert lines[-1] == f"report/summary.json: {number}, equal"
                checked += 1
            else:
                assert number is None
    assert checked == 4 * (len(NIAH) - 1)


def test_lines_and_counts_by_hand(golden: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """talks, BM25: 010100 against 111001: 3 repaired, 1 regressed, sums 2 of 3, -1 of 1 and 1 of 2."""
    lines = told(capsys, golden, "dataset=talks selector=bm25 position=roperelay")
    assert lines[0] == (
        "accuracy, difference: llama31_8b · talks · bm25 · r10 · roperelay, "
        "minus llama31_8b · talks · bm25 · r10 · original"
    )
    assert lines[-5:-1] == [
        "3 repaired - 1 regressed = +2",
        "By cluster, sum/count: c1 2/3, c2 -1/1, c3 1/2",
        "Sum 2 over 6 pairs x 100 = 33.3333333333 pp",
        "Means over these pairs: 33.333 to 66.667",
    ]
    first = lines[2 : lines.index("", 2)]
    assert first[:3] == [
        "example e1, cluster c1, update, repaired (+1)",
        "  question   question 1 of talks",
        "  reference  the reference",
    ]
    assert [line.split("  ")[1] for line in first if line.endswith((": right", ": wrong"))] == [
        "original: wrong",
        "roperelay: right",
    ]


def test_places_are_where_the_records_lie(golden: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each file and line that is named holds the key that stands before it."""
    lines = told(capsys, golden, "dataset=talks selector=snapkv")
    found = [m for line in lines if (m := re.search(r"([0-9a-f]{64})  (\S+):(\d+)$", line))]
    # 5 + 6 answers with a record; one failed and has no verdict.
    assert len(found) == 11 + 10
    for match in found:
        with (golden / match[2]).open(encoding="utf-8") as shard:
            record = json.loads(shard.readlines()[int(match[3]) - 1])["record"]
        assert match[1] in (record.get("key"), record.get("item_key"))


def test_what_is_not_counted_says_why(golden: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = told(capsys, golden, "dataset=talks selector=snapkv")
    text = "\n".join(lines)
    assert "example e2, cluster c1, temporal, not counted\n" in text
    assert "  original: no accuracy, missing (no record)\n    no record; expected key " in text
    assert "  original: no accuracy, unscored (malformed)" in text
    assert "    error      PositionError: out of range" in text
    assert lines[-3] == "Sum 1 over 3 pairs x 100 = 33.3333333333 pp; 3 without the measure are not counted"


@pytest.mark.parametrize(("changed", "examples"), [("repaired", ["e1", "e3", "e6"]), ("regressed", ["e4"])])
def test_only_what_changed(golden: Path, capsys: pytest.CaptureFixture[str], changed: str, examples: list[str]) -> None:
    lines = told(capsys, golden, "dataset=talks selector=bm25", "--changed", changed)
    assert re.findall(r"^example (\w+),", "\n".join(lines), re.MULTILINE) == examples
    assert f"{len(examples)} of 6 examples are shown; the sum is over all." in lines
    assert lines[-1].startswith("report/summary.json: 33.3333333333")


def test_each_judges_numbers_are_the_sums_of_its_verdicts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A second judge that turns every third verdict of the first."""
    outcomes = {cell: re.sub("[muf]", "0", letters) for cell, letters in OUTCOMES.items()}
    files = study_files(outcomes, judges=(JUDGE, "strict-45"))
    for i, record in enumerate(files.records.values()):
        first = files.verdicts[item_key(JUDGE, record.item_fields())]
        key = item_key("strict-45", record.item_fields())
        turned = bool(first.correct) != (i % 3 == 0)
        files.verdicts[key] = Verdict(judge_id="strict-45", item_key=key, correct=turned)
    folder = on_disk(files, tmp_path)
    write_report(folder, view="table12", resamples=100)
    gains = json.loads((folder / "report" / "summary.json").read_text())["views"]["table12"]["gains"]
    for row in gains:
        cell = asked({name: row[name] for name in MOVED})
        lines = told(capsys, folder, cell, "--view", "table12", "--judge", row["judge_id"])
        assert lines[0].startswith(f"accuracy, difference, under {row['judge_id']}: ")
        assert lines[-1] == f"report/summary.json: {row['difference']}, equal"
    assert len(gains) == 2 * 4 and len({row["difference"] for row in gains}) > 2
    error = refused(capsys, folder, "dataset=talks selector=bm25", "--judge", "nobody")
    assert f"no judge 'nobody' in this experiment; known: {JUDGE}, strict-45" in error


def test_a_pool_of_data_sets_is_explained_as_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arms = {arm: NIAH[arm] for arm in (("shift", "0", ""), ("reprefill", "all", ""), ("sur", "p02", "packed"))}
    files = together(*(deletion_files(arms, dataset=name) for name in ("hotpotqa", "musique")))
    write_report(on_disk(files, tmp_path), view="qa", resamples=100)
    lines = told(capsys, tmp_path, "dataset=pooled allocator=sur metric=em", "--view", "qa")
    # Two of four cases of each set are repaired.
    assert lines[-1] == "report/summary.json: 50.0, equal"
    assert "example hotpotqa/e1, cluster hotpotqa/a, niah-1024, repaired (+1)" in lines
    assert "4 repaired - 0 regressed = +4" in lines and "Sum 4 over 8 pairs x 100 = 50 pp" in lines


def test_lower_is_better_where_it_is(deletions: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """SUR at 2 % repairs e1 and e2: their NLL falls from 3 to 1."""
    options = ("--view", "niah", "--changed", "repaired")
    lines = told(capsys, deletions, "allocator=sur budget=p02 metric=nll", *options)
    assert [line for line in lines if line.startswith("example")] == [
        "example e1, cluster a, niah-1024, repaired (-2)",
        "example e2, cluster b, niah-1024, repaired (-2)",
    ]


def test_one_example(golden: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = told(capsys, golden, "dataset=talks selector=bm25", "--example", "e4")
    assert re.findall(r"^example (\w+),", "\n".join(lines), re.MULTILINE) == ["e4"]
    error = refused(capsys, golden, "dataset=talks selector=bm25", "--example", "e9")
    assert "no example 'e9' in this cell; known: e1, e2, e3, e4, e5 and 1 more" in error


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("dataset=elsewhere", "no cell of this view has dataset=elsewhere; known: dataset=longmemeval_s | talks"),
        ("dataset=talks selector=full", "has selector=full; known: selector=bm25 | snapkv"),
        ("dataset=talks", "2 cells have these names; tell them apart by selector=bm25 | snapkv"),
        ("dataset=longmemeval_s selector=bm25", "tell them apart by position=key_only | roperelay"),
        ("data=talks", "'data=talks' names no cell; wanted NAME=VALUE with a name of model, dataset,"),
        ("talks", "'talks' names no cell"),
        ("dataset='talks", "cannot be read (No closing quotation); wanted NAME=VALUE, parted by spaces"),
        ("dataset=talks metric=speed", "metric=speed: wanted one of accuracy, f1, em, loglik"),
        ("dataset=talks selector=bm25 column=p", "column=p: wanted difference or value"),
        ("selector=full column=difference", "selector=full retention=r10 position=original is compared with nothing"),
    ],
)
def test_an_unknown_cell_names_the_known_ones(
    golden: Path, capsys: pytest.CaptureFixture[str], cell: str, message: str
) -> None:
    assert message in refused(capsys, golden, cell)


def test_a_view_without_cells_is_told(golden: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "the view niah has no cells in this experiment" in refused(capsys, golden, "", "--view", "niah")


def test_without_a_report_or_with_an_old_one_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = study_files({("talks", "bm25", "original"): "00", ("talks", "bm25", "roperelay"): "01"})
    folder = on_disk(files, tmp_path)
    assert told(capsys, folder, "")[-1] == "no report is written yet"
    write_report(folder, resamples=100)
    summary = folder / "report" / "summary.json"
    assert told(capsys, folder, "")[-1] == "report/summary.json: 50.0, equal"
    write_atomic(summary, summary.read_text().replace('"difference": 50.0', '"difference": 60.0'))
    assert main(["explain", str(folder)]) == InvariantError.exit_code
    assert "the records give 50.0, " in capsys.readouterr().err
    key, record = next(iter(files.records.items()))
    files.records[key] = record.model_copy(update={"answer_tokens": 99})
    write_atomic(folder / "records" / "w.jsonl", b"".join(map(encode, files.records.values())))
    assert told(capsys, folder, "")[-1] == "report/ was made from other answers or verdicts; make it again"


def test_records_that_do_not_add_up_are_a_fault(
    golden: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairs, "table_number", lambda asked: 33.0)
    assert main(["explain", str(golden), "--cell", "dataset=talks selector=bm25"]) == InvariantError.exit_code
    assert "the records add up to 33.33" in capsys.readouterr().err


# --- what an answer cannot do ---------------------------------------------------------------------------------------

ATTACK = "a\x1b[2Jb\rc\nd\x00e\u202ef\u2028g\x9bh\ud800i\\j\u200bk"
SHOWN = r"a\x1b[2Jb\rc\nd\x00e\u202ef\u2028g\x9bh\ud800i\\j\u200bk"


def test_characters_that_a_terminal_obeys_are_escaped() -> None:
    assert printable(ATTACK) == SHOWN
    assert printable("Zürich, 東京, 🙂, naïve – “ok”") == "Zürich, 東京, 🙂, naïve – “ok”"
    assert all(printable(chr(code)) != chr(code) for code in (*range(32), *range(127, 160), 0x2066, 0x2069, 0xFEFF))


def test_an_answer_stays_on_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = study_files({("talks", "bm25", "original"): "00", ("talks", "bm25", "roperelay"): "01"}, judges=())
    for key, record in files.records.items():
        files.records[key] = record.model_copy(update={"answer": ATTACK, "question": "x" * 700})
    folder = on_disk(files, tmp_path)
    lines = told(capsys, folder, "metric=loglik")
    assert lines.count(f"    answer     {SHOWN}") == 4
    assert f"  question   {'x' * 600} … (100 more characters)" in lines
    assert f"  question   {'x' * 700}" in told(capsys, folder, "metric=loglik", "--characters", "0")
    assert not any(ord(char) < 32 or 127 <= ord(char) < 160 for line in lines for char in line)


def test_long_texts_are_cut_where_it_is_asked() -> None:
    assert shortened("abcdef", 4) == "abcd … (2 more characters)"
    assert shortened("abcd", 4) == "abcd" and shortened("abcdef", 0) == "abcdef"


def test_it_needs_no_torch() -> None:
    code = "import sys, kvrelay.report.explain.command; print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
