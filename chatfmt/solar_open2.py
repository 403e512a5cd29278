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
from ._errors import InputError, TemplateError
from ._values import (
    MISSING,
    each,
    field,
    is_distinct_text,
    last_index,
    place,
    positions,
    roles_of,
    run_end,
    run_joined,
    sequence,
    shown,
    to_json,
    wrong,
    wrong_call,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import datetime
    from collections.abc import Sequence

    from ._values import JSON, Roles

IM_START, IM_CONTENT, IM_END = "<|im:start|>", "<|im:content|>", "<|im:end|>"
TOOL_START, TOOL_END = "<|tool:start|>", "<|tool:end|>"
TOOL_CALL_START, TOOL_CALL_END = "<|tool_call:start|>", "<|tool_call:end|>"
TOOL_ARG_START, TOOL_ARG_VALUE, TOOL_ARG_END = "<|tool_arg:start|>", "<|tool_arg:value|>", "<|tool_arg:end|>"
TOOL_RESPONSE_START, TOOL_RESPONSE_END = "<|tool_response:start|>", "<|tool_response:end|>"
THINK_START, THINK_END = "<|think:start|>", "<|think:end|>"

SYSTEM = IM_START + "system" + IM_CONTENT
USER = IM_START + "user" + IM_CONTENT
ASSISTANT = IM_START + "assistant" + IM_CONTENT
TOOL = IM_START + "tool" + IM_CONTENT
EMPTY_THINK = THINK_START + THINK_END
TOOL_ARG_END_LINE = TOOL_ARG_END + "\n"
IM_END_LINE = IM_END + "\n"

THINKING_EFFORTS = ("medium", "high", "xhigh")  # jinja 229

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
    control_tokens = (
        *(IM_START, IM_CONTENT, IM_END, TOOL_START, TOOL_END, TOOL_CALL_START, TOOL_CALL_END),
        *(TOOL_ARG_START, TOOL_ARG_VALUE, TOOL_ARG_END, TOOL_RESPONSE_START, TOOL_RESPONSE_END, THINK_START, THINK_END),
    )

    tools: JSON
    provider_system_prompt: JSON
    response_format: JSON
    reasoning_effort: JSON
    think_render_option: JSON
    now: datetime.date | None

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
        if now is not None and not hasattr(now, "strftime"):
            raise TypeError(f"now must be a date, not {type(now).__name__}")
        vars(self).update(
            tools=tools,
            provider_system_prompt=provider_system_prompt,
            response_format=response_format,
            reasoning_effort=reasoning_effort,
            think_render_option=think_render_option,
            now=now,
        )

    def write(  # jinja 8-16, 107, 117-121, 123-130, 176-177, 225-228
        self, out: Out, messages: JSON, add_generation_prompt: JSON, roles: Roles = None, start: int = 0
    ) -> None:
        if roles is None:
            roles = roles_of(messages)
        if not start and ("system" in roles or self.provider_system_prompt or self.tools or self.response_format):
            self.write_system(out, messages, roles)
        last_user = last_index(roles, "user")
        for i, message in enumerate(messages[start:] if start else messages, start):
            out.message = i
            role = roles[i]
            if role == "user":
                self.write_user(out, i, message)
            elif role == "tool":
                if not message.get("tool_call_id"):
                    words = "tool message is missing required 'tool_call_id' field"
                    raise TemplateError(words, place("messages", i, "tool_call_id"))
                if i == 0 or roles[i - 1] != "tool":  # the first of a run writes all of it
                    self.write_tool_responses(out, messages, roles, i)
            elif role == "assistant":
                self.write_assistant(out, i, message, i > last_user)
        out.message = None
        if add_generation_prompt:
            self.write_generation_prompt(out)

    def write_system(self, out: Out, messages: JSON, roles: list[JSON]) -> None:  # jinja 19-34, 100-105, 108-116
        out.control(SYSTEM)
        separator = ""
        if self.provider_system_prompt:
            today = self.now.strftime("%Y-%m-%d") if self.now else time.strftime("%Y-%m-%d")
            out.control(PROVIDER_SYSTEM_PROMPT + today + ".")
            separator = "\n\n"
        if "system" in roles:
            out.control(separator + "## System Prompt")
            for i, message in enumerate(messages):
                if roles[i] == "system":
                    out.control("\n\n")
                    out.message = i
                    out.content(shown(message.get("content", MISSING), "messages", i, "content"))
                    out.message = None
            separator = "\n\n"
        if self.tools:
            out.control(separator)
            out.block(self.tools_block)
            separator = "\n\n"
        if self.response_format:
            out.control(separator)
            self.write_response_format(out)
        out.control(IM_END_LINE)

    @cached_property
    def tools_block(self) -> Block:
        """What the tools print, written once per object."""
        return recorded(self.write_tools)

    def write_tools(self, out: Out) -> None:  # jinja 36-50
        out.control(TOOLS_HEAD)
        for k, tool in enumerate(sequence(self.tools, "tools")):
            if not isinstance(tool, dict):
                raise wrong(tool, "an object", "tools", k)
            out.control(TOOL_START)
            out.content(to_json(tool.get("function", MISSING), "tools", k, "function"))
            out.control(TOOL_END + "\n")
        out.control(TOOL_CALL_INSTRUCTION)

    def write_response_format(self, out: Out) -> None:  # jinja 65-77
        out.control("## Output Format Constraint")
        kind = field(self.response_format, "type")
        if kind == "json_schema":
            out.control(JSON_SCHEMA_HEAD)
            json_schema = self.response_format.get("json_schema", MISSING)
            if not isinstance(json_schema, dict):
                raise wrong(json_schema, "an object", "response_format", "json_schema")
            schema = json_schema.get("schema", MISSING)
            out.content(to_json(schema, "response_format", "json_schema", "schema"))
            out.control(JSON_SCHEMA_TAIL)
        elif kind == "json_object":
            out.control(JSON_OBJECT)

    def write_user(self, out: Out, i: int, message: dict[str, JSON]) -> None:  # jinja 122
        content = message.get("content", MISSING)
        if not isinstance(content, str):
            raise wrong(content, "a string", "messages", i, "content")
        out.control(USER)
        out.content(content)
        out.control(IM_END_LINE)

    def write_assistant(self, out: Out, i: int, message: dict[str, JSON], is_current: bool) -> None:  # jinja 178-224
        out.control(ASSISTANT)
        self.write_thinking(out, i, message, is_current)
        content = message.get("content")
        if content:
            out.output(content if isinstance(content, str) else shown(content, "messages", i, "content"))
        tool_calls = message.get("tool_calls")
        if tool_calls:
            self.write_tool_calls(out, i, tool_calls)
        out.output_control(IM_END)
        out.control("\n")

    def write_thinking(self, out: Out, i: int, message: dict[str, JSON], is_current: bool) -> None:  # jinja 181-202
        key = reasoning_key(message)
        reasoning = message.get(key)
        option = self.think_render_option
        if reasoning and (option == "preserved" or (option == "interleaved" and is_current)):
            if not isinstance(reasoning, str):
                raise wrong(reasoning, "a string", "messages", i, key)
            out.control(THINK_START)
            out.output(reasoning)
            out.output_control(THINK_END)
        elif option == "preserved" or option == "interleaved":
            out.control(EMPTY_THINK)

    def write_tool_calls(self, out: Out, i: int, tool_calls: JSON) -> None:  # jinja 210-223
        output, output_control = out.output, out.output_control
        start = TOOL_CALL_START
        for j, tool_call in enumerate(each(tool_calls, "messages", i, "tool_calls")):
            if not isinstance(tool_call, dict) or not tool_call.get("id"):
                words = "assistant tool_call is missing required 'id' field"
                raise TemplateError(words, place_of_call_id(tool_calls, i, j))
            try:
                function = tool_call["function"]
                name = function["name"]
            except (KeyError, TypeError):
                raise wrong_call(tool_calls, i, j, "name") from None
            if not isinstance(name, str):
                raise wrong(name, "a string", "messages", i, "tool_calls", j, "function", "name")
            output_control(start)
            output(name)
            output_control("\n")
            if "arguments" in function:
                self.write_tool_arguments(out, i, j, function["arguments"])
            output_control(TOOL_CALL_END)
            start = "\n" + TOOL_CALL_START
        output_control("\n")

    def write_tool_arguments(self, out: Out, i: int, j: int, arguments: JSON) -> None:  # jinja 90-97
        if not isinstance(arguments, dict):
            raise wrong(arguments, "an object", "messages", i, "tool_calls", j, "function", "arguments")
        output, output_control = out.output, out.output_control
        for key, value in arguments.items():
            if not isinstance(value, str):
                value = to_json(value, "messages", i, "tool_calls", j)
            output_control(TOOL_ARG_START)
            output(key)
            output_control(TOOL_ARG_VALUE)
            output(value)
            output_control(TOOL_ARG_END_LINE)

    def write_tool_responses(  # jinja 131-175
        self, out: Out, messages: list[JSON], roles: list[JSON], start: int
    ) -> None:
        end = run_end(roles, start)
        order: Sequence[int] = range(start, end)
        if start > 0 and roles[start - 1] == "assistant":
            tool_calls = messages[start - 1].get("tool_calls")
            if tool_calls:
                order = in_call_order(messages, order, tool_calls)
        out.control(TOOL)
        begin = TOOL_RESPONSE_START
        for k in order:
            content = messages[k].get("content", MISSING)
            if not isinstance(content, str):
                raise wrong(content, "a string", "messages", k, "content")
            out.message = k
            out.control(begin)
            out.content(content)
            out.control(TOOL_RESPONSE_END)
            begin = "\n" + TOOL_RESPONSE_START
        out.message = end - 1
        out.control("\n" + IM_END + "\n")

    def write_generation_prompt(self, out: Out) -> None:  # jinja 228-234
        out.control(ASSISTANT + THINK_START)
        if self.reasoning_effort not in THINKING_EFFORTS:
            out.control(THINK_END)

    def first_rewritten(self, messages: list[JSON], roles: list[JSON], start: int) -> tuple[int, str]:
        """See the base class."""
        if "system" in roles[start:]:
            return 0, "a system message moves to the top"
        if "user" in roles[start:] and self.think_render_option == "interleaved":
            for i in range(last_index(roles[:start], "user") + 1, start):
                if roles[i] == "assistant" and messages[i].get(reasoning_key(messages[i])):
                    return i, "reasoning before the last user message is dropped"
        return run_joined(roles, start)

    def as_sampled(self, messages: list[JSON], roles: list[JSON], i: int) -> SolarOpen2:
        """See the base class. A think_render_option that hides think tags hides what the model wrote."""
        key = reasoning_key(messages[i])
        if messages[i].get(key) and self.reasoning_effort not in THINKING_EFFORTS:
            words = "holds reasoning, but the reasoning_effort closes the think block: use medium, high or xhigh"
            where = place("messages", i, key)
            raise InputError(f"{where} {words}, or leave the reasoning out", where)
        if self.think_render_option in ("preserved", "interleaved"):
            return self
        shown_whole = object.__new__(type(self))
        vars(shown_whole).update(vars(self), think_render_option="preserved")
        return shown_whole


def place_of_call_id(tool_calls: JSON, i: int, j: int) -> str:
    """Where the id of a call is looked for in vain: the calls or the call themselves, if they are of another type."""
    if not isinstance(tool_calls, (list, tuple)):
        return place("messages", i, "tool_calls")
    call = place("messages", i, "tool_calls", j)
    return f"{call}.id" if isinstance(tool_calls[j], dict) else call


def reasoning_key(message: dict[str, JSON]) -> str:  # jinja 181-184
    return "reasoning" if "reasoning" in message else "reasoning_content"


def in_call_order(  # jinja 149-152, 155, 157-162, 166-167
    messages: list[JSON], run: Sequence[int], tool_calls: list[dict[str, JSON]]
) -> Sequence[int]:
    """The responses to each call, call by call, and last those to none; all as indexes of messages.

    A response is found again by every call of the same id. A response without id answers none: ids of calls are true.
    """
    ids = [messages[k].get("tool_call_id", MISSING) for k in run]
    wanted = [tool_call["id"] for tool_call in tool_calls]
    if ids == wanted and is_distinct_text(ids):
        return run
    answers = [run[k] for hits in positions(ids, wanted) for k in hits]
    answered = set(answers)
    return answers + [k for k in run if k not in answered]
