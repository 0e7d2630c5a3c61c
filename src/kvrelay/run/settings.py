"""The settings of a run that belong to no component: the root keys of ``conf/config.yaml``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from kvrelay.core.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """``name`` names the experiment and its folder ``out/name``; ``limit`` is the number of questions a data set.

    ``only_positions`` and ``only_selectors`` thin the grid: {selector: positions} and {position: selectors} that make
    sense together (a full cache has nothing to compact). ``decode_batch_rows`` bounds the rows that decode together;
    1 decodes every row alone. ``max_history_tokens`` trims longer histories; without it they are refused.
    ``choice_by="texts"`` answers multiple choice with the reply whose text is most likely (mean over its tokens) in
    place of a generated letter, which a small model draws blindly.
    """

    name: str
    out: str = "outputs"
    limit: int | None = None
    max_new_tokens: int = 512
    score_references: bool = True
    choice_by: Literal["answer", "texts"] = "answer"
    decode_batch_rows: int = 16
    max_history_tokens: int | None = None
    only_positions: dict[str, list[str]] = field(default_factory=dict)
    only_selectors: dict[str, list[str]] = field(default_factory=dict)
    gate: bool = True
    retry_errors: bool = True
    stamps: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for key in ("limit", "max_new_tokens", "decode_batch_rows", "max_history_tokens"):
            value = getattr(self, key)
            if value is not None and value < 1:
                raise ConfigError(f"{key} = {value}: wanted at least 1 (key: {key})")
        if not self.name or "/" in self.name:
            raise ConfigError(f"name = {self.name!r}: wanted a plain name for the experiment's folder (key: name)")
