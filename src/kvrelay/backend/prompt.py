"""From an example to tokens: the chat template around the data set's own prompt, and the units' token spans.

Template text is tokenised with its special tokens; everything that comes from data is tokenised with special tokens
split, so that text like a turn delimiter inside a record stays text. The history is one run of tokens whatever the
question is, so that questions share its prefill.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

from kvrelay.core.errors import AssetError
from kvrelay.core.example import Example
from kvrelay.core.history import HistoryText, Question

_MARK = re.compile("\ue000(\\d+)\ue001")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """The N = P + T tokens that are prefilled, what they are, and the question that follows."""

    prefilled_ids: tuple[int, ...]
    text: HistoryText
    question: Question


@dataclass(frozen=True, slots=True)
class _Part:
    """A piece of a message: ``unit`` is its index in the history, -1 for what stands before, None for the question."""

    text: str
    unit: int | None


@dataclass(slots=True)
class _Tokens:
    """Ids, each one's own text, and whether it comes from the template."""

    ids: list[int] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)
    special: list[bool] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.pieces = self.pieces or [""] * len(self.ids)
        self.special = self.special or [False] * len(self.ids)

    def __iadd__(self, other: _Tokens) -> _Tokens:
        self.ids += other.ids
        self.pieces += other.pieces
        self.special += other.special
        return self

    def split(self, at: int) -> tuple[_Tokens, _Tokens]:
        """The tokens before ``at``, and the others."""
        head = _Tokens(self.ids[:at], self.pieces[:at], self.special[:at])
        return head, _Tokens(self.ids[at:], self.pieces[at:], self.special[at:])


class PromptRenderer:
    """Renders examples for one tokenizer. ``template`` false writes the prompt plainly, for base models.

    ``options`` are the chat template's own variables (``enable_thinking: false`` for Qwen3).
    """

    def __init__(self, tokenizer: Any, template: bool = True, options: Mapping[str, Any] | None = None) -> None:
        if template and not getattr(tokenizer, "chat_template", None):
            raise AssetError(
                "the model's tokenizer has no chat template; set model.*.chat_template=false for a base model, "
                "or use a folder that holds the template"
            )
        self.tokenizer = tokenizer
        self.template = template
        self.options = dict(options or {})
        self._apply_template([{"role": "user", "content": "a"}])  # a broken template is told before any work

    def count(self, text: str) -> int:
        """Tokens of a text from data."""
        return len(self._data_ids(text))

    def data_ids(self, text: str) -> tuple[int, ...]:
        """Token ids of a text from data, special tokens split."""
        return tuple(self._data_ids(text))

    def text(self, token_ids: Sequence[int]) -> str:
        """An answer's text, without special tokens and outer white space."""
        return str(self.tokenizer.decode(list(token_ids), skip_special_tokens=True)).strip()

    def render(self, example: Example) -> Prompt:
        """Tokens of one example. Consecutive units are tokenised as one text, so that borders fall as in the prompt;
        each by itself where some of them are to be deleted, so that what is left does not depend on where they stood.
        """
        opening = self._opening_ids()
        before, history, after = _Tokens(opening, special=[True] * len(opening)), _Tokens(), _Tokens()
        spans: dict[int, tuple[int, int]] = {}
        seen_unit = seen_question = False
        for kind, payload in self._segments(example):
            if kind == "units":
                for run in [[part] for part in payload] if example.deleted else [payload]:
                    tokens, found = self._encode_units(run)
                    _extend_spans(spans, found, len(history.ids))
                    history += tokens
                seen_unit = True
                continue
            tokens = self._template_tokens(payload) if kind == "template" else self._data_tokens(payload[0].text)
            seen_question = seen_question or (kind == "parts" and payload[0].unit is None)
            part = after if seen_question else history if seen_unit else before
            part += tokens
        # template tokens between the last unit and the question belong to what follows the history
        history, tail = history.split(max((end for _, end in spans.values()), default=0))
        return self._prompt(example, before, history, tail.ids + after.ids, spans)

    def _prompt(
        self,
        example: Example,
        before: _Tokens,
        history: _Tokens,
        after: list[int],
        spans: dict[int, tuple[int, int]],
    ) -> Prompt:
        text = HistoryText(
            protected=len(before.ids),
            n_history=len(history.ids),
            unit_ids=tuple(unit.id for unit in example.units),
            unit_spans=tuple(spans.get(index, (0, 0)) for index in range(len(example.units))),
            index_texts=tuple(unit.index_text for unit in example.units),
            pieces=(*before.pieces, *history.pieces),
            special=(*before.special, *history.special),
        )
        bare = self._data_tokens(example.question)
        question = Question(
            text=example.question,
            token_ids=tuple(after),
            example_id=example.id,
            text_ids=tuple(bare.ids),
            text_pieces=tuple(bare.pieces),
        )
        return Prompt(prefilled_ids=(*before.ids, *history.ids), text=text, question=question)

    def _segments(self, example: Example) -> Iterator[tuple[str, Any]]:
        """("template", text), ("parts", [part]) and ("units", [parts of adjacent units]) in prompt order."""
        messages, parts = _messages(example)
        rendered = self._apply_template(messages)
        if [int(found) for found in _MARK.findall(rendered)] != list(range(len(parts))):
            raise AssetError(
                "the chat template drops or reorders messages; set model.*.chat_template=false, or mend it"
            )
        run: list[_Part] = []
        for index, piece in enumerate(_MARK.split(rendered)):
            if index % 2 == 1 and (part := parts[int(piece)]).unit is not None and part.unit >= 0:
                run.append(part)
                continue
            if not piece:
                continue
            if run:
                yield "units", run
                run = []
            yield ("template", piece) if index % 2 == 0 else ("parts", [parts[int(piece)]])
        if run:
            yield "units", run

    def _opening_ids(self) -> list[int]:
        """What a tokenizer puts before plain text (BOS, where the model has one); a chat template writes its own."""
        if self.template:
            return []
        plain = self.tokenizer("a", add_special_tokens=False).input_ids
        whole = self.tokenizer("a", add_special_tokens=True).input_ids
        return list(whole[: len(whole) - len(plain)]) if whole[-len(plain) :] == plain else []

    def _apply_template(self, messages: list[dict[str, str]]) -> str:
        if not self.template:
            return "".join(message["content"] for message in messages)
        try:
            text: str = self.tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True, **self.options
            )
        except Exception as error:  # Jinja's classes, and whatever a template raises by itself
            raise AssetError(
                f"the model's chat template refuses these messages: {' '.join(str(error).split())}; "
                "set model.*.chat_template=false, or mend the template in the model's folder (key: model.*.source)"
            ) from error
        return text

    def _template_tokens(self, text: str) -> _Tokens:
        encoded = self.tokenizer(
            text, add_special_tokens=False, split_special_tokens=False, return_offsets_mapping=True
        )
        return _Tokens(list(encoded.input_ids), _pieces(text, encoded.offset_mapping), [True] * len(encoded.input_ids))

    def _data_tokens(self, text: str) -> _Tokens:
        text = _encodable(text)
        encoded = self.tokenizer(text, add_special_tokens=False, split_special_tokens=True, return_offsets_mapping=True)
        return _Tokens(list(encoded.input_ids), _pieces(text, encoded.offset_mapping))

    def _data_ids(self, text: str) -> list[int]:
        return list(self.tokenizer(_encodable(text), add_special_tokens=False, split_special_tokens=True).input_ids)

    def _encode_units(self, run: list[_Part]) -> tuple[_Tokens, dict[int, tuple[int, int]]]:
        """One run's tokens and its units' token spans; a token belongs to the unit that holds its first character."""
        tokens = self._data_tokens("".join(part.text for part in run))
        starts = [0, *accumulate(map(len, tokens.pieces))][: len(tokens.ids)]
        spans: dict[int, tuple[int, int]] = {}
        character = 0
        for part in run:
            first = bisect.bisect_left(starts, character)
            character += len(_encodable(part.text))
            found = (first, bisect.bisect_left(starts, character))
            if part.unit is not None:
                old = spans.get(part.unit)
                spans[part.unit] = found if old is None else (old[0], found[1])
        return tokens, spans


def _pieces(text: str, offsets: Sequence[tuple[int, int]]) -> list[str]:
    """Each token's own text, from where it starts to where the next one does: together they are the whole text.

    Tokens that are parts of one character start together: the last of them has it, the others have none.
    """
    starts = [0, *(start for start, _ in offsets[1:]), len(text)] if offsets else []
    return [text[start:end] for start, end in pairwise(starts)]


def _extend_spans(spans: dict[int, tuple[int, int]], found: dict[int, tuple[int, int]], offset: int) -> None:
    for unit, (start, end) in found.items():
        first = spans[unit][0] if unit in spans else start + offset
        spans[unit] = (first, end + offset)


def _messages(example: Example) -> tuple[list[dict[str, str]], list[_Part]]:
    """Messages whose contents are marks, and the parts that the marks stand for."""
    parts: list[_Part] = []

    def mark(text: str, unit: int | None) -> str:
        if not text:
            return ""
        parts.append(_Part(text, unit))
        return f"\ue000{len(parts) - 1}\ue001"

    messages = [{"role": "system", "content": mark(example.system, -1)}] if example.system else []
    if example.layout == "document":
        content = mark(example.preamble, -1)
        content += "".join(mark(unit.text, index) for index, unit in enumerate(example.units))
        messages.append({"role": "user", "content": content + mark(example.question_prompt, None)})
        return messages, parts
    for index, unit in enumerate(example.units):
        messages += [{"role": turn.role, "content": mark(turn.content, index)} for turn in unit.turns]
    messages.append({"role": "user", "content": mark(example.question_prompt, None)})
    return messages, parts


def _encodable(text: str) -> str:
    """Lone surrogates, which no tokenizer takes, become the replacement character; the marks' own characters go."""
    return re.sub("[\ue000\ue001]", "\ufffd", text).encode("utf-8", "replace").decode("utf-8")
