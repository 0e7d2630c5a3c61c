"""IIRC: what its answers count as, and how a context is made from a passage and its linked articles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import multi_hop_records as made
import pytest

from data_adapters.multi_hop.articles import Articles
from data_adapters.multi_hop.iirc import IIRC
from data_adapters.multi_hop.passages import Passage
from kvrelay.core.errors import AssetError, DataError


def questions(folder: Path, *answers: dict[str, Any], **settings: Any) -> list[Any]:
    asked = [made.iirc_answer(**answer) | {"qid": f"q_{i}"} for i, answer in enumerate(answers)]
    return list(IIRC(path=made.write_iirc(folder, made.iirc(*asked)), **settings).questions())


def spans(*texts: str) -> dict[str, Any]:
    return {"type": "span", "answer_spans": [{"text": text, "passage": "x", "indices": [0, 1]} for text in texts]}


def test_the_main_passage_is_pinned_and_support_is_found_by_its_snippet(tmp_path: Path) -> None:
    (question,) = IIRC(path=made.write_iirc(tmp_path, made.iirc())).questions()
    main = Passage(title="Old Mill", text="The old mill was built by Ada Stone. It stands by a river.", supporting=True)
    gold = Passage(title="ada stone", text=f"Ada Stone was born in Velmora. {made.LONG}.", supporting=True)
    assert question.passages[0] == main
    assert gold in question.passages
    assert {p.title for p in question.passages if not p.supporting} == {"Ben Reed", "River"}
    assert [p.text for p in question.passages if p.title == "River"] == [f"A river is a stream of water, {made.LONG}."]
    assert (question.id, question.type, question.references) == ("q_1", "span", ("Velmora",))


def test_the_seed_draws_paragraphs_and_order(tmp_path: Path) -> None:
    folder = made.write_iirc(tmp_path, made.iirc())
    contexts = [next(IIRC(path=folder, context_seed=seed).questions()).passages for seed in range(12)]
    assert contexts[0] == next(IIRC(path=folder, context_seed=0).questions()).passages
    assert {passage.text[:8] for context in contexts for passage in context if passage.title == "Ben Reed"} == {
        "Ben Reed",
        "He had a",
    }
    assert len({tuple(passage.title for passage in context) for context in contexts}) > 1
    assert all(context[0].title == "Old Mill" and len(context) == 4 for context in contexts)


@pytest.mark.parametrize(
    ("answer", "references"),
    [
        (spans("Velmora"), ("Velmora",)),
        (spans("Ada", "Ben"), ("Ada, Ben", "Ada and Ben", "Ben, Ada", "Ben and Ada")),
        (spans("a", "b", "c", "d"), ("a, b, c, d", "a, b, c and d")),
        ({"type": "value", "answer_value": "53", "answer_unit": "years"}, ("53", "53 years")),
        ({"type": "value", "answer_value": 53, "answer_unit": ""}, ("53",)),
        ({"type": "binary", "answer_value": "yes"}, ("yes",)),
    ],
)
def test_references(tmp_path: Path, answer: dict[str, Any], references: tuple[str, ...]) -> None:
    (question,) = questions(tmp_path, answer)
    assert (question.references, question.type) == (references, answer["type"])


def test_three_spans_count_in_six_orders(tmp_path: Path) -> None:
    (question,) = questions(tmp_path, spans("a", "b", "c"))
    assert len(question.references) == 12 and question.references[:2] == ("a, b, c", "a, b and c")
    assert "c, b and a" in question.references


def test_questions_without_an_answer_go_unless_asked_for(tmp_path: Path) -> None:
    answers = (made.SPAN, {"type": "none"}, {"type": "bad"}, {"type": "span", "answer_spans": []})
    assert [question.id for question in questions(tmp_path, *answers)] == ["q_0"]
    kept = questions(tmp_path, *answers, keep_none=True)
    assert [(question.id, question.unanswerable, question.references) for question in kept] == [
        ("q_0", False, ("Velmora",)),
        ("q_1", True, ()),
    ]


def test_a_question_without_an_id_is_named_by_its_place(tmp_path: Path) -> None:
    asked = made.iirc_answer(**made.SPAN)
    del asked["qid"]
    (question,) = IIRC(path=made.write_iirc(tmp_path, made.iirc(asked))).questions()
    assert question.id == "p_0_0"


def test_a_snippet_that_is_found_nowhere_is_its_own_passage(tmp_path: Path) -> None:
    asked = made.iirc_answer(**made.SPAN)
    asked["context"].append({"passage": "No Such Page", "text": "A page that is <i>lost</i>.", "indices": [0, 1]})
    (question,) = IIRC(path=made.write_iirc(tmp_path, made.iirc(asked))).questions()
    assert Passage(title="No Such Page", text="A page that is lost.", supporting=True) in question.passages


def test_an_unknown_kind_of_answer_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"record 0, questions\[0\], answer: field 'type' is 'poem'"):
        questions(tmp_path, {"type": "poem"})


def test_files_that_are_missing_are_named(tmp_path: Path) -> None:
    with pytest.raises(AssetError, match=r"dataset\.iirc\.path=null: .*iirc_train_dev\.tgz"):
        IIRC().files()
    made.write_array(tmp_path / "dev.json", made.iirc())
    with pytest.raises(AssetError, match=r"dataset\.iirc\.articles_path=.*context_articles\.json"):
        IIRC(path=str(tmp_path)).files()
    (tmp_path / "context_articles.json").write_text("[]")
    with pytest.raises(DataError, match=r"context_articles\.json: wanted one JSON object"):
        list(IIRC(path=str(tmp_path)).questions())
    (tmp_path / "context_articles.json").write_text("{")
    with pytest.raises(DataError, match=r"context_articles\.json: not valid JSON"):
        list(IIRC(path=str(tmp_path)).questions())


def test_ircots_records_need_no_articles(tmp_path: Path) -> None:
    contexts = made.ircot("x")["contexts"]
    pinned = [{"title": "River", "paragraph_text": "A river is a stream of water.", "is_supporting": False}]
    answers = ("Velmora", "1,882", "12.5%", "No", "April 1882")
    records = [
        made.ircot(f"q_{i}", answer=answer, contexts=contexts, pinned_contexts=pinned)
        for i, answer in enumerate(answers)
    ]
    path = made.write_lines(tmp_path / "x.jsonl", *records)
    found = list(IIRC(path=path).questions())
    assert [question.type for question in found] == ["span", "value", "value", "binary", "span"]
    assert found[0].passages[0] == Passage(title="River", text="A river is a stream of water.", supporting=True)
    assert len(found[0].passages) == len(contexts)


def test_paragraphs_are_plain_lines_of_some_length() -> None:
    articles = Articles({"x": "<p>Head</p>\n" + "one two " * 6 + "&lt;b\nshort\n", "y": "only this"})
    assert articles.paragraphs("X") == ["one two " * 6 + "<b"]
    assert articles.paragraphs("y") == ["only this"]
    assert articles.paragraphs("z") == []


def test_a_snippet_finds_the_paragraph_with_nearly_all_its_words() -> None:
    """Nine of ten words are not more than nine tenths; ten of eleven are."""
    ten, eleven = "a b c d e f g h i j", "a b c d e f g h i j k"
    page = Articles({"x": f"{ten.replace('j', 'x')} y z\n{eleven.replace('k', 'x')} y z"})
    assert page.paragraph_with("x", ten) == "a b c d e f g h i j x y z"
    assert page.paragraph_with("x", eleven) == "a b c d e f g h i j x y z"
    assert page.paragraph_with("x", "a b c d e f g h i m") == "a b c d e f g h i m"


def test_real_passages_give_contexts(samples: Path) -> None:
    folder = samples / "iirc"
    located = IIRC.located(folder)
    assert located is not None and set(located) == {"path", "articles_path"}
    found = list(IIRC(**located).questions())
    assert len(found) == 20
    assert all(question.passages[0].supporting and len(question.supporting) >= 2 for question in found)
    assert all(question.references for question in found)
    assert {question.type for question in found} == {"span", "value", "binary"}
