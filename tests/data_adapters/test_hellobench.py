"""HelloBench's records as histories: what is kept, what is asked, what is held to which checklist."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from data_adapters.hellobench.adapter import HelloBench, TextCompletion
from data_adapters.hellobench.records import CATEGORIES, Joined, canonical, read_records
from kvrelay.core.errors import AssetError, ConfigError, DataError

HEAD, TAIL = "Summarise this.\n[Text Start]: \n", "\n[Text End]\n[Requirements]:\n1. Be brief. "


def words(text: str) -> int:
    return len(text.split())


def record(number: int = 0, source: str = "One.\n\nTwo two.\nThree.", **fields: Any) -> dict[str, Any]:
    plain: dict[str, Any] = {"id": f"summarization_{number:03d}", "category": "report", "requirements": ["Be brief."]}
    plain |= {"instruction": HEAD + source + TAIL, "checklists": ["Clear?", "Whole?"], "num_checklist": 2}
    return {name: value for name, value in (plain | {"raw_text": source} | fields).items() if value is not ...}


def written(folder: Path, *records: dict[str, Any], name: str = "summarization.jsonl") -> str:
    (folder / name).write_text("".join(json.dumps(one) + "\n" for one in records), encoding="utf-8")
    return str(folder)


def test_an_example_is_its_instruction_in_three(tmp_path: Path) -> None:
    (example,) = HelloBench(path=written(tmp_path, record())).examples(words)
    assert (example.preamble, example.question_prompt) == (HEAD, TAIL)
    assert [unit.text for unit in example.units] == ["One.\n\n", "Two two.\n", "Three."]
    assert [unit.index_text for unit in example.units] == ["One.", "Two two.", "Three."]
    assert example.question == TAIL.strip()
    assert example.references == (HEAD + "One.\n\nTwo two.\nThree." + TAIL,)
    assert (example.question_type, example.checklist) == ("report", ("Clear?", "Whole?"))
    assert (example.cluster_id, example.deleted, example.choices) == ("summarization_000", (), ())
    assert example.notes == {"rubric": True, "source_tokens": 4}


@pytest.mark.parametrize(
    ("source", "units"),
    [
        ("a", ["a"]),
        ("\n\na\n", ["\n\na\n"]),
        ("a\n \n\nb", ["a\n \n\n", "b"]),
        ("a\nb\n", ["a\n", "b\n"]),
    ],
)
def test_paragraphs_lose_no_character(tmp_path: Path, source: str, units: list[str]) -> None:
    (example,) = HelloBench(path=written(tmp_path, record(source=source))).examples(words)
    assert [unit.text for unit in example.units] == units
    assert example.preamble + "".join(units) + example.question_prompt == example.references[0]


def test_the_samples_of_both_tasks_are_read_whole(samples: Path, tmp_path: Path) -> None:
    folder = samples / "hellobench"
    found = list(TextCompletion(path=str(folder)).examples(words))
    assert [example.question_type for example in found] == [
        *("imitative_writing", "continuation", "style_transfer", "imitative_writing")
    ]
    assert all(len(example.checklist) == 5 and len(example.units) > 10 for example in found)
    # the two instructions of summaries come from a file of results, which holds neither category nor checklist
    known = [{"id": "summarization_082", "category": "blogs"}, {"id": "summarization_002", "category": "long_dialogue"}]
    written(tmp_path, *known, name="known.jsonl")
    settings = {"path": str(folder / "summarization_instructions_only_2.jsonl")}
    summaries = list(
        HelloBench(
            **settings, categories_path=str(tmp_path / "known.jsonl"), checklists_path=str(folder / "checklists")
        ).examples(words)
    )
    assert [(e.id, e.question_type, len(e.checklist)) for e in summaries] == [
        ("summarization_082", "blogs", 6),
        ("summarization_002", "long_dialogue", 7),
    ]
    for example in [*found, *summaries]:
        whole = example.preamble + "".join(unit.text for unit in example.units) + example.question_prompt
        assert whole == example.references[0]
        assert "[Requirements]" in example.question and "[Text Start]" not in "".join(u.text for u in example.units)
    with pytest.raises(DataError, match=r"summarization_082.*'category' is missing.*categories_path"):
        list(HelloBench(**settings).examples(words))


def test_all_nine_kinds_of_file_are_read(samples: Path) -> None:
    folder = str(samples / "hellobench")
    counts = {task: len(HelloBench(task=task, path=folder).records()) for task in CATEGORIES if task != "summarization"}  # type: ignore[arg-type]
    assert counts == {"chat": 6, "heuristic_text_generation": 6, "open_ended_qa": 6, "text_completion": 4}
    long = HelloBench(task="heuristic_text_generation", length="2k", path=folder).records()
    assert [one.id for one in long] == ["heuristic_text_generation_000", "heuristic_text_generation_001"]
    chat = HelloBench(task="chat", path=folder).records()
    assert all(one.requirements == () for one in chat) and all(one.requirements for one in long)


@pytest.mark.parametrize("task", ["chat", "heuristic_text_generation", "open_ended_qa"])
def test_a_task_without_a_source_text_is_refused_by_name(samples: Path, task: Any) -> None:
    adapter = HelloBench(task=task, path=str(samples / "hellobench"))
    with pytest.raises(ConfigError, match=rf"task={task}: .*no history to select from; wanted one of summarization"):
        list(adapter.examples(words))


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (record(category="poems"), r"'poems' is none of summarization's: report, academic_article"),
        (record(id="chat_001"), r"'id' is 'chat_001', wanted summarization_NUMBER"),
        (record(checklists=...), r"'checklists' is missing or empty; set checklists_path"),
        (record(checklists=["a", " "]), "an entry without text"),
        (record(num_checklist=3), r"'num_checklist' is 3, but 2 entries"),
        (record(instruction=f"{HEAD}text, and no end"), "no source text in the instruction"),
        (record(instruction=f"{HEAD}{TAIL}"), "nothing stands in the source text"),
        (record(instruction=f"{HEAD}text\n[Text End]"), "no source text|nothing stands|nothing after"),
        (record(requirements="Be brief."), r"'requirements' is str, wanted a list"),
        (record(instruction=""), "'instruction' is empty"),
    ],
)
def test_what_breaks_the_schema_is_named(tmp_path: Path, broken: dict[str, Any], message: str) -> None:
    if broken["instruction"].endswith("[Text End]"):
        broken["instruction"] = broken["instruction"].replace("[Text End]", "")
    with pytest.raises(DataError, match=message) as caught:
        list(HelloBench(path=written(tmp_path, broken)).examples(words))
    assert "summarization.jsonl" in str(caught.value)


def test_an_id_that_stands_twice_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="summarization_001"):
        list(HelloBench(path=written(tmp_path, record(1), record(1))).examples(words))


def test_categories_are_known_by_one_name_each() -> None:
    assert canonical("tech", "open_ended_qa", "here") == "Tech"
    assert canonical(" Academic-Article", "summarization", "here") == "academic_article"
    with pytest.raises(DataError, match="here: the category 'reports'"):
        canonical("reports", "summarization", "here")


def test_a_records_own_checklist_comes_before_its_categorys(tmp_path: Path) -> None:
    (tmp_path / "summarization_checklist.json").write_text('{"Report": ["Other?"]}')
    folder = written(tmp_path, record(0), record(1, checklists=..., num_checklist=1))
    first, second = HelloBench(path=folder, checklists_path=folder).examples(words)
    assert (first.checklist, second.checklist) == (("Clear?", "Whole?"), ("Other?",))
    with pytest.raises(AssetError, match=r"checklists_path=.*none.*summarization_checklist\.json"):
        list(HelloBench(path=folder, checklists_path=str(tmp_path / "none")).examples(words))


def sized(*lengths: int) -> list[dict[str, Any]]:
    return [record(number, source=" ".join(["word"] * length)) for number, length in enumerate(lengths)]


def test_strata_draw_as_many_of_each_length(tmp_path: Path) -> None:
    folder = written(tmp_path, *sized(3, 4, 5, 7, 8, 9, 12, 15, 16, 40))
    drawn = list(HelloBench(path=folder, strata=(4, 8, 16), per_stratum=2, shuffle_seed=0).examples(words))
    assert [example.notes["stratum"] for example in drawn] == ["4-7", "4-7", "8-15", "8-15"]
    assert all(4 <= int(str(example.notes["source_tokens"])) < 16 for example in drawn)
    everything = list(HelloBench(path=folder, strata=(4, 8, 16)).examples(words))
    assert [example.notes["source_tokens"] for example in everything] == [4, 5, 7, 8, 9, 12, 15]
    first = list(HelloBench(path=folder, strata=(4, 8, 16), per_stratum=1).examples(words))
    assert [example.notes["source_tokens"] for example in first] == [4, 8]
    assert {example.id for example in drawn} == {
        example.id
        for example in HelloBench(path=folder, strata=(4, 8, 16), per_stratum=2, shuffle_seed=0).examples(words)
    }


def test_a_stratum_without_enough_texts_is_told(tmp_path: Path) -> None:
    folder = written(tmp_path, *sized(4, 5, 9))
    with pytest.raises(DataError, match=r"2 of 4-7 tokens, 1 of 8-15 tokens\); wanted 2 of each"):
        list(HelloBench(path=folder, strata=(4, 8, 16), per_stratum=2).examples(words))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"task": "poems"}, r"hellobench_poems\.task"),
        ({"categories": ("poems",)}, "poems"),
        ({"strata": (8, 4)}, "strata"),
        ({"strata": (4,)}, "strata"),
        ({"per_stratum": 2}, "without strata"),
        ({"limit": 0}, "limit"),
        ({"length": "3k"}, "length"),
    ],
)
def test_settings_out_of_range_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises((ConfigError, DataError), match=message):
        HelloBench(**settings)


def test_without_a_path_the_user_is_told_where_the_set_is_not() -> None:
    with pytest.raises(AssetError, match=r"path is null, and HelloBench is on no hub: get summarization\.jsonl"):
        list(HelloBench().examples(words))


def test_the_fingerprint_follows_every_file_that_is_read(tmp_path: Path) -> None:
    (tmp_path / "summarization_checklist.json").write_text('{"report": ["Other?"]}')
    folder = written(tmp_path, record())
    plain = HelloBench(path=folder).fingerprint()
    beside = HelloBench(path=folder, checklists_path=folder).fingerprint()
    (tmp_path / "summarization_checklist.json").write_text('{"report": ["Another?"]}')
    assert len({plain, beside, HelloBench(path=folder, checklists_path=folder).fingerprint()}) == 3
    assert HelloBench(path=folder).fingerprint() == plain


def test_a_file_is_recognised_by_what_it_holds(samples: Path, tmp_path: Path) -> None:
    folder = samples / "hellobench"
    assert HelloBench.located(folder) is None
    found = TextCompletion.located(folder)
    assert found is not None and found["path"].endswith("text_completion.jsonl")
    assert HelloBench.located(Path(written(tmp_path, record()))) == {"path": str(tmp_path / "summarization.jsonl")}


def test_categories_pick_records(tmp_path: Path) -> None:
    folder = written(tmp_path, record(0), record(1, category="news"))
    assert [one.id for one in HelloBench(path=folder, categories=("news",)).examples(words)] == ["summarization_001"]
    with pytest.raises(DataError, match="no record of the categories blogs"):
        list(HelloBench(path=folder, categories=("blogs",)).examples(words))
    assert [one.category for one in read_records(tmp_path / "summarization.jsonl", "summarization", Joined())] == [
        *("report", "news")
    ]
