"""Solar Open2, after `golden/solar_open2/template.jinja` (upstage/Solar-Open2-250B).

    <|im:start|>system<|im:content|>## System Prompt

    Be brief.<|im:end|>
    <|im:start|>user<|im:content|>Weather in Oslo?<|im:end|>
    <|im:start|>assistant<|im:content|><|think:start|>I look it up.<|think:end|><|tool_call:start|>weather
    <|tool_arg:start|>city<|tool_arg:value|>Oslo<|tool_arg:end|>
    <|tool_call:end|>
    <|im:end|>
    <|im:start|>tool<|im:content|><|tool_response:start|>4 °C<|tool_response:end|>
    <|im:end|>
    <|im:start|>assistant<|im:content|><|think:start|>

One system block stands at the top, with the system messages of the whole conversation. Reasoning from before the
last user message is dropped, unless think_render_option says otherwise. Tool responses follow the order of the calls.

Whose text: the model writes reasoning and `<|think:end|>`, content, tool calls whole, and the `<|im:end|>` of its
turn. Think tags around nothing are the template's. The system block belongs to no message, but for the contents of
the system messages; a tool block opens with the first and closes with the last message of its run.
"""

from __future__ import annotations

import time
from functools import cached_property

from ._base import Block, ChatFormat, Out, recorded
from ._errors import TemplateError
from ._values import MISSING, each, field, mapping, place, positions, sequence, shown, text, to_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    import datetime
    from collections.abc import Sequence

    from ._values import JSON

IM_START, IM_CONTENT, IM_END = "<|im:start|>", "<|im:content|>", "<|im:end|>"
TOOL_START, TOOL_END = "<|tool:start|>", "<|tool:end|>"
TOOL_CALL_START, TOOL_CALL_END = "<|tool_call:start|>", "<|tool_call:end|>"
TOOL_ARG_START, TOOL_ARG_VALUE, TOOL_ARG_END = "<|tool_arg:start|>", "<|tool_arg:value|>", "<|tool_arg:end|>"
TOOL_RESPONSE_START, TOOL_RESPONSE_END = "<|tool_response:start|>", "<|tool_response:end|>"
THINK_START, THINK_END = "<|think:start|>", "<|think:end|>"

PROVIDER_SYSTEM_PROMPT = (  # jinja 23
    "## Provider System Prompt\n"
    "\n"
    "You are Solar Open2 250B, a large language model trained by Upstage AI, a Korean startup. "
    "Your knowledge cutoff is 2026-02. The current date is "
)
# fmt: off
TOOLS_HEAD = (  # jinja 39-40
    "## Tools\n"
    "- You may invoke one or more tools to assist with the user's query."
    "\n"
    "\n"
    "### Available Tools\n"
)
TOOL_CALL_INSTRUCTION = (  # jinja 46-49
    "\n"
    "### Tool Call Instruction\n"
    "- If using a tool, any reasoning must strictly precede the call. Do not append any text after the tool call.\n"
    "- If no tool is required, answer directly from your knowledge without ever mentioning the availability "
    "or absence of tools.\n"
    "- Each tool call MUST use this following format: <|tool_call:start|>{example-tool-name}\n"
    "<|tool_arg:start|>{example-key-name-1}<|tool_arg:value|>{example-value-1}<|tool_arg:end|>\n"
    "<|tool_arg:start|>{example-key-name-2}<|tool_arg:value|>{example-value-2}<|tool_arg:end|>\n"
    "<|tool_call:end|>\n"
)
JSON_SCHEMA_HEAD = (  # jinja 70
    "\n"
    "\n"
    "- Your final response should follow the JSON schema:\n"
    "```json\n"
)
JSON_SCHEMA_TAIL = (  # jinja 72
    "\n"
    "```\n"
    "- Please ensure your answers adhere to this format and do not contain any unnecessary text."
)
JSON_OBJECT = (  # jinja 74-75
    "\n"
    "\n"
    "- Your final response must be a valid JSON object."
    "\n"
    "- Do not include any text outside the JSON object."
)
# fmt: on


class SolarOpen2(ChatFormat):
    """Renders conversations for Solar Open2. `add_generation_prompt` left out is true, as in the original.

    tools: definitions in OpenAI's wrapper, `{"type": "function", "function": {…}}`; only `function` is printed.
    provider_system_prompt: whether to print Upstage's own system prompt, with the date.
    response_format: OpenAI's object, `{"type": "json_schema", "json_schema": {"schema": {…}}}` or
    `{"type": "json_object"}`. reasoning_effort: "medium", "high" and "xhigh" leave the think block of the generation
    prompt open, all else closes it. think_render_option: "interleaved" shows the reasoning after the last user
    message, "preserved" all of it, another value neither reasoning nor think tags.
    now: the date for the provider prompt (no variable of the template); None is the day of the call.
    """

    name = "solar_open2"
    model = "upstage/Solar-Open2-250B"
    default_generation_prompt = True  # jinja 2

    def __init__(  # jinja 2-5
        self,
        *,
        tools: JSON = None,
        provider_system_prompt: JSON = False,
        response_format: JSON = None,
        reasoning_effort: JSON = "high",
        think_render_option: JSON = "interleaved",
        now: datetime.date | None = None,
    ) -> None:
        self.tools = tools
        self.provider_system_prompt = provider_system_prompt
        self.response_format = response_format
        self.reasoning_effort = reasoning_effort
        self.think_render_option = think_render_option
        self.now = now

    def write(  # jinja 8, 107, 117-121, 123-130, 176-177, 225-228
        self, out: Out, messages: JSON, add_generation_prompt: JSON
    ) -> None:
        last_user, system_messages = survey(messages)
        if system_messages or self.provider_system_prompt or self.tools or self.response_format:
            self.write_system(out, system_messages)
        previous = MISSING
        for i, message in enumerate(messages):
            out.message = i
            role = field(message, "role")
            if role == "user":
                self.write_user(out, i, message)
            elif role == "tool":
                if not message.get("tool_call_id"):
                    words = "tool message is missing required 'tool_call_id' field"
                    raise TemplateError(words, place("messages", i, "tool_call_id"))
                if previous != "tool":  # the first of a run writes all of it
                    self.write_tool_responses(out, messages, i)
            elif role == "assistant":
                self.write_assistant(out, i, message, i > last_user)
            previous = role
        out.message = None
        if add_generation_prompt:
            self.write_generation_prompt(out)

    def write_system(self, out: Out, system_messages: list[tuple[int, JSON]]) -> None:  # jinja 19-34, 108-116
        out.control(IM_START + "system" + IM_CONTENT)
        separator = ""
        if self.provider_system_prompt:
            today = self.now.strftime("%Y-%m-%d") if self.now else time.strftime("%Y-%m-%d")
            out.control(PROVIDER_SYSTEM_PROMPT + today + ".")
            separator = "\n\n"
        if system_messages:
            out.control(separator + "## System Prompt")
            for i, content in system_messages:
                out.control("\n\n")
                out.message = i
                out.content(shown(content, "messages", i, "content"))
                out.message = None
            separator = "\n\n"
        if self.tools:
            out.control(separator)
            out.block(self.tools_block)
            separator = "\n\n"
        if self.response_format:
            out.control(separator)
            self.write_response_format(out)
        out.control(IM_END + "\n")

    @cached_property
    def tools_block(self) -> Block:
        """What the tools print, written once per object."""
        return recorded(self.write_tools)

    def write_tools(self, out: Out) -> None:  # jinja 36-50
        out.control(TOOLS_HEAD)
        for k, tool in enumerate(sequence(self.tools, "tools")):
            out.control(TOOL_START)
            out.content(to_json(field(tool, "function"), "tools", k, "function"))
            out.control(TOOL_END + "\n")
        out.control(TOOL_CALL_INSTRUCTION)

    def write_response_format(self, out: Out) -> None:  # jinja 65-77
        out.control("## Output Format Constraint")
        kind = field(self.response_format, "type")
        if kind == "json_schema":
            out.control(JSON_SCHEMA_HEAD)
            schema = field(field(self.response_format, "json_schema"), "schema")
            out.content(to_json(schema, "response_format", "json_schema", "schema"))
            out.control(JSON_SCHEMA_TAIL)
        elif kind == "json_object":
            out.control(JSON_OBJECT)

    def write_user(self, out: Out, i: int, message: dict[str, JSON]) -> None:  # jinja 122
        out.control(IM_START + "user" + IM_CONTENT)
        out.content(text(message.get("content", MISSING), "messages", i, "content"))
        out.control(IM_END + "\n")

    def write_assistant(self, out: Out, i: int, message: dict[str, JSON], is_current: bool) -> None:  # jinja 178-224
        out.control(IM_START + "assistant" + IM_CONTENT)
        self.write_thinking(out, i, message, is_current)
        content = message.get("content")
        if content:
            out.output(shown(content, "messages", i, "content"))
        if message.get("tool_calls"):
            self.write_tool_calls(out, i, message["tool_calls"])
        out.output_control(IM_END)
        out.control("\n")

    def write_thinking(self, out: Out, i: int, message: dict[str, JSON], is_current: bool) -> None:  # jinja 181-202
        key = "reasoning" if "reasoning" in message else "reasoning_content"
        reasoning = message.get(key)
        if self.think_render_option == "preserved":
            is_kept = True
        elif self.think_render_option == "interleaved":
            is_kept = is_current
        else:
            return
        if reasoning and is_kept:
            out.control(THINK_START)
            out.output(text(reasoning, "messages", i, key))
            out.output_control(THINK_END)
        else:
            out.control(THINK_START + THINK_END)

    def write_tool_calls(self, out: Out, i: int, tool_calls: JSON) -> None:  # jinja 210-223
        for j, tool_call in enumerate(each(tool_calls, "messages", i, "tool_calls")):
            if not field(tool_call, "id"):
                words = "assistant tool_call is missing required 'id' field"
                raise TemplateError(words, place("messages", i, "tool_calls", j, "id"))
            path = ("messages", i, "tool_calls", j, "function")
            function = mapping(tool_call.get("function", MISSING), *path)
            out.output_control("\n" + TOOL_CALL_START if j else TOOL_CALL_START)
            out.output(text(function.get("name", MISSING), *path, "name"))
            out.output_control("\n")
            if "arguments" in function:
                self.write_tool_arguments(out, mapping(function["arguments"], *path, "arguments"), path)
            out.output_control(TOOL_CALL_END)
        out.output_control("\n")

    def write_tool_arguments(  # jinja 90-97
        self, out: Out, arguments: dict[str, JSON], path: tuple[str | int, ...]
    ) -> None:
        for key, value in arguments.items():
            out.output_control(TOOL_ARG_START)
            out.output(key)
            out.output_control(TOOL_ARG_VALUE)
            out.output(value if isinstance(value, str) else to_json(value, *path, "arguments", key))
            out.output_control(TOOL_ARG_END + "\n")

    def write_tool_responses(self, out: Out, messages: list[JSON], start: int) -> None:  # jinja 131-175
        end = start + 1
        while end < len(messages) and field(messages[end], "role") == "tool":
            end += 1
        responses = messages[start:end]
        order: Sequence[int] = range(len(responses))
        if start > 0 and field(messages[start - 1], "role") == "assistant" and messages[start - 1].get("tool_calls"):
            order = in_call_order(responses, messages[start - 1]["tool_calls"])
        out.control(IM_START + "tool" + IM_CONTENT)
        separator = ""
        for k in order:
            out.message = start + k
            out.control(separator + TOOL_RESPONSE_START)
            out.content(text(responses[k].get("content", MISSING), "messages", start + k, "content"))
            out.control(TOOL_RESPONSE_END)
            separator = "\n"
        out.message = end - 1
        out.control("\n" + IM_END + "\n")

    def write_generation_prompt(self, out: Out) -> None:  # jinja 228-234
        out.control(IM_START + "assistant" + IM_CONTENT + THINK_START)
        if self.reasoning_effort not in ("medium", "high", "xhigh"):
            out.control(THINK_END)


def survey(messages: JSON) -> tuple[int, list[tuple[int, JSON]]]:  # jinja 11-16, 100-105
    """The index of the last user message (-1 for none), and every system message's index and content."""
    last_user, system_messages = -1, []
    for i, message in enumerate(each(messages, "messages")):
        role = field(message, "role")
        if role == "user":
            last_user = i
        elif role == "system":
            system_messages.append((i, message.get("content", MISSING)))
    return last_user, system_messages


def in_call_order(  # jinja 149-152, 155, 157-162, 166-167
    responses: list[dict[str, JSON]], tool_calls: list[dict[str, JSON]]
) -> list[int]:
    """The positions of the responses to each call, call by call, and last those of the responses to none.

    A response is found again by every call of the same id. A response without id answers none: ids of calls are true.
    """
    search = positions([response.get("tool_call_id", MISSING) for response in responses])
    answers = [k for tool_call in tool_calls for k in search(tool_call["id"])]
    answered = set(answers)
    return answers + [k for k in range(len(responses)) if k not in answered]
