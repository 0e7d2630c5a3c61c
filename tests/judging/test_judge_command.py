"""``scripts/judge.py`` as a user calls it, against a server on loopback: exit codes, words, interrupts, resumption."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest
from command_line import ROOT, call, start
from judge import judge_run
from judging_server import MODEL, Judging, judging, said, truly
from plain_config import group
from scripted_judge import GOLD, answered_run

from kvrelay.core.errors import AssetError, ConfigError
from kvrelay.run.store import claim_folder, read_judges, read_verdicts


def judge(folder: Path, server: Judging, *overrides: str, **fields: object) -> tuple[int, str, str]:
    """The command with Qwen as judge, its server on loopback."""
    return call(*arguments(folder, server, *overrides), script="judge.py", **fields)


def arguments(folder: Path, server: Judging, *overrides: str) -> list[str]:
    near = [f"judge.qwen25_32b.base_url={server.url}", "judge.qwen25_32b.retries=0"]
    return ["judge=[qwen25_32b]", f"run={folder}", *near, *overrides]


def test_a_run_judged_reported_and_judged_again_for_nothing(tmp_path: Path):
    folder = answered_run(tmp_path / "run", max_unjudged=0)
    with judging() as server:
        status, out, err = judge(folder, server)
        assert (status, len(server.answers_asked), len(server.asked)) == (0, 15, 35)
        assert "qwen25_32b: 20 of 20 gold items right" in err
        assert "qwen25_32b: 20 answers, 15 distinct items: 25 % shared; 0 judged before, 15 to judge" in err
        assert "qwen25_32b: of 15 items 9 correct, 6 wrong; 15 verdicts now" in err
        assert "1,500 tokens in, 90 out" in err
        assert out.rstrip().endswith(str(folder / "report" / "table1.md"))
        (facts,) = read_judges(folder)
        assert f"qwen25_32b ({facts.id}): template memory_judge_v1, sha256 {facts.template_sha256[:12]}; {MODEL}" in out
        assert "answers: 20 judged; parsed strictly 20 of 20 (100.0 %); gold items 20/20." in out
        again, _, _ = judge(folder, server)
        assert (again, len(server.asked)) == (0, 35)
    assert all(verdict.correct is not None for verdict in read_verdicts(folder).values())


def test_states_that_are_no_verdicts_leave_accuracy_bounded_and_exit_with_5(tmp_path: Path):
    """Of 15 items three get no verdict: two that are shared by both arms, and one of one arm alone."""
    odd = {"Question 0?": "perhaps", "Question 2?": '{"correct": true}', "Question 1?": "no", "Question 3?": ""}

    def decide(item: dict[str, str]) -> str:
        return odd.get(item["question"], truly(item)) if "otherwise" not in item["candidate"] else truly(item)

    def finish(item: dict[str, str]) -> str:
        return "length" if item["question"] == "Question 2?" else "stop"

    folder = answered_run(tmp_path / "run", max_unjudged=0)
    with judging(decide=decide, finish=finish) as server:
        status, out, err = judge(folder, server)
    assert status == 5
    assert "of 15 items 7 correct, 4 wrong, 1 empty, 2 malformed, 1 truncated" in err
    # 0 and 2 have one answer in both arms, 1 and 3 lack the original's verdict alone
    reasons = "(empty 1, malformed 3, truncated 2)"
    stamp = f"UNJUDGED: 6 of 20 answers have no verdict {reasons}: accuracy is only bounded"
    assert f"> - {stamp}" in out and stamp in err and "key: report.max_unjudged" in err
    assert "answers: 14 judged, 1 empty, 3 malformed, 2 truncated; parsed strictly 14 of 14" in out
    assert "In brackets: the accuracy if every answer" in out


def test_a_report_without_replies_is_incomplete_whatever_it_bears(tmp_path: Path):
    """The same item of both arms: two answers. Then the server is well, and the same command ends with 0."""
    folder = answered_run(tmp_path / "run")
    with judging(decide=lambda item: 500 if item["question"] == "Question 4?" else truly(item)) as server:
        status, out, err = judge(folder, server)
        assert status == 5
        assert "> - INCOMPLETE: of 20 answers 2 without a reply (listed in summary.json)" in out
        assert "2 of 20 answers are missing, failed or not judged: " in err
        assert "e4: unscored (transport_error); " in err and "UNJUDGED" not in out
        server.decide = truly
        status, out, _ = judge(folder, server)
    assert status == 0 and "INCOMPLETE" not in out


def test_a_server_that_changed_between_commands_is_asked_the_gold_items_again_and_told(tmp_path: Path):
    """Six answers under one system fingerprint, then the key is refused; the other nine under another."""
    folder, left = answered_run(tmp_path / "run"), [6]

    def decide(item: dict[str, str]) -> str | int:
        if (item["question"], item["candidate"]) not in GOLD:
            left[0] -= 1
        return truly(item) if left[0] >= 0 else 401

    with judging(decide=decide, fingerprint="fp_a") as server:
        status, _, err = judge(folder, server, "judge.qwen25_32b.concurrency=1")
        assert status == 4 and "6 verdicts now" in err
        assert read_judges(folder)[0].fingerprints == ("fp_a",)
        server.decide, server.fingerprint, asked = truly, "fp_b", len(server.asked)
        status, _, err = judge(folder, server)
        assert (status, len(server.asked)) == (0, asked + 20 + 9), err
    (facts,) = read_judges(folder)
    assert facts.fingerprints == ("fp_a", "fp_b")
    stamp = "answered under 2 system fingerprints (fp_a, fp_b): the server changed between commands"
    for name in ("table1.md", "table8.md"):
        assert f"> - Judge qwen25_32b: {stamp}" in (folder / "report" / name).read_text(encoding="utf-8")


def test_a_judge_whose_server_is_away_keeps_no_other_from_judging(tmp_path: Path):
    folder = answered_run(tmp_path / "run")
    with judging() as server:
        away = server.url
    near = [f"judge.gpt_oss_20b.base_url={away}", "judge.gpt_oss_20b.retries=0"]
    status, out, err = call("judge=[gpt_oss_20b,lexical]", f"run={folder}", *near, script="judge.py")
    assert (status, out) == (4, "") and [facts.name for facts in read_judges(folder)] == ["lexical"]
    assert "lexical: of 15 items 9 correct, 6 wrong; 15 verdicts now" in err
    assert f"EndpointError: gpt_oss_20b: judge's server at {away}" in err
    assert f"judge the rest with: python {ROOT / 'scripts' / 'judge.py'} 'judge=[gpt_oss_20b,lexical]'" in err
    assert len(read_verdicts(folder)) == 15


def test_exit_codes_of_settings_and_of_what_is_missing(tmp_path: Path):
    folder = answered_run(tmp_path / "run")
    for status, word, overrides in (
        (2, "judge = nobody: there is no such choice; wanted one of", [f"run={folder}", "judge=[nobody]"]),
        (2, "gold_threshold = 21: wanted 0 to 20", [f"run={folder}", "judge=[lexical]", "gold_threshold=21"]),
        (3, "no run of kvrelay lies there", [f"run={tmp_path}", "judge=[lexical]"]),
    ):
        found, out, err = call(*overrides, script="judge.py")
        assert (found, out) == (status, ""), err
        (line,) = err.strip().split("\n")
        assert word in line
    assert read_judges(folder) == [] and read_verdicts(folder) == {}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"judge": None}, r"judge = None: wanted at least one choice"),
        ({"rejudge": 5.0}, r"rejudge = 5.0: wanted a share"),
        ({"rejudge": "often"}, r"rejudge = 'often' \(str\): wanted float"),
        ({"stages": ["run"]}, r"wanted some of judge, report"),
        ({"report": {"max_unjudged": -1}}, r"report.max_unjudged = -1"),
        ({"report": 3}, r"report = 3: wanted a mapping"),
        ({"run": None}, r"run = None: wanted the folder of a run"),
        ({"rejuge": 0.1}, r"rejuge: no such key"),
    ],
)
def test_settings_that_are_wrong_are_named_before_anything_is_judged(tmp_path: Path, changes: dict, words: str):
    folder = answered_run(tmp_path / "run")
    plain = {"run": str(folder), "judge": group("judge", "lexical"), "stages": ["judge", "report"], "report": {}}
    with pytest.raises(ConfigError, match=words):
        judge_run({**plain, **changes})
    assert read_judges(folder) == [] and read_verdicts(folder) == {}


def test_a_folder_without_a_run_and_one_that_nothing_was_answered_in(tmp_path: Path):
    plain = {"judge": group("judge", "lexical"), "stages": ["judge"], "report": {}}
    claim_folder(tmp_path / "empty", "empty")
    for folder, words in (
        (tmp_path / "none", "no run of kvrelay lies there"),
        (tmp_path / "empty", "nothing has been"),
    ):
        with pytest.raises(AssetError, match=words):
            judge_run({**plain, "run": str(folder)})


def test_a_server_that_is_away_or_judges_wrongly_is_exit_code_4(tmp_path: Path):
    folder = answered_run(tmp_path / "run")
    with judging(decide=lambda item: said(True)) as server:
        status, out, err = judge(folder, server)
        assert (status, out, len(server.answers_asked)) == (4, "", 0)
        assert "got 10 of 20 gold items right, wanted 18" in err
        status, out, _ = judge(folder, server, "gold_threshold=null", "stages=[judge]")
        assert (status, out, len(server.answers_asked)) == (0, "", 15)
    status, _, err = judge(folder, server)
    assert status == 4 and "EndpointError" in err and server.url in err


def test_a_server_that_gives_out_says_how_to_go_on(tmp_path: Path):
    """The key is withdrawn after nine answers; then it is given back."""
    left = [9]

    def decide(item: dict[str, str]) -> str | int:
        if (item["question"], item["candidate"]) not in GOLD:
            left[0] -= 1
            return truly(item) if left[0] >= 0 else 401
        return truly(item)

    folder = answered_run(tmp_path / "run")
    with judging(decide=decide) as server:
        status, out, err = judge(folder, server, "judge.qwen25_32b.concurrency=1")
        assert (status, out) == (4, "") and "of 15 items" in err and "6 unjudged; 9 verdicts now" in err
        scripts = ROOT / "scripts" / "judge.py"
        assert f"judge the rest with: python {scripts} 'judge=[qwen25_32b]' run={folder}" in err
        asked = len(server.answers_asked)
        assert 10 <= asked <= 12
        left[0] = 100
        status, _, err = judge(folder, server)
        assert status == 0 and "9 judged before, 6 to judge" in err and len(server.answers_asked) == asked + 6
    assert len(read_verdicts(folder)) == 15


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_stage_that_is_stopped_goes_on_with_the_rest(tmp_path: Path, stop: signal.Signals):
    """The server replies to twenty items of 45 and then holds the others back until the stop has been sent."""
    folder = answered_run(tmp_path / "run", questions=30)
    with judging() as server:

        def decide(item: dict[str, str]) -> str:
            if len(server.answers_asked) > 20:
                held.append(item)
                server.gate.clear()
                server.gate.wait(30)
            return truly(item)

        held: list[object] = []
        server.decide = decide
        fields = arguments(folder, server, "judge.qwen25_32b.concurrency=4", "stages=[judge]")
        process = start(*fields, script="judge.py")
        deadline = time.monotonic() + 60
        while not held and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(stop)
        server.decide = truly
        server.gate.set()
        _, err = process.communicate(timeout=60)
        assert process.returncode == (130 if stop != signal.SIGKILL else -signal.SIGKILL), err
        before = read_verdicts(folder)
        assert 0 < len(before) < 45
        if stop != signal.SIGKILL:
            assert "what is finished is kept" in err and f"{45 - len(before)} unjudged" in err
        asked = len(server.answers_asked)
        status, _, err = judge(folder, server, "stages=[judge]")
        assert status == 0 and f"{len(before)} judged before, {45 - len(before)} to judge" in err
        assert len(server.answers_asked) == asked + 45 - len(before)
    verdicts = read_verdicts(folder)
    assert len(verdicts) == 45 and before.items() <= verdicts.items()


def test_help_tells_keys_examples_and_exit_codes():
    status, out, _ = call("--help", script="judge.py")
    assert status == 0
    for word in ("run=outputs/table1", "rejudge", "gold_threshold", "report.max_unjudged", "Exit status", "stages="):
        assert word in out


def test_requests_hold_no_name_of_the_run(tmp_path: Path):
    folder = answered_run(tmp_path / "run")
    with judging() as server:
        judge(folder, server, "stages=[judge]")
        told = json.dumps(server.answers_asked)
    assert "Question 3?" in told
    assert [
        name for name in ("snapkv", "original", "roperelay", "r10", "answered", str(tmp_path)) if name in told
    ] == []
