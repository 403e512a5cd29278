"""Domyn Small, after `golden/domyn_small/template.jinja` (domyn/Domyn-Small-v1.0).

    <extra_id_0>System
    Be brief.
    thinking on
    <extra_id_1>User
    Weather in Oslo?
    <extra_id_1>Assistant
    <tool_call>
    {"name": "weather", "arguments": {"city": "Oslo"}}
    </tool_call>
    <extra_id_1>User
    <tool_response>
    4 °C
    </tool_response>
    <extra_id_1>Assistant
    <think>

The words "thinking on" anywhere in a system message switch thinking on for the whole conversation; these and
"thinking off" are cut out, and a line with the mode ends every system block. Content beside tool calls is lost.
Reasoning fields are not read. A tool response is a user turn of its own.

The methods stand in the order of the others; pass 1 of the original is `asks_for_thinking`, at the end.

Whose text: the model writes content and tool calls, but for the newline that closes the turn: there is no end token.
The tools, and a system block that no message asked for, belong to no message.
"""

from __future__ import annotations

from functools import cached_property

from ._base import Block, ChatFormat, Out, recorded
from ._errors import InputError
from ._values import MISSING, place, roles_of, shown, size, to_json, wrong, wrong_call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._values import JSON, Roles

SYSTEM = "<extra_id_0>System\n"
USER = "<extra_id_1>User\n"
ASSISTANT = "<extra_id_1>Assistant\n"
TOOL_RESPONSE, TOOL_RESPONSE_END = USER + "<tool_response>\n", "\n</tool_response>\n"

TOOL_INSTRUCTION_HEAD = (  # jinja 40-43
    "You are a function calling AI model. You are provided with function signatures within <tools></tools> XML tags.\n"
    "You may call one or more functions to assist with the user query. Don't make assumptions about what values to "
    "plug into functions.\n"
    "Here are the available tools:\n"
    "<tools>\n"
)
TOOL_INSTRUCTION_TAIL = (  # jinja 45-49
    "\n"
    "</tools>\n"
    "For each function call, return a JSON object with function name and arguments within <tool_call></tool_call> XML "
    "tags as follows:\n"
    "<tool_call>\n"
    '{"name": <function-name>, "arguments": <args-dict>}\n'
    "</tool_call>"
)


class DomynSmall(ChatFormat):
    """Renders conversations for Domyn Small. `add_generation_prompt` left out is false, as in the original.

    tools: definitions, printed whole. enable_thinking: whether to switch thinking on without a word in a system
    message; false does not overrule the words "thinking on".
    """

    name = "domyn_small"
    model = "domyn/Domyn-Small-v1.0"
    control_tokens = (
        *("<extra_id_0>", "<extra_id_1>", "<tools>", "</tools>", "<tool_call>", "</tool_call>"),
        *("<tool_response>", "</tool_response>", "<think>", "</think>"),
    )

    tools: JSON
    enable_thinking: JSON

    def __init__(self, *, tools: JSON = None, enable_thinking: JSON = False) -> None:
        vars(self).update(tools=tools, enable_thinking=enable_thinking)

    def write(  # jinja 18-24, 37-38, 51-57, 70-73, 87, 92, 106, 112-116
        self, out: Out, messages: JSON, add_generation_prompt: JSON, roles: Roles = None, start: int = 0
    ) -> None:
        if roles is None:
            roles = roles_of(messages)
        thinking = asks_for_thinking(messages, roles) or self.enable_thinking
        mode = "thinking on\n" if thinking else "thinking off\n"
        has_tools = self.tools is not None and size(self.tools, "tools") > 0
        if not start and "system" not in roles:
            self.write_made_up_system(out, has_tools, mode)
        for i, message in enumerate(messages[start:] if start else messages, start):
            out.message = i
            role = roles[i]
            if role == "system":
                self.write_system(out, i, message, has_tools, mode)
            elif role == "user":
                self.write_user(out, i, message)
            elif role == "assistant":
                self.write_assistant(out, i, message)
            elif role == "tool":
                self.write_tool_response(out, i, message)
        out.message = None
        if add_generation_prompt:
            self.write_generation_prompt(out, mode)

    def write_made_up_system(self, out: Out, has_tools: bool, mode: str) -> None:  # jinja 58-67
        out.control(SYSTEM)
        if has_tools:
            out.block(self.tools_block)
            out.control("\n\n")
        out.control(mode)

    def write_system(  # jinja 75-84
        self, out: Out, i: int, message: dict[str, JSON], has_tools: bool, mode: str
    ) -> None:
        content = shown(message.get("content", MISSING), "messages", i, "content")
        clean_content = content.replace("thinking on", "").replace("thinking off", "").strip()
        out.control(SYSTEM)
        if has_tools:
            out.block(self.tools_block)
            out.control("\n")
        if clean_content:
            out.content(clean_content)
            out.control("\n")
        out.control(mode)

    @cached_property
    def tools_block(self) -> Block:
        """What the tools print, written once per object."""
        return recorded(self.write_tools)

    def write_tools(self, out: Out) -> None:  # jinja 39-50
        out.control(TOOL_INSTRUCTION_HEAD)
        out.content(to_json(self.tools, "tools"))
        out.control(TOOL_INSTRUCTION_TAIL)

    def write_user(self, out: Out, i: int, message: dict[str, JSON]) -> None:  # jinja 88-89
        content = message.get("content", MISSING)
        if not isinstance(content, str):
            raise wrong(content, "a string", "messages", i, "content")
        out.control(USER)
        out.content(content)
        out.control("\n")

    def write_assistant(self, out: Out, i: int, message: dict[str, JSON]) -> None:  # jinja 93-103
        out.control(ASSISTANT)
        tool_calls = message.get("tool_calls", MISSING)
        if tool_calls is not MISSING and size(tool_calls, "messages", i, "tool_calls") > 0:
            self.write_tool_calls(out, i, tool_calls)
        else:
            content = message.get("content", MISSING)
            if not isinstance(content, str):
                raise wrong(content, "a string", "messages", i, "content")
            out.output(content)
        out.control("\n")

    def write_tool_calls(self, out: Out, i: int, tool_calls: JSON) -> None:  # jinja 95-99
        output, output_control = out.output, out.output_control
        start = "<tool_call>\n"
        for j, tool_call in enumerate(tool_calls):
            try:
                function = tool_call["function"]
                name, arguments = function["name"], function["arguments"]
            except (KeyError, TypeError):
                raise wrong_call(tool_calls, i, j, "name", "arguments") from None
            name = to_json(name, "messages", i, "tool_calls", j)
            arguments = to_json(arguments, "messages", i, "tool_calls", j)
            output_control(start)
            output(f'{{"name": {name}, "arguments": {arguments}}}')
            output_control("\n</tool_call>")
            start = "\n<tool_call>\n"

    def write_tool_response(self, out: Out, i: int, message: dict[str, JSON]) -> None:  # jinja 107-110
        content = message.get("content", MISSING)
        if not isinstance(content, str):
            raise wrong(content, "a string", "messages", i, "content")
        out.control(TOOL_RESPONSE)
        out.content(content)
        out.control(TOOL_RESPONSE_END)

    def write_generation_prompt(self, out: Out, mode: str) -> None:  # jinja 117-123
        out.control(ASSISTANT)
        out.control("<think>\n" if mode == "thinking on\n" else "<think>\n</think>\n\n")

    def first_rewritten(self, messages: list[JSON], roles: list[JSON], start: int) -> tuple[int, str]:
        """See the base class."""
        if "system" in roles[start:]:
            if "system" not in roles[:start]:
                return 0, "the system block that was made up gives way to the first system message"
            thought = self.enable_thinking or asks_for_thinking(messages, roles[:start])
            if not thought and asks_for_thinking(messages, roles):
                return roles.index("system"), "thinking is switched on in every system block"
        return start, ""

    def as_sampled(self, messages: list[JSON], roles: list[JSON], i: int) -> DomynSmall:
        """See the base class. A think block in the content is that of the generation prompt, or was not written."""
        content = messages[i].get("content")
        if isinstance(content, str) and content.startswith("<think>") and not messages[i].get("tool_calls"):
            thinking = self.enable_thinking or asks_for_thinking(messages, roles[:i])
            written: list[str] = []
            self.write_generation_prompt(Out(written), "thinking on\n" if thinking else "thinking off\n")
            prefill = written[-1]
            if not content.startswith(prefill):
                where = place("messages", i, "content")
                words = f"begins with another think block than the generation prompt's, but must begin with {prefill!r}"
                raise InputError(f"{where} {words} or with none (enable_thinking says which)", where)
        return self


def asks_for_thinking(messages: JSON, roles: list[JSON]) -> bool:  # jinja 27-34
    """Whether a system message says "thinking on": as part of a string, as an item of a list, as a key of an object."""
    found = False
    for i, role in enumerate(roles):
        if role == "system":
            # all of them, even after one that does: a content of another type fails
            content = messages[i].get("content", MISSING)
            if not isinstance(content, (str, list, dict, tuple)) and content is not MISSING:
                raise wrong(content, "a string", "messages", i, "content")
            found = "thinking on" in content or found
    return found
