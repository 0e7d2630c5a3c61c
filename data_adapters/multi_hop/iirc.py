"""IIRC (Ferguson et al., EMNLP 2020): a passage with links, and questions that need what the linked articles say."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

from data_adapters.fields import Fields
from data_adapters.files import Source
from data_adapters.links import own
from data_adapters.multi_hop.adapter import MultiHop
from data_adapters.multi_hop.articles import Articles
from data_adapters.multi_hop.layouts import IRCOT_KEYS, ircot_passages, ircot_references, unique
from data_adapters.multi_hop.passages import Passage, SourceQuestion, distinct, same_title
from data_adapters.multi_hop.recognise import find
from data_adapters.parse import records
from data_adapters.subset import rank
from kvrelay.core.errors import AssetError

FILES = ("dev.json", "iirc_dev.json", "train.json", "iirc_train.json")
ARTICLES = ("context_articles.json",)
MOST_PERMUTED = 3
"""Spans of an answer up to which each order of them is a reference."""

_NUMBER = re.compile(r"[-+]?[\d,]*\.?\d+%?")
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class IIRC(MultiHop):
    """Raw files with the articles beside them, or IRCoT's processed records, which hold their paragraphs.

    From raw files, contexts are made as IRCoT makes them (beam_retriever#10): the main passage, pinned first and
    counted as support; the paragraphs of linked articles that the annotated snippets stand in; one drawn paragraph of
    each other linked article. ``context_seed`` draws the paragraphs and the order of all but the main passage.
    Unanswerable questions (type ``none``) are left out unless ``keep_none``; ``bad`` ones always.
    """

    articles_path: str | None = None
    context_seed: int = 0
    keep_none: bool = False

    @property
    def name(self) -> str:
        return "iirc"

    @staticmethod
    def located(given: Path) -> dict[str, str] | None:
        """Fields that point this adapter at its records and the articles beside them; None if there are none."""
        found = find(given, "iirc")
        if found is None:
            return None
        articles = next((own(path, found.parent) for path in sorted(found.parent.glob("context_articles*.json"))), None)
        return {"path": str(found)} | ({"articles_path": str(articles)} if articles else {})

    def files(self) -> tuple[Path, ...]:
        if self.path is None:
            raise AssetError(
                f"{self.key}.path=null: the authors' IIRC files are on no hub; unpack iirc_train_dev.tgz and "
                f"context_articles.tar.gz into one folder and set {self.key}.path=<folder> (make: DATA=<folder>)"
            )
        file = self.source("").file(FILES)
        first = next(records(file), None)
        if first is None or first.values.keys() >= IRCOT_KEYS:
            return (file,)
        beside = self.articles_path or str(file.parent)
        articles = Source(setting=f"{self.key}.articles_path", path=beside, hub_id="", revision=None)
        return file, articles.file(ARTICLES)

    def questions(self) -> Iterator[SourceQuestion]:
        file, *others = self.files()
        if not others:
            yield from (_processed(record) for record in records(file))
            return
        passages = list(records(file))
        articles = Articles.read(others[0], {title for passage in passages for title in _titles(passage)})
        left_out: Counter[str] = Counter()
        for passage in passages:
            for index, question in enumerate(passage.parts("questions")):
                kind, references = _answer(question)
                if kind == "bad" or (kind == "none" and not self.keep_none) or (kind != "none" and not references):
                    left_out[kind] += 1
                    continue
                yield self._question(passage, index, question, kind, references, articles)
        _LOG.info("%s: left out by type: %s", self.key, dict(left_out) or "none")

    def _question(
        self, main: Fields, index: int, question: Fields, kind: str, references: tuple[str, ...], articles: Articles
    ) -> SourceQuestion:
        """Questions without an id get their passage's, and their place in it."""
        id_ = str(question.values.get("qid") or f"{main.name('pid')}_{index}")
        linked = [*_gold_passages(main, question, articles), *self._others(id_, main, question, articles)]
        linked.sort(key=lambda passage: rank(self.context_seed, f"{id_}\n{passage.title}\n{passage.text}"))
        first = Passage(title=main.name("title"), text=main.name("text").strip(), supporting=True)
        return SourceQuestion(
            dataset=self.name,
            id=id_,
            question=question.name("question").strip(),
            references=references,
            type=kind,
            passages=distinct([first, *linked]),
            unanswerable=kind == "none",
        )

    def _others(self, id_: str, main: Fields, question: Fields, articles: Articles) -> Iterator[Passage]:
        """One paragraph of each linked article that supports nothing."""
        taken = {main.name("title").casefold(), *(title.casefold() for title in _support_titles(question))}
        for link in main.parts("links"):
            title = articles.plain(link.text("target"))
            paragraphs = articles.paragraphs(title)
            if title.casefold() in taken or not paragraphs:
                continue
            taken.add(title.casefold())
            text = min(paragraphs, key=lambda paragraph: rank(self.context_seed, f"{id_}\n{title}\n{paragraph}"))
            yield Passage(title=title, text=text)


def _answer(question: Fields) -> tuple[str, tuple[str, ...]]:
    """(type, references). A value counts with and without its unit; several spans count in each of their orders."""
    answer = question.part("answer", question.any("answer"))
    kind = answer.name("type")
    if kind == "span":
        spans = [span.text("text").strip() for span in answer.parts("answer_spans")]
        return kind, _in_each_order(unique(spans))
    if kind in ("value", "binary"):
        value = str(answer.any("answer_value")).strip()
        unit = str(answer.values.get("answer_unit") or "").strip()
        return kind, unique([value, f"{value} {unit}"])
    if kind not in ("none", "bad"):
        raise answer.error("type", f"is {kind!r}, wanted span, value, binary, none or bad")
    return kind, ()


def _in_each_order(spans: tuple[str, ...]) -> tuple[str, ...]:
    """Lists of the spans as they are written in English, with and without the "and"."""
    if len(spans) < 2:
        return spans
    orders = permutations(spans) if len(spans) <= MOST_PERMUTED else [spans]
    return unique([text for order in orders for text in (", ".join(order), _enumerated(order))])


def _enumerated(spans: tuple[str, ...]) -> str:
    return f"{', '.join(spans[:-1])} and {spans[-1]}"


def _gold_passages(main: Fields, question: Fields, articles: Articles) -> Iterator[Passage]:
    """The paragraphs that the annotated snippets stand in; a snippet that is found nowhere is its own passage."""
    for snippet in _snippets(question):
        title = articles.plain(snippet.name("passage"))
        if title != "main" and not same_title(title, main.name("title")):
            text = articles.paragraph_with(title, snippet.text("text"))
            yield Passage(title=title, text=text, supporting=True)


def _snippets(question: Fields) -> list[Fields]:
    """Questions that nothing answers may have no context."""
    return question.parts("context") if question.values.get("context") is not None else []


def _support_titles(question: Fields) -> list[str]:
    return [Articles.plain(snippet.name("passage")) for snippet in _snippets(question)]


def _titles(passage: Fields) -> Iterator[str]:
    """Every article that a passage's questions may need."""
    yield from (link.text("target") for link in passage.parts("links"))
    for question in passage.parts("questions"):
        yield from _support_titles(question)


def _processed(record: Fields) -> SourceQuestion:
    """IRCoT's layout gives no type: it is told from the answer, and ``notes["type"]`` says so."""
    id_ = record.name("question_id")
    named = record.named(f"question_id {id_}")
    references = ircot_references(named)
    first = references[0].casefold()
    number = "value" if _NUMBER.fullmatch(first) else "span"
    return SourceQuestion(
        dataset="iirc",
        id=id_,
        question=named.name("question_text").strip(),
        references=references,
        type="binary" if first in ("yes", "no") else number,
        passages=ircot_passages(named),
        notes={"layout": "ircot", "type": "told from the answer"},
    )
