"""Prompt templates of LLM judges. They are instruments, so they stand in files of their own; items enter as data."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kvrelay.core.errors import AssetError
from kvrelay.judging.protocol import BlindItem

FOLDER = Path(__file__).parent / "prompts"

_SECTIONS = re.compile(r"\A\[system\]\n(?P<system>.+?)\n\[rubric\]\n(?P<rubric>.+?)\n*\Z", re.DOTALL)
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A system instruction and a scoring rubric (appendix B.2 of the RoPERelay paper for ``memory_judge_v1``)."""

    name: str
    system: str
    rubric: str
    sha256: str
    """Of the file, as ``sha256sum`` prints it."""

    def messages(self, item: BlindItem) -> list[dict[str, str]]:
        """Chat messages: the instruction, then the rubric with the item appended as JSON."""
        user = f"{self.rubric}\n\n{payload(item)}"
        return [{"role": "system", "content": self.system}, {"role": "user", "content": user}]


def payload(item: BlindItem) -> str:
    """The item as one JSON object, its fields in the paper's order. It is data: nothing in it is ever formatted in.

    ``<|`` is written with an escape of JSON's own, so that a candidate's ``<|im_end|>`` reads the same as JSON but
    does not end the judge's turn: servers tokenize special tokens wherever they stand in a message.
    """
    fields = {
        "question": item.question,
        "references": list(item.references),
        "candidate": item.candidate,
        "question_type": item.question_type,
        "question_date": item.question_date,
    }
    return mend(json.dumps(fields, ensure_ascii=False)).replace("<|", "\\u003c|")


def mend(text: str) -> str:
    """Replace lone surrogates, which no UTF-8 body or file can hold, by U+FFFD."""
    return _LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


@cache
def load_prompt(prompt: str) -> Prompt:
    """Read a template by its name in ``judges/prompts``, or by its path. Read once, so a run has one instrument.

    Raises `AssetError` when the file is missing or lacks its two sections.
    """
    path = FOLDER / f"{prompt}.txt" if re.fullmatch(r"[\w-]+", prompt) else Path(prompt)
    try:
        data = path.read_bytes()
        text = data.decode("utf-8").replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError) as error:
        known = ", ".join(sorted(file.stem for file in FOLDER.glob("*.txt")))
        raise AssetError(
            f"no judge prompt at {path} ({error}); set judge.*.prompt to a file or one of: {known}"
        ) from None
    sections = _SECTIONS.match(text)
    if sections is None:
        raise AssetError(
            f"judge prompt {path} must hold a line [system], its text, a line [rubric], its text (judge.*.prompt)"
        )
    return Prompt(
        name=path.stem,
        system=sections["system"].strip(),
        rubric=sections["rubric"].strip(),
        sha256=hashlib.sha256(data).hexdigest(),
    )
