"""What every judge of ``conf/judge`` keeps: its file builds it, its identity is stable and holds no secret."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from judge_server import completion
from omegaconf import OmegaConf

from judges.endpoint import OpenAICompatibleJudge
from kvrelay.core.errors import ConfigError, EndpointError
from kvrelay.run.build import build_group

CONFIGS = sorted((Path(__file__).parents[2] / "conf" / "judge").glob("*.yaml"))
PLAIN = ("lexical", "short_answer", "qwen25_32b", "gpt_oss_20b")
"""Judges of one verdict an answer: those of a server take a `OpenAICompatibleJudge`."""
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
    assert set(PLAIN) <= {path.stem for path in CONFIGS}


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_the_file_sets_every_field_and_no_other(path):
    judge = build(path)
    assert judge == build(path)
    assert SECRET not in repr(judge)
    written = set(OmegaConf.load(path)[path.stem]) - {"_target_"}
    assert written == {field.name for field in dataclasses.fields(judge)}
    with pytest.raises(ConfigError, match=rf"judge\.{path.stem}\.max_tokns"):
        build(path, max_tokns=3)


@pytest.mark.parametrize("name", PLAIN)
def test_settled_it_judges(name, monkeypatch, server, make_item):
    """Against a server without the model it does not settle; against one that answers, an item gets its verdict."""
    monkeypatch.setenv("KVRELAY_JUDGE_URL", server.url)
    judge = build({path.stem: path for path in CONFIGS}[name])
    if isinstance(judge, OpenAICompatibleJudge):
        with pytest.raises(EndpointError, match=r"judge\.\*\.model"):
            judge.settled(name)
        server.served, server.enforces = [judge.model], ("choice",)
        server.judge = lambda asked: completion('{"correct": true}')
    settled, again = judge.settled(name), judge.settled(name)
    facts = settled.facts
    assert facts.id == again.facts.id
    assert re.fullmatch(rf"{name}-[0-9a-f]{{16}}", facts.id)
    assert SECRET not in facts.model_dump_json()
    assert bool(facts.template_sha256) == isinstance(judge, OpenAICompatibleJudge)
    item = make_item(candidate="At the boathouse.")
    (verdict,) = settled.verdicts([item])
    assert (verdict.correct, verdict.item_key, verdict.judge_id) == (True, item.key, facts.id)
    assert settled.pace() == ""


def test_the_papers_settings():
    by_name = {path.stem: path for path in CONFIGS}
    qwen, oss = build(by_name["qwen25_32b"]), build(by_name["gpt_oss_20b"])
    assert (qwen.model, qwen.max_tokens, qwen.temperature) == ("Qwen/Qwen2.5-32B-Instruct", 32, 0.0)
    assert (oss.model, oss.max_tokens, oss.reasoning_effort) == ("openai/gpt-oss-20b", 2048, "medium")
    assert qwen.prompt == oss.prompt == "memory_judge_v1"
    assert qwen.reasoning_effort is None
    assert (qwen.constraint, oss.constraint) == ("auto", "none")
    assert qwen.api == oss.api == "chat"
    assert qwen.base_url == oss.base_url == "http://127.0.0.1:8000/v1"


@pytest.mark.parametrize(
    "path", [path for path in CONFIGS if not path.stem.startswith("helloeval")], ids=lambda p: p.stem
)
def test_what_a_checklist_is_for_is_called_neither_right_nor_wrong(path, server, make_item):
    changes = (
        {"base_url": server.url, "model": server.served[0]} if "base_url" in OmegaConf.load(path)[path.stem] else {}
    )
    judge = build(path, **changes).settled(path.stem)
    asked = len(server.asked)
    (verdict,) = judge.verdicts([make_item(checklist=("Is it long?",), references=("Summarise the text.",))])
    assert (verdict.correct, verdict.reason, verdict.is_final) == (None, "rubric", True)
    assert len(server.asked) == asked
