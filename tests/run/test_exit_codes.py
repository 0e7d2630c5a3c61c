"""What the command returns, by what went wrong: every status of `kvrelay.core.errors` from a process of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from command_line import call, smoke

from kvrelay.core import errors


def test_every_class_of_error_has_its_status() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.KVRelayError)]
    assert {kind.__name__: kind.exit_code for kind in kinds} == {
        "KVRelayError": 2,
        "ConfigError": 2,
        "UnsupportedModelError": 2,
        "PositionError": 2,
        "EditError": 2,
        "AssetError": 3,
        "DataError": 3,
        "EndpointError": 4,
        "IncompleteError": 5,
        "InvariantError": 6,
    }


@pytest.mark.parametrize(
    ("overrides", "status", "words"),
    [
        ([], 0, "table1.md"),
        (["max_new_tokens=many"], 2, r"ConfigError: max_new_tokens = 'many'.*wanted int"),
        (["max_new_token=1"], 2, "ConfigError: .*max_new_token"),
        (["model.tiny.source=./nowhere"], 3, r"AssetError: model tiny: folder \./nowhere does not exist \(key: model"),
        (["+model.tiny.position_range=16"], 5, "answers failed; the same command tries them again"),
        (["+model.tiny.expected_attention_scaling=2.0"], 6, "InvariantError: .*expected_attention_scaling"),
    ],
    ids=["finished", "a setting", "a key", "a missing model", "failed answers", "a broken invariant"],
)
def test_what_a_run_returns(overrides: list[str], status: int, words: str, tmp_path: Path) -> None:
    found, out, err = call(*smoke(tmp_path, 1), "selector=[bm25]", *overrides)
    assert found == status, err
    assert re.search(words, out + err), err
    assert "Traceback" not in err


def test_a_judge_that_is_away_and_a_report_that_lacks_answers(tmp_path: Path) -> None:
    given = [*smoke(tmp_path, 1), "selector=[bm25]"]
    judge = ["judge=[qwen25_32b]", "judge.qwen25_32b.base_url=http://127.0.0.1:9/v1"]
    judge += ["judge.qwen25_32b.retries=0", "judge.qwen25_32b.breaker_patience_s=0.1"]
    found, _, err = call(*given, *judge, "gold_threshold=null")
    assert found == 4 and "EndpointError: " in err and "base_url" in err, err
    assert not (tmp_path / "out").exists()
    assert call(*given, "stages=[run]")[0] == 0
    found, out, err = call(*given, "stages=[report]")
    assert found == 5 and "INCOMPLETE" in out and "not judged" in err
