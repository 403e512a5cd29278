"""`chatfmt.hf` gives what apply_chat_template of transformers gives; hf_differential.py compares longer."""

from __future__ import annotations

import copy
import dataclasses
import enum
import importlib
import importlib.metadata
import importlib.util
import pickle
import re
import subprocess
import sys
import types
from collections import OrderedDict, UserDict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import cases
import pytest
from cases import GOLDEN, TEMPLATES

import chatfmt
from chatfmt import DomynSmall, Hy4, InputError, Ministral3Reasoning, SolarOpen2, TemplateError, hf
from chatfmt.hf import apply_chat_template, install

ROOT = Path(__file__).resolve().parent.parent
USER = {"role": "user", "content": "2 + 2?"}
ANSWER = {"role": "assistant", "content": "4"}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": {"x": 1}}}
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]


def installed_version() -> str:
    needed = ("transformers", "tokenizers", "numpy", "jinja2")
    if not all(importlib.util.find_spec(name) for name in needed):
        return ""
    return importlib.metadata.version("transformers")


HAS_TRANSFORMERS = installed_version().startswith("5.24.")
needs_transformers = pytest.mark.skipif(not HAS_TRANSFORMERS, reason="needs transformers 5.24, which is compared with")
if HAS_TRANSFORMERS:
    differential: Any = importlib.import_module("differential")
    hf_differential: Any = importlib.import_module("hf_differential")
    transformers: Any = importlib.import_module("transformers")


def source(template: str) -> str:
    return (GOLDEN / template / "template.jinja").read_bytes().decode("utf-8")


class Model:
    """An object such as pydantic's and OpenAI's."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    def model_dump(self) -> dict[str, Any]:
        return self.fields


class Encoded(dict):  # type: ignore[type-arg]
    """What a tokenizer without offsets returns."""

    encodings = None


class FakeTokenizer:
    """A tokenizer as far as the function needs one: it encodes into characters, and tells what it was called with."""

    def __init__(self) -> None:
        self.special_tokens_map = {"bos_token": "<bos>", "unk_token": "<unk>"}

    def __call__(self, text: Any, **keywords: Any) -> Encoded:
        self.keywords = keywords
        return Encoded(input_ids=[list(one) for one in text] if isinstance(text, list) else list(text))


# ---- messages ---------------------------------------------------------------------------------------------------


def test_keys_that_are_null_are_dropped() -> None:
    """But only those of the messages themselves."""
    message = {"role": "assistant", "content": None, "reasoning": None, "tool_calls": [CALL], "refusal": None}
    found = apply_chat_template(Ministral3Reasoning, [USER, message])
    assert found == Ministral3Reasoning().render([USER, {"role": "assistant", "tool_calls": [CALL]}])
    assert apply_chat_template(DomynSmall, [{**ANSWER, "tool_calls": None}]) == DomynSmall().render([ANSWER])
    nested = {**CALL, "function": {"name": "f", "arguments": {"x": None}}}
    assert ">x<|tool_arg:value|>null<" in apply_chat_template(SolarOpen2, [{**ANSWER, "tool_calls": [nested]}])


@pytest.mark.parametrize("key", ["reasoning_content", "thinking", "reasoning"])
@pytest.mark.parametrize("template", [SolarOpen2, Hy4])
def test_reasoning_has_three_names(template: type[chatfmt.ChatFormat], key: str) -> None:
    found = apply_chat_template(template, [USER, {**ANSWER, key: "Easy."}])
    assert found == template().render([USER, {**ANSWER, "reasoning": "Easy."}], add_generation_prompt=False)
    assert "Easy." in found


def test_reasoning_content_comes_first() -> None:
    """It is what is copied; but the template may prefer another."""
    message = {**ANSWER, "thinking": "B", "reasoning_content": "A"}
    assert "<think:opensource>A</think:opensource>4" in apply_chat_template(Hy4, [message])
    assert "<think:opensource>B</think:opensource>4" in apply_chat_template(Hy4, [{**ANSWER, "thinking": "B"}])
    assert "<think:opensource>C</think:opensource>4" in apply_chat_template(Hy4, [{**message, "reasoning": "C"}])


class ListOf:
    """An object that is a list, such as pydantic's RootModel."""

    def __init__(self, items: Any) -> None:
        self.items = items

    def model_dump(self) -> list[Any]:
        return list(self.items)


@dataclasses.dataclass
class Message:
    role: str
    content: Any
    tool_calls: Any = None


def test_objects_become_dicts() -> None:
    class Role(str, enum.Enum):
        ASSISTANT = "assistant"

    function = UserDict({"name": "f", "arguments": types.MappingProxyType({"x": 1})})
    conversation = (
        Model(role="user", content="2 + 2?", name=None),
        Message("assistant", None, (Model(id="c1", type="function", function=function),)),
        OrderedDict(role="tool", tool_call_id="c1", content="4"),
        {"role": Role.ASSISTANT, "content": "4"},
    )
    calling = {"role": "assistant", "tool_calls": [CALL]}
    expected = SolarOpen2().render(
        [USER, calling, {"role": "tool", "tool_call_id": "c1", "content": "4"}, ANSWER], add_generation_prompt=False
    )
    assert apply_chat_template(SolarOpen2, conversation) == expected
    assert apply_chat_template(SolarOpen2, ListOf(conversation)) == expected
    assert apply_chat_template(SolarOpen2, (message for message in [USER])) == SolarOpen2().render(
        [USER], add_generation_prompt=False
    )


def test_what_is_no_json_is_named_only() -> None:
    image = {"type": "image", "image": object()}
    assert "[INST][IMG][/INST]" in apply_chat_template(Ministral3Reasoning, [{"role": "user", "content": [image]}])
    assert "user<｜hy_middle:opensource｜><object>" in apply_chat_template(Hy4, [{"role": "user", "content": object()}])


@pytest.mark.parametrize(
    ("conversation", "path", "sentence"),
    [
        ([], "messages", "messages is empty, but must hold at least one message"),
        (None, "messages", "messages is null, but must be a list"),
        ("Hi", "messages[0]", "messages[0] is a string, but must be an object"),
        ([USER, "Hi"], "messages[1]", "messages[1] is a string, but must be an object"),
        ([USER, 5], "messages[1]", "messages[1] is a number, but must be an object"),
        ({"role": "user"}, "messages[0]", "messages[0] is a string, but must be an object"),
        (
            [[USER], ["Hi"]],
            "conversation[1].messages[0]",
            "conversation[1]: messages[0] is a string, but must be an object",
        ),
        ([[USER], None], "conversation[1].messages", "conversation[1]: messages is null, but must be a list"),
    ],
)
def test_what_is_no_conversation(conversation: Any, path: str, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        apply_chat_template(Hy4, conversation)
    assert (caught.value.path, str(caught.value)) == (path, sentence)


@pytest.mark.parametrize("template", [SolarOpen2, Hy4])
def test_names_of_arguments_are_strings(template: type[chatfmt.ChatFormat]) -> None:
    """JSON knows no others, but Python does."""
    call = {"id": "c", "function": {"name": "f", "arguments": {1: "x"}}}
    with pytest.raises(InputError) as caught:
        apply_chat_template(template, [USER, {"role": "assistant", "content": "", "tool_calls": [CALL, call]}])
    assert caught.value.path == "messages[1].tool_calls[1].function.arguments"


def test_too_deep_is_an_input_error() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(InputError, match=r"^messages is nested too deep"):
        apply_chat_template(Hy4, [{"role": "user", "content": deep}])
    with pytest.raises(InputError, match=r"^tools\[0\] is nested too deep"):
        apply_chat_template(Hy4, [USER], tools=[{"x": deep}])
    with pytest.raises(InputError, match=r"^template_variables is nested too deep"):
        apply_chat_template(Hy4, [USER], reasoning_effort=deep)


# ---- batches ----------------------------------------------------------------------------------------------------


def test_a_batch_is_a_list_of_prompts() -> None:
    texts = [Hy4().render([USER]), Hy4().render([USER, ANSWER])]
    assert apply_chat_template(Hy4, [[USER], (USER, ANSWER)]) == texts
    assert apply_chat_template(Hy4, (types.SimpleNamespace(messages=[USER]), [USER, ANSWER])) == texts
    assert apply_chat_template(Hy4, types.SimpleNamespace(messages=[USER])) == texts[0]
    assert apply_chat_template(Hy4, [[USER]]) == texts[:1]


def test_errors_say_which_conversation_of_a_batch_it_was() -> None:
    bad = [USER, {"role": "tool", "content": "4"}]
    with pytest.raises(TemplateError) as refused:
        apply_chat_template(SolarOpen2, [[USER], bad])
    assert str(refused.value) == "tool message is missing required 'tool_call_id' field"
    assert refused.value.path == "conversation[1].messages[1].tool_call_id"
    with pytest.raises(InputError) as failed:
        apply_chat_template(SolarOpen2, [[USER], [{"role": "user"}]])
    assert str(failed.value) == "conversation[1]: messages[0].content is missing, but must be a string"
    assert failed.value.path == "conversation[1].messages[0].content"
    with pytest.raises(InputError) as of_all:
        apply_chat_template(SolarOpen2, [[USER], [USER]], tools=[{"name": "f"}])
    assert of_all.value.path == "tools[0].function"


# ---- options, tools, documents ----------------------------------------------------------------------------------


def test_variables_are_read_as_the_template_reads_them() -> None:
    """Those that it does not read are ignored, and so are options of the class that are no variables."""
    expected = Hy4(reasoning_effort="no_think").render([USER], add_generation_prompt=True)
    unread = {"token_suffix": ":x", "now": 5, "enable_thinking": True, "chat_template_kwargs": {}, "chat": 1}
    keywords: Any = {"reasoning_effort": "no_think", **unread}
    assert apply_chat_template(Hy4, [USER], add_generation_prompt=True, **keywords) == expected
    with pytest.raises(TemplateError, match=r"^reasoning_effort error : None, should be no_think/high$"):
        apply_chat_template(Hy4, [USER], reasoning_effort=None)


def test_no_generation_prompt_unless_it_is_asked_for() -> None:
    """With Solar too, whose template adds one where the variable is undefined: transformers always passes it."""
    assert apply_chat_template(SolarOpen2, [USER]) == SolarOpen2().render([USER], add_generation_prompt=False)


@pytest.mark.parametrize("name", ["messages", "conversations", "chat_template", "namespace", "raise_exception"])
def test_names_that_no_variable_can_have(name: str) -> None:
    keywords: Any = {name: None}
    with pytest.raises(TypeError, match=f"^{name} cannot be the name of a template variable$"):
        apply_chat_template(Hy4, [USER], **keywords)


def test_an_object_keeps_its_options() -> None:
    chat = SolarOpen2(tools=TOOLS, provider_system_prompt=True, now=cases.NOW, reasoning_effort="low")
    assert apply_chat_template(chat, [USER]) == chat.render([USER], add_generation_prompt=False)
    found = apply_chat_template(chat, [USER], tools=[], reasoning_effort="high", add_generation_prompt=True)
    assert found == SolarOpen2(provider_system_prompt=True, now=cases.NOW).render([USER])
    others = [{"type": "function", "function": {"name": "g"}}]
    expected = SolarOpen2(tools=others, provider_system_prompt=True, now=cases.NOW).render([USER])
    assert (
        apply_chat_template(chat, [USER], tools=others, reasoning_effort="high", add_generation_prompt=True) == expected
    )
    assert apply_chat_template(chat, [USER]) == chat.render([USER], add_generation_prompt=False)
    other = partial(Hy4, token_suffix=":x")
    assert apply_chat_template(other, [USER]) == Hy4(token_suffix=":x").render([USER])
    assert apply_chat_template(Hy4(token_suffix=":x"), [USER], tools=TOOLS) == other(tools=TOOLS).render([USER])


def test_special_tokens_are_those_of_the_tokenizer() -> None:
    """One that it does not have is undefined; an object has its own."""
    with_tokens = partial(apply_chat_template, conversation=[USER, ANSWER], tokenizer=FakeTokenizer())
    assert with_tokens(Ministral3Reasoning).startswith("<bos>[SYSTEM_PROMPT]")
    assert with_tokens(Ministral3Reasoning).endswith("[INST]2 + 2?[/INST]4")
    assert with_tokens(Ministral3Reasoning, bos_token=None, eos_token="!").startswith("None[SYSTEM_PROMPT]")
    assert with_tokens(Ministral3Reasoning()) == Ministral3Reasoning().render([USER, ANSWER])
    assert apply_chat_template(Ministral3Reasoning, [USER]) == Ministral3Reasoning().render([USER])


def test_tools_and_documents_are_lists_of_objects() -> None:
    for tools in (TOOLS, tuple(TOOLS), (tool for tool in TOOLS), [OrderedDict(TOOLS[0])]):
        assert apply_chat_template(Hy4, [USER], tools=tools) == Hy4(tools=TOOLS).render([USER])
    assert apply_chat_template(Hy4, [USER], documents=[{"title": "t", "text": "x"}]) == Hy4().render([USER])
    wrong: list[tuple[dict[str, Any], str, str]] = [
        ({"tools": 5}, "tools", "tools is a number, but must be a list"),
        ({"tools": '[{"name"'}, "tools", "tools is a string, but must be a list (decode the JSON text first)"),
        ({"tools": [*TOOLS, "x"]}, "tools[1]", "tools[1] is a string, but must be an object or a function"),
        ({"documents": ["x"]}, "documents[0]", "documents[0] is a string, but must be an object"),
        ({"documents": 5}, "documents", "documents is a number, but must be a list"),
    ]  # fmt: skip
    for keywords, path, sentence in wrong:
        with pytest.raises(InputError) as caught:
            apply_chat_template(Hy4, [USER], **keywords)
        assert (caught.value.path, str(caught.value)) == (path, sentence)


def weather(city: str) -> str:
    """The weather in a city.

    Args:
        city: Where.
    """
    return city


def test_a_function_needs_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    monkeypatch.setitem(sys.modules, "transformers.utils", None)
    with pytest.raises(
        InputError, match=r"^tools\[1\] is a function, but must be an object, since transformers"
    ) as caught:
        apply_chat_template(Hy4, [USER], tools=[*TOOLS, weather])
    assert caught.value.path == "tools[1]"


@needs_transformers
def test_a_function_is_described_by_transformers() -> None:
    described = transformers.utils.get_json_schema(weather)
    assert apply_chat_template(Hy4, [USER], tools=[weather]) == Hy4(tools=[described]).render([USER])
    with pytest.raises(InputError, match=r"^tools\[0\] is a function that cannot be described.*no docstring"):
        apply_chat_template(Hy4, [USER], tools=[lambda city: city])


# ---- the last message, continued --------------------------------------------------------------------------------

TURN: dict[type[chatfmt.ChatFormat], str] = {
    SolarOpen2: "<|im:start|>assistant<|im:content|><|think:start|><|think:end|>",
    Hy4: "<｜hy_start:opensource｜>assistant<｜hy_middle:opensource｜><think:opensource></think:opensource>",
    Ministral3Reasoning: "[INST]2 + 2?[/INST]",
    DomynSmall: "<extra_id_1>Assistant\n",
}


@pytest.mark.parametrize("text", ["It is", "It is ", " It is \n"])
@pytest.mark.parametrize("template", TURN)
def test_a_prompt_ends_in_the_text_to_continue(template: type[chatfmt.ChatFormat], text: str) -> None:
    found = apply_chat_template(template, [USER, {**ANSWER, "content": text}], continue_final_message=True)
    assert found.endswith(TURN[template] + text)
    whole = template().render([USER, {**ANSWER, "content": text}], add_generation_prompt=False)
    assert whole.startswith(found)
    assert whole != found


@pytest.mark.parametrize("key", ["reasoning_content", "thinking", "reasoning"])
def test_reasoning_is_continued(key: str) -> None:
    """Under whichever name it is, and whichever is asked for, if they hold the same."""
    message = {**ANSWER, key: "Easy, "}
    for asked in {"reasoning_content", "thinking", key}:
        found = apply_chat_template(Hy4, [USER, message], continue_final_message=asked)
        assert found.endswith("<｜hy_start:opensource｜>assistant<｜hy_middle:opensource｜><think:opensource>Easy, ")


def test_the_last_text_of_parts_is_continued() -> None:
    parts = [{"type": "text", "text": "It"}, {"type": "text", "text": " is"}]
    found = apply_chat_template(Hy4, [USER, {**ANSWER, "content": parts}], continue_final_message=True)
    assert found.endswith("</think:opensource>It is")
    assert parts[1]["text"] == " is"


def test_calls_behind_the_text_are_cut_off() -> None:
    found = apply_chat_template(SolarOpen2, [USER, {**ANSWER, "tool_calls": [CALL]}], continue_final_message=True)
    assert found.endswith(TURN[SolarOpen2] + "4")


def test_white_space_that_the_template_cuts_off_is_cut_off() -> None:
    found = apply_chat_template(DomynSmall, [{"role": "system", "content": "Be brief. "}], continue_final_message=True)
    assert found == "<extra_id_0>System\nBe brief."


NOT_THERE = "cannot be continued: it does not stand in the prompt as it is"


@pytest.mark.parametrize(
    ("message", "key", "where", "what"),
    [
        ({"role": "assistant"}, True, ".content", "is missing, but must be given to be continued"),
        (ANSWER, "reasoning", ".reasoning", "is missing, but must be given to be continued"),
        ({**ANSWER, "thinking": "a", "reasoning_content": "b"}, "thinking", ".thinking", NOT_THERE),
        ({**ANSWER, "x": "y"}, "x", ".x", "cannot be continued: the template does not read it"),
        ({**ANSWER, "name": "y"}, "name", ".name", NOT_THERE),
        ({**ANSWER, "content": 4}, True, ".content", "is a number, but must be a string or a list of parts"),
        ({**ANSWER, "content": []}, True, ".content", "holds no text, but must hold one to be continued"),
        ({**ANSWER, "content": [{"text": 4}]}, True, ".content[0].text", "is a number, but must be a string"),
        ({**ANSWER, "content": [None]}, True, ".content[0]", "is null, but must be an object"),
    ],
)
def test_what_cannot_be_continued(message: Any, key: Any, where: str, what: str) -> None:
    with pytest.raises(InputError) as caught:
        apply_chat_template(Hy4, [USER, message], continue_final_message=key)
    assert (caught.value.path, str(caught.value)) == (f"messages[1]{where}", f"messages[1]{where} {what}")


def test_an_empty_conversation_cannot_be_continued() -> None:
    with pytest.raises(InputError, match=r"^conversation\[0\]: messages is empty, but must hold a message to continue"):
        apply_chat_template(Hy4, [[]], continue_final_message=True)


@pytest.mark.parametrize("template", TEMPLATES)
def test_the_keys_to_continue_are_those_in_the_template(template: str) -> None:
    """Anywhere in the text, as transformers looks for them. (Other words are there too, but are no keys.)"""
    keys = (
        "role content tool_calls tool_call_id id name reasoning reasoning_content thinking refusal audio prefix weight"
    )
    keys += " function_call annotations channel recipient function_name parts is_error partial"
    assert hf.KEYS[template] == {key for key in keys.split() if key in source(template)}


@pytest.mark.parametrize("template", TEMPLATES)
def test_the_functions_that_a_template_calls(template: str) -> None:
    called = set(
        re.findall(r"\b(namespace|raise_exception|range|strftime_now|dict|lipsum|cycler|joiner)\(", source(template))
    )
    assert hf.CALLED[template] == called


# ---- arguments ----------------------------------------------------------------------------------------------------


MASK = "return_assistant_tokens_mask"


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"continue_final_message": True, "add_generation_prompt": True}, "continue_final_message leaves the last"),
        ({"continue_final_message": True, MASK: True, "tokenize": True}, "continue_final_message leaves the last"),
        ({MASK: True}, f"{MASK} needs tokenize=True and return_dict=True"),
        ({MASK: True, "tokenize": True, "return_dict": False}, f"{MASK} needs tokenize=True and return_dict=True"),
        ({MASK: True, "tokenize": True}, f"{MASK} needs a fast tokenizer"),
        ({"tokenize": True, "tokenizer": None}, "tokenize=True needs a tokenizer"),
        ({"sanitize_control_tokens": True}, "sanitize_control_tokens is for the tokenizer's own"),
    ],
)
def test_arguments_that_exclude_each_other(keywords: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=f"^{words}") as caught:
        apply_chat_template(Hy4, [USER, ANSWER], **{"tokenizer": FakeTokenizer(), **keywords})
    assert type(caught.value) is ValueError


def test_the_tokenizer_gets_the_text_and_the_arguments() -> None:
    tokenizer = FakeTokenizer()
    tokens: Any = partial(apply_chat_template, Hy4, tokenizer=tokenizer, tokenize=True)
    text = Hy4().render([USER])
    assert tokens([USER]) == {"input_ids": list(text)}
    defaults = {"padding": False, "truncation": False, "max_length": None, "return_tensors": None}
    assert tokenizer.keywords == {"add_special_tokens": False, **defaults}
    assert tokens([[USER]], return_dict=False, padding="longest", max_length=5) == [list(text)]
    assert tokenizer.keywords == {"add_special_tokens": False, **defaults, "padding": "longest", "max_length": 5}
    tokens([USER], tokenizer_kwargs={"stride": 1}, truncation=True, return_tensors="np")
    given = {"stride": 1, "truncation": True, "return_tensors": "np"}
    assert tokenizer.keywords == {"add_special_tokens": False, **defaults, **given}
    with pytest.raises(TypeError, match="multiple values"):
        tokens([USER], tokenizer_kwargs={"padding": True})


def test_the_input_is_not_changed() -> None:
    message = {"role": "assistant", "content": [{"type": "text", "text": "a"}], "thinking": "b", "reasoning": None}
    conversation, tools = [USER, message], copy.deepcopy(TOOLS)
    before = repr((conversation, tools))
    for key in (False, True, "thinking"):
        apply_chat_template(Hy4, conversation, tools=tools, continue_final_message=key)
    assert repr((conversation, tools)) == before


def test_what_an_import_loads() -> None:
    loads = "import sys, chatfmt.hf; chatfmt.hf.apply_chat_template(chatfmt.Hy4, [{'role': 'user', 'content': ''}]); "
    heavy = "{'transformers', 'tokenizers', 'jinja2', 'numpy', 'dataclasses', 'json', 'inspect', 're', 'typing'}"
    code = f"{loads} print(sorted({heavy} & set(sys.modules)))"
    assert subprocess.check_output([sys.executable, "-S", "-c", code], cwd=ROOT).decode().strip() == "[]"
    code = "import sys, chatfmt; print('chatfmt.hf' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], cwd=ROOT).decode().strip() == "False"


def test_other_things_are_not_replaced() -> None:
    for other in (FakeTokenizer(), None, 5, Hy4):
        assert not install(other)
        assert not install(other, Hy4)
    assert not hasattr(FakeTokenizer(), "apply_chat_template")


# ---- against transformers -----------------------------------------------------------------------------------------

COUNTS = {"well_formed": 200, "sloppy": 500, "hostile": 400, "mutated": 400}
# of the cases of a level, the least share that transformers renders: about two thirds of what was measured
FLOORS = {"well_formed": 0.4, "sloppy": 0.16, "hostile": 0.11, "mutated": 0.12}


def no_difference(template: str, case: Any, with_tokens: bool = True) -> str:
    kind, difference = hf_differential.check(template, case, with_tokens)
    if difference:  # at midnight Solar's date changes, so it is compared again
        kind, difference = hf_differential.check(template, case, with_tokens)
    if difference:
        pytest.fail(
            f"{differential.shown(difference)}\n{hf_differential.shown(hf_differential.call_of(template, case))}"
        )
    return str(kind)


@needs_transformers
@pytest.mark.parametrize("template", TEMPLATES)
def test_goldens(template: str) -> None:
    for name in cases.names(template):
        no_difference(template, cases.load(template, name))


@needs_transformers
@pytest.mark.parametrize("template", TEMPLATES)
def test_goldens_with_an_object(template: str) -> None:
    """An object renders what its class does with the same tools and options."""
    tokenizer, _ = hf_differential.tokenizer_pair(template, "passed")
    special = cases.MANIFEST["templates"][template]["passed"]
    compared = 0
    for name in cases.names(template):
        case = cases.load(template, name)
        tools = case.get("tools")
        if tools is None or (isinstance(tools, list) and all(isinstance(tool, dict) for tool in tools)):
            chat = chatfmt.TEMPLATES[template](tools=tools, **{**special, **case.get("options", {})})
            call = hf_differential.call_of(template, case)
            expected = hf_differential.original(call, tokenizer, tokenize=False)
            given = {key: case[key] for key in ("add_generation_prompt",) if key in case}
            found = hf_differential.found(partial(apply_chat_template, chat), call._replace(keywords=given))
            assert found.same(expected), name
            compared += 1
    assert compared > 0.8 * len(cases.names(template))


@needs_transformers
@pytest.mark.filterwarnings("ignore:`max_length` is ignored")
@pytest.mark.parametrize("template", TEMPLATES)
def test_goldens_varied(template: str) -> None:
    for name in cases.names(template):
        no_difference(template, {**cases.load(template, name), "variation": name})


@needs_transformers
@pytest.mark.filterwarnings("ignore:`max_length` is ignored")
@pytest.mark.parametrize("level", COUNTS)
@pytest.mark.parametrize("template", TEMPLATES)
def test_generated(template: str, level: str) -> None:
    task = differential.Task(template, level, 7, 0, COUNTS[level], "chatfmt")
    report = hf_differential.run(task)
    if report.differing:
        texts = hf_differential.explained(task, report.differing, 2)
        pytest.fail(f"{len(report.differing)} differences\n" + "\n".join(texts), pytrace=False)
    assert report.counts["text"] >= FLOORS[level] * COUNTS[level], report.counts


@needs_transformers
@pytest.mark.filterwarnings("ignore:`max_length` is ignored")
@pytest.mark.skipif(
    not HAS_TRANSFORMERS or not differential.REAL.exists(),
    reason="the real conversations are not here (../shared/real)",
)
@pytest.mark.parametrize("template", TEMPLATES)
def test_real(template: str) -> None:
    """Each of them, as it is and as it should be, once plain and once varied."""
    kinds = set()
    for level in ("real_as_is", "real_joined"):
        for index in range(0, 3 * len(differential.real()), 3):
            case = hf_differential.case_of(template, level, 7, index)
            kinds.add(no_difference(template, case, with_tokens=index % 60 == 0))
            case.pop("variation", None)
            kinds.add(no_difference(template, case, with_tokens=False))
    assert {"text", "InputError"} <= kinds


@needs_transformers
@pytest.mark.filterwarnings("ignore:`max_length` is ignored")
@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("with_reasoning", lambda message: message),
        ("plain_scalar", lambda value: value),
        ("mark_last_text", lambda parts, *path: ""),
        ("check_documents", lambda documents: None),
        ("chat_with", lambda chat, tools, tokenizer, variables: chat(tools=tools)),
    ],
)
def test_a_mistake_is_found(monkeypatch: pytest.MonkeyPatch, name: str, wrong: Callable[..., Any]) -> None:
    monkeypatch.setattr(hf, name, wrong)
    made = [hf_differential.case_of("hy4", "well_formed", 7, index) for index in range(COUNTS["well_formed"])]
    assert any(hf_differential.check("hy4", case)[1] for case in made)


# ---- in a tokenizer -------------------------------------------------------------------------------------------------


def tokenizer_of(template: str) -> Any:
    return hf_differential.tokenizer_of(template)


def is_installed(tokenizer: Any) -> bool:
    return "apply_chat_template" in vars(tokenizer)


@needs_transformers
@pytest.mark.parametrize("template", TEMPLATES)
def test_a_known_template_is_replaced_in_one_tokenizer(template: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer, other = tokenizer_of(template), tokenizer_of(template)
    expected = tokenizer.apply_chat_template([USER, ANSWER])
    assert install(tokenizer)
    assert not is_installed(other)
    assert install(tokenizer), "a second time"
    monkeypatch.setattr(
        transformers.tokenization_utils_base, "render_jinja_template", None
    )  # so that it cannot be used
    assert tokenizer.apply_chat_template([USER, ANSWER]) == expected
    with pytest.raises(TypeError):
        other.apply_chat_template([USER, ANSWER])
    del tokenizer.apply_chat_template
    assert tokenizer.apply_chat_template.__func__ is other.apply_chat_template.__func__


@needs_transformers
def test_what_install_leaves_alone() -> None:
    def left_alone(tokenizer: Any, template: Any = None) -> bool:
        before = dict(vars(tokenizer))
        return not install(tokenizer, template) and vars(tokenizer) == before

    tokenizer = tokenizer_of("hy4")
    tokenizer.chat_template = source("hy4").replace("# Tools", "# Tool")
    assert left_alone(tokenizer)
    tokenizer.chat_template = None
    assert left_alone(tokenizer)
    assert left_alone(tokenizer, Hy4)
    tokenizer.chat_template = {"rag": source("hy4"), "tool_use": source("hy4")}  # none is the default
    assert left_alone(tokenizer)
    tokenizer = tokenizer_of("hy4")
    tokenizer.apply_chat_template = print  # somebody else's
    assert left_alone(tokenizer)
    del tokenizer.apply_chat_template
    base = transformers.PreTrainedTokenizerFast
    own = type("Own", (base,), {"apply_chat_template": lambda self, conversation, **keywords: "mine"})
    assert left_alone(own(tokenizer_object=tokenizer.backend_tokenizer, chat_template=source("hy4")))
    assert left_alone(own(tokenizer_object=tokenizer.backend_tokenizer, chat_template=source("hy4")), Hy4)


@needs_transformers
def test_a_method_of_another_transformers_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    method = transformers.PreTrainedTokenizerBase.apply_chat_template
    monkeypatch.setattr(method, "__defaults__", (*method.__defaults__[:5], False, *method.__defaults__[6:]))
    assert not install(tokenizer_of("hy4"))


@needs_transformers
def test_a_template_that_you_know() -> None:
    """One that is not among the known revisions, and a suffix of its own; options of an object hold."""
    tokenizer = tokenizer_of("hy4")
    tokenizer.chat_template = source("hy4").replace("':opensource'", "':x'") + "{# a remark #}"
    expected = tokenizer.apply_chat_template([USER, ANSWER], tokenize=False, reasoning_effort="no_think")
    assert not install(tokenizer)
    assert install(tokenizer, Hy4(token_suffix=":x", reasoning_effort="no_think"))
    assert tokenizer.apply_chat_template([USER, ANSWER], tokenize=False) == expected


@needs_transformers
def test_the_suffix_of_hy4_is_read_from_its_template() -> None:
    tokenizer = tokenizer_of("hy4")
    tokenizer.chat_template = source("hy4").replace("':opensource'", "':x'")
    expected = tokenizer.apply_chat_template([USER, ANSWER], tokenize=False)
    assert "<think:x>" in expected
    assert install(tokenizer)
    assert tokenizer.apply_chat_template([USER, ANSWER], tokenize=False) == expected


@needs_transformers
def test_another_template_goes_to_the_old_method() -> None:
    tokenizer = tokenizer_of("hy4")
    assert install(tokenizer)
    text = partial(tokenizer.apply_chat_template, [USER], tokenize=False)
    assert text() == text(chat_template=source("hy4")) == Hy4().render([USER])
    assert text(chat_template="{{ messages[0].content }}") == "2 + 2?"
    assert tokenizer.apply_chat_template([USER], None, None, "{{ 1 }}", tokenize=False) == "1", "by position"
    tokenizer.chat_template = source("domyn_small")
    assert text() == DomynSmall().render([USER])
    tokenizer.chat_template = None
    with pytest.raises(ValueError, match=r"tokenizer\.chat_template is not set"):
        text()


@needs_transformers
def test_of_several_templates_the_known_one_is_replaced() -> None:
    tokenizer = tokenizer_of("hy4")
    tokenizer.chat_template = {"default": source("hy4"), "tool_use": "{{ tools[0].function.name }}", "one": "{{ 1 }}"}
    assert install(tokenizer)
    text = partial(tokenizer.apply_chat_template, [USER], tokenize=False)
    assert text() == text(chat_template="default") == Hy4().render([USER])
    assert text(tools=TOOLS) == "f"
    assert text(chat_template="default", tools=TOOLS) == Hy4(tools=TOOLS).render([USER])
    assert text(chat_template="one") == "1"


@needs_transformers
def test_sanitizing_goes_to_the_old_method() -> None:
    tokenizer = tokenizer_of("hy4")
    bad = [{"role": "user", "content": "<｜hy_end:opensource｜>"}]
    expected = tokenizer.apply_chat_template(bad, sanitize_control_tokens=True)
    assert install(tokenizer)
    assert tokenizer.apply_chat_template(bad, sanitize_control_tokens=True) == expected
    assert tokenizer.apply_chat_template(bad) != expected


@needs_transformers
def test_a_variable_may_be_called_as_an_argument_of_the_function() -> None:
    tokenizer = tokenizer_of("hy4")
    assert install(tokenizer)
    assert tokenizer.apply_chat_template([USER], tokenize=False, tokenizer=1, chat=2) == Hy4().render([USER])


@needs_transformers
def test_an_installed_tokenizer_is_copied_and_pickled() -> None:
    tokenizer = tokenizer_of("ministral3_reasoning")
    assert install(tokenizer)
    expected = tokenizer.apply_chat_template([USER, ANSWER])
    for other in (copy.deepcopy(tokenizer), pickle.loads(pickle.dumps(tokenizer))):
        assert is_installed(other)
        assert other.apply_chat_template([USER, ANSWER]) == expected
        other.eos_token = "[/THINK]"
        assert other.apply_chat_template([USER, ANSWER], tokenize=False).endswith("4[/THINK]")
        other.chat_template = "{{ 1 }}"
        assert other.apply_chat_template([USER, ANSWER], tokenize=False) == "1"
        assert tokenizer.apply_chat_template([USER, ANSWER]) == expected
    shallow = copy.copy(tokenizer)
    assert install(shallow)
    shallow.chat_template = "{{ 1 }}"
    assert shallow.apply_chat_template([USER, ANSWER], tokenize=False) == "1"
    assert tokenizer.apply_chat_template([USER, ANSWER]) == expected


@needs_transformers
def test_an_installed_tokenizer_is_saved_as_any_other(tmp_path: Path) -> None:
    tokenizer = tokenizer_of("hy4")
    tokenizer.save_pretrained(tmp_path / "before")
    assert install(tokenizer)
    tokenizer.save_pretrained(tmp_path / "after")
    for file in (tmp_path / "before").iterdir():
        assert (tmp_path / "after" / file.name).read_bytes() == file.read_bytes()
    assert len(list((tmp_path / "after").iterdir())) == len(list((tmp_path / "before").iterdir()))
    again = transformers.PreTrainedTokenizerFast.from_pretrained(tmp_path / "after")
    assert not is_installed(again)
    assert again.apply_chat_template([USER, ANSWER]) == tokenizer.apply_chat_template([USER, ANSWER])


# ---- masks ----------------------------------------------------------------------------------------------------------

MASKED = [USER, {**ANSWER, "content": "It is 4.", "reasoning": "Easy, two and two."}, USER, ANSWER]


def trained_texts(text: str, offsets: Any, mask: Any) -> list[str]:
    """The texts of the runs of tokens that are trained on."""
    runs: list[list[int]] = []
    for (start, end), trained in zip(offsets, mask):
        if trained and runs and runs[-1][1] == start:
            runs[-1][1] = end
        elif trained:
            runs.append([start, end])
    return [text[start:end] for start, end in runs]


@needs_transformers
@pytest.mark.parametrize("template", TEMPLATES)
def test_the_mask_holds_what_the_assistant_wrote(template: str) -> None:
    tokenizer = tokenizer_of(template)
    plain = tokenizer.apply_chat_template(MASKED, add_generation_prompt=True)
    assert install(tokenizer)
    more = {"return_assistant_tokens_mask": True, "tokenizer_kwargs": {"return_offsets_mapping": True}}
    out = tokenizer.apply_chat_template(MASKED, add_generation_prompt=True, **more)
    assert out["input_ids"] == plain["input_ids"]
    text = tokenizer.apply_chat_template(MASKED, add_generation_prompt=True, tokenize=False)
    ends = {
        "solar_open2": "<|im:end|>",
        "hy4": "<｜hy_end:opensource｜>",
        "ministral3_reasoning": "</s>",
        "domyn_small": "",
    }
    words = [answer + ends[template] for answer in ("It is 4.", "4")]
    assert trained_texts(text, out["offset_mapping"], out["assistant_masks"]) == words


@needs_transformers
def test_the_mask_has_the_shape_of_the_tokens() -> None:
    tokenizer = tokenizer_of("solar_open2")
    assert install(tokenizer)
    masked = partial(tokenizer.apply_chat_template, return_assistant_tokens_mask=True)
    one, other = masked(MASKED), masked([USER])
    assert sum(other["assistant_masks"]) == 0
    assert len(one["assistant_masks"]) == len(one["input_ids"])
    batch = masked([MASKED, [USER]])
    assert batch["assistant_masks"] == [one["assistant_masks"], other["assistant_masks"]]
    padded = masked([[USER], MASKED], padding=True, return_tensors="np")
    assert padded["assistant_masks"].shape == padded["input_ids"].shape
    assert padded["assistant_masks"].tolist()[1] == one["assistant_masks"]
    assert padded["assistant_masks"][0].sum() == 0
    tensors = masked(MASKED, return_tensors="np")
    assert tensors["assistant_masks"].tolist() == [one["assistant_masks"]]
    size = len(one["input_ids"])
    cut = masked(MASKED, truncation=True, max_length=size - 3)
    assert cut["assistant_masks"] == one["assistant_masks"][: size - 3]
    tokenizer.truncation_side = "left"
    cut = masked(MASKED, truncation=True, max_length=size - 3)
    assert cut["assistant_masks"] == one["assistant_masks"][3:]
    more = {"return_overflowing_tokens": True}
    rows = masked([[USER], MASKED], truncation=True, max_length=size - 3, tokenizer_kwargs=more)
    assert [len(row) for row in rows["assistant_masks"]] == [len(row) for row in rows["input_ids"]]
    assert sum(map(sum, rows["assistant_masks"])) == sum(one["assistant_masks"])
    tokenizer.truncation_side = "right"
    first, second = masked(MASKED, truncation=True, max_length=size - 3, tokenizer_kwargs=more)["assistant_masks"]
    assert first + second == one["assistant_masks"]


@needs_transformers
@pytest.mark.parametrize("template", TEMPLATES)
def test_the_mask_is_that_of_the_prompt(template: str) -> None:
    """On generated conversations with odd objects: one entry a token, and the tokens are the same."""
    compared = 0
    for index in range(120):
        case = hf_differential.case_of(template, "well_formed", 8, index)
        call = hf_differential.call_of(template, case)
        plain, installed = hf_differential.tokenizer_pair(template, call.tokens)
        call.keywords.pop("continue_final_message", None)
        try:
            expected = plain.apply_chat_template(call.conversation, **call.keywords)
        except Exception:
            continue
        more = {"return_assistant_tokens_mask": True}
        out = installed.apply_chat_template(call.conversation, **call.keywords, **more)
        assert out["input_ids"] == expected["input_ids"]
        is_batched = isinstance(out["input_ids"][0], list)
        rows = out["assistant_masks"] if is_batched else [out["assistant_masks"]]
        for row, encoding in zip(rows, out.encodings):
            assert len(row) == len(encoding.ids)
            compared += sum(row)
    assert compared > 500


def test_a_name_is_no_template() -> None:
    with pytest.raises(TypeError, match="template must be a class such as Hy4"):
        hf.install(object(), "hy4")  # type: ignore[arg-type]
