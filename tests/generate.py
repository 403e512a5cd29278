"""Inputs for the differential test, drawn from a seed. Needs no jinja2.

Four levels. "well_formed": what a correct caller sends, with every feature of the template. "sloppy": the same with
one to three mistakes that real clients make, so that the conversation around the mistake is still rendered. "hostile":
any JSON anywhere. "mutated": a golden input, changed in one to four places.

The pools are the point: they hold the values on which a port and its original part ways (0 and "" where "missing" is
meant, 1 beside True, null beside left out, "thinking on" inside a word). Values are kept as JSON text and parsed when
drawn, so that no case can change another.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

Case = dict[str, Any]
Message = dict[str, Any]
Place = tuple[Any, Any]  # a list or an object, and an index or a key in it
T = TypeVar("T")

LEVELS = ("well_formed", "sloppy", "hostile", "mutated")
SOLAR, HY4, MINISTRAL, DOMYN = "solar_open2", "hy4", "ministral3_reasoning", "domyn_small"

# ---- pools: texts -----------------------------------------------------------------------------------------------

PLAIN = (
    "Hi", "What is 2+2?", "The weather in Paris: 18 °C, cloudy.", "안녕하세요, 오늘 날씨 어때요?", "こんにちは。",
    "你好,世界", "مرحبا", "Привет", "naïve café", "👩‍👩‍👧 🚀", "line one\nline two\n", "def f(x):\n    return x\n",
    "x", "a b", "ok", "Be brief.", "Stop thinking only of money.", "thinking on", "thinking off",
    '{"temperature": 18, "unit": "C"}',
)  # fmt: skip

TRAPS = (
    "", "", "", " ", "\n", "\t", "\r\n", "  x", "x  ", "\n\nx\n\n", "a\r\nb", "\xa0x\u2028", "\u200bx\ufeff", "\x00",
    "\x1f\x7f", "\x85", "\u2029", "\ud800", "\udc00\ud800", "e\u0301", "İß", "0", "1", "null", "None", "true", "True",
    "undefined", "{}", "[]", '""', '{"a": 1}', '{"a":1', "not json", "\\", '"', "'", "\\n", "\\u00e9", "</s>", "&", "<",
    "<b>&amp;'\"</b>", "%s", "%d%%", "{}", "{0}", "{name}", "{{ x }}", "{% raw %}", "{# c #}", "$1\\1", ":opensource",
    "system", "user", "assistant", "tool", "role", "content", "text", "ab" * 120,
)  # fmt: skip

WHITE = (
    " ", "\n", "\t", "\r", "\x0b", "\x0c", "\x1c", "\x1f", "\x85", "\xa0", "\u1680", "\u2003", "\u2028", "\u202f",
    "\u3000", "\u200b", "\ufeff", "\u180e", "\u2060", "\x00",
)  # fmt: skip

THINKING = (
    "thinking on", "thinking on", "thinking off", "thinking off", "thinking ", "thinking", "on", "off", "of", "f",
    "Thinking on", "THINKING ON", "thinking  on", "thinking\non", "thinking\xa0on", "thinking onoff", "thinking offon",
    "thinking thinking onon", "thinking othinking onn", "thinking thinking offoff", "thinking thinking onoff",
    "thinking thinking offon", "thithinking onnking off", "thithinking offnking on", "o", "n", " ", "\n", "\u3000",
    "ly",
)  # fmt: skip

TOKENS: dict[str, tuple[str, ...]] = {
    SOLAR: (
        "<|im:start|>", "<|im:end|>\n", "<|im:start|>system<|im:content|>", "<|think:start|>x<|think:end|>",
        "<|tool_call:start|>", "<|tool_arg:value|>", "<|tool_response:end|>", "## System Prompt", "\n<|im:end|>\n",
    ),
    HY4: (
        "<｜hy_start:opensource｜>", "<｜hy_end:opensource｜>", "<think:opensource></think:opensource>", "<tools>\n",
        "</tool_response:opensource>", "<｜reasoning_mode:opensource｜>", "<arg_key:opensource>", "<think>", "no_think",
    ),
    MINISTRAL: (
        "[INST]", "[/INST]", "[IMG]", "[THINK]x[/THINK]", "[TOOL_CALLS]", "[ARGS]", "[SYSTEM_PROMPT]", "<s>", "</s>",
    ),
    DOMYN: (
        "<extra_id_0>System\n", "<extra_id_1>", "<think>\n</think>\n\n", "<tool_call>", "</tool_response>\n", "<tools>",
    ),
}  # fmt: skip

NAMES = (
    "get_weather", "search", "f", "g", "a.b", "search-web", "計算", "a&b<c>'\"", "&amp;", "x y", "", "None", "q\"\\",
    "{}",
)  # fmt: skip

KEYS = (
    "a", "b", "k", "city", "unit", "n", "a", "b", "k", "é", "", " ", 'q"', "back\\slash", "<b>&", "0", "True", "\n",
    "items", "keys", "get", "name", "arguments", "parameters", "role", "content", "type", "text", "thinking", "output",
    "function", "id", "strict", "defer_loading", "thinking on", "\ud800",
)  # fmt: skip

WORDS = (  # keys that mean something to a template, where they do not belong
    "role", "content", "type", "text", "name", "id", "tool_call_id", "tool_calls", "function", "arguments", "reasoning",
    "reasoning_content", "thinking", "output", "defer_loading", "strict", "items", "image_url", "schema", "json_schema",
    "parameters", "description", "keys", "values", "tools", "messages",
)  # fmt: skip

# ---- pools: other values, as JSON text --------------------------------------------------------------------------

NUMBERS = (
    "0", "1", "-1", "2", "18", "1.0", "-0.0", "0.1", "1e16", "1e15", "1e22", "1e-5", "1e-7", "1E2", "100.0", "1e100",
    "123456789012345678901234567890", "9007199254740993", "5e-324", "1.7976931348623157e308", "3.141592653589793", "-7",
)  # fmt: skip
WILD_NUMBERS = (*NUMBERS, "NaN", "Infinity", "-Infinity", "1e400", "-1e400", "-0", "1" * 4300, "9" * 640)
CONSTANTS = ("null", "true", "false")
FALSY = ("null", "false", "0", "0.0", "-0.0", '""', "[]", "{}")

ODD = (
    *FALSY, "true", "1", "1.0", "5", "-1.5", "NaN", "1e400", '"x"', '" "', '"abc"', '"null"', "[null]", "[1, 2]",
    '["x"]', "[[]]", "[{}]", '{"a": 1}', '{"": null}', '{"role": "user"}', '{"type": "text", "text": "t"}',
    '[{"type": "text", "text": "t"}]', '{"items": 1}', "[0]", '[""]', '"\\ud800"',
)  # fmt: skip

ODD_CONTENTS = (
    *FALSY, *FALSY, "null", "null", "null", "5", "true", "1.5", "NaN", '{"a": true}', '{"type": "text", "text": "t"}',
    '["s"]', '["s", "t"]', "[null]", "[null, null]", "[1.0, true]", "[[]]", '[["thinking on"]]', '["thinking on"]',
    '["a thinking on"]', '{"thinking on": 1}', '{"a": "thinking on"}', '[{"type": "text", "text": "thinking on"}]',
    '[{"type": "text", "text": "hi"}]', '[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]',
    '[{"type": "text"}]', '[{"type": "text", "text": null}]', '[{"type": "text", "text": 5}]', '[{"text": "x"}]',
    '[{"type": "text", "text": ["a", null]}]', '[{"type": "Text", "text": "x"}]', '[{"type": null, "text": "x"}]',
    '[{"type": "input_text", "text": "x"}]', '[{"type": "thinking", "thinking": "t"}]', '[{"type": "thinking"}]',
    '[{"type": "thinking", "thinking": null}]', '[{"type": "thinking", "text": "t"}]', '[{"type": "image"}]',
    '[{"type": "thinking", "thinking": [{"type": "text", "text": "t"}]}]', '[{"output": null}, {"text": "lost"}, "s"]',
    '[{"type": "image_url", "image_url": {"url": "u"}}, {"type": "text", "text": "t"}]', '[{"output": "o"}]',
    '["s", {"output": 1}]', '[{}, {"output": "o"}]', '[{"type": "tool_reference"}]', '{"a": 1, "b": 2}',
    '[{"type": "text", "text": "t"}, {"type": "image_url"}]', '{"type": "tool_reference", "name": "f"}',
)  # fmt: skip

ODD_ARGUMENTS = (
    "null", "null", "null", '""', '" "', '" "', '"\\n"', '"not json"', '"{}"', '"null"', "[]", '[["a", 1]]', '["ab"]',
    "0", "5", "true", "false", "{}", '{"": null}', '"\\ud800"', '{"items": 1, "keys": "x"}', '"{\\"a\\": 1}"',
    '{"a": "", "b": [], "c": {}}',
)  # fmt: skip

ODD_CALLS = (
    *FALSY, "null", '""', "{}", "[]", "5", "true", '"abc"', '{"a": 1}', "[null]", '["x"]', "[[]]", "[{}]", "[5]",
    '[{"id": "x"}]', '[{"function": null, "id": "x"}]', '[{"id": "x", "function": "f"}]', "NaN",
    '[{"id": "x", "function": {}}]', '[{"id": "x", "function": {"name": "f"}}]',
)  # fmt: skip

ODD_TOOLS = (
    *FALSY, '"abc"', "5", "true", "1.5", '{"a": 1}', '{"type": "function", "function": {"name": "f"}}', "[null]", "[5]",
    '["f"]', "[[]]", "[{}]", '[{"function": null}]', '[{"function": "f"}]', '[{"function": []}]', '[{"function": {}}]',
    '[{"name": "f"}]', '[{"type": "function"}]', '[{"function": {"name": "f"}}, null]', '" "', "[[[]]]",
    '[{"function": {"name": "f", "defer_loading": true}}, "f"]', "NaN",
)  # fmt: skip

NAMELESS_TOOLS = (  # for references by name, where names are missing, null, equal without being alike
    "null", "[]", '""', "{}", "0", '[{"function": {"a": 1}}, {"b": null}]', '[{"name": null}, {"name": 1}]',
    '[{"function": {"name": null, "a": 1}}, {"a": 2}, {"name": "f"}]',
    '[{"name": "f"}, {"function": {"name": "f", "a": 1}}]', '[{"name": true}, {"name": [1]}, {"name": "F"}]',
    '[{"name": null, "a": 1}, {"a": 2}]', '[{"function": {"name": null}}, {"type": "function"}, {"name": 1.0}]',
    '[{"name": null}]', '[{"name": "f", "function": {"name": "g"}}]',
)  # fmt: skip

ROLES = (
    "developer", "developer", "function", "System", "USER", "assistant ", " tool", "", "human", "ipython", "None",
    "tools", "tool_call", "systém", "\ud800", "system", "user", "assistant", "tool",
)  # fmt: skip

EQUAL_IDS = (  # the values of each tuple are one id to Python's ==
    ("1", "1.0", "true"), ("1", "true"), ("true", "1.0"), ("2", "2.0"), ("[1]", "[1.0]", "[true]"),
    ('{"a": 1}', '{"a": true}'), ('{"a": 1, "b": [2]}', '{"b": [2.0], "a": 1}'), ('"x"',), ('""',), ("null",),
    ("0", "-0.0", "false"), ("[]",), ("NaN",), ("NaN",), ("[NaN]",), ("3",), ('"y"',), ('"call_1"',), ('"\\ud800"',),
)  # fmt: skip
UNEQUAL_IDS = (  # and these are not, though a port might take them for one
    ("1", '"1"'), ("1", '"1"', "1.0", '"1.0"'), ("true", '"true"', '"True"', "1"), ("0", '"0"', '""', "null", "false"),
    ('"x"', '"X"', '" x"'), ("[1]", "1", '["1"]', '"[1]"'), ("[]", "{}", '""'), ('"é"', '"e\\u0301"'),
    ("9007199254740993", "9007199254740992.0"), ("null", '"null"', '"None"'), ("NaN", '"nan"', '"NaN"'),
    ('{"a": 1}', '{"a": "1"}'), ("[NaN]", "[null]", "NaN"),
)  # fmt: skip

TYPES = (
    '"text"', '"text"', '"image"', '"image_url"', '"thinking"', '"tool_reference"', '"Text"', '"IMAGE"', '"input_text"',
    '""', "null", "null", "5", "2", "1.0", "true", "false", "[]", '["text"]', "[1]", "{}", '{"a": 1}', "NaN", '"zz"',
    None, None, None, None, None,
)  # fmt: skip

TYPE_PAIRS: tuple[tuple[str | None, str | None], ...] = (  # where sorting by type and comparing types are not alike
    (None, None), (None, "null"), (None, '""'), (None, '"text"'), ("null", "null"), ("null", '"text"'), ("1", "true"),
    ("0", "null"), ("{}", "{}"), ('{"a": 1}', '{"a": true}'), ('{"a": 1}', '{"b": 1}'), ("[1]", "[true]"),
    ("[1]", '["a"]'), ("[]", "[1]"), ("[]", "{}"), ("NaN", "NaN"), ("NaN", "1"), ("NaN", "null"), ("2", "1.0"),
    ("2", '"2"'), ("true", "2"), ('"Text"', '"text"'), ('"IMAGE"', '"image"'), ('"text"', '"image_url"'),
    ('"text"', '"text"'), ('"image"', '"image"'), ("[NaN]", "[NaN]"), ("[null]", "[null]"), ("[null]", "[1]"),
    ('"thinking"', '"text"'), ("false", "null"),
)  # fmt: skip

# ---- pools: options ---------------------------------------------------------------------------------------------

SCHEMA = '{"type": "object", "properties": {"é": {"type": "number"}}, "required": ["é"]}'
OPTIONS: dict[str, dict[str, tuple[str, ...]]] = {
    SOLAR: {
        "provider_system_prompt": ("true", "true", "false"),
        "reasoning_effort": ('"minimal"', '"low"', '"medium"', '"high"', '"xhigh"', '"none"'),
        "think_render_option": ('"interleaved"', '"preserved"', '"preserved"', '"off"'),
        "response_format": (
            '{"type": "json_object"}', '{"type": "text"}', "null",
            '{"type": "json_schema", "json_schema": {"name": "n", "strict": true, "schema": ' + SCHEMA + "}}",
        ),
    },
    HY4: {
        "reasoning_effort": ('"high"', '"no_think"'),
        "preserved_thinking": ("true", "false", "null"),
        "fallback_strategy": ('"reasoning_toolcall_retry"', '"none"', "null"),
        "raw_last_assistant": ("true", "true", "false"),
    },
    MINISTRAL: {"bos_token": ('"<s>"', '""', '"<bos>"'), "eos_token": ('"</s>"', '""', '"<eos>"')},
    DOMYN: {"enable_thinking": ("true", "false")},
}  # fmt: skip

ODD_OPTIONS: dict[str, tuple[str, ...]] = {
    "provider_system_prompt": ('"false"', '"You are X."', "[0]", '" "', "NaN"),
    "reasoning_effort": (
        '"High"', '"high "', '"low"', '"medium"', '"xhigh"', '"no_think"', '["high"]', '{"high": 1}', '"no_think/high"',
        '"\\ud800"', '"None"', "1",
    ),
    "think_render_option": ('"Preserved"', '"interleaved "', '["preserved"]', "true", '"none"'),
    "response_format": (
        '"json_object"', '{"type": "json_schema"}', '{"type": "json_schema", "json_schema": {}}',
        '[{"type": "json_object"}]', '{"type": "json_schema", "json_schema": null}',
        '{"type": "json_schema", "json_schema": "s"}', '{"type": null}',
        '{"type": "json_schema", "json_schema": {"schema": null}}',
        '{"type": "json_schema", "json_schema": {"schema": "s"}}', '{"type": "json_schema", "schema": {"a": 1}}',
        '{"json_schema": {"schema": {}}}', '{"type": ["json_object"]}', '{"type": "json_schema", "json_schema": [1]}',
        '{"type": "JSON_OBJECT"}', '{"a": 1}',
    ),
    "preserved_thinking": ('"false"', "[0]", "NaN"),
    "fallback_strategy": ('"reasoning_toolcall_retry "', '["reasoning_toolcall_retry"]', "true"),
    "raw_last_assistant": ('"false"', "[0]"),
    "bos_token": ('"{}"', "1.0", '["<s>"]', '"\\ud800"'),
    "eos_token": ('"%s"', "1e16", '{"a": null}', '"\\n"'),
    "enable_thinking": ('"false"', '"off"', "[0]", "NaN"),
}  # fmt: skip


# ---- drawing ----------------------------------------------------------------------------------------------------


class Draw:
    """Draws for one template. Uses random() alone: the only method whose sequence Python promises never to change."""

    def __init__(self, template: str, rng: random.Random) -> None:
        self.template = template
        self.random = rng.random

    def chance(self, share: float) -> bool:
        return self.random() < share

    def below(self, limit: int) -> int:
        return int(self.random() * limit)

    def of(self, items: Sequence[T]) -> T:
        return items[int(self.random() * len(items))]

    def parsed(self, texts: Sequence[str]) -> Any:
        return json.loads(self.of(texts))

    def shuffled(self, items: Sequence[T]) -> list[T]:
        rest = list(items)
        return [rest.pop(self.below(len(rest))) for _ in items]


def thinking(draw: Draw) -> str:
    """Pieces of Domyn's switch, glued so that removing one may make another."""
    return "".join(draw.of(THINKING) for _ in range(1 + draw.below(5)))


def text(draw: Draw) -> str:
    roll = draw.random()
    if roll < 0.45:
        return draw.of(PLAIN)
    if roll < 0.72:
        return draw.of(TRAPS)
    if roll < 0.81:
        return draw.of(TOKENS[draw.template])
    if roll < 0.87:
        return thinking(draw)
    if roll < 0.94:
        return draw.of(WHITE) + draw.of(PLAIN) + draw.of(WHITE)
    return text(draw) + text(draw)


def some_text(draw: Draw) -> str:
    return text(draw) or "x"


def scalar(draw: Draw, wild: bool = False) -> Any:
    roll = draw.random()
    if roll < 0.45:
        return text(draw)
    if roll < 0.8:
        return draw.parsed(WILD_NUMBERS if wild else NUMBERS)
    return draw.parsed(CONSTANTS)


def key(draw: Draw, wild: bool = False) -> str:
    if wild and draw.chance(0.3):
        return draw.of(WORDS)
    return text(draw) if draw.chance(0.08) else draw.of(KEYS)


def value(draw: Draw, depth: int = 3, wild: bool = False) -> Any:
    """Any JSON value; `wild` ones hold NaN, Infinity, long integers, and keys that mean something to a template."""
    roll = draw.random()
    if depth == 0 or roll < 0.6:
        return scalar(draw, wild)
    if roll < 0.8:
        return [value(draw, depth - 1, wild) for _ in range(draw.below(4))]
    return {key(draw, wild): value(draw, depth - 1, wild) for _ in range(draw.below(4))}


def deep(draw: Draw) -> Any:
    nested = scalar(draw)
    for _ in range(draw.below(50)):
        nested = [nested] if draw.chance(0.5) else {key(draw): nested}
    return nested


def anything(draw: Draw) -> Any:
    roll = draw.random()
    if roll < 0.5:
        return draw.parsed(ODD)
    if roll < 0.6:
        return text(draw)
    if roll < 0.602:
        return 10 ** (4299 + draw.below(2))  # one digit below and above what Python prints
    return deep(draw) if roll < 0.63 else value(draw, 3, wild=True)


# ---- well formed: tools and options -----------------------------------------------------------------------------


def schema(draw: Draw) -> dict[str, Any]:
    properties = {key(draw): {"type": "string", "description": text(draw)} for _ in range(draw.below(3))}
    made: dict[str, Any] = {"type": "object", "properties": properties, "required": list(properties)}
    if draw.chance(0.2):
        made["properties"]["nested"] = {"type": "array", "items": {"enum": [value(draw, 1) for _ in range(3)]}}
    if draw.chance(0.1):
        made["additionalProperties"] = False
        made["strict"] = True  # only removed by Hy4 at the top level
    return made


def function(draw: Draw) -> dict[str, Any]:
    made: dict[str, Any] = {"name": draw.of(NAMES)}
    if draw.chance(0.6):
        made["description"] = text(draw)
    if draw.chance(0.7):
        made["parameters"] = schema(draw)
    if draw.chance(0.15):
        made["strict"] = draw.chance(0.5)
    if draw.chance(0.2):
        made["defer_loading"] = draw.parsed(("true", "true", "true", "false", "null"))
    if draw.chance(0.15):
        made[key(draw) if draw.chance(0.7) else "items"] = value(draw, 2) if draw.chance(0.7) else {"a": 1}
        made.pop("function", None)  # a flat tool with this key is another tool
    if draw.chance(0.1):
        made = {name: made[name] for name in draw.shuffled(list(made))}
    return made


def tool(draw: Draw) -> dict[str, Any]:
    if draw.template != SOLAR and draw.chance(0.15):
        return {"type": "function", **function(draw)} if draw.chance(0.5) else function(draw)
    made = {"type": "function", "function": function(draw)}
    if draw.chance(0.1):
        made[draw.of(("strict", "defer_loading", "name", "x"))] = value(draw, 1)
    return made


def put_tools(draw: Draw, case: Case) -> None:
    roll = draw.random()
    if roll < 0.55:
        case["tools"] = [tool(draw) for _ in range(draw.of((1, 1, 2, 2, 3)))]
        if draw.template == HY4 and draw.chance(0.08):
            for each in case["tools"]:
                inner(each)["defer_loading"] = True
    elif roll < 0.7:
        case["tools"] = None if draw.chance(0.5) else []


def put_options(draw: Draw, case: Case) -> None:
    options = {name: draw.parsed(texts) for name, texts in OPTIONS[draw.template].items() if draw.chance(0.45)}
    if options or draw.chance(0.1):
        case["options"] = options
    if draw.chance(0.75):
        case["add_generation_prompt"] = draw.chance(0.6)


# ---- well formed: messages --------------------------------------------------------------------------------------


def text_part(draw: Draw) -> dict[str, Any]:
    return {"type": "text", "text": text(draw)}


def image_part(draw: Draw) -> dict[str, Any]:
    if draw.chance(0.5):
        return {"type": "image"}
    return {"type": "image_url", "image_url": {"url": "https://example.com/" + text(draw)}}


def thinking_part(draw: Draw) -> dict[str, Any]:
    return {"type": "thinking", "thinking": text(draw)}


def parts(draw: Draw, *kinds: Callable[[Draw], Any]) -> list[Any]:
    return [draw.of(kinds)(draw) for _ in range(draw.of((1, 2, 2, 2, 3, 4)))]


def content(draw: Draw, role: str) -> dict[str, Any]:
    """The content of a message, as the key and value to put into it, or nothing where it may be left out."""
    roll = draw.random()
    if draw.template == MINISTRAL:
        if role == "tool" or roll < 0.6:
            return {"content": some_text(draw) if role == "assistant" else text(draw)}
        return {"content": parts(draw, text_part, image_part if role == "user" else thinking_part)}
    if draw.template == HY4 and roll > 0.7:
        if roll > 0.96:
            return {"content": None} if draw.chance(0.5) else {}
        return {"content": parts(draw, text_part, text_part, text, image_part)}
    if draw.template == DOMYN and role == "system" and roll < 0.7:
        return {"content": text(draw) + thinking(draw) if roll < 0.3 else thinking(draw)}
    return {"content": text(draw)}


def arguments(draw: Draw) -> Any:
    made = {key(draw): value(draw, 2) for _ in range(draw.of((0, 1, 1, 2, 3)))}
    if draw.template == MINISTRAL and draw.chance(0.5):
        return json.dumps(made, ensure_ascii=draw.chance(0.5)) if draw.chance(0.9) else ""
    return made


def call(draw: Draw, number: int) -> dict[str, Any]:
    made_function = {"name": draw.of(NAMES), "arguments": arguments(draw)}
    made: dict[str, Any] = {"id": f"call_{number}", "type": "function", "function": made_function}
    if draw.template == HY4 and draw.chance(0.08):
        made = {"id": made["id"], **made_function}
    if draw.template == HY4 and draw.chance(0.08):
        made["tool_call_id"] = made.pop("id")
    if draw.template == SOLAR and draw.chance(0.05):
        del made_function["arguments"]
    if draw.template not in (SOLAR, HY4) and draw.chance(0.1):
        del made["id"]
    return made


def reasoning(draw: Draw) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, share in (("reasoning", 0.35), ("reasoning_content", 0.45)):
        if draw.chance(share):
            made[name] = None if draw.chance(0.1) else text(draw)
    return made


def assistant(draw: Draw, calls: Sequence[dict[str, Any]]) -> Message:
    made: Message = {"role": "assistant", **content(draw, "assistant"), **reasoning(draw)}
    if calls:
        made["tool_calls"] = list(calls)
        if draw.chance(0.5):
            made["content"] = ""
        if draw.chance(0.2):
            made.pop("content", None)
        elif draw.template != MINISTRAL and draw.chance(0.2):
            made["content"] = None
    elif draw.chance(0.1):
        made["tool_calls"] = []
    elif draw.template != DOMYN and draw.chance(0.08):
        made["tool_calls"] = None
    return made


def references(draw: Draw, case: Case) -> list[Any]:
    """A response that names tools to load (Hy4)."""
    names = [inner(each).get("name", "") for each in objects(case["tools"])]
    return [{"type": "tool_reference", "name": draw.of([*names, "f"])} for _ in range(1 + draw.below(3))]


def response(draw: Draw, case: Case, call_id: Any) -> Message:
    made: Message = {"role": "tool", "tool_call_id": call_id, **content(draw, "tool")}
    if draw.chance(0.2):
        made["name"] = draw.of(NAMES)
    if draw.template != HY4:
        return made
    roll = draw.random()
    if roll < 0.15:
        made["content"] = [{"output": value(draw, 1)} for _ in range(1 + draw.below(3))]
    elif roll < 0.3 and case.get("tools"):
        made["content"] = references(draw, case)
    if draw.chance(0.1):
        made["id"] = made.pop("tool_call_id")
    return made


def responses(draw: Draw, case: Case, calls: Sequence[dict[str, Any]]) -> list[Message]:
    ids = [each.get("id", each.get("tool_call_id", "none")) for each in calls]
    if draw.chance(0.6):
        ids = draw.shuffled(ids)
    if draw.chance(0.06):
        ids.append(draw.of((*ids, "call_99", "orphan")))
    if draw.chance(0.06):
        ids.pop(draw.below(len(ids)))
    return [response(draw, case, call_id) for call_id in ids]


def turn(draw: Draw, case: Case, number: int) -> list[Message]:
    made: list[Message] = [{"role": "user", **content(draw, "user")}]
    for step in range(draw.of((0, 0, 0, 1, 1, 2))):
        first = 0 if draw.chance(0.05) else 10 * number + 3 * step
        calls = [call(draw, first + offset) for offset in range(draw.of((1, 1, 2, 2, 3)))]
        made += [assistant(draw, calls), *responses(draw, case, calls)]
    made.append(assistant(draw, ()))
    if draw.template != MINISTRAL:  # which alone insists on the order of turns
        if draw.chance(0.1):
            made.pop(draw.of((0, -1)))
        if draw.chance(0.06):
            made.insert(draw.below(len(made) + 1), {"role": "system", **content(draw, "system")})
    return made


def well_formed(draw: Draw) -> Case:
    case: Case = {"messages": []}
    put_tools(draw, case)
    put_options(draw, case)
    messages: list[Message] = case["messages"]
    if draw.chance(0.6):
        messages.append({"role": "system", **content(draw, "system")})
        if draw.chance(0.08):
            messages[0]["content"] = ""
    turns = draw.of((0, 1, 1, 1, 1, 2, 2, 3)) if draw.chance(0.985) else 4 + draw.below(8)
    for number in range(turns):
        messages += turn(draw, case, number)
    if draw.chance(0.5):
        del messages[max(0, len(messages) - draw.of((1, 1, 1, 2, 3))) :]
    if draw.template == MINISTRAL and not messages:
        messages.append({"role": "user", **content(draw, "user")})
    return case


# ---- sloppy: mistakes of real clients ---------------------------------------------------------------------------


def objects(items: Any) -> list[dict[str, Any]]:
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def messages_of(case: Case, *roles: str) -> list[Message]:
    return [each for each in objects(case["messages"]) if not roles or each.get("role") in roles]


def calls_of(case: Case) -> list[dict[str, Any]]:
    return [one for message in messages_of(case) for one in objects(message.get("tool_calls"))]


def inner(one: dict[str, Any]) -> dict[str, Any]:
    """The object that holds a call's or tool's name: its function, or, where it is flat, itself."""
    held = one.get("function")
    return held if isinstance(held, dict) else one


def is_response(message: Any) -> bool:
    return isinstance(message, dict) and message.get("role") == "tool"


def answers(message: Any, call_id: Any) -> bool:
    return is_response(message) and message.get("tool_call_id") == call_id


def calls_for(draw: Draw, case: Case) -> list[dict[str, Any]]:
    """The calls of a case, for a mistake in one; a case without gets some. Ministral takes them in any place."""
    if not calls_of(case) and isinstance(case["messages"], list):
        calls = [call(draw, number) for number in range(draw.of((1, 2, 2, 2, 3)))]
        at = draw.of((1, len(case["messages"])))
        case["messages"][at:at] = [assistant(draw, calls), *responses(draw, case, calls)]
    return calls_of(case)


def parts_for(draw: Draw, case: Case) -> list[dict[str, Any]]:
    """The parts of a case, for a mistake in one; a case without gets some, in a message that may have them."""
    if not parts_of(case):
        for one in draw.shuffled(messages_of(case, "system", "user", "assistant"))[:1]:
            other = image_part if one["role"] == "user" else thinking_part
            one["content"] = parts(draw, text_part, other if draw.template == MINISTRAL else text)
    return parts_of(case)


def parts_of(case: Case) -> list[dict[str, Any]]:
    return [part for message in messages_of(case) for part in objects(message.get("content"))]


def spoil(draw: Draw, one: dict[str, Any], name: str, texts: Sequence[str]) -> None:
    """Gives a key an odd value, or takes it away."""
    if draw.chance(0.15):
        one.pop(name, None)
    else:
        one[name] = draw.parsed(texts)


def spoil_arguments(draw: Draw, case: Case) -> None:
    for one in draw.shuffled(calls_for(draw, case))[: 1 + draw.below(2)]:
        held = inner(one)
        if draw.chance(0.35):
            held["arguments"] = json.dumps(held.get("arguments"), ensure_ascii=False)
        elif draw.chance(0.3):
            held["arguments"] = {key(draw): value(draw, 2, wild=True), key(draw): draw.parsed(ODD)}
        else:
            spoil(draw, held, "arguments", ODD_ARGUMENTS)


def spoil_content(draw: Draw, case: Case) -> None:
    for one in draw.shuffled(messages_of(case))[: 1 + draw.below(2)]:
        if draw.chance(0.25):
            one["content"] = parts(draw, text_part, text_part, image_part, thinking_part, text, anything)
        else:
            spoil(draw, one, "content", ODD_CONTENTS)


def spoil_system(draw: Draw, case: Case) -> None:
    if not messages_of(case, "system"):
        case["messages"].insert(0, {"role": "system", "content": ""})
    if draw.chance(0.25):
        case["messages"].insert(draw.of((1, 1, len(case["messages"]))), {"role": "system", "content": text(draw)})
    else:
        spoil(draw, draw.of(messages_of(case, "system")), "content", ODD_CONTENTS)


def spoil_null_content(draw: Draw, case: Case) -> None:
    """What OpenAI's own clients send: null beside calls, and in whatever else has no text."""
    calls_for(draw, case)
    found = [one for one in messages_of(case, "assistant") if one.get("tool_calls") or draw.chance(0.2)]
    for one in found or messages_of(case)[:1]:
        one["content"] = None


def spoil_any_key(draw: Draw, case: Case) -> None:
    """A key dropped, set to null or to something odd, anywhere in the messages or tools."""
    found = [place for place in places(case) if isinstance(place[1], str) and place[0] is not case]
    for holder, name in draw.shuffled(found)[:1]:
        if draw.chance(0.4):
            del holder[name]
        else:
            holder[name] = None if draw.chance(0.5) else draw.parsed(ODD)


def spoil_ids(draw: Draw, case: Case) -> None:
    """Every id of the conversation in another spelling each time."""
    pool = EQUAL_IDS if draw.chance(0.6) else UNEQUAL_IDS
    free = draw.shuffled(pool)  # ids that differed differ still, so that responses find their places
    families: dict[str, Sequence[str]] = {}
    named = [(one, "id") for one in calls_for(draw, case)]
    named += [(one, "tool_call_id") for one in messages_of(case, "tool")]
    for one, name in named:
        was = str(one.get(name))
        if was not in families:
            families[was] = free.pop() if free and draw.chance(0.85) else draw.of(pool)
        one[name] = draw.parsed(families[was])


def spoil_run(draw: Draw, case: Case) -> None:
    """Calls and their responses, out of order, with ids that Python takes for equal."""
    at = draw.of((0, 1, len(case["messages"])))
    case["messages"][at:at] = run(draw, 0.0)


def run(draw: Draw, odd: float) -> list[Any]:
    """Calls and responses, out of order; a call too many, a call twice, or ids under another key, now and then."""
    families = draw.shuffled(EQUAL_IDS)[: draw.of((2, 2, 3))] if draw.chance(0.75) else [draw.of(UNEQUAL_IDS)] * 2
    if draw.chance(0.1):
        families[0] = families[1]
    calls = [loose_call(draw, family, odd) for family in families]
    families = families[::-1] if draw.chance(0.7) else draw.shuffled(families)
    made = [{"role": "tool", "tool_call_id": draw.parsed(family), "content": text(draw)} for family in families]
    if draw.chance(0.2):
        calls.insert(draw.below(3), loose_call(draw, ("null", '""', "0"), odd))
    misplace(draw, objects(calls), "id", "tool_call_id")
    misplace(draw, made, "tool_call_id", "id")
    return [{"role": "assistant", "content": text(draw), "tool_calls": calls}, *made]


def misplace(draw: Draw, found: list[dict[str, Any]], name: str, other: str) -> None:
    """Moves ids to the other key, where Hy4 finds some of them; what is left may be null or empty."""
    share, left = draw.of((0.02, 0.02, 0.02, 1)), draw.of(("null", "null", '""', "0", "[]", '"x"'))
    for one in found:
        if name in one and draw.chance(share):
            one[other] = one.pop(name)
            if draw.chance(0.9):
                one[name] = json.loads(left)


def spoil_call_id(draw: Draw, case: Case) -> None:
    calls = calls_for(draw, case)
    for one in draw.shuffled(calls)[:1]:
        was = one.get("id")
        if draw.chance(0.3):
            one["tool_call_id"] = was
            spoil(draw, one, "id", (*FALSY, '"x"'))
        elif draw.chance(0.3):
            one["id"] = draw.of(calls).get("id")
        else:
            spoil(draw, one, "id", (*FALSY, '"call_1"', "1", "[1]", "NaN"))
        if draw.chance(0.4):  # and no response either: the counts of the others agree
            case["messages"] = [held for held in case["messages"] if not answers(held, was)]


def spoil_front(draw: Draw, case: Case) -> None:
    """Responses in front of everything, their calls perhaps at the end."""
    calls_for(draw, case)
    messages = case["messages"]
    first = next((at for at, one in enumerate(messages) if is_response(one)), 0)
    case["messages"] = messages[first:] + messages[:first]


def spoil_empty(draw: Draw, case: Case) -> None:
    """An assistant that says nothing and calls nothing, or what a server stores for it."""
    for one in draw.shuffled(messages_of(case, "assistant"))[:1]:
        spoil(draw, one, "content", ("null", "null", '""', '""', "[]", "{}", "0", "false", '[""]'))
        spoil(draw, one, "tool_calls", ("null", "null", "[]", '""', "{}", "0", "false"))


def spoil_response_id(draw: Draw, case: Case) -> None:
    calls_for(draw, case)
    found = messages_of(case, "tool")
    all_of_them = draw.chance(0.4)
    for one in found if all_of_them else draw.shuffled(found)[: 1 + draw.below(2)]:
        if draw.chance(0.3) or all_of_them:
            one["id"] = one.get("tool_call_id", "x")
        if all_of_them:
            spoil(draw, one, "tool_call_id", ("null", "null", '""', "0", '"x"'))
        elif draw.chance(0.3):
            one["tool_call_id"] = draw.of(found).get("tool_call_id")
        else:
            spoil(draw, one, "tool_call_id", (*FALSY, '"call_1"', "1", "[1]", "NaN"))


def spoil_responses(draw: Draw, case: Case) -> None:
    """A response too many, one too few, one out of its run, or one whose content or id is odd."""
    calls_for(draw, case)
    found = [at for at, one in enumerate(case["messages"]) if is_response(one)]
    if not found:
        return
    at, how = draw.of(found), draw.below(4)
    if how == 0:
        case["messages"].insert(at, copy.deepcopy(case["messages"][draw.of(found)]))
    elif how == 1:
        del case["messages"][at]
    elif how == 2:
        case["messages"].insert(at, {"role": draw.of(("user", "system", "assistant", "developer")), "content": "q"})
    else:
        late = {"role": "tool", "tool_call_id": draw.parsed(('"x"', "null", "0")), "content": draw.parsed(ODD_CONTENTS)}
        case["messages"].insert(at + 1, late)


def spoil_tools(draw: Draw, case: Case) -> None:
    if draw.chance(0.5) or not objects(case.get("tools")):
        case["tools"] = draw.parsed(ODD_TOOLS)
        return
    one = draw.of(objects(case["tools"]))
    if draw.chance(0.3):
        case["tools"][draw.below(len(case["tools"]))] = function(draw) if draw.chance(0.5) else draw.parsed(ODD)
    elif draw.chance(0.4):
        spoil(draw, one, "function", ODD)
    else:
        spoil(draw, inner(one), draw.of(("name", "defer_loading", "strict", "items", "function")), ODD)


def spoil_role(draw: Draw, case: Case) -> None:
    for one in draw.shuffled(messages_of(case))[:1]:
        if draw.chance(0.75):
            one["role"] = draw.of(ROLES)
        else:
            spoil(draw, one, "role", ODD)


def spoil_order(draw: Draw, case: Case) -> None:
    messages = case["messages"]
    if not messages:
        return
    at, to, how = draw.below(len(messages)), draw.below(len(messages)), draw.below(5)
    if how == 0:
        messages.insert(to, copy.deepcopy(messages[at]))
    elif how == 1:
        messages[at], messages[to] = messages[to], messages[at]
    elif how == 2:
        del messages[at]
    elif how == 3:
        messages.insert(to, {"role": draw.of(("system", "user", "assistant", "tool")), "content": text(draw)})
    else:
        messages.insert(to, messages.pop(at))


def spoil_message(draw: Draw, case: Case) -> None:
    """Something that is no message, or an empty one, among the messages."""
    case["messages"].insert(draw.below(len(case["messages"]) + 1), draw.parsed(ODD))


def spoil_option(draw: Draw, case: Case) -> None:
    name = draw.of(list(OPTIONS[draw.template]))
    options = case.setdefault("options", {})
    options[name] = draw.parsed(draw.of((ODD_OPTIONS[name], ODD_OPTIONS[name], FALSY, ("null",), ODD)))


def spoil_generation(draw: Draw, case: Case) -> None:
    case["add_generation_prompt"] = draw.parsed((*FALSY, "null", "null", '"false"', "[0]", "1", "NaN", "true"))


def spoil_extra(draw: Draw, case: Case) -> None:
    found = [*messages_of(case), *calls_of(case), *parts_of(case), *objects(case.get("tools"))]
    for one in draw.shuffled(found)[: 1 + draw.below(3)]:
        one[draw.of(WORDS)] = text(draw) if draw.chance(0.3) else draw.parsed(ODD)


def spoil_calls(draw: Draw, case: Case) -> None:
    if draw.chance(0.25):  # calls of someone who makes none, and no longer the assistant's
        calls_for(draw, case)
        for one in draw.shuffled([each for each in messages_of(case) if each.get("tool_calls")])[:1]:
            one["content"] = text(draw)
            one["role"] = draw.of(("user", "system", "developer", "tool"))
        return
    for one in draw.shuffled(messages_of(case, "assistant"))[:1]:
        one["tool_calls"] = draw.parsed(ODD_CALLS)
        if draw.chance(0.3):
            spoil(draw, one, "content", ODD_CONTENTS)


def spoil_call(draw: Draw, case: Case) -> None:
    """A call that is flat, half flat or no object, or whose function or type is odd."""
    for one in draw.shuffled(calls_for(draw, case))[:1]:
        if draw.chance(0.15):
            one.update(inner(one))
            one["function"] = draw.parsed(("null", '""', "{}", "[]", '"f"'))
        elif draw.chance(0.4):
            spoil(draw, one, "function", (*ODD, '"f"', "{}", '{"name": "f"}', '{"arguments": {}}'))
        elif draw.chance(0.4):
            one.update(inner(one))
            one.pop("function", None)
        else:
            spoil(draw, one, draw.of(("type", "name", "arguments")), ODD)
    for one in messages_of(case, "assistant"):
        if isinstance(one.get("tool_calls"), list) and draw.chance(0.1):
            one["tool_calls"].append(draw.parsed(ODD))


def spoil_name(draw: Draw, case: Case) -> None:
    for one in draw.shuffled(calls_for(draw, case))[:1]:
        if draw.chance(0.4):
            inner(one)["name"] = text(draw)
        else:
            spoil(draw, inner(one), "name", ("null", "null", *ODD) if draw.chance(0.5) else ("null", "5"))


def spoil_reasoning(draw: Draw, case: Case) -> None:
    for one in draw.shuffled(messages_of(case, "assistant"))[: 1 + draw.below(2)]:
        for name in ("reasoning", "reasoning_content"):
            if draw.chance(0.7):
                spoil(draw, one, name, (*ODD, '"thought"', '"thought"', '[{"type": "text", "text": "t"}]'))


def spoil_part(draw: Draw, case: Case) -> None:
    for one in draw.shuffled(parts_for(draw, case))[:1]:
        name = draw.of(("type", "text", "text", "thinking", "output", "name"))
        if draw.chance(0.2):
            one.pop(name, None)
        else:
            spoil(draw, one, name, ("null",) if draw.chance(0.3) else (*ODD, '"text"', '"thinking"'))
    for one in messages_of(case):
        if isinstance(one.get("content"), list) and draw.chance(0.2):
            one["content"].insert(draw.below(len(one["content"]) + 1), draw.parsed(ODD))


def spoil_pair(draw: Draw, case: Case) -> None:
    for one in draw.shuffled(messages_of(case, "user"))[:1]:
        one["content"] = [typed_part(draw), typed_part(draw)]
        if draw.chance(0.4):
            for part, kind in zip(one["content"], draw.shuffled(draw.of(TYPE_PAIRS))):
                if isinstance(part, dict):
                    put_type(part, kind)


def spoil_tool_parts(draw: Draw, case: Case) -> None:
    """A tool response in parts, whose first decides how the others are read (Hy4)."""
    calls_for(draw, case)
    for one in draw.shuffled(messages_of(case, "tool"))[:1]:
        one["content"] = [tool_part(draw) for _ in range(1 + draw.below(3))]
        if draw.chance(0.3):
            one["content"][0] = {"type": "tool_reference", "name": draw.of(NAMES)}
        if draw.chance(0.1):
            one["content"][0] = {"type": "tool_reference", "name": draw.of(NAMES), "output": text(draw)}
        if draw.chance(0.7):
            case["tools"] = draw.parsed(NAMELESS_TOOLS)


def put_type(part: dict[str, Any], kind: str | None) -> None:
    part.pop("type", None)
    if kind is not None:
        part["type"] = json.loads(kind)


def typed_part(draw: Draw) -> Any:
    """A part with any type of any kind, or none."""
    if draw.chance(0.06):
        return draw.parsed(ODD)
    made: dict[str, Any] = {}
    put_type(made, draw.of(TYPES))
    if draw.chance(0.8):
        made["text"] = text(draw) if draw.chance(0.8) else draw.parsed(ODD)
    if draw.chance(0.3):
        made["thinking"] = text(draw) if draw.chance(0.7) else draw.parsed(ODD)
    return made


def tool_part(draw: Draw) -> Any:
    roll = draw.random()
    if roll < 0.35:
        made: dict[str, Any] = {"type": "tool_reference"}
        if draw.chance(0.75):
            odd_names = ("null", "1", "true", "[1.0]") if draw.chance(0.7) else ODD
            made["name"] = draw.of(NAMES) if draw.chance(0.5) else draw.parsed(odd_names)
        if draw.chance(0.15):
            made[draw.of(("output", "type"))] = text(draw)
        return made
    if roll < 0.65:
        return {"output": text(draw) if draw.chance(0.5) else draw.parsed(ODD)}
    return typed_part(draw) if roll < 0.85 else draw.parsed(ODD)


Spoiler = Callable[[Draw, Case], None]
COMMON: tuple[Spoiler, ...] = (
    spoil_arguments, spoil_arguments, spoil_content, spoil_content, spoil_any_key, spoil_any_key, spoil_ids, spoil_ids,
    spoil_call_id, spoil_response_id, spoil_responses, spoil_tools, spoil_tools, spoil_role, spoil_role, spoil_order,
    spoil_order, spoil_message, spoil_option, spoil_option, spoil_generation, spoil_extra, spoil_calls, spoil_call,
    spoil_name, spoil_reasoning, spoil_part, spoil_system, spoil_null_content,
)  # fmt: skip
OWN: dict[str, tuple[Spoiler, ...]] = {
    SOLAR: (
        spoil_ids, spoil_run, spoil_run, spoil_responses, spoil_responses, spoil_reasoning, spoil_option, spoil_front,
        spoil_system, spoil_arguments,
    ),
    HY4: (
        spoil_ids, spoil_run, spoil_run, spoil_run, spoil_tool_parts, spoil_tool_parts, spoil_reasoning, spoil_option,
        spoil_content, spoil_response_id, spoil_call_id, spoil_call_id, spoil_call, spoil_system, spoil_part,
    ),
    MINISTRAL: (
        spoil_pair, spoil_pair, spoil_pair, spoil_part, spoil_part, spoil_content, spoil_calls, spoil_name,
        spoil_arguments, spoil_null_content, spoil_empty,
    ),
    DOMYN: (spoil_system, spoil_system, spoil_calls, spoil_name, spoil_arguments, spoil_empty),
}  # fmt: skip


def sloppy(draw: Draw) -> Case:
    case = well_formed(draw)
    while len(case["messages"]) < 2 and draw.chance(0.8):  # there must be something to get wrong
        case = well_formed(draw)
    for _ in range(draw.of((1, 1, 2, 2, 3))):
        spoiler = draw.of(COMMON) if draw.chance(0.6) else draw.of(OWN[draw.template])
        spoiler(draw, case)
    return case


# ---- hostile: any JSON anywhere ---------------------------------------------------------------------------------


def loosely(draw: Draw, made: Any, odd: float = 0.06) -> Any:
    """Mostly what was made: if every value were odd, the first would end the rendering, and the rest test nothing."""
    return anything(draw) if draw.chance(odd) else made


def loose_content(draw: Draw) -> Any:
    roll = draw.random()
    if roll < 0.55:
        return text(draw)
    if roll < 0.75:
        return draw.parsed(ODD_CONTENTS)
    return [tool_part(draw) if draw.chance(0.5) else typed_part(draw) for _ in range(draw.of((1, 2, 2, 3)))]


def loose_call(draw: Draw, ids: Sequence[str], odd: float = 0.06) -> Any:
    held: dict[str, Any] = {"name": loosely(draw, draw.of(NAMES), odd)}
    if draw.chance(0.96):
        made = {key(draw, True): value(draw, 2, True) for _ in range(draw.below(3))}
        held["arguments"] = loosely(draw, made, odd)
    one: dict[str, Any] = held if draw.chance(odd) else {"function": loosely(draw, held, odd / 2)}
    if draw.chance(0.97):
        one["id" if draw.chance(0.95) else "tool_call_id"] = draw.parsed(ids)
    return loosely(draw, one, odd / 2)


def loose_message(draw: Draw, ids: Sequence[str]) -> Any:
    role = draw.of(("system", "user", "user", "assistant", "assistant", "assistant", "tool", "tool", "tool"))
    made: Message = {"role": role if draw.chance(0.93) else loosely(draw, draw.of(ROLES), 0.4)}
    if draw.chance(0.95):
        made["content"] = loose_content(draw) if draw.chance(0.4) else text(draw)
    if draw.chance(0.55 if role == "assistant" else 0.06):
        made["tool_calls"] = loosely(draw, [loose_call(draw, ids) for _ in range(draw.of((0, 1, 2, 2, 3)))])
    if draw.chance(0.94 if role == "tool" else 0.05):
        made["tool_call_id" if draw.chance(0.92) else "id"] = draw.parsed(ids)
    for name in ("reasoning", "reasoning_content"):
        if draw.chance(0.3):
            made[name] = loosely(draw, text(draw), 0.15)
    if draw.chance(0.1):
        made[draw.of(WORDS)] = anything(draw)
    return loosely(draw, made, 0.03)


def loose(draw: Draw) -> Case:
    """Made from nothing: messages in any order, few distinct ids."""
    ids = [json_text for _ in range(1 + draw.below(3)) for json_text in draw.of(draw.of((EQUAL_IDS, UNEQUAL_IDS)))]
    case: Case = {"messages": [loose_message(draw, ids) for _ in range(draw.below(8))]}
    if draw.chance(0.25):
        case["messages"] += run(draw, 0.03)
    if draw.chance(0.5):
        case["tools"] = loosely(draw, [loosely(draw, tool(draw)) for _ in range(draw.below(4))], 0.1)
    if draw.template == MINISTRAL and draw.chance(0.7):
        in_turns(draw, case)
    put_options(draw, case)
    return case


def in_turns(draw: Draw, case: Case) -> None:
    """Roles such that Ministral's first check lets most conversations pass."""
    expected = "user"
    for at, message in enumerate(objects(case["messages"])):
        if at == 0 and draw.chance(0.3):
            message["role"] = "system"
        elif message.get("tool_calls") and expected == "assistant":
            message["role"] = "assistant"
        elif message.get("role") in ("system", "user", "assistant") and draw.chance(0.95):
            message["role"] = expected
            message.pop("tool_calls", None)
            expected = "assistant" if expected == "user" else "user"


def hostile(draw: Draw) -> Case:
    roll = draw.random()
    case = loose(draw) if roll < 0.5 else well_formed(draw) if roll < 0.75 else sloppy(draw)
    if roll < 0.3:
        return case
    for _ in range(draw.of((1, 1, 2, 3))):
        if draw.chance(0.04):
            case[draw.of(("messages", "tools", "add_generation_prompt"))] = anything(draw)
        elif draw.chance(0.15):
            spoil_option(draw, case)
        else:
            holder, name = draw.of(places(case))
            holder[name] = anything(draw)
        case["options"] = allowed(draw.template, case.get("options"))
    return case


# ---- mutated: a case, changed in a few places -------------------------------------------------------------------


def places(case: Case) -> list[Place]:
    """Every place of a case that holds a value, the values of options too, in document order."""
    found: list[Place] = [(case, name) for name in ("messages", "tools", "add_generation_prompt") if name in case]
    for part in ("options", "tools", "messages"):
        waiting: list[Any] = [case.get(part)]
        while waiting:
            held = waiting.pop()
            inside = list(held) if isinstance(held, dict) else range(len(held)) if isinstance(held, list) else ()
            found += [(held, name) for name in inside]
            waiting += [held[name] for name in inside]
    return found


def mutate_delete(draw: Draw, case: Case, donors: Sequence[Case]) -> None:
    holder, name = draw.of(places(case))
    if holder is not case or name != "messages":
        del holder[name]


def mutate_duplicate(draw: Draw, case: Case, donors: Sequence[Case]) -> None:
    holder, name = draw.of(places(case))
    made = copy.deepcopy(holder[name])
    if isinstance(holder, list):
        holder.insert(draw.below(len(holder) + 1), made)
    elif holder is not case:
        holder[draw.of(WORDS)] = made


def mutate_swap(draw: Draw, case: Case, donors: Sequence[Case]) -> None:
    """Within one list or object: across them, a value could come to hold itself."""
    holder, name = draw.of(places(case))
    if holder is not case:
        other = draw.of(list(holder) if isinstance(holder, dict) else range(len(holder)))
        holder[name], holder[other] = holder[other], holder[name]


def mutate_replace(draw: Draw, case: Case, donors: Sequence[Case]) -> None:
    holder, name = draw.of(places(case))
    holder[name] = anything(draw)


def mutate_retype(draw: Draw, case: Case, donors: Sequence[Case]) -> None:
    holder, name = draw.of(places(case))
    holder[name] = retyped(draw, holder[name])


def retyped(draw: Draw, held: Any) -> Any:
    """What another program might have made of the value."""
    how = draw.below(6)
    if how == 0:
        return [held]
    if how == 1:
        return {draw.of(WORDS): held}
    if how == 2:
        return [{"type": draw.of(("text", "text", "thinking", "image")), draw.of(("text", "thinking", "output")): held}]
    if how == 3:
        return None
    if how == 4 and isinstance(held, str):
        return draw.of((len(held), bool(held), held.encode("utf-8", "surrogatepass").hex(), list(held[:3])))
    return as_text(held)


def as_text(held: Any) -> str:
    try:
        return json.dumps(held, ensure_ascii=False)
    except ValueError:  # an integer longer than Python prints
        return "1"


def mutate_move(draw: Draw, case: Case, donors: Sequence[Case]) -> None:
    mutate_copy(draw, case, [case])
    mutate_delete(draw, case, donors)


def mutate_copy(draw: Draw, case: Case, donors: Sequence[Case]) -> None:
    """A value of another case, mostly one that stands there under the same key."""
    holder, name = draw.of(places(case))
    found = places(draw.of(donors)) if donors else places(case)
    alike = [place for place in found if place[1] == name]
    source, source_name = draw.of(alike if alike and draw.chance(0.6) else found)
    holder[name] = copy.deepcopy(source[source_name])


def mutate_rename(draw: Draw, case: Case, donors: Sequence[Case]) -> None:
    holder, name = draw.of(places(case))
    if isinstance(name, str) and holder is not case:
        holder[draw.of(WORDS)] = holder.pop(name)


def mutate_shuffle(draw: Draw, case: Case, donors: Sequence[Case]) -> None:
    lists = [holder[name] for holder, name in places(case) if isinstance(holder[name], list)]
    if lists:
        held = draw.of(lists)
        held[:] = draw.shuffled(held)


def mutate_text(draw: Draw, case: Case, donors: Sequence[Case]) -> None:
    texts = [place for place in places(case) if isinstance(place[0][place[1]], str)]
    if texts:
        holder, name = draw.of(texts)
        held = holder[name]
        at = draw.below(len(held) + 1)
        holder[name] = held[:at] + text(draw) + held[at + draw.below(3) :]


MUTATIONS = (
    mutate_delete, mutate_delete, mutate_duplicate, mutate_swap, mutate_replace, mutate_replace, mutate_retype,
    mutate_move, mutate_copy, mutate_copy, mutate_rename, mutate_shuffle, mutate_text,
)  # fmt: skip


def allowed(template: str, options: Any) -> dict[str, Any]:
    """Options under the names that the template has: any other is Python's own TypeError, and no difference."""
    return {name: options[name] for name in OPTIONS[template] if name in options} if isinstance(options, dict) else {}


def mutated(template: str, case: Case, rng: random.Random, donors: Sequence[Case] = ()) -> Case:
    """The case, changed in one to four places; parts of other cases, the donors, may be put into it."""
    draw = Draw(template, rng)
    made = {name: copy.deepcopy(held) for name, held in case.items() if name not in ("about", "path")}
    if draw.chance(0.3):
        put_options(draw, made)
    for _ in range(draw.of((1, 1, 2, 3, 4))):
        if draw.chance(0.07):
            spoil_option(draw, made)
        elif draw.chance(0.05):
            spoil_generation(draw, made)
        else:
            draw.of(MUTATIONS)(draw, made, donors)
        made["options"] = allowed(template, made.get("options"))
    return settled(made)


# ---- cases ------------------------------------------------------------------------------------------------------

MAKERS: dict[str, Callable[[Draw], Case]] = {"well_formed": well_formed, "sloppy": sloppy, "hostile": hostile}


def settled(case: Case) -> Case:
    """The case as it comes out of JSON: no two places share an object, and a pasted case is the same case."""
    try:
        again: Case = json.loads(json.dumps(case))
    except ValueError:  # an integer longer than Python prints: JSON text cannot hold it, a Python caller can
        return copy.deepcopy(case)
    return again


def case(template: str, level: str, rng: random.Random, goldens: Sequence[Case] | None = None) -> Case:
    """A case of a level; "mutated" takes its inputs from the goldens, and makes one where there are none."""
    draw = Draw(template, rng)
    if level != "mutated":
        return settled(MAKERS[level](draw))
    from_golden = goldens and draw.chance(0.8)
    start = draw.of(goldens) if goldens and from_golden else well_formed(draw)
    return mutated(template, start, rng, goldens or ())
