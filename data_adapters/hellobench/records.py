"""HelloBench's records: five tasks, their categories, and where a record's checklist and category come from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from data_adapters.fields import Fields
from data_adapters.parse import records
from data_adapters.subset import require_unique
from kvrelay.core.errors import AssetError, DataError

Task = Literal["chat", "heuristic_text_generation", "open_ended_qa", "summarization", "text_completion"]

CATEGORIES: dict[str, tuple[str, ...]] = {
    "chat": (
        *("report_write", "guide_generation", "science_problem_solve", "academic_write", "continue_write"),
        *("question_answering", "rewrite", "script_write", "creative_write", "idea_generation", "explanation"),
        *("data_analysis", "character_creation", "curriculum_development", "question_generation"),
    ),
    "heuristic_text_generation": (
        *("argumentative_writing", "keyword_writing", "roleplaying_writing", "screenplay_writing", "story_writing"),
    ),
    "open_ended_qa": (*("Science", "Tech", "write", "food", "movie", "book", "Sport", "health", "travel", "music"),),
    "summarization": ("report", "academic_article", "blogs", "news", "long_dialogue"),
    "text_completion": ("continuation", "imitative_writing", "style_transfer"),
}
"""The categories of each task, as records, checklists and weights of the pinned release all write them."""
LENGTHS = ("2k", "4k", "8k", "16k")
"""Files of heuristic_text_generation that ask for so many words; their ids are those of the main file."""

_ID = re.compile(rf"({'|'.join(CATEGORIES)})_(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class HelloRecord:
    """One text to write. ``requirements`` is null in the whole of chat, a list elsewhere: none is an empty tuple."""

    where: str
    id: str
    task: str
    category: str
    instruction: str
    checklist: tuple[str, ...]
    raw_text: str = ""
    requirements: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """What records may lack: checklists by category, and categories by id (result files hold neither)."""

    checklists: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    categories: Mapping[str, str] = field(default_factory=dict)


def read_records(file: Path, task: str, joined: Joined) -> Iterator[HelloRecord]:
    """The records of one file. Raises `DataError` for a record of another task, and for what breaks the schema."""
    seen: set[str] = set()
    for fields in records(file):
        record = _record(fields, task, joined)
        require_unique(seen, record.id, record.where)
        yield record


def canonical(category: str, task: str, where: str) -> str:
    """A category by its one name: letter case, spaces and hyphens aside. Raises `DataError` that lists the known."""
    known = {_plain(name): name for name in CATEGORIES[task]}
    if _plain(category) not in known:
        raise DataError(f"{where}: the category {category!r} is none of {task}'s: {', '.join(CATEGORIES[task])}")
    return known[_plain(category)]


def read_checklists(path: str, task: str, setting: str) -> dict[str, tuple[str, ...]]:
    """Checklists by category from the set's file of the task, or from the folder that it lies in."""
    place = Path(path).expanduser()
    file = place / f"{task}_checklist.json" if place.is_dir() else place
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise AssetError(f"{setting}={path}: {file} cannot be read ({error}); wanted {task}_checklist.json") from None
    fields = Fields(str(file), value if isinstance(value, Mapping) else {})
    return {canonical(name, task, str(file)): tuple(fields.texts(name)) for name in fields.values}


def read_categories(path: str, task: str) -> dict[str, str]:
    """Categories by id from another file of the same records, as the main files have them."""
    return {f.name("id"): canonical(f.name("category"), task, f.where) for f in records(Path(path).expanduser())}


def _record(fields: Fields, task: str, joined: Joined) -> HelloRecord:
    id_ = fields.name("id")
    fields = fields.named(id_)
    of = _ID.fullmatch(id_)
    if of is None or of[1] != task:
        raise fields.error("id", f"is {id_!r}, wanted {task}_NUMBER: the file is another task's")
    category = _category(fields, task, joined)
    return HelloRecord(
        where=fields.where,
        id=id_,
        task=task,
        category=category,
        instruction=fields.name("instruction"),
        checklist=_checklist(fields, category, joined),
        raw_text=fields.text("raw_text") if "raw_text" in fields.values else "",
        requirements=tuple(fields.texts("requirements")) if fields.values.get("requirements") is not None else (),
    )


def _category(fields: Fields, task: str, joined: Joined) -> str:
    if "category" in fields.values:
        return canonical(fields.name("category"), task, fields.where)
    id_ = fields.name("id")
    if id_ not in joined.categories:
        raise fields.error("category", "is missing; set categories_path to a file that has it for this id")
    return joined.categories[id_]


def _checklist(fields: Fields, category: str, joined: Joined) -> tuple[str, ...]:
    """The record's own checklist, else its category's; as many entries as the record says that it has."""
    own: Any = fields.values.get("checklists")
    found = joined.checklists.get(category, ()) if own is None else tuple(fields.texts("checklists"))
    if not found:
        raise fields.error("checklists", f"is missing or empty; set checklists_path to a file that has {category!r}")
    if not all(text.strip() for text in found):
        raise fields.error("checklists", "has an entry without text")
    if fields.values.get("num_checklist") is not None and fields.integer("num_checklist") != len(found):
        raise fields.error("num_checklist", f"is {fields.integer('num_checklist')}, but {len(found)} entries came")
    return found


def _plain(category: str) -> str:
    return re.sub(r"[\s_-]+", "_", category.strip()).casefold()
