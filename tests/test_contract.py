"""What the package promises beside bytes: errors, options, immutability, threads, size."""

from __future__ import annotations

import copy
import datetime
import math
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from cases import TEMPLATES, chat, expected, load, names, rendered

import chatfmt
from chatfmt import DomynSmall, Hy4, InputError, Ministral3Reasoning, SolarOpen2, TemplateError

ROOT = Path(__file__).resolve().parent.parent
HI = [{"role": "user", "content": "Hi"}]


def make(template: str, **options: Any) -> Any:
    return chatfmt.TEMPLATES[template](**options)


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


# --- errors


@pytest.mark.parametrize(
    ("template", "messages", "path", "sentence"),
    [
        (SolarOpen2, [{"role": "user"}], "messages[0].content", "messages[0].content is missing, but must be a string"),
        (
            Hy4,
            [*HI, {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}],
            "messages[1].tool_calls[0].function.arguments",
            "messages[1].tool_calls[0].function.arguments is a string, "
            "but must be an object (decode the JSON text first)",
        ),
        (Ministral3Reasoning, [], "messages", "messages is empty, but must hold at least one message"),
        (DomynSmall, [{"role": "user", "content": None}], "messages[0].content",
         "messages[0].content is null, but must be a string"),
        (DomynSmall, [{"role": "system", "content": None}], "messages[0].content",
         "messages[0].content is null, but must be a string"),
        (Ministral3Reasoning, [{"role": "user", "content": None}], "messages[0].content",
         "messages[0].content is null, but must be a string or a list of chunks"),
        (Ministral3Reasoning, [{"role": "user", "content": [{"type": "text", "text": "a"}, {"text": "b"}]}],
         "messages[0].content[1].type",
         "messages[0].content[1].type is missing, but must be a string"),
        (DomynSmall, True, "messages", "messages is true, but must be a list"),
        (DomynSmall, 1.5, "messages", "messages is a number, but must be a list"),
        (DomynSmall, {"role"}, "messages", "messages is of type set, but must be a list"),
    ],
)  # fmt: skip
def test_input_error_says_where_what_and_what_is_needed(
    template: type[chatfmt.ChatFormat], messages: Any, path: str, sentence: str
) -> None:
    with pytest.raises(InputError) as caught:
        template().render(messages)
    assert (caught.value.path, str(caught.value)) == (path, sentence)


def test_json_that_was_not_decoded_is_called_that() -> None:
    decode = r" \(decode the JSON text first\)$"
    cases: list[tuple[str, chatfmt.ChatFormat, Any]] = [
        ("tools is a string, but must be a list" + decode, SolarOpen2(tools='[{"name": "f"}]'), HI),
        (r"tools is a string, but must be a list$", SolarOpen2(tools="f"), HI),
        ("messages is a string, but must be a list" + decode, Ministral3Reasoning(), '[{"role": 1}]'),
        (r"messages\[0\] is a string, but must be an object$", Ministral3Reasoning(), ["hi"]),
        (r"function is missing, but must be given$", SolarOpen2(tools=[{"name": "f"}]), HI),
    ]
    for error, format, messages in cases:
        with pytest.raises(InputError, match=error):
            format.render(messages)


def test_template_error_has_exactly_the_words_and_a_path() -> None:
    with pytest.raises(TemplateError) as caught:
        SolarOpen2().render([*HI, {"role": "tool", "content": "4"}])
    assert str(caught.value) == "tool message is missing required 'tool_call_id' field"
    assert caught.value.path == "messages[1].tool_call_id"


def test_errors_are_value_errors_and_survive_pickling() -> None:
    for kind in (TemplateError, InputError):
        error = pickle.loads(pickle.dumps(kind("words", "messages[0]")))
        assert isinstance(error, kind)
        assert isinstance(error, ValueError)
        assert isinstance(error, chatfmt.ChatFormatError)
        assert (str(error), error.path) == ("words", "messages[0]")


@pytest.mark.parametrize("template", TEMPLATES)
def test_deep_nesting_is_an_input_error(template: str) -> None:
    deep = nested(200_000)
    call = {"id": "a", "function": {"name": "f", "arguments": {"k": deep}}}
    messages = [*HI, {"role": "assistant", "content": "", "tool_calls": [call]}]
    with pytest.raises(InputError, match=r"^messages\[1\]\.tool_calls\[0\].* is nested too deep"):
        chatfmt.TEMPLATES[template]().render(messages)
    for beginning in ([], [{"role": "system", "content": "S"}]):
        with pytest.raises(InputError, match=r"^tools.* is nested too deep"):
            chatfmt.TEMPLATES[template](tools=[{"function": {"name": "f", "x": deep}}]).render([*beginning, *HI])


def test_deeply_nested_options_and_ids_name_their_place() -> None:
    deep = nested(200_000)
    with pytest.raises(InputError, match=r"^response_format\.json_schema\.schema is nested too deep"):
        SolarOpen2(response_format={"type": "json_schema", "json_schema": {"schema": deep}}).render(HI)
    with pytest.raises(InputError, match=r"^eos_token is nested too deep"):
        Ministral3Reasoning(eos_token=deep).render([*HI, {"role": "assistant", "content": "A"}])
    calls = [{"id": deep, "function": {"name": "f", "arguments": {}}}]
    responses = [{"role": "tool", "tool_call_id": nested(200_000), "content": "4"}]
    with pytest.raises(InputError, match=r"^messages\[1\] is nested too deep"):
        Hy4().render([{"role": "assistant", "tool_calls": calls}, *responses])


@pytest.mark.skipif(not hasattr(sys, "get_int_max_str_digits"), reason="this Python prints integers of any length")
@pytest.mark.parametrize("template", TEMPLATES)
def test_integer_of_too_many_digits_is_an_input_error(template: str) -> None:
    call = {"id": "a", "function": {"name": "f", "arguments": {"k": 10**5000}}}
    messages = [*HI, {"role": "assistant", "content": "", "tool_calls": [call]}]
    with pytest.raises(InputError, match=r"^messages\[1\]\.tool_calls\[0\].* holds an integer of too many digits"):
        chatfmt.TEMPLATES[template]().render(messages)
    with pytest.raises(InputError, match="too many digits"):
        Hy4().render([{"role": "user", "content": 10**5000}])


# --- options


@pytest.mark.parametrize("template", TEMPLATES)
def test_unknown_options_are_type_errors(template: str) -> None:
    with pytest.raises(TypeError, match="thinking"):
        make(template, thinking=True)


def test_generation_prompt_left_out_is_the_templates_default() -> None:
    for name, template in chatfmt.TEMPLATES.items():
        left_out, on, off = (
            template().render(HI),
            template().render(HI, add_generation_prompt=True),
            template().render(HI, add_generation_prompt=False),
        )
        assert left_out == (on if name == "solar_open2" else off)
        assert (on == off) == (name == "ministral3_reasoning")
        assert template().render(HI, add_generation_prompt=None) == off


def test_solar_clock() -> None:
    for wrong in ("2026-01-01", 5, True):
        with pytest.raises(TypeError, match="now must be a date, not"):
            make("solar_open2", now=wrong)

    def prompt(**options: Any) -> str:
        return SolarOpen2(provider_system_prompt=True, **options).render(HI)

    assert "The current date is 2031-05-06." in prompt(now=datetime.date(2031, 5, 6))
    assert "The current date is 2031-05-06." in prompt(now=datetime.datetime(2031, 5, 6, 23, 59))
    before, found, after = datetime.date.today(), prompt(), datetime.date.today()
    assert any(f"The current date is {day.isoformat()}." in found for day in (before, after))


def test_hy4_token_suffix() -> None:
    with pytest.raises(TypeError, match="token_suffix must be a string, not int"):
        make("hy4", token_suffix=5)
    assert Hy4(token_suffix=":x").render(HI) == Hy4().render(HI).replace(":opensource", ":x")


# --- objects


@pytest.mark.parametrize("template", TEMPLATES)
def test_objects_do_not_change(template: str) -> None:
    format = make(template, tools=[])
    format.render(HI)
    with pytest.raises(AttributeError, match="do not change"):
        format.tools = [1]
    with pytest.raises(AttributeError, match="do not change"):
        format.another = 1
    with pytest.raises(AttributeError, match="do not change"):
        del format.tools
    assert format.tools == []


@pytest.mark.parametrize("template", TEMPLATES)
def test_objects_can_be_pickled_and_copied(template: str) -> None:
    for name in names(template):
        case = load(template, name)
        original = chat(chatfmt, template, case)
        found = rendered(chatfmt, template, case)
        for twin in (pickle.loads(pickle.dumps(original)), copy.deepcopy(original), copy.copy(original)):
            if found.kind == "text":
                keywords = {key: case[key] for key in ("add_generation_prompt",) if key in case}
                assert twin.render(case["messages"], **keywords) == found.text
    # with the tools block written
    original = chatfmt.TEMPLATES[template](tools=[{"function": {"name": "f"}}])
    prompt = original.render(HI)
    assert pickle.loads(pickle.dumps(original)).render(HI) == prompt


@pytest.mark.parametrize("template", TEMPLATES)
def test_one_object_in_sixteen_threads(template: str) -> None:
    case = load(template, "agent_loop")
    prompt = expected(template, "agent_loop").text
    keywords = {"add_generation_prompt": case["add_generation_prompt"]}
    wrong: list[str] = []
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # so that threads change in the middle of a render
    try:
        for _ in range(10):  # each time with a tools block that nobody has written yet
            shared = chat(chatfmt, template, case)
            start = threading.Barrier(16)

            def work(shared: Any = shared, start: threading.Barrier = start) -> None:
                start.wait()
                for _ in range(10):
                    found = shared.render(case["messages"], **keywords)
                    joined = "".join(segment.text for segment in shared.segments(case["messages"], **keywords))
                    wrong.extend(text for text in (found, joined) if text != prompt)

            threads = [threading.Thread(target=work) for _ in range(16)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert wrong == []


def test_a_failed_tools_block_fails_again_and_in_its_place() -> None:
    format = SolarOpen2(tools=[{"name": "flat"}])
    for _ in range(2):
        with pytest.raises(InputError, match=r"^tools\[0\]\.function is missing"):
            format.render(HI)


# --- size


def test_more_messages_than_a_sandboxed_loop_may_have() -> None:
    """The one deviation: Jinja refuses ranges over 100,000, which Solar's tool messages need."""
    responses = [{"role": "tool", "tool_call_id": "a", "content": "4"}] * 100_001
    prompt = SolarOpen2(think_render_option="off").render(responses, add_generation_prompt=False)
    one = "<|tool_response:start|>4<|tool_response:end|>\n"
    assert prompt == "<|im:start|>tool<|im:content|>" + one * 100_001 + "<|im:end|>\n"


@pytest.mark.parametrize("template", ["solar_open2", "hy4"])
@pytest.mark.parametrize("make_id", [str, int, float], ids=["text", "integers", "floats"])
def test_reordering_takes_steps_in_proportion(template: str, make_id: Any) -> None:
    """Comparing 20,000 ids with 20,000 would take minutes."""
    ids = [make_id(n) for n in range(1, 20_001)]
    calls = [{"id": call_id, "function": {"name": "f", "arguments": {}}} for call_id in ids]
    responses = [{"role": "tool", "tool_call_id": call_id, "content": f"[{call_id}]"} for call_id in reversed(ids)]
    messages = [{"role": "assistant", "content": "", "tool_calls": calls}, *responses]
    prompt = chatfmt.TEMPLATES[template]().render(messages)
    assert prompt.index(f"[{ids[0]}]") < prompt.index(f"[{ids[1]}]") < prompt.index(f"[{ids[-1]}]")


def test_nan_ids_answer_nothing() -> None:
    """One NaN object is not equal to itself, though a dict would find it."""
    calls = [{"id": call_id, "function": {"name": "f"}} for call_id in (math.nan, "b")]
    responses = [{"role": "tool", "tool_call_id": call_id, "content": str(call_id)} for call_id in (math.nan, "b")]
    messages = [{"role": "assistant", "content": "", "tool_calls": calls}, *responses]
    assert [s.message for s in SolarOpen2().segments(messages) if s.kind == "content"] == [2, 1]


# --- import


def test_import_loads_little() -> None:
    """What costs milliseconds stays out: argparse, datetime, inspect, typing, and whatever is not in the library."""
    code = "import sys; before = set(sys.modules); import chatfmt; print(*sorted(set(sys.modules) - before))"
    run = subprocess.run([sys.executable, "-S", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in run.stdout.split()}
    assert "chatfmt" in loaded
    assert not loaded & {"argparse", "datetime", "dataclasses", "inspect", "logging", "typing", "jinja2"}


def test_names_that_are_imported_when_asked_for() -> None:
    assert set(chatfmt._MODULES) < set(chatfmt.__all__) <= set(dir(chatfmt))
    for name in chatfmt.__all__:
        assert name in ("FACTS", "TEMPLATES") or getattr(chatfmt, name).__name__ == name
    with pytest.raises(AttributeError, match="module 'chatfmt' has no attribute 'masks'"):
        _ = chatfmt.masks
    code = """
import sys, threading, chatfmt
before = set(sys.modules)
threads = [threading.Thread(target=lambda: [getattr(chatfmt, name) for name in chatfmt.__all__]) for _ in range(8)]
print("chatfmt._mask" in before)
[thread.start() for thread in threads], [thread.join() for thread in threads]
from chatfmt import *
print(mask.__module__, "chatfmt._mask" in sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", "chatfmt._mask", "True"]
    assert run.stderr == ""


def test_without_the_c_encoder_the_bytes_are_the_same() -> None:
    """As on a Python that has no `_json`: json's encoder in plain Python takes its place."""
    code = """
import sys
sys.modules["_json"] = None
sys.path[:0] = ["tests", "."]
import cases, chatfmt
assert type(chatfmt._values._encode).__name__ == "function"
for template in cases.TEMPLATES:
    for name in cases.names(template):
        found = cases.rendered(chatfmt, template, cases.load(template, name))
        assert found.same(cases.expected(template, name)), (template, name)
        print(found.kind)
"""
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("text\n") > 600
