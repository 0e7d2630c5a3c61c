"""Every layout of every data set gives the same question; what is broken or withheld is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import multi_hop_records as made
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from compose import recognised

from data_adapters.multi_hop.hotpotqa import HotpotQA
from data_adapters.multi_hop.iirc import IIRC
from data_adapters.multi_hop.musique import MuSiQue
from data_adapters.multi_hop.passages import Passage, SourceQuestion, answer_teller, distinct
from data_adapters.multi_hop.twowikimultihopqa import TwoWikiMultiHopQA
from kvrelay.core.errors import AssetError, DataError
from kvrelay.run.build import build_group

PASSAGES = tuple(
    Passage(title=title, text=" ".join(sentence.strip() for sentence in sentences), supporting=title in made.SUPPORT)
    for title, sentences in made.PARAGRAPHS.items()
)


def only(adapter: Any) -> SourceQuestion:
    (question,) = adapter.questions()
    return question


def written(path: Path, layout: str, record: dict[str, Any]) -> str:
    if layout == "raw":
        return made.write_array(path.with_suffix(".json"), record)
    if layout == "parquet":
        pq.write_table(pa.Table.from_pylist([made.as_columns(record)]), path.with_suffix(".parquet"))
        return str(path.with_suffix(".parquet"))
    change = {"columns": made.as_columns, "strings": made.as_strings}[layout]
    return made.write_lines(path.with_suffix(".jsonl"), change(record))


@pytest.mark.parametrize("layout", ["raw", "columns", "strings", "parquet"])
def test_hotpotqa_in_each_layout(tmp_path: Path, layout: str) -> None:
    question = only(HotpotQA(path=written(tmp_path / "x", layout, made.hotpot())))
    assert question.passages == PASSAGES
    assert (question.id, question.question, question.references) == (made.HOTPOT_ID, made.QUESTION, (made.ANSWER,))
    assert (question.type, question.cluster_id) == ("bridge", f"hotpotqa:{made.HOTPOT_ID}")


@pytest.mark.parametrize("layout", ["raw", "columns", "strings"])
def test_twowiki_in_each_layout(tmp_path: Path, layout: str) -> None:
    question = only(TwoWikiMultiHopQA(path=written(tmp_path / "x", layout, made.wiki())))
    assert (question.passages, question.references, question.type) == (PASSAGES, (made.ANSWER,), "compositional")


def test_twowiki_counts_aliases_and_demonyms_where_the_file_is_given(tmp_path: Path) -> None:
    path = made.write_array(tmp_path / "dev.json", made.wiki(), made.wiki(_id="b", answer_id=None))
    entity = {"Q_id": "Q7", "aliases": ["Velmora Town", made.ANSWER], "demonyms": ["Velmoran"]}
    aliases = made.write_lines(tmp_path / "id_aliases.json", entity, {"Q_id": "Q8", "aliases": [], "demonyms": []})
    first, second = TwoWikiMultiHopQA(path=path, aliases_path=aliases).questions()
    assert (first.references, first.notes) == ((made.ANSWER, "Velmora Town", "Velmoran"), {"aliases": 2})
    assert (second.references, second.notes) == ((made.ANSWER,), {"aliases": 0})
    assert TwoWikiMultiHopQA.located(tmp_path) == {"path": path, "aliases_path": aliases}


def test_musique(tmp_path: Path) -> None:
    path = made.write_lines(tmp_path / "x.jsonl", made.musique(), made.musique(answerable=False, answer="x"))
    question = only(MuSiQue(path=path))
    assert question.passages == PASSAGES
    assert (question.references, question.type) == (("Velmora", "Velmora town"), "2hop")


def test_musiques_hops_by_id_or_by_its_steps(tmp_path: Path) -> None:
    records = [made.musique(id="3hop1__1_2_3"), made.musique(id="x"), made.musique(id="4hop3__1_2_3_4")]
    assert [q.type for q in MuSiQue(path=made.write_lines(tmp_path / "x.jsonl", *records)).questions()] == [
        "3hop",
        "2hop",
        "4hop",
    ]
    broken = made.write_lines(tmp_path / "y.jsonl", made.musique(id="x", question_decomposition=None))
    with pytest.raises(DataError, match=r"id x.*begins with its hops"):
        only(MuSiQue(path=broken))


@pytest.mark.parametrize(
    ("adapter", "id_", "kind"),
    [
        (HotpotQA, made.HOTPOT_ID, "unlabelled"),
        (TwoWikiMultiHopQA, made.WIKI_ID, "unlabelled"),
        (MuSiQue, "2hop__1_2", "2hop"),
    ],
)
def test_ircots_layout(tmp_path: Path, adapter: type, id_: str, kind: str) -> None:
    question = only(adapter(path=made.write_lines(tmp_path / "x.jsonl", made.ircot(id_))))
    assert (question.passages, question.references, question.type) == (PASSAGES, (made.ANSWER,), kind)
    assert question.notes["layout"] == "ircot"


def test_ircots_answers_may_be_objects(tmp_path: Path) -> None:
    answers = [{"number": "", "spans": ["Ada", "Ben"]}, {"number": "12", "spans": []}, {"number": "12", "spans": []}]
    record = made.ircot("2hop__1_2", answers_objects=answers)
    assert only(MuSiQue(path=made.write_lines(tmp_path / "x.jsonl", record))).references == ("Ada, Ben", "12")


def test_a_sentence_number_beyond_its_paragraph_is_no_matter(tmp_path: Path) -> None:
    record = made.hotpot(supporting_facts=[["Old Mill", 99], ["ada stone", 0]])
    assert only(HotpotQA(path=made.write_array(tmp_path / "x.json", record))).passages == PASSAGES


def test_a_very_short_question_is_marked(tmp_path: Path) -> None:
    records = [
        made.hotpot(),
        made.hotpot(_id="b", question="Is it?"),
        made.hotpot(_id="c", question="Where is it now?"),
    ]
    found = HotpotQA(path=made.write_array(tmp_path / "x.json", *records)).questions()
    assert [question.notes for question in found] == [{}, {"short_question": True}, {}]


def test_half_a_support_is_none(tmp_path: Path) -> None:
    """The fullwiki setting names paragraphs that it does not show."""
    record = made.hotpot(supporting_facts=[["Old Mill", 0], ["Somewhere else", 0]])
    question = only(HotpotQA(path=made.write_array(tmp_path / "x.json", record)))
    assert question.supporting == ()
    assert [passage.text for passage in question.passages] == [passage.text for passage in PASSAGES]


def test_empty_and_repeated_passages_go() -> None:
    twice = Passage(title="A", text="x", supporting=True)
    assert distinct([Passage(title="A", text="x"), Passage(title="B", text=""), twice]) == (twice,)


@pytest.mark.parametrize(
    ("adapter", "record", "field"),
    [
        (HotpotQA, made.hotpot(answer=None), "answer"),
        (HotpotQA, {k: v for k, v in made.hotpot().items() if k != "answer"}, "answer"),
        (TwoWikiMultiHopQA, made.wiki(answer=""), "answer"),
        (MuSiQue, {k: v for k, v in made.musique().items() if k not in ("answer", "answerable")}, "answer"),
        (MuSiQue, made.ircot("2hop__1_2", answer=None), "answer"),
    ],
)
def test_a_test_split_is_refused(tmp_path: Path, adapter: type, record: dict[str, Any], field: str) -> None:
    path = made.write_lines(tmp_path / "x.jsonl", record)
    with pytest.raises(DataError, match=rf"x\.jsonl: line 1 .*'{field}' is missing or empty: a test split"):
        list(adapter(path=path).questions())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"context": "[["}, r"'context' is a str that is not JSON"),
        ({"context": [["Title"]]}, r"'context' has the entry .*Title.*wanted \[title, \.\.\.\]"),
        ({"context": [["Title", "text"]]}, r"no list of sentences under the title 'Title'"),
        ({"context": 3}, r"'context' is int, wanted a list of pairs"),
        ({"context": {"title": ["a"], "sentences": []}}, r"has 1 titles and 0 sentences"),
        ({"question": " "}, r"'question' is empty"),
        ({"type": None}, r"'type' is null, wanted a str"),
    ],
)
def test_a_broken_record_is_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = made.write_array(tmp_path / "x.json", made.hotpot(**change))
    with pytest.raises(DataError, match=rf"record 0 \(id {made.HOTPOT_ID}\).*{message}"):
        list(HotpotQA(path=path).questions())


def test_an_unclear_mark_of_support_is_named(tmp_path: Path) -> None:
    record = made.musique()
    record["paragraphs"][1]["is_supporting"] = "yes"
    with pytest.raises(DataError, match=r"paragraphs\[1\].*'is_supporting' is 'yes', wanted true or false"):
        list(MuSiQue(path=made.write_lines(tmp_path / "x.jsonl", record)).questions())


def test_an_id_stands_once(tmp_path: Path) -> None:
    path = made.write_array(tmp_path / "x.json", made.hotpot(), made.hotpot())
    with pytest.raises(DataError, match=r"x\.json: .*stands twice"):
        list(HotpotQA(path=path).checked())


def test_each_adapter_knows_its_own_files(tmp_path: Path) -> None:
    records: dict[str, dict[str, Any]] = {
        "hotpotqa": made.hotpot(),
        "twowikimultihopqa": made.wiki(),
        "musique": made.musique(),
        "iirc": made.iirc(),
        "hotpotqa/ircot": made.ircot(made.HOTPOT_ID),
        "twowikimultihopqa/ircot": made.ircot(made.WIKI_ID),
        "musique/ircot": made.ircot("2hop__1_2"),
        "iirc/ircot": made.ircot("q_1", pinned_contexts=[{"title": "a", "paragraph_text": "b"}]),
        "nothing": {"question_id": "x", "haystack_sessions": []},
    }
    located: dict[str, Callable[[Path], dict[str, str] | None]] = adapters_by_name()
    for name, record in records.items():
        for write, suffix in ((made.write_lines, ".jsonl"), (made.write_array, ".json")):
            path = write(tmp_path / f"{name.replace('/', '_')}{suffix}", record)
            found = {known: locate(Path(path)) for known, locate in located.items()}
            wanted = {known: {"path": path} if known == name.split("/")[0] else None for known in located}
            assert found == wanted, path


def adapters_by_name() -> dict[str, Callable[[Path], dict[str, str] | None]]:
    adapters = (HotpotQA, TwoWikiMultiHopQA, MuSiQue, IIRC)
    return {adapter(path="x").name: adapter.located for adapter in adapters}


def test_a_parquet_file_is_recognised_and_another_kind_of_file_is_not(tmp_path: Path) -> None:
    path = written(tmp_path / "x", "parquet", made.hotpot())
    assert HotpotQA.located(tmp_path) == {"path": path}
    for name, content in (("y.json", "{"), ("z.jsonl", '{"question": '), ("w.parquet", "no"), ("v.txt", "[]")):
        (tmp_path / name).write_text(content)
        assert all(locate(tmp_path / name) is None for locate in adapters_by_name().values())


def test_without_a_file_and_a_hub_the_error_says_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(AssetError, match=r"dataset\.hotpotqa\.path=.*hotpot_dev_distractor_v1\.json"):
        list(HotpotQA(path=str(tmp_path)).examples(len))


def test_the_fingerprint_covers_every_file(tmp_path: Path) -> None:
    path = made.write_array(tmp_path / "dev.json", made.wiki())
    aliases = tmp_path / "id_aliases.json"
    aliases.write_text(json.dumps({"Q_id": "Q7", "aliases": [], "demonyms": []}))
    plain = TwoWikiMultiHopQA(path=path).fingerprint()
    both = TwoWikiMultiHopQA(path=path, aliases_path=str(aliases))
    first = both.fingerprint()
    aliases.write_text(json.dumps({"Q_id": "Q7", "aliases": ["x"], "demonyms": []}))
    assert len({plain, first, both.fingerprint()}) == 3


@pytest.mark.parametrize(
    ("folder", "name"),
    [("hotpotqa", "hotpotqa"), ("2wikimultihopqa", "twowikimultihopqa"), ("musique", "musique"), ("iirc", "iirc")],
)
def test_a_folder_of_real_files_is_enough_for_a_run(samples: Path, folder: str, name: str) -> None:
    """What ``data=<folder>`` makes of it: this data set, whole, and no other."""
    parts = recognised(str(samples / folder))
    assert list(parts) == [name] and parts[name]["limit"] is None
    (adapter,) = build_group(parts, "dataset").values()
    assert adapter.name == name and len(list(adapter.examples(len))) % 3 == 0


def test_an_empty_file_holds_no_question(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("[]")
    for adapter in (HotpotQA, TwoWikiMultiHopQA, MuSiQue, IIRC):
        with pytest.raises(DataError, match=r"no question can be asked after a deletion: no records"):
            list(adapter(path=str(tmp_path / "x.json")).examples(len))


@pytest.mark.parametrize(
    ("references", "text", "tells"),
    [
        (("Velmora",), "She left velmora.", True),
        (("Velmora",), "The Velmoran coast.", False),
        (("1,000",), "About 1000 people.", True),
        (("1000",), "About 1,000 people.", True),
        (("St. Mary's",), "in st marys, or St Mary's", True),
        (("yes",), "yes, yes", False),
        (("Norway", "no"), "there is no sea", False),
        (("C++",), "written in C", True),
        (("++",), "a ++ sign", True),
        (("++",), "a sign", False),
    ],
)
def test_what_gives_an_answer_away(references: tuple[str, ...], text: str, tells: bool) -> None:
    assert answer_teller(references)(Passage(title="t", text=text)) is tells


@pytest.mark.parametrize(
    ("raw", "derived"),
    [
        ("hotpotqa/hotpot_train_v1.1_sample.json", "hotpotqa/hotpot_qa_hf_schema_derived.jsonl"),
        ("2wikimultihopqa/2wiki_data_ids_sample.json", "2wikimultihopqa/2wiki_framolfese_schema_derived.jsonl"),
        ("2wikimultihopqa/2wiki_data_ids_sample.json", "2wikimultihopqa/2wiki_xanhho_parquet_schema_derived.jsonl"),
    ],
)
def test_real_records_are_the_same_in_their_layouts(samples: Path, raw: str, derived: str) -> None:
    adapter = HotpotQA if raw.startswith("hotpot") else TwoWikiMultiHopQA
    questions = list(adapter(path=str(samples / raw)).questions())
    assert questions == list(adapter(path=str(samples / derived)).questions())
    assert all(len(question.supporting) in (2, 4) for question in questions)


def test_real_musique_has_its_aliases_and_its_support(samples: Path) -> None:
    questions = list(MuSiQue(path=str(samples / "musique/musique_ans_v1.0_train_sample.jsonl")).questions())
    assert [question.type for question in questions] == ["2hop"] * 8 + ["3hop"] * 4
    assert questions[4].references == ("Norway", "NO", "NOR", "no")
    assert all(len(question.supporting) == int(question.type[0]) for question in questions)
    assert all(len(question.passages) == 20 for question in questions)


def test_every_real_file_is_recognised_as_what_it_is(samples: Path) -> None:
    folders = {
        "hotpotqa": "hotpotqa",
        "2wikimultihopqa": "twowikimultihopqa",
        "musique": "musique",
        "iirc": "iirc",
        "longmemeval": None,
        "personamem": None,
        "long_mt_bench_plus": None,
    }
    for folder, name in folders.items():
        found = [known for known, locate in adapters_by_name().items() if locate(samples / folder)]
        assert found == ([] if name is None else [name]), folder
