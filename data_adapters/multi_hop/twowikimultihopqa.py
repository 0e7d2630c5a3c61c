"""2WikiMultiHopQA (Ho et al., COLING 2020): ten paragraphs, two or four of which the answer needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from data_adapters.files import Source
from data_adapters.multi_hop.adapter import MultiHop
from data_adapters.multi_hop.hotpotqa import hotpot_question
from data_adapters.multi_hop.layouts import unique
from data_adapters.multi_hop.passages import SourceQuestion
from data_adapters.multi_hop.recognise import find
from data_adapters.parse import records

FILES = ("dev.json", "dev.parquet", "data/validation-00000-of-00001.parquet", "validation.parquet")
ALIASES = "id_aliases.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoWikiMultiHopQA(MultiHop):
    """Records come as published, in either hub layout, or in IRCoT's, which gives no type.

    With ``aliases_path`` (the authors' ``id_aliases.json``, which is JSON lines) the aliases and demonyms of the
    answer's entity count as references too, as in their evaluation 1.1; without it the gold answer alone, as in most
    papers. ``notes["aliases"]`` says how many there were. Sentence numbers differ between two releases and are not
    used. The config's name is spelt out because a key of a command line may not begin with a digit.
    """

    hub_id: str = "framolfese/2WikiMultihopQA"
    aliases_path: str | None = None

    @property
    def name(self) -> str:
        return "twowikimultihopqa"

    @staticmethod
    def located(given: Path) -> dict[str, str] | None:
        """Fields that point this adapter at its records, and at the aliases beside them; None if there are none."""
        found = find(given, "twowikimultihopqa")
        if found is None:
            return None
        aliases = found.parent / ALIASES
        return {"path": str(found)} | ({"aliases_path": str(aliases)} if aliases.is_file() else {})

    def files(self) -> tuple[Path, ...]:
        file = self.source(self.hub_id).file(FILES)
        if self.aliases_path is None:
            return (file,)
        setting = f"{self.key}.aliases_path"
        aliases = Source(setting=setting, path=self.aliases_path, hub_id=self.hub_id, revision=self.revision)
        return file, aliases.file((ALIASES,))

    def questions(self) -> Iterator[SourceQuestion]:
        file, *others = self.files()
        known = _aliases(others[0]) if others else {}
        for record in records(file):
            aliases = known.get(str(record.values.get("answer_id")), ())
            question = hotpot_question(record, self.name, aliases)
            counted = {"aliases": len(question.references) - 1} if others else {}
            yield replace(question, notes={**question.notes, **counted})


def _aliases(file: Path) -> Mapping[str, tuple[str, ...]]:
    """Other names by entity."""
    return {
        entity.name("Q_id"): unique([*entity.texts("aliases"), *entity.texts("demonyms")]) for entity in records(file)
    }
