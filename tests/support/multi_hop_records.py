"""Small records of the four multi-hop data sets in each layout, and files that hold them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HOTPOT_ID = "5ae40c465542996836b02c25"
WIKI_ID = "83bf3b5a0bd911eba7f7acde48001122"

PARAGRAPHS: dict[str, list[str]] = {
    "Old Mill": ["The old mill was built by Ada Stone.", " It stands by a river."],
    "Ada Stone": ["Ada Stone was born in Velmora."],
    "New Mill": ["The new mill was built by Ben Reed.", " Nobody works there."],
    "Ben Reed": ["Ben Reed was born in Ostby."],
    "Velmora": ["Velmora is a town."],
    "River": ["A river is a stream of water."],
}
SUPPORT = ("Old Mill", "Ada Stone")
QUESTION, ANSWER = "Where was the builder of the old mill born?", "Velmora"


def hotpot(**changes: Any) -> dict[str, Any]:
    """A raw record of HotpotQA. Two of its six passages support the answer, and one more contains it."""
    record = {
        "_id": HOTPOT_ID,
        "question": QUESTION,
        "answer": ANSWER,
        "type": "bridge",
        "level": "easy",
        "supporting_facts": [[title, 0] for title in SUPPORT],
        "context": [[title, sentences] for title, sentences in PARAGRAPHS.items()],
    }
    return record | changes


def wiki(**changes: Any) -> dict[str, Any]:
    """A raw record of 2WikiMultiHopQA."""
    record = hotpot(_id=WIKI_ID, type="compositional")
    del record["level"]
    facts = [["Old Mill", "builder", "Ada Stone"], ["Ada Stone", "place of birth", ANSWER]]
    return {**record, "evidences": facts, "entity_ids": "Q1_Q2", "answer_id": "Q7", **changes}


def as_columns(record: dict[str, Any]) -> dict[str, Any]:
    """The hub's layout: pairs as columns, the id without its underscore."""
    record = {("id" if key == "_id" else key): value for key, value in record.items()}
    facts, context = record["supporting_facts"], record["context"]
    record["supporting_facts"] = {"title": [t for t, _ in facts], "sent_id": [n for _, n in facts]}
    record["context"] = {"title": [t for t, _ in context], "sentences": [s for _, s in context]}
    return record


def as_strings(record: dict[str, Any]) -> dict[str, Any]:
    """The layout of a hub copy whose nested fields are JSON texts."""
    nested = ("supporting_facts", "context", "evidences")
    return {key: json.dumps(value) if key in nested else value for key, value in record.items()}


def musique(**changes: Any) -> dict[str, Any]:
    record = {
        "id": "2hop__11_22",
        "paragraphs": [
            {"idx": i, "title": title, "paragraph_text": "".join(sentences), "is_supporting": title in SUPPORT}
            for i, (title, sentences) in enumerate(PARAGRAPHS.items())
        ],
        "question": QUESTION,
        "question_decomposition": [{"id": 11}, {"id": 22}],
        "answer": ANSWER,
        "answer_aliases": ["Velmora town", ANSWER],
        "answerable": True,
    }
    return record | changes


def ircot(id_: str, **changes: Any) -> dict[str, Any]:
    contexts = musique()["paragraphs"]
    return {"question_id": id_, "question_text": QUESTION, "answer": ANSWER, "contexts": contexts} | changes


def iirc_answer(**answer: Any) -> dict[str, Any]:
    """A question of an IIRC passage with this answer."""
    return {
        "qid": "q_1",
        "question": QUESTION,
        "answer": answer,
        "question_links": ["Ada Stone"],
        "context": [
            {"passage": "main", "text": "The old mill was built by Ada Stone.", "indices": [0, 36]},
            {"passage": "ada stone", "text": "Ada Stone was born in Velmora.", "indices": [-1, -1]},
        ],
    }


SPAN = {"type": "span", "answer_spans": [{"text": ANSWER, "passage": "Ada Stone", "indices": [22, 29]}]}


def iirc(*questions: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A raw IIRC passage; without questions, one with a span."""
    record = {
        "pid": "p_0",
        "title": "Old Mill",
        "text": "The old mill was built by Ada Stone. It stands by a river.",
        "links": [
            {"target": "Ada%20Stone", "indices": [26, 35]},
            {"target": "Ben Reed", "indices": [0, 1]},
            {"target": "River", "indices": [-3, 2]},
            {"target": "No Such Page", "indices": [0, 0]},
        ],
        "questions": list(questions) or [iirc_answer(**SPAN)],
    }
    return record | changes


LONG = "and the rest of this line only makes it long enough to be taken for a paragraph"
ARTICLES = {
    "ada stone": f'<b>Life</b>\nAda Stone was <a href="Velmora">born</a> in Velmora. {LONG}.\nShe liked rain, {LONG}.',
    "Ben Reed": f"Ben Reed was born in Ostby &amp; left, {LONG}.\nHe had a boat, {LONG}.",
    "river": f"Short heading\nA river is a stream of water, {LONG}.",
    "unrelated": "Never read.",
}


def write_lines(path: Path, *records: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return str(path)


def write_array(path: Path, *records: dict[str, Any]) -> str:
    path.write_text(json.dumps(records, indent=1), encoding="utf-8")
    return str(path)


def write_iirc(folder: Path, *passages: dict[str, Any], articles: dict[str, str] = ARTICLES) -> str:
    """A folder with the passages and their articles."""
    write_array(folder / "dev.json", *passages)
    (folder / "context_articles.json").write_text(json.dumps(articles, indent=1), encoding="utf-8")
    return str(folder)
