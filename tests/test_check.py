"""`check` says what a prompt shows wrong, and nothing of one that is right: each kind by hand, then by drawing lots."""

from __future__ import annotations

import collections
import copy
import gzip
import json
import math
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import generate
import pytest
from cases import TEMPLATES, chat, expected, load, names

import chatfmt
from chatfmt import ChatFormat, DomynSmall, Hy4, InputError, Ministral3Reasoning, SolarOpen2, TemplateError
from chatfmt._check import CODES, Finding, check
from chatfmt._openai import from_openai, tools_from_openai

ROOT = Path(__file__).resolve().parent.parent
REAL = ROOT.parent / "shared" / "real" / "conversations.jsonl.gz"

Message = dict[str, Any]

SOLAR, HY4, MINISTRAL, DOMYN = SolarOpen2(), Hy4(), Ministral3Reasoning(), DomynSmall()
ALL: tuple[ChatFormat, ...] = (SOLAR, HY4, MINISTRAL, DOMYN)
TOOL: dict[str, Any] = {"type": "function", "function": {"name": "look", "parameters": {}}}


def system(content: Any) -> Message:
    return {"role": "system", "content": content}


def user(content: Any = "Hi") -> Message:
    return {"role": "user", "content": content}


def said(content: Any = "Yes.", **more: Any) -> Message:
    return {"role": "assistant", "content": content, **more}


def call(id: Any = "a", name: Any = "look", arguments: Any = None) -> Message:
    return {
        "id": id,
        "type": "function",
        "function": {"name": name, "arguments": {} if arguments is None else arguments},
    }


def calls(*ids: Any, content: Any = "") -> Message:
    return said(content, tool_calls=[call(id) for id in ids])


def result(id: Any, content: Any, **more: Any) -> Message:
    return {"role": "tool", "tool_call_id": id, "content": content, **more}


class Fault(NamedTuple):
    """An input that comes out wrong, what check says of it, and one that hardly differs, and comes out right."""

    code: str
    chat: ChatFormat
    messages: Any
    path: str
    shows: str  # what the prompt shows, as a regular expression; with "!" before it, what it should and does not
    right: Any  # messages, or an object if the messages are right
    severity: str = "error"
    add_generation_prompt: Any = None  # not passed on


THINKING = {"type": "thinking", "thinking": "hm"}
TEXT = {"type": "text", "text": "see"}
IMAGE = {"type": "image_url", "image_url": {"url": "u"}}
REFERENCE = {"type": "tool_reference", "name": "look"}
SCHEMA = {"type": "json_schema", "json_schema": {"schema": {"default": math.inf}}}

FAULTS = [
    *[Fault("half-character", each, [user("a\ud83d")], "messages[0].content", "a\ud83d", [user("a\U0001f600")])
      for each in ALL],
    *[Fault("lost-reasoning", each, [user(), said(reasoning_details=[{"text": "lost"}])],
            "messages[1].reasoning_details", "!lost", [user(), said()]) for each in ALL],
    # --- messages
    *[Fault("not-a-list", each, user(), "messages", "!Hi", [user()]) for each in (SOLAR, HY4, DOMYN)],
    *[Fault("not-a-list", each, "Hi", "messages", "!Hi", [user()]) for each in (SOLAR, HY4, DOMYN)],
    *[Fault("lost-message", each, [user(), {"role": role, "content": "lost"}], "messages[1].role", "!lost",
            [user(), user("lost")]) for each in (SOLAR, DOMYN) for role in ("developer", "function", "User", 5)],
    *[Fault("lost-message", each, [user(), "lost"], "messages[1]", "!lost", [user(), user("lost")])
      for each in (SOLAR, HY4, DOMYN)],
    Fault("lost-message", DOMYN, [user(), {"content": "lost"}], "messages[1].role", "!lost", [user(), user("lost")]),
    Fault("unknown-role", HY4, [{"role": "developer", "content": "d"}], "messages[0].role",
          "start:opensource｜>developer<",
          [system("d")], "warning"),
    Fault("unknown-role", HY4, [{"content": "d"}], "messages[0].role",
          "hy_start:opensource｜><｜hy_middle:opensource｜>d",
          [user("d")]),
    Fault("python-text", HY4, [{"role": None, "content": "d"}], "messages[0].role", ">None<", [user("d")]),
    Fault("python-text", HY4, [{"role": True, "content": "d"}], "messages[0].role", ">True<", [user("d")]),
    Fault("unknown-role", HY4, [{"role": 5, "content": "d"}], "messages[0].role", "start:opensource｜>5<", [user("d")]),
    Fault("moved-system", SOLAR, [user("first"), system("late")], "messages[1]", "(?s)late.*first",
          [system("late"), user("first")], "warning"),
    Fault("repeated-tools", DomynSmall(tools=[TOOL]), [system("a"), system("b")], "messages[1]",
          "(?s)<tools>\n.*<tools>\n",
          DomynSmall(), "warning"),
    # --- contents
    Fault("python-text", SOLAR, [system(None)], "messages[0].content", "\n\nNone<", [{"role": "system"}]),
    Fault("python-text", SOLAR, [system([TEXT])], "messages[0].content", r"\[\{'type'", [system("see")]),
    Fault("python-text", SOLAR, [said([TEXT])], "messages[0].content", r"\[\{'type'", [said([])]),
    Fault("python-text", SOLAR, [said(True)], "messages[0].content", "True", [said(5)]),
    Fault("python-text", HY4, [user([TEXT, IMAGE])], "messages[0].content[1]", r"see\{'type'", [user([TEXT, "more"])]),
    Fault("python-text", HY4, [user([{"type": "text", "text": None}])], "messages[0].content[0].text", ">None<",
          [user([{"type": "text"}])]),
    Fault("python-text", HY4, [user([None])], "messages[0].content[0]", ">None<", [user(None)]),
    Fault("python-text", HY4, [user({"a": True})], "messages[0].content", r"\{'a': True\}", [user("{}")]),
    Fault("python-text", HY4, [user(False)], "messages[0].content", "False", [user(0)]),
    Fault("python-text", HY4, [calls("a"), result("a", {"a": 1})], "messages[1].content", r"\{'a': 1\}",
          [calls("a"), result("a", '{"a": 1}')]),
    Fault("python-text", HY4, [calls("a"), result("a", [{"output": None}])], "messages[1].content[0].output", ">None<",
          [calls("a"), result("a", [{"output": ""}])]),
    Fault("python-text", MINISTRAL, [user(), calls("a"), result("a", [TEXT])], "messages[2].content", r"\[\{'type'",
          [user(), calls("a"), result("a", "see")]),
    Fault("python-text", MINISTRAL, [user(), calls("a"), result("a", None)], "messages[2].content", r"\]None\[",
          [user(), calls("a"), {"role": "tool", "tool_call_id": "a"}]),
    Fault("python-text", MINISTRAL, [user([{"type": "text", "text": None}])], "messages[0].content[0].text",
          r"\]None\[",
          [user([{"type": "text"}])]),
    Fault("python-text", MINISTRAL, [user(), said([THINKING, {"type": "text", "text": ["a"]}])],
          "messages[1].content[1].text", r"\]\['a'\]", [user(), said([THINKING, TEXT])]),
    Fault("python-text", MINISTRAL, [system([{"type": "text", "text": None}])], "messages[0].content[0].text", "None",
          [system([TEXT])]),
    Fault("python-text", Ministral3Reasoning(bos_token=None), [user()], "bos_token", "^None", MINISTRAL),
    Fault("python-text", Ministral3Reasoning(eos_token=None), [user(), said()], "eos_token", "None$", MINISTRAL),
    Fault("python-text", DOMYN, [system([TEXT])], "messages[0].content", r"\[\{'type'", [system("see")]),
    Fault("python-text", DOMYN, [system({})], "messages[0].content", r"\{\}", [{"role": "system"}]),
    Fault("lost-content", DOMYN, [calls("a", content="lost")], "messages[0].content", "!lost", [calls("a",
          content=" \n")]),
    Fault("lost-content", DOMYN, [calls("a", content=[TEXT])], "messages[0].content", "!see", [calls("a",
          content=None)]),
    *[Fault("lost-content", each, [user(), said(refusal="lost")], "messages[1].refusal", "!lost",
            [user(), said(refusal=None)]) for each in ALL],
    *[Fault("lost-content", each, [user(), said(audio={"transcript": "lost"})], "messages[1].audio", "!lost",
            [user(), said(audio=None)]) for each in ALL],
    Fault("lost-content", HY4, [calls("a"), result("a", [{"output": "x"}, {"text": "lost"}])],
          "messages[1].content[1]",
          "!lost", [calls("a"), result("a", [{"output": "x"}, {"output": "y"}])]),
    Fault("lost-content", HY4, [calls("a"), result("a", [{"output": "x", "error": "lost"}])], "messages[1].content[0]",
          "!lost", [calls("a"), result("a", [{"output": "x", "type": "output"}])]),
    Fault("lost-content", Hy4(tools=[TOOL]), [calls("a"), result("a", [{"type": "tool_reference", "name": "lost"}])],
          "messages[1].content[0]", "!lost", [calls("a"), result("a", [{"type": "tool_reference", "name": "look"}])]),
    Fault("lost-content", Hy4(tools=[TOOL]),
          [calls("a"), result("a", [{"type": "tool_reference", "name": "look"}, {"type": "text", "text": "lost"}])],
          "messages[1].content[1]", "!lost", [calls("a"), result("a", [{"type": "tool_reference", "name": "look"}])]),
    Fault("lost-content", Hy4(tools=[TOOL]),
          [calls("a"), result("a", [REFERENCE, {"type": "text", "name": "look", "text": "lost"}])],
          "messages[1].content[1]", "!lost", [calls("a"), result("a", [REFERENCE, REFERENCE])]),
    Fault("moved-image", MINISTRAL, [user([TEXT, IMAGE])], "messages[0].content", r"\[IMG\]see", [user([IMAGE, TEXT])],
          "warning"),
    Fault("moved-image", MINISTRAL, [user([TEXT, {"type": "image"}])], "messages[0].content", r"\[IMG\]see",
          [user([TEXT, {"type": "image"}, TEXT])], "warning"),
    *[Fault("lost-name", each, [{**user(), "name": "ada"}], "messages[0].name", "!ada", [{**user(), "name": None}],
            "warning") for each in ALL],
    *[Fault("lost-name", each, [user(), calls("a"), result("a", "4", name="clock")], "messages[2].name", "!clock",
            [user(), calls("a"), result("a", "4", name="look")], "warning") for each in ALL],
    *[Fault("control-token", each, [user(f"Hi{token}")], "messages[0].content", re.escape(f"Hi{token}"),
            [user(f"Hi{token[:-1]}")], "warning")
      for each, token in ((SOLAR, "<|im:end|>"), (HY4, "<｜hy_end:opensource｜>"), (MINISTRAL, "[/INST]"),
                          (DOMYN, "<tool_call>"))],
    Fault("control-token", Ministral3Reasoning(tools=[{"type": "function", "function": {"name": "[INST]"}}]), [user()],
          "tools", r'"\[INST\]"', MINISTRAL, "warning"),
    *[Fault("thinking-words", DOMYN, [system(text)], "messages[0].content",
            "Stop  about it|Stop ly|but re |detailed\n",
            [system(right)])
      for text, right in (("Stop thinking only of money.", "Stop. thinking on"), ("but rethinking on it",
      "thinking on\nIt"),
                          ("Stop thinking on about it", "thinking on"), ("Stop thinking off about it",
                          "Stop.\nthinking off"),
                          ("detailed thinking on", "detailed: thinking on"))],
    *[Fault("thinking-words", DOMYN, [system(text)], "messages[0].content", shown, [system(right)])
      for text, shown, right in (("thinking on your feet", "\n your feet\n|\nyour feet\n", "thinking on "),
                                 ("thinking\toff, thinking off\tas you walk", "as you walk", "thinking off \t"),
                                 ("be non-thinking on", "non-\n", "be non- thinking. thinking on"))],
    Fault("thinking-words", DOMYN, [system("A thinking on. B. thinking off")], "messages[0].content", r"A \. B\.",
          [system("A. thinking on thinking off.")]),
    # --- reasoning
    *[Fault("lost-reasoning", SOLAR, [said(reasoning=empty, reasoning_content="lost")],
            "messages[0].reasoning_content",
            "!lost", [said(reasoning_content="lost")]) for empty in (None, "")],
    Fault("lost-reasoning", SOLAR, [said(reasoning="kept", reasoning_content="lost")], "messages[0].reasoning_content",
          "!lost", [said(reasoning="kept", reasoning_content="kept")]),
    *[Fault("lost-reasoning", each, [user(), said(thinking="lost")], "messages[1].thinking", "!lost",
            [user(), said(reasoning="lost")]) for each in (SOLAR, HY4)],
    *[Fault("lost-reasoning", each, [user("u"), said(thinking="lost"), user("v")], "messages[1].thinking", "!lost",
            [user("u"), said(reasoning="by design"), user("v"), said(reasoning="kept")])
      for each in (SolarOpen2(think_render_option="preserved"), Hy4(preserved_thinking=True))],
    Fault("lost-reasoning", Hy4(reasoning_effort="no_think", fallback_strategy="reasoning_toolcall_retry"),
          [said(thinking="lost")], "messages[0].thinking", "!lost", Hy4(reasoning_effort="no_think")),
    Fault("lost-reasoning", HY4, [said(reasoning=True)], "messages[0].reasoning", "!True", [said(reasoning=[])]),
    Fault("lost-reasoning", HY4, [said(reasoning=["lost"])], "messages[0].reasoning", "!lost",
          [said(reasoning="lost")]),
    Fault("lost-reasoning", HY4, [said(reasoning_content={"a": "lost"})], "messages[0].reasoning_content", "!lost",
          Hy4(reasoning_effort="no_think")),
    Fault("lost-reasoning", Hy4(raw_last_assistant=True), [said(reasoning="lost")], "messages[0].reasoning", "!lost",
          HY4),
    *[Fault("lost-reasoning", each, [user(), said(**{key: "lost"})], f"messages[1].{key}", "!lost",
            [user(), said(**{key: " "})], "error" if each is MINISTRAL else "warning")
      for each in (MINISTRAL, DOMYN) for key in ("reasoning", "reasoning_content", "thinking")],
    Fault("lost-reasoning", MINISTRAL, [user(), said([THINKING, TEXT], reasoning="lost")], "messages[1].reasoning",
          "!lost",
          [user(), said([THINKING, TEXT], reasoning="hm")]),
    # --- calls
    *[Fault("lost-call", each, [user(), said(function_call={"name": "lost", "arguments": "{}"})],
            "messages[1].function_call", "!lost", [user(), said(function_call=None)]) for each in ALL],
    *[Fault("lost-call", each, [{**user(), "tool_calls": [call(name="lost")]}], "messages[0].tool_calls", "!lost",
            [{**user(), "tool_calls": []}]) for each in ALL],
    Fault("double-encoded", DOMYN, [said(tool_calls=[call(arguments='{"a": 1}')])],
          "messages[0].tool_calls[0].function.arguments", re.escape(r'"{\"a\": 1}"'),
          [said("", tool_calls=[call(arguments={"a": '{"b": 1}'})])]),
    Fault("wrong-arguments", DOMYN, [said("", tool_calls=[{"function": {"name": "f", "arguments": None}}])],
          "messages[0].tool_calls[0].function.arguments", '"arguments": null', [calls("a")]),
    *[Fault("wrong-arguments", MINISTRAL, [user(), said("", tool_calls=[{"function": {"name": "f",
            "arguments": arguments}}])],
            "messages[1].tool_calls[0].function.arguments", shown,
            [user(), said("", tool_calls=[call(arguments=right)])])
      for arguments, shown, right in ((None, r"\[ARGS\]null", ""), (" ", r"\[ARGS\] <", {}), ("not json", "not json",
      "{}"),
                                      ("[1]", r"\[ARGS\]\[1\]", '{"a": [1]}'), ([1], r"\[ARGS\]\[1\]", {"a": [1]}),
                                      ('{"a": NaN}', "NaN", '{"a": "NaN"}'))],
    Fault("wrong-name", DOMYN, [said("", tool_calls=[{"function": {"name": None, "arguments": {}}}])],
          "messages[0].tool_calls[0].function.name", '"name": null', [said("", tool_calls=[call(name="null")])]),
    Fault("wrong-name", HY4, [said(tool_calls=[{"function": {"name": None, "arguments": {}}}])],
          "messages[0].tool_calls[0].function.name", ">None<", [said(tool_calls=[call(name="None")])]),
    Fault("wrong-name", HY4, [said(tool_calls=[{"id": "a", "arguments": {}}])], "messages[0].tool_calls[0].name",
          "<tool_call:opensource></tool_call:opensource>", [said(tool_calls=[{"id": "a", "name": "f",
          "arguments": {}}])]),
    Fault("html-escaped", MINISTRAL, [user(), said("", tool_calls=[call(name="a&b")])],
          "messages[1].tool_calls[0].function.name", "a&amp;b", [user(), said("", tool_calls=[call("a", "a&b",
          "{}")])]),
    *[Fault("invalid-json", each, [user(), said("", tool_calls=[call(arguments={"k": [number]})])],
            "messages[1].tool_calls[0].function.arguments", "NaN|Infinity",
            [user(), said("", tool_calls=[call(arguments={"k": ["NaN", 1e300]})])])
      for each in ALL for number in (math.nan, -math.inf)],
    # --- results
    *[Fault("swapped-results", each, [user(), calls("a", "b"), result("b", "of b"), result("a", "of a")],
            "messages[3]",
            "(?s)of b.*of a", [user(), calls("a", "b"), result("a", "of a"), result("b", "of b")])
      for each in (MINISTRAL, DOMYN)],
    *[Fault("swapped-results", each, [calls("a", "b"), user(), result("b", "of b"), result("a", "of a")],
            "messages[3]",
            "(?s)of b.*of a", [user(), calls("a", "b"), result("b", "of b"), result("a", "of a")])
      for each in (SOLAR, HY4)],
    Fault("swapped-results", SOLAR, [calls("a"), calls("b"), result("a", "of a"), result("b", "of b")], "messages[2]",
          "(?s)of b.*of a", [calls("a", "b"), result("a", "of a"), result("b", "of b")]),
    Fault("swapped-results", DOMYN, [said("", tool_calls=[call(None, "f"), call(None, "g")]),
                                     {"role": "tool", "name": "g", "content": "of g"},
                                     {"role": "tool", "name": "f", "content": "of f"}], "messages[2]",
                                     "(?s)of g.*of f",
          [said("", tool_calls=[call(None, "f"), call(None, "g")]), {"role": "tool", "name": "f", "content": "of f"},
           {"role": "tool", "name": "g", "content": "of g"}]),
    Fault("repeated-result", SOLAR, [calls("a", "a"), result("a", "1")], "messages[1]", ">1<(?s:.*)>1<",
          [calls("a", "b"), result("a", "1"), result("b", "2")]),
    Fault("repeated-result", HY4, [calls("a", "a"), result("a", "1"), result("z", "2")], "messages[1]", ">1<.*>1<",
          [calls("a", "a"), result("a", "1"), result("a", "2")]),
    Fault("lost-result", HY4, [calls("a", "a"), result("a", "1"), result("z", "lost")], "messages[2]", "!lost",
          [calls("a", "b"), result("a", "1"), result("b", "lost")]),
    *[Fault("second-result", each, [user(), calls("a", "b"), result("a", "1"), result("b", "2"), result("a", "again")],
            "messages[4].tool_call_id", "(?s)1.*2.*again|1.*again.*2", [user(), calls("a", "b"), result("a", "1"),
            result("b", "2")],
            "error" if each is SOLAR else "warning") for each in ALL],
    *[Fault("orphan-result", each, [user(), calls("a"), result("a", "1"), result("z", "of nothing")],
            "messages[3].tool_call_id", "of nothing", [user(), calls("a", "z"), result("a", "1"), result("z",
            "of nothing")],
            "warning") for each in ALL],
    *[Fault("orphan-result", each, [user(), calls("a"), result("z", "of nothing"), result("a", "1")],
            "messages[2].tool_call_id", "(?s)of nothing.*1", [user(), calls("a"), result("a", "1")])
      for each in (HY4, MINISTRAL, DOMYN)],
    *[Fault("unanswered-call", each, [user(), calls("a", "b"), result("a", "1"), said()],
            "messages[1].tool_calls[1]", "1",
            [user(), calls("a", "b"), result("a", "1"), result("b", "2"), said()], "warning") for each in ALL],
    *[Fault("unanswered-call", each, [user(), calls("a", "b"), result("b", "2"), said()],
            "messages[1].tool_calls[0]", "2",
            [user(), said(), user(), calls("a", "b")]) for each in ALL],
    *[Fault("unanswered-call", each, [user(), calls("a", "b"), result("a", "1")], "messages[1].tool_calls[1]", "1",
            [user(), calls("a"), result("a", "1")], "warning") for each in ALL],
    *[Fault("unanswered-call", each, [user(), calls("a"), user("Stop")], "messages[1].tool_calls[0]", "Stop",
            [user("Stop"), calls("a")], "warning") for each in (SOLAR, HY4, DOMYN)],
    # --- options and tools
    *[Fault("unknown-option", SolarOpen2(reasoning_effort=effort), [user()], "reasoning_effort",
            r"<\|think:start\|><\|think:end\|>$", SolarOpen2(reasoning_effort="none"), "warning")
      for effort in ("low", "HIGH", None, ["high"])],
    *[Fault("unknown-option", SolarOpen2(think_render_option=option), [said(reasoning="lost")], "think_render_option",
            "!lost", SolarOpen2(think_render_option="preserved")) for option in ("all", None, 1)],
    Fault("unknown-option", SolarOpen2(provider_system_prompt="false"), [user()], "provider_system_prompt",
          "You are Solar", SolarOpen2(provider_system_prompt=True), "warning"),
    Fault("unknown-option", Hy4(fallback_strategy="retry"), [user()], "fallback_strategy", "Hi",
          Hy4(fallback_strategy="reasoning_toolcall_retry"), "warning"),
    Fault("unknown-option", Hy4(raw_last_assistant="false"), [said()], "raw_last_assistant", r"Yes\.$",
          Hy4(raw_last_assistant=True), "warning"),
    Fault("unknown-option", Hy4(preserved_thinking="no"), [said(reasoning="kept"), user()], "preserved_thinking",
          "kept",
          Hy4(preserved_thinking=None), "warning"),
    Fault("unknown-option", DomynSmall(enable_thinking="false"), [user()], "enable_thinking", "thinking on",
          DomynSmall(enable_thinking=0), "warning"),
    Fault("unknown-option", DOMYN, [user()], "add_generation_prompt", "Assistant\n", [user()], "warning", "false"),
    Fault("no-generation-prompt", HY4, [user(), said()], "add_generation_prompt", "hy_end:opensource｜>$", [user()],
          "warning", True),
    Fault("no-generation-prompt", MINISTRAL, [user(), said()], "add_generation_prompt", "</s>$", [user()], "warning",
          True),
    Fault("empty-heading", SolarOpen2(response_format={"type": "text"}), [user()], "response_format",
          r"## Output Format Constraint<\|im:end", SolarOpen2(response_format={"type": "json_object"}), "warning"),
    Fault("empty-heading", SolarOpen2(response_format="json_object"), [user()], "response_format",
          r"## Output Format Constraint<\|im:end", SolarOpen2(response_format={}), "warning"),
    Fault("empty-heading", Hy4(tools=[{"function": {"name": "f", "defer_loading": True}}]), [user()], "tools",
          "<tools>\n\n</tools>", Hy4(tools=[TOOL, {"function": {"name": "f", "defer_loading": True}}]), "warning"),
    Fault("invalid-json", SolarOpen2(response_format=SCHEMA), [user()], "response_format.json_schema.schema",
          "Infinity",
          SolarOpen2(response_format={"type": "json_schema", "json_schema": {"schema": {"default": "Infinity"}}})),
    Fault("invalid-json", SolarOpen2(tools=[{"function": {"name": "f", "x": math.nan}}]), [user()],
          "tools[0].function",
          "NaN", SolarOpen2(tools=[{"function": {"name": "NaN"}}])),
    Fault("invalid-json", Hy4(tools=[{"function": {"name": "f",
          'a"b': 1}}]), [user()], "tools[0].function", '"a"b": 1',
          Hy4(tools=[{"function": {"name": "f", "x": {'a"b': 1}}}])),
    Fault("invalid-json", Hy4(tools=[{"function": {"name": "f", 'a"b': 1}}, TOOL]), [user()], "tools[0].function",
          '"a"b": 1', Hy4(tools=[{"function": {"name": "f", 'a"b': math.nan, "defer_loading": True}}, TOOL])),
    Fault("invalid-json", Hy4(tools=[{"function": {"name": "f", "x": [math.inf]}}]), [user()], "tools[0].function",
          "Infinity", Hy4(tools=[{"function": {"name": "f", "x": [1e300]}}])),
    *[Fault("invalid-json", each(tools=[{"function": {"name": "f", "x": -math.inf}}]), [user()], "tools[0]",
            "-Infinity",
            each(tools=[TOOL])) for each in (Ministral3Reasoning, DomynSmall)],
    *[Fault("not-a-list", each(tools={"function": {"name": "f"}}), [user()], "tools", r'[\]>\n]\{"function"',
            each(tools=[TOOL])) for each in (Ministral3Reasoning, DomynSmall)],
    *[Fault("wrong-tool", each(tools=[{"name": "f"}]), [user()], "tools[0]", r'\[\{"name": "f"\}\]',
            each(tools=[TOOL]),
            "warning") for each in (Ministral3Reasoning, DomynSmall)],
    Fault("wrong-tool", Hy4(tools=[{"type": "function", "name": "f"}]), [user()], "tools[0]",
          '{"type": "function", "name": "f"}', Hy4(tools=[{"name": "f"}]), "warning"),
    Fault("wrong-tool", Hy4(tools=[{"type": "function", **TOOL["function"]}]), [user()], "tools[0]",
          '{"type": "function", "name": "look"', Hy4(tools=[TOOL["function"]]), "warning"),
    Fault("orphan-result", HY4, [calls("a"), {"role": "tool", "id": "z", "content": "of nothing"}],
          "messages[1].tool_call_id", "of nothing", [calls("z"), {"role": "tool", "id": "z", "content": "4"}],
          "warning"),
    Fault("orphan-result", DOMYN,
          [calls(None, None), *({"role": "tool", "content": text} for text in ("1", "2", "of nothing"))],
          "messages[3].tool_call_id", "of nothing",
          [calls(None, None), *({"role": "tool", "content": text} for text in ("1", "2"))], "warning"),
    Fault("wrong-tool", SolarOpen2(tools=[{"function": None}]), [user()], "tools[0].function", ">null<",
          SolarOpen2(tools=[TOOL])),
    *[Fault("lost-tool-field", each(tools=[{**TOOL, "note": "lost"}]), [user()], "tools[0].note", "!lost",
            each(tools=[{**TOOL, "note": None}]), "warning") for each in (SolarOpen2, Hy4)],
    # --- no prompt at all
    Fault("refused", SOLAR, [result("", "4")], "messages[0].tool_call_id", "", [calls("a"), result("a", "4")]),
    Fault("refused", HY4.__class__(reasoning_effort="low"), [user()], "reasoning_effort", "", HY4),
    Fault("refused", MINISTRAL, [user(), user()], "messages[1].role", "", [user(), said(), user()]),
    Fault("refused", MINISTRAL, [user(), system("late")], "messages[1].role", "", [system("early"), user()]),
    *[Fault("fails", each, [user(None)], "messages[0].content", "", [user("")]) for each in (SOLAR, MINISTRAL, DOMYN)],
    Fault("fails", HY4, [said(tool_calls=[call(arguments="{}")])], "messages[0].tool_calls[0].function.arguments", "",
          [said(tool_calls=[call(arguments={})])]),
    *[Fault("fails", each, 5, "messages", "", []) for each in (SOLAR, HY4, DOMYN)],
]  # fmt: skip


def keywords(fault: Fault) -> dict[str, Any]:
    return {} if fault.add_generation_prompt is None else {"add_generation_prompt": fault.add_generation_prompt}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.code}-{fault.chat.name}-{fault.path}")
def test_fault(fault: Fault) -> None:
    """The prompt shows it; check says it, and little else; and not of the input that comes out right."""
    before = copy.deepcopy(fault.messages)
    findings = check(fault.chat, fault.messages, **keywords(fault))
    assert repr(fault.messages) == repr(before)
    (finding,) = [finding for finding in findings if (finding.code, finding.path) == (fault.code, fault.path)]
    assert finding.severity == fault.severity
    assert isinstance(finding, Finding)
    if fault.code in ("refused", "fails"):
        with pytest.raises(TemplateError if fault.code == "refused" else InputError) as caught:
            fault.chat.render(fault.messages, **keywords(fault))
        assert findings == [Finding(caught.value.path, fault.code, str(caught.value), "error")]
    else:
        assert finding.sentence.startswith(fault.path + " ")
        prompt = fault.chat.render(fault.messages, **keywords(fault))
        if fault.shows.startswith("!"):
            assert not re.search(fault.shows[1:], prompt)
        else:
            assert re.search(fault.shows, prompt)
    if isinstance(fault.right, ChatFormat):
        fault.right.render(fault.messages)
        assert fault.code not in {finding.code for finding in check(fault.right, fault.messages)}
    else:
        again: dict[str, Any] = {"add_generation_prompt": True} if fault.code == "no-generation-prompt" else {}
        findings = check(fault.chat, fault.right, **again)
        assert not [finding for finding in findings if finding.path.startswith(("messages", "add_generation_prompt"))]


def test_every_code_has_its_faults() -> None:
    assert {fault.code for fault in FAULTS} == set(CODES)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", code) for code in CODES)


CLEAN_INPUTS: list[tuple[ChatFormat, list[Any], Any]] = [
    (SolarOpen2(provider_system_prompt="", think_render_option="preserved"), [user()], None),
    (SOLAR, [system("a"), system("b"), user()], True),
    (Hy4(tools=[{"name": "f", "parameters": {}, "strict": math.nan}]), [user()], None),
    (Hy4(tools=[{"function": {"name": "f", "type": "x"}}]), [user()], None),
    (Hy4(tools=[TOOL]), [calls("a"), result("a", [{"type": "tool_reference", "name": "look"}, None])], None),
    (HY4, [calls("a"), result("a", [{"output": "x"}, None])], None),
    (Hy4(raw_last_assistant=True), [user(), said()], True),
    (Hy4(raw_last_assistant=True), [said(reasoning="shown"), said("half")], None),
    (Hy4(raw_last_assistant=True), [said("half", reasoning="shown", tool_calls=[call()])], None),
    (Hy4(fallback_strategy="reasoning_toolcall_retry"), [user(), said()], True),
    (SOLAR, [user(), said()], True),
    (DOMYN, [user(), said()], True),
    # results whose ids say nothing
    (DOMYN, [calls("a"), {"role": "tool", "id": "z", "content": "4"}], None),  # only Hy4 looks at `id`
    (DOMYN, [calls("a", "b"), result("", "1"), result("b", "2")], None),
    (DOMYN, [calls(None, "b"), result("x", "1"), result("b", "2")], None),
    (MINISTRAL, [user(), calls(None, None), {"role": "tool", "content": "1"}, {"role": "tool", "content": "2"}], None),
    # ids that come again, as some servers have it
    *[(each, [user(), calls("a"), result("a", "1"), calls("a"), result("a", "2")], None) for each in ALL],
    *[(each, [user(), calls("a", "a"), result("a", "1"), result("a", "2")], None) for each in (HY4, MINISTRAL, DOMYN)],
]


@pytest.mark.parametrize(("format", "messages", "add_generation_prompt"), CLEAN_INPUTS)
def test_clean(format: ChatFormat, messages: list[Any], add_generation_prompt: Any) -> None:
    assert check(format, messages, add_generation_prompt=add_generation_prompt) == []


def codes(format: ChatFormat, messages: Any) -> list[str]:
    return [finding.code for finding in check(format, messages)]


def test_one_fault_is_said_once() -> None:
    assert codes(SOLAR, [calls("a", "a"), result("a", "1"), said()]) == ["repeated-result"]
    assert codes(SOLAR, [result("a", "1"), calls("a", "a")]) == ["orphan-result"]
    assert codes(HY4, [calls("a", "a"), result("a", "1"), result("z", "2"), said()]) == [
        "repeated-result",
        "lost-result",
    ]
    assert codes(SOLAR, [calls("a", "a"), result("a", "1"), result("a", "2")]) == ["repeated-result"] * 2
    assert codes(SOLAR, [{"role": "developer", "content": "d"}, system("s")]) == ["lost-message"]
    assert codes(SOLAR, [result("a", "1"), user(), calls("b"), result("b", "2")]) == ["orphan-result"]
    assert codes(SolarOpen2(think_render_option="off"), [said(reasoning="", reasoning_content="r")]) == [
        "unknown-option"
    ]
    flat = said(tool_calls=[{"tool_call_id": "a", "name": "f", "arguments": {}}])
    assert codes(HY4, [flat, result("z", "1")]) == ["orphan-result"]
    assert codes(DOMYN, [calls(None), {"role": "tool", "name": "clock", "content": "1"}]) == ["lost-name"]


def test_results_that_answer_nothing_are_errors_before_others_that_do() -> None:
    orphans = [result("x", "1"), result("y", "2")]
    for each in (HY4, MINISTRAL, DOMYN):
        for order, severity in (([result("a", "0"), *orphans], "warning"), ([*orphans, result("a", "0")], "error")):
            findings = check(each, [user(), calls("a"), *order])
            assert [(finding.code, finding.severity) for finding in findings] == [("orphan-result", severity)] * 2


def test_options_are_looked_at_whatever_the_messages_are() -> None:
    for messages in ({"role": "user"}, "Hi", [], [user()]):
        assert "unknown-option" in codes(SolarOpen2(reasoning_effort="low"), messages)


@pytest.mark.parametrize(
    ("format", "messages", "sentence"),
    [
        (SOLAR, [system(None)], "messages[0].content is null, and is printed as None, but must be a string"),
        (SOLAR, [system([TEXT])],
         "messages[0].content is a list, and is printed as Python writes it, but must be a string"),
        (HY4, [said(reasoning=["r"])], "messages[0].reasoning is a list, and is not printed"),
        (HY4, [said(thinking="r")], "messages[0].thinking is not printed"),
        (HY4, [said(tool_calls=[{"name": None, "arguments": {}}])],
         "messages[0].tool_calls[0].name is null, and is printed as None, but must be a string"),
        (HY4, [said(tool_calls=[{"arguments": {}}])],
         "messages[0].tool_calls[0].name is missing, and is printed as nothing, but must be a string"),
        (SOLAR, [said(True)], "messages[0].content is true, and is printed as True, but must be a string"),
        (HY4, [{"role": "a\nb"}],
         'messages[0].role is "a\\nb", and is printed, but must be one of system, user, assistant, tool'),
        (DOMYN, [calls("a", "b"), result("b", "2"), result("a", "1")],
         "messages[2] answers messages[0].tool_calls[0], but is printed behind the result of a later call, "
         "and must be printed before it"),
        (DOMYN, [calls("a", "b"), result("b", "2")],
         "messages[0].tool_calls[0] has no result, so that the next result is taken for its own"),
        (DOMYN, [calls("a"), user()], "messages[0].tool_calls[0] has no result"),
        (DOMYN, [user("<think>")],
         "messages[0].content holds the control token <think>, which a tokenizer may take for the template's own"),
    ],
)  # fmt: skip
def test_sentences(format: ChatFormat, messages: list[Any], sentence: str) -> None:
    assert [finding.sentence for finding in check(format, messages)] == [sentence]


def test_findings_come_in_the_order_of_the_conversation() -> None:
    format = DomynSmall(tools=[{"name": "<tools>"}], enable_thinking="yes")
    messages = [
        system("Stop thinking only."),
        {"role": "developer", "content": "d"},
        said("x</tools>", reasoning="r", tool_calls=[call("a", arguments="{}"), call("b")]),
        result("b", "<think>"),
        result("a", "1"),
        system("late"),
    ]
    assert [(finding.path, finding.code) for finding in check(format, messages)] == [
        ("enable_thinking", "unknown-option"),
        ("tools[0]", "wrong-tool"),
        ("tools", "control-token"),
        ("tools", "control-token"),
        ("messages[0].content", "thinking-words"),
        ("messages[1].role", "lost-message"),
        ("messages[2].reasoning", "lost-reasoning"),
        ("messages[2].content", "lost-content"),
        ("messages[2].tool_calls[0].function.arguments", "double-encoded"),
        ("messages[3].content", "control-token"),
        ("messages[4]", "swapped-results"),
        ("messages[5]", "repeated-tools"),
    ]


def test_what_templates_mean_to_leave_out_is_no_finding() -> None:
    history = [user("a"), said(reasoning="before"), user("b"), said(reasoning="after")]
    for format in (SOLAR, HY4, Hy4(reasoning_effort="no_think"), Hy4(fallback_strategy="reasoning_toolcall_retry")):
        assert "before" not in format.render(history)
        assert check(format, history) == []
    for each in ALL:  # the result of the last call may be still to come; a generation prompt may be without effect
        assert check(each, [user(), calls("a", "b")], add_generation_prompt=False) == []
        assert check(each, [user()], add_generation_prompt=True) == []
    deferred = [{**TOOL, "function": {"name": "f", "strict": True, "defer_loading": True}}, TOOL]
    assert check(Hy4(tools=deferred), [user()]) == []


# --- golden cases

CLEAN = {
    "agent_loop", "empty_contents", "generation_prompt_off", "multi_turn", "one_tool_call", "parallel_tool_calls",
    "plain_chat", "reasoning_before_last_user", "reasoning_in_tool_loop", "system_and_user",
    "tool_responses_out_of_order", "tools_without_calls", "unicode_text", "whitespace_kept",
}  # fmt: skip
# What the shared conversations lose in some of the templates. "control_tokens_in_user_text" is clean in none.
UNCLEAN = {
    ("hy4", "empty_contents"): {"no-generation-prompt"},
    ("ministral3_reasoning", "empty_contents"): {"refused"},
    ("ministral3_reasoning", "agent_loop"): {"lost-reasoning", "swapped-results"},
    ("ministral3_reasoning", "reasoning_before_last_user"): {"lost-reasoning"},
    ("ministral3_reasoning", "reasoning_in_tool_loop"): {"lost-reasoning"},
    ("ministral3_reasoning", "tool_responses_out_of_order"): {"swapped-results"},
    ("domyn_small", "agent_loop"): {"lost-content", "lost-reasoning", "swapped-results"},
    ("domyn_small", "parallel_tool_calls"): {"lost-content"},
    ("domyn_small", "reasoning_before_last_user"): {"lost-reasoning"},
    ("domyn_small", "reasoning_in_tool_loop"): {"lost-content", "lost-reasoning"},
    ("domyn_small", "tool_responses_out_of_order"): {"swapped-results"},
}


def checked(template: str, case: dict[str, Any]) -> list[Finding]:
    passed = {key: case[key] for key in ("add_generation_prompt",) if key in case}
    return check(chat(chatfmt, template, case), case["messages"], **passed)


@pytest.mark.parametrize("template", TEMPLATES)
def test_shared_goldens(template: str) -> None:
    for name in CLEAN:
        findings = checked(template, load(template, name))
        assert {finding.code for finding in findings} == UNCLEAN.get((template, name), set()), name
    found = checked(template, load(template, "control_tokens_in_user_text"))
    assert {finding.code for finding in found} == {"control-token"}


def sound(findings: list[Finding], has_prompt: bool) -> bool:
    """Whether findings are what they promise to be, whatever they are about."""
    if has_prompt == (bool(findings) and findings[0].code in ("refused", "fails")):
        return False
    if not has_prompt:
        return len(findings) == 1
    # a control token in a tool is said of the place in `tools`, but stands where a message shows the tool (Hy4)
    paths = [finding.path for finding in findings if finding.code != "control-token"]
    matches = [re.match(r"messages\[(\d+)\]", path) for path in paths]
    indexes = [int(match.group(1)) if match else -1 for match in matches]
    return indexes == sorted(indexes) and all(
        finding.code in CODES and finding.severity in ("error", "warning") and
        finding.path and finding.sentence.startswith(finding.path)
        for finding in findings
    )  # fmt: skip


@pytest.mark.parametrize("template", TEMPLATES)
def test_all_goldens(template: str) -> None:
    for name in names(template):
        case = load(template, name)
        before = repr(case)
        assert sound(checked(template, case), expected(template, name).kind == "text"), name
        assert repr(case) == before


@pytest.mark.parametrize("level", generate.LEVELS)
@pytest.mark.parametrize("template", TEMPLATES)
def test_generated_cases_raise_nothing(template: str, level: str) -> None:
    goldens = [load(template, name) for name in names(template)]
    for index in range(250):
        case = generate.case(template, level, random.Random(f"check {template} {level} {index}"), goldens)
        passed = {key: case[key] for key in ("add_generation_prompt",) if key in case}
        try:
            chat(chatfmt, template, case).render(case["messages"], **passed)
            has_prompt = True
        except chatfmt.ChatFormatError:
            has_prompt = False
        assert sound(checked(template, case), has_prompt)


# --- what is said is so, and what is so is said


class Drawn:
    """A conversation in which every text stands once, spoilt here and there."""

    def __init__(self, template: str, seed: str) -> None:
        self.template = template
        self.rng = random.Random(seed)
        self.count = 0
        self.messages: list[Any] = []
        self.texts: dict[str, int] = {}  # each text, and the index of the message that it stands in
        self.reasonings: dict[str, int] = {}
        if self.chance(0.5):
            self.add({"role": "system", "content": self.content()})
        for _ in range(self.rng.choice((1, 2, 3))):
            self.add({"role": "user", "content": self.content()})
            for _ in range(self.rng.choice((0, 1, 1, 2))):
                self.work()
            self.add(self.answer({"content": self.content()}))
            if template != "ministral3_reasoning" and self.chance(0.1):
                role = self.rng.choice(("system", "developer", "function"))
                self.add({"role": role, "content": self.text()})

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def text(self) -> str:
        self.count += 1
        text = f"text{self.count}."
        self.texts[text] = len(self.messages)
        return text

    def content(self) -> Any:
        return None if self.chance(0.02) else self.text_or_part()

    def text_or_part(self) -> Any:
        if self.chance(0.97):
            return self.text()
        null = [{"type": "text", "text": None}] if self.chance(0.7) else []
        return [{"type": "text", "text": self.text()}, *null]

    def add(self, message: Any) -> None:
        self.messages.append(message)

    def answer(self, message: Message) -> Message:
        for key in ("reasoning", "reasoning_content", "thinking"):
            if self.chance(0.15):
                self.count += 1
                self.reasonings[f"thought{self.count}."] = len(self.messages)
                message[key] = f"thought{self.count}."
            elif self.chance(0.05):
                message[key] = self.rng.choice((None, ""))
        return {"role": "assistant", **message}

    def work(self) -> None:
        ids = [f"id{self.count}-{j}" for j in range(self.rng.choice((1, 2, 2, 3)))]
        if self.chance(0.1):
            ids[-1] = ids[0]
        tool_calls = [call(id, "look", {"k": self.text()}) for id in ids]
        self.add(self.answer({"content": self.content() if self.chance(0.5) else "", "tool_calls": tool_calls}))
        if self.chance(0.1) and self.template != "ministral3_reasoning":
            self.add({"role": "user", "content": self.content()})
        if self.chance(0.4):
            self.rng.shuffle(ids)
        if self.chance(0.1):
            ids.insert(self.rng.randrange(len(ids) + 1), f"orphan{self.count}")
        if self.chance(0.1):
            ids.pop()
        if self.chance(0.1) and ids:
            ids.append(ids[0])
        for id in ids:
            self.add({"role": "tool", "tool_call_id": id, "content": self.text_or_part()})

    def answers(self) -> dict[str, int]:
        """The text of each result that answers a call, and which call of the conversation that is."""
        calls: dict[str, list[int]] = {}
        found: dict[str, int] = {}
        count = 0
        for message in self.messages:
            for each in message.get("tool_calls", ()):
                calls.setdefault(each["id"], []).append(count)
                count += 1
            if message["role"] == "tool":
                content = message["content"]
                numbers = calls.get(message["tool_call_id"])
                if numbers:
                    text = content if isinstance(content, str) else content[0]["text"]
                    found[text] = numbers.pop(0) if len(numbers) > 1 else numbers[0]
        return found


def by_design(drawn: Drawn, index: int) -> bool:
    """Whether Solar and Hy4 drop the reasoning of a message, since a user spoke after it."""
    return drawn.template in ("solar_open2", "hy4") and any(
        message["role"] == "user" for message in drawn.messages[index:]
    )


@pytest.mark.parametrize("template", TEMPLATES)
def test_what_is_lost_doubled_swapped_or_printed_as_python(template: str) -> None:
    """Told from the prompt alone, and from the findings alone, it is the same."""
    counts: collections.Counter[str] = collections.Counter()
    for index in range(1500):
        drawn = Drawn(template, f"{template} {index}")
        format = chatfmt.TEMPLATES[template]()
        findings = check(format, drawn.messages)
        if findings and findings[0].code in ("refused", "fails"):
            counts["no prompt"] += 1
            continue
        prompt = format.render(drawn.messages)
        told: dict[str, set[int]] = collections.defaultdict(set)
        for finding in findings:
            match = re.match(r"messages\[(\d+)\]", finding.path)
            assert match
            told[finding.code].add(int(match.group(1)))

        lost = {i for text, i in drawn.texts.items() if text not in prompt}
        assert lost == told["lost-message"] | told["lost-content"] | told["lost-result"]

        thoughts = {i for text, i in drawn.reasonings.items() if text not in prompt and not by_design(drawn, i)}
        assert thoughts == told["lost-reasoning"]

        twice = {i for text, i in drawn.texts.items() if prompt.count(text) > 1}
        assert twice == told["repeated-result"]

        assert bool(re.search(r"None|\[\{'", prompt)) == bool(told["python-text"])

        if not told["repeated-result"] and not told["lost-result"]:
            answers = {text: call for text, call in drawn.answers().items() if text in prompt}
            printed = [answers[text] for text in sorted(answers, key=prompt.index)]
            first = list(dict.fromkeys(printed))
            assert (first != sorted(first)) == bool(told["swapped-results"])
            assert (printed != first) == bool(told["second-result"])
        counts.update(code for code, indexes in told.items() if indexes)
        counts["clean"] += not findings
    assert counts["clean"] > 20, counts
    assert counts["python-text"] > 5, counts
    wanted = {"swapped-results", "second-result", "orphan-result", "lost-reasoning", "unanswered-call"}
    assert wanted <= {code for code, count in counts.items() if count > 15}, counts


# --- real conversations


def real() -> Iterator[dict[str, Any]]:
    with gzip.open(REAL, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


# How many findings of each code there are in the real conversations after `from_openai`; each kind was looked at.
FOUND = {
    "solar_open2": {"orphan-result": 12, "lost-name": 11, "swapped-results": 1, "moved-system": 1},
    "hy4": {"orphan-result": 12, "lost-name": 11},
    "ministral3_reasoning": {"refused": 33, "orphan-result": 11, "lost-name": 11, "moved-image": 1},
    "domyn_small": {"lost-content": 657, "lost-reasoning": 182, "orphan-result": 12, "lost-name": 11,
                    "control-token": 6, "repeated-tools": 2},
}  # fmt: skip


@pytest.mark.skipif(not REAL.exists(), reason="the real conversations are not here (../shared/real)")
@pytest.mark.parametrize("template", TEMPLATES)
def test_real_conversations(template: str) -> None:
    format: Any = chatfmt.TEMPLATES[template]
    counts: collections.Counter[str] = collections.Counter()
    clean = 0
    for case in real():
        try:
            messages = from_openai(format, case["messages"])
            tools = tools_from_openai(format, case["tools"])
        except InputError:
            continue
        findings = check(format(tools=tools), messages)
        counts.update(finding.code for finding in findings)
        clean += not findings
        assert sound(findings, not findings or findings[0].code != "refused")
        check(format(tools=case["tools"]), case["messages"])  # as they are: whatever it says, nothing is raised
    assert counts == FOUND[template]
    assert clean >= 241


def test_which_tokens_count() -> None:
    turn = {"role": "assistant", "content": "<think>\nR\n</think>\n\nA<pad>"}
    messages = [{"role": "user", "content": "Q"}, turn]
    chat = chatfmt.DomynSmall(enable_thinking=True)
    assert [finding.code for finding in check(chat, messages)] == ["control-token"] * 2
    assert check(chat, messages, trust_assistant=True) == []
    assert len(check(chat, messages, special_tokens=["<pad>"])) == 3
    with pytest.raises(TypeError, match="chat must be an object that renders, such as DomynSmall"):
        check(chatfmt.DomynSmall, messages)  # type: ignore[arg-type]


def test_an_object_of_another_copy_is_refused() -> None:
    class Other(ChatFormat):
        def write(self, *arguments: Any) -> None:
            raise AssertionError

    with pytest.raises(TypeError, match="chat must be an object of one of the four classes"):
        check(Other(), [user()])


def test_results_without_ids_are_those_of_calls_without_ids_first() -> None:
    mixed = said("", tool_calls=[call("x", "f"), call(None, "g")])
    findings = check(MINISTRAL, [user(), mixed, result(None, "G"), result("x", "F")])
    assert [finding.code for finding in findings] == ["swapped-results"]
