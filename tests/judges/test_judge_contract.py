"""What every judge of ``conf/judge`` keeps: its file builds it, its id is stable and holds no secret."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from judges.endpoint import OpenAICompatibleJudge
from kvrelay.core.errors import ConfigError, EndpointError
from kvrelay.run.build import build_group

CONFIGS = sorted((Path(__file__).parents[2] / "conf" / "judge").glob("*.yaml"))
SECRET = "sk-3f9aPrivate77"


def build(path: Path, **changes: object):
    group = OmegaConf.to_container(OmegaConf.load(path), resolve=True)
    assert list(group) == [path.stem]
    (judge,) = build_group({path.stem: {**group[path.stem], **changes}}, "judge").values()
    return judge


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.delenv("KVRELAY_JUDGE_URL", raising=False)
    monkeypatch.setenv("KVRELAY_JUDGE_API_KEY", SECRET)


def test_the_first_judges_are_there():
    assert {"lexical", "short_answer", "qwen25_32b", "gpt_oss_20b"} <= {path.stem for path in CONFIGS}


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_id_is_stable_and_opaque(path, monkeypatch):
    judge, again = build(path), build(path)
    assert judge == again
    assert judge.id == again.id
    assert re.fullmatch(r"[\w.-]+", judge.id)
    assert judge.concurrency >= 1
    monkeypatch.setenv("KVRELAY_JUDGE_API_KEY", "another-key")
    monkeypatch.setenv("KVRELAY_JUDGE_URL", "http://127.0.0.1:1/v1")
    assert build(path).id == judge.id
    assert SECRET not in f"{judge!r} {judge.id}"


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_the_file_sets_every_field_and_no_other(path):
    judge = build(path)
    written = set(OmegaConf.load(path)[path.stem]) - {"_target_"}
    assert written == {field.name for field in dataclasses.fields(judge)}
    with pytest.raises(ConfigError, match=rf"judge\.{path.stem}\.max_tokns"):
        build(path, max_tokns=3)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_check_and_judge(path, monkeypatch, server, make_item):
    """Against a server without the model ``check`` fails; against one that answers, an item gets its verdict."""
    monkeypatch.setenv("KVRELAY_JUDGE_URL", server.url)
    judge = build(path)
    if isinstance(judge, OpenAICompatibleJudge):
        with pytest.raises(EndpointError, match=r"judge\.\*\.model"):
            judge.check()
        server.served = [judge.model]
    judge.check()
    item = make_item(candidate="At the boathouse.")
    verdict = judge.judge(item)
    assert (verdict.correct, verdict.item_key, verdict.judge_id) == (True, item.key, judge.id)


def test_the_papers_settings():
    by_name = {path.stem: path for path in CONFIGS}
    qwen, oss = build(by_name["qwen25_32b"]), build(by_name["gpt_oss_20b"])
    assert (qwen.model, qwen.max_tokens, qwen.temperature) == ("Qwen/Qwen2.5-32B-Instruct", 32, 0.0)
    assert (oss.model, oss.max_tokens, oss.reasoning_effort) == ("openai/gpt-oss-20b", 2048, "medium")
    assert qwen.prompt == oss.prompt == "memory_judge_v1"
    assert qwen.reasoning_effort is None
    assert qwen.base_url == oss.base_url == "http://127.0.0.1:8000/v1"
