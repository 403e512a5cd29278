"""Where each piece of a prompt comes from: which part of a turn it is, and in which field of the input it stood.

`segments` says whose text a piece is. Which field it was follows from the control tokens before it, and those can be
trusted: a segment of the template's kind holds nothing but the template's text.
"""

from __future__ import annotations

from collections import namedtuple

from . import domyn_small, ministral3_reasoning, solar_open2
from ._base import ChatFormat, Segment
from ._values import field, place, shown
from .hy4 import Hy4, function_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ._values import JSON, Part

SOLAR_OPEN2 = {
    solar_open2.IM_CONTENT: "content",
    solar_open2.THINK_START: "reasoning",
    solar_open2.THINK_END: "content",
    solar_open2.TOOL_START: "tools",
    solar_open2.TOOL_CALL_START: "name",
    solar_open2.TOOL_ARG_START: "key",
    solar_open2.TOOL_ARG_VALUE: "value",
    solar_open2.TOOL_RESPONSE_START: "content",
    solar_open2.JSON_SCHEMA_HEAD: "response_format",
}
MINISTRAL3_REASONING = {
    "[AVAILABLE_TOOLS]": "tools",
    "[THINK]": "reasoning",
    "[/THINK]": "content",
    "[TOOL_CALLS]": "name",
    "[ARGS]": "arguments",
}
DOMYN_SMALL = {
    domyn_small.TOOL_INSTRUCTION_HEAD: "tools",
    "<tool_call>\n": "call",
}

UNREAD = ("function_call", "refusal", "audio", "reasoning_details", "thinking_blocks")  # what no template reads


class Field(namedtuple("Field", ("part", "path"))):
    """part: of an assistant's turn "reasoning", "content", "tool_calls" or "end", each with the control tokens that the
    model writes for it; of the caller's text "content", "role", "tools" or "response_format"; "" for the template's.
    path: where a text of the caller or the assistant stood, such as `messages[3].tool_calls[0].function.name`; ""
    for the template's.
    """

    __slots__ = ()
    if TYPE_CHECKING:
        part: str
        path: str


def parts_of(chat: ChatFormat, segments: list[Segment]) -> list[str]:
    """The part of each segment, as in Field."""
    reading = _Reading(chat, segments)
    return list(map(reading.part, range(len(segments)), segments))


def fields_of(chat: ChatFormat, messages: JSON, segments: list[Segment]) -> list[Field]:
    """The field of each segment. messages: those that the segments were made of."""
    reading = _Reading(chat, segments)
    tools = iter(printed_tools(chat))
    fields = []
    for n, segment in enumerate(segments):
        part = reading.part(n, segment)
        is_given = segment.kind == "content" or segment.kind == "output"
        fields.append(Field(part, reading.path(segment, messages, tools) if is_given else ""))
    return fields


def dropped_fields(message: dict[str, JSON], segments: list[Segment], fields: list[Field]) -> tuple[str, ...]:
    """The keys of an assistant's message whose text its turn does not show. segments, fields: those of the turn."""
    texts = {(fields[n].part, segment.text) for n, segment in enumerate(segments)}
    parts = {field.part for field in fields}
    dropped = []
    for key in ("reasoning", "reasoning_content", "thinking", "content"):
        part, value = "content" if key == "content" else "reasoning", message.get(key)
        is_shown = (part, value) in texts if isinstance(value, str) else not parts.isdisjoint({part, "reasoning"})
        if says_something(value) and not is_shown:
            dropped.append(key)
    return tuple(dropped + [key for key in UNREAD if message.get(key)])


def says_something(value: JSON) -> bool:
    """Whether there is a text in a content or a reasoning: of parts, that of one of them; of other values, always."""
    if isinstance(value, (list, tuple)):
        return any(map(says_something, value))
    if isinstance(value, dict):
        return any(says_something(value.get(key)) for key in ("text", "thinking"))
    return bool(value)


def introductions(chat: ChatFormat) -> tuple[dict[str, str], str]:
    """What stands behind a control token, and the token that ends a turn of the assistant, "" for none."""
    if isinstance(chat, solar_open2.SolarOpen2):
        return SOLAR_OPEN2, solar_open2.IM_END
    if isinstance(chat, ministral3_reasoning.Ministral3Reasoning):
        return MINISTRAL3_REASONING, shown(chat.eos_token)
    if isinstance(chat, domyn_small.DomynSmall):
        return DOMYN_SMALL, ""
    if not isinstance(chat, Hy4):
        raise TypeError(f"chat must be an object of one of the four classes of this package, not {type(chat)}")
    t = chat.tokens
    return {
        t.hy_start: "role",
        t.hy_middle: "content",
        t.think_begin: "reasoning",
        t.think_end: "content",
        t.toolcalls_begin: "calls",
        t.toolcall_begin: "name",
        t.argkey_begin: "key",
        t.argvalue_begin: "value",
        t.toolresponse_begin: "content",
        "<tools>\n": "tools",
        "</tools>" + t.toolresponse_end: "content",
    }, t.hy_end


class _Reading:
    """Goes through the segments of a prompt, and keeps what stands behind the last control token."""

    def __init__(self, chat: ChatFormat, segments: list[Segment]) -> None:
        self.segments = segments
        self.opens, self.end = introductions(chat)
        self.opened: dict[str, str] = {}  # by text: most segments of the template come again and again
        self.begin(None)

    def begin(self, message: int | None) -> None:
        self.message = message
        self.state = "content"
        self.is_calling = False
        self.call = -1  # the index of the tool call at work
        self.key = ""

    def part(self, n: int, segment: Segment) -> str:
        text, kind, message = segment
        if message != self.message:
            self.begin(message)
        if kind == "content" or kind == "output":
            if self.state == "key":
                self.key = text
            return "tool_calls" if self.is_calling else self.state
        opened = self.opened.get(text)
        if opened is None:
            tokens = [token for token in self.opens if text.endswith(token)]
            opened = self.opened[text] = self.opens[max(tokens, key=len)] if tokens else ""
        if opened:
            self.open(opened)
        if kind == "control":
            return ""
        if text == self.end and self.is_last(n):
            return "end"
        return "tool_calls" if self.is_calling else "reasoning"

    def open(self, state: str) -> None:
        self.state = state
        if state in ("calls", "name", "call"):
            self.is_calling = True
            self.call += state != "calls"
        elif state == "key":
            self.key = ""

    def is_last(self, n: int) -> bool:
        """Whether the model writes nothing behind segment n in its turn."""
        following = self.segments[n + 1 : n + 2]
        return not following or following[0].message != self.message or following[0].kind == "control"

    def path(self, segment: Segment, messages: JSON, tools: Iterator[tuple[Part, ...]]) -> str:
        """The path of the segment at work. tools: the places of those that are still to come."""
        if self.state == "tools":
            return place("tools", *next(tools, ())) if self.message is None else "tools"
        if self.state == "response_format":
            return "response_format.json_schema.schema"
        if self.message is None:
            return ""
        return place("messages", self.message, *self.path_in_message(segment.text, messages[self.message]))

    def path_in_message(self, text: str, message: dict[str, JSON]) -> tuple[Part, ...]:
        if self.state == "reasoning":
            keys = [key for key in ("reasoning", "reasoning_content") if message.get(key) == text]
            return (keys[0] if keys else "content",)  # Ministral: a chunk of the content
        if not self.is_calling:
            return (self.state,)
        call = message["tool_calls"][self.call]
        path: tuple[Part, ...] = ("tool_calls", self.call, *(("function",) if "function" in call else ()))
        if self.state == "value":
            return (*path, "arguments", self.key)
        return path if self.state == "call" else (*path, "name" if self.state == "name" else "arguments")


def printed_tools(chat: ChatFormat) -> list[tuple[Part, ...]]:
    """The places in `tools` of the definitions that are printed one by one, in their order."""
    if isinstance(chat, solar_open2.SolarOpen2):
        return [(k, "function") for k in range(len(chat.tools or ()))]
    if isinstance(chat, Hy4):
        return [(k,) for k, tool in enumerate(chat.tools or ()) if not field(function_of(tool), "defer_loading")]
    return []
