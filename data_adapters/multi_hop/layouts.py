"""Layouts that several of the data sets come in: HotpotQA's, and the one that IRCoT writes for all four."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from data_adapters.fields import Fields
from data_adapters.multi_hop.passages import Passage, distinct

IRCOT_KEYS = frozenset({"question_id", "question_text", "contexts"})


def is_ircot(record: Fields) -> bool:
    return record.values.keys() >= IRCOT_KEYS


def gold(record: Fields, key: str = "answer") -> str:
    """The gold answer. Raises `DataError` where it was withheld, as in every test split of these data sets."""
    if record.values.get(key) is None or record.values[key] == "":
        raise record.error(key, "is missing or empty: a test split has no gold answers; use the dev split")
    return record.name(key)


def hotpot_passages(record: Fields) -> tuple[Passage, ...]:
    """Passages of HotpotQA's layout: ``[title, [sentence]]`` pairs, columns of them, or either as a JSON string.

    A sentence number is never looked up: some lie beyond their paragraph (hotpotqa/hotpot#21). Sentences of the two
    data sets that use the layout differ in whether they begin with their space.
    """
    gold_titles = {title.strip().casefold() for title, _ in pairs(record, "supporting_facts", "sent_id")}
    found = []
    for title, sentences in pairs(record, "context", "sentences"):
        if not isinstance(sentences, list) or not all(isinstance(sentence, str) for sentence in sentences):
            raise record.error("context", f"has no list of sentences under the title {title!r}")
        text = " ".join(stripped for sentence in sentences if (stripped := sentence.strip()))
        found.append(Passage(title=title, text=text, supporting=title.strip().casefold() in gold_titles))
    missing = gold_titles - {passage.title.strip().casefold() for passage in found}
    # half a support, as the fullwiki setting has it, is a question that the context cannot answer
    return distinct(Passage(title=p.title, text=p.text) if missing else p for p in found)


def pairs(record: Fields, key: str, second: str) -> list[tuple[str, Any]]:
    """(title, value) of a field that is a list of pairs or an object with the lists ``title`` and ``second``."""
    value = record.any(key)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise record.error(key, f"is a str that is not JSON ({error})") from error
    if isinstance(value, Mapping):
        columns = record.part(key, value)
        titles, others = columns.items("title"), columns.items(second)
        if len(titles) != len(others):
            raise record.error(key, f"has {len(titles)} titles and {len(others)} {second}")
        value = [list(pair) for pair in zip(titles, others, strict=True)]
    if not isinstance(value, list):
        raise record.error(key, f"is {type(value).__name__}, wanted a list of pairs")
    return [_pair(record, key, item) for item in value]


def _pair(record: Fields, key: str, item: object) -> tuple[str, Any]:
    if not isinstance(item, list | tuple) or len(item) != 2 or not isinstance(item[0], str):
        raise record.error(key, f"has the entry {str(item)[:60]!r}, wanted [title, ...]")
    return item[0], item[1]


def marked_passages(record: Fields, key: str) -> tuple[Passage, ...]:
    """Passages that each say for themselves whether they support the answer (MuSiQue's and IRCoT's)."""
    found = []
    for part in record.parts(key):
        marked = part.values.get("is_supporting") or False
        if not isinstance(marked, bool):
            raise part.error("is_supporting", f"is {marked!r}, wanted true or false")
        found.append(Passage(title=part.text("title"), text=part.text("paragraph_text").strip(), supporting=marked))
    return distinct(found)


def ircot_passages(record: Fields) -> tuple[Passage, ...]:
    """Pinned passages first, and as support, then the others. They are the distractor setting (ircot#9)."""
    pinned = marked_passages(record, "pinned_contexts") if record.values.get("pinned_contexts") else ()
    first = [Passage(title=passage.title, text=passage.text, supporting=True) for passage in pinned]
    return distinct([*first, *marked_passages(record, "contexts")])


def ircot_references(record: Fields) -> tuple[str, ...]:
    """Its answer: one text, or ``answers_objects`` with the spans of each alternative, or a number."""
    if not record.values.get("answers_objects"):
        return (gold(record),)
    found = []
    for answer in record.parts("answers_objects"):
        spans = [span.strip() for span in answer.texts("spans")] if answer.values.get("spans") else []
        number = str(answer.values.get("number") or "").strip()
        found.append(", ".join(spans) or number)
    return unique(found) or (gold(record, "answers_objects[0]"),)


def unique(texts: Sequence[str]) -> tuple[str, ...]:
    """Texts that say something, each once, in order."""
    return tuple(dict.fromkeys(stripped for text in texts if (stripped := text.strip())))
