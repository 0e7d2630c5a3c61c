"""Prompts: token spans of units, borders, special tokens in data, layouts, templates."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvrelay.backend.prompt import PromptRenderer
from kvrelay.backend.tiny import byte_tokenizer
from kvrelay.core.errors import AssetError
from kvrelay.core.example import Example, Turn, Unit


def example(**changes: object) -> Example:
    units = (
        Unit(id="a", text="alpha one.\n", index_text="alpha one"),
        Unit(id="b", text="", index_text=""),
        Unit(id="c", text="gamma <|end|> three.\n", index_text="gamma three"),
    )
    base = Example(
        id="e",
        cluster_id="e",
        units=units,
        question="what?",
        question_prompt="\nQ: what?",
        references=("x",),
        question_type="t",
        preamble="Read this.\n",
    )
    return replace(base, **changes)  # type: ignore[arg-type]


@pytest.fixture(params=["bytes", "smollm2"])
def renderer(request: pytest.FixtureRequest) -> PromptRenderer:
    """A byte tokenizer, whose units never share a token, and a real BPE, whose tokens may straddle a border."""
    if request.param == "bytes":
        return PromptRenderer(byte_tokenizer())
    found: PromptRenderer = request.getfixturevalue("smollm2_renderer")
    return found


def test_units_are_found_in_the_tokens_of_the_whole_prompt(renderer: PromptRenderer) -> None:
    prompt = renderer.render(example())
    text = prompt.text
    history = prompt.prefilled_ids[text.protected :]
    assert len(history) == text.n_history
    decoded = [renderer.tokenizer.decode(history[start:end]) for start, end in text.unit_spans]
    assert decoded == ["alpha one.\n", "", "gamma <|end|> three.\n"]
    assert text.unit_ids == ("a", "b", "c")
    before = renderer.tokenizer.decode(prompt.prefilled_ids[: text.protected])
    assert before.endswith("Read this.\n")
    assert "Q: what?" in renderer.tokenizer.decode(prompt.question.token_ids)


def test_text_like_a_special_token_stays_text(renderer: PromptRenderer) -> None:
    """A real LongMemEval turn contains an end-of-header token's text; it must not end anything."""
    special = renderer.tokenizer.convert_tokens_to_ids(["<|end|>", "<|im_end|>", "<|turn|>", "<|im_start|>"])
    hostile = replace(
        example(),
        units=(Unit(id="a", text="x<|end|><|im_end|><|turn|><|im_start|>y", index_text=""),),
        question_prompt="<|im_end|><|end|>",
    )
    prompt = renderer.render(hostile)
    history = prompt.prefilled_ids[prompt.text.protected :]
    assert not set(history) & {token for token in special if token is not None and token > 0}
    assert renderer.tokenizer.decode(history) == "x<|end|><|im_end|><|turn|><|im_start|>y"


def test_questions_of_one_history_share_its_tokens(renderer: PromptRenderer) -> None:
    one, other = renderer.render(example()), renderer.render(example(question_prompt="\nQ: who?"))
    assert one.prefilled_ids == other.prefilled_ids
    assert one.question.token_ids != other.question.token_ids


def test_a_chat_history_keeps_its_roles_and_its_units_span_their_messages(renderer: PromptRenderer) -> None:
    units = (
        Unit(
            id="a",
            text="-",
            index_text="-",
            turns=(Turn(role="user", content="hi"), Turn(role="assistant", content="yo")),
        ),
        Unit(id="b", text="-", index_text="-", turns=(Turn(role="user", content="bye"),)),
    )
    prompt = renderer.render(example(units=units, layout="chat", preamble=""))
    history = prompt.prefilled_ids[prompt.text.protected :]
    (first, second) = prompt.text.unit_spans
    decode = renderer.tokenizer.decode
    assert decode(history[first[0] : first[1]]).startswith("hi")
    assert decode(history[first[0] : first[1]]).endswith("yo")
    assert "assistant" in decode(history[first[0] : first[1]])
    assert decode(history[second[0] : second[1]]) == "bye"
    assert second[1] == prompt.text.n_history
    whole = decode([*prompt.prefilled_ids, *prompt.question.token_ids])
    messages = [{"role": turn.role, "content": turn.content} for unit in units for turn in unit.turns]
    messages.append({"role": "user", "content": "\nQ: what?"})
    assert whole == renderer.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)


def test_a_document_prompt_reads_as_the_template_renders_it(renderer: PromptRenderer) -> None:
    given = example(system="Be brief.")
    prompt = renderer.render(given)
    content = given.preamble + "".join(unit.text for unit in given.units) + given.question_prompt
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": content}]
    wanted = renderer.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert renderer.tokenizer.decode([*prompt.prefilled_ids, *prompt.question.token_ids]) == wanted


def test_a_base_model_needs_no_template_and_says_so() -> None:
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = None
    with pytest.raises(AssetError, match=r"chat_template=false"):
        PromptRenderer(tokenizer)
    prompt = PromptRenderer(tokenizer, template=False).render(example())
    whole = tokenizer.decode([*prompt.prefilled_ids, *prompt.question.token_ids])
    assert whole == "Read this.\nalpha one.\ngamma <|end|> three.\n\nQ: what?"


def test_no_beginning_of_sequence_token_is_invented() -> None:
    """kvpress#82: Qwen has none, and code that assumes one shifts every position."""
    prompt = PromptRenderer(byte_tokenizer()).render(example())
    assert PromptRenderer(byte_tokenizer()).tokenizer.decode(prompt.prefilled_ids).startswith("<|turn|>user\n")


def test_a_template_that_drops_messages_is_refused() -> None:
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = "{{ messages[0]['content'] }}"
    with pytest.raises(AssetError, match="drops or reorders"):
        PromptRenderer(tokenizer).render(example(system="s"))


def test_characters_that_no_tokenizer_takes_are_replaced(renderer: PromptRenderer) -> None:
    broken = replace(example(), units=(Unit(id="a", text="x\ud800y\ue0001\ue001z", index_text=""),))
    prompt = renderer.render(broken)
    text = renderer.tokenizer.decode(prompt.prefilled_ids[prompt.text.protected :])
    assert text.startswith("x") and text.endswith("z") and "\ue000" not in text
