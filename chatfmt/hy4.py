"""Hy4, after `golden/hy4/template.jinja` (tencent/Hy4-preview).

The original prints no newline between turns; here each stands on a line of its own, without `:opensource`:

    <｜hy_start｜>system<｜hy_middle｜>Be brief.<｜reasoning_mode｜>reasoning_effort:high<｜hy_end｜>
    <｜hy_start｜>user<｜hy_middle｜>Weather in Oslo?<｜hy_end｜>
    <｜hy_start｜>assistant<｜hy_middle｜><think>I look it up.</think><tool_calls><tool_call>weather
        <arg_key>city</arg_key><arg_value>Oslo</arg_value></tool_call></tool_calls><｜hy_end｜>
    <｜hy_start｜>tool<｜hy_middle｜><tool_response>4 °C</tool_response><｜hy_end｜>
    <｜hy_start｜>assistant<｜hy_middle｜><think>

A system block always opens the prompt; it alone carries the tools and the reasoning effort. Every role is printed,
known or not. Tool responses are put in the order of the calls only where each call has exactly one.

Whose text: the model writes reasoning and `</think>`, content, tool calls whole, and the `<｜hy_end｜>` of its turn.
Think tags around nothing are the template's; a role that the template does not know is the caller's. The tools, and
a system block that no message asked for, belong to no message. A run of tool messages opens with its first message
and closes with its last.
"""

from __future__ import annotations

from functools import cached_property

from ._base import Block, ChatFormat, Out, recorded
from ._errors import InputError, TemplateError
from ._values import (
    MISSING,
    each,
    field,
    is_distinct_text,
    last_index,
    positions,
    roles_of,
    run_end,
    run_joined,
    sequence,
    shown,
    to_json,
    wrong,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ._values import JSON, Part, Roles


class Tokens:
    """The control tokens, each with the suffix of a checkpoint."""

    def __init__(self, suffix: str) -> None:  # jinja 2-18
        self.hy_start = f"<｜hy_start{suffix}｜>"
        self.hy_middle = f"<｜hy_middle{suffix}｜>"
        self.hy_end = f"<｜hy_end{suffix}｜>"
        self.think_begin = f"<think{suffix}>"
        self.think_end = f"</think{suffix}>"
        self.toolcalls_begin = f"<tool_calls{suffix}>"
        self.toolcalls_end = f"</tool_calls{suffix}>"
        self.toolcall_begin = f"<tool_call{suffix}>"
        self.toolcall_end = f"</tool_call{suffix}>"
        self.argkey_begin = f"<arg_key{suffix}>"
        self.argkey_end = f"</arg_key{suffix}>"
        self.argvalue_begin = f"<arg_value{suffix}>"
        self.argvalue_end = f"</arg_value{suffix}>"
        self.toolresponse_begin = f"<tool_response{suffix}>"
        self.toolresponse_end = f"</tool_response{suffix}>"
        self.reasoning_mode = f"<｜reasoning_mode{suffix}｜>"
        self.all = (
            *(self.hy_start, self.hy_middle, self.hy_end, self.think_begin, self.think_end),
            *(self.toolcalls_begin, self.toolcalls_end, self.toolcall_begin, self.toolcall_end),
            *(self.argkey_begin, self.argkey_end, self.argvalue_begin, self.argvalue_end),
            *(self.toolresponse_begin, self.toolresponse_end, self.reasoning_mode),
        )
        self.system = self.hy_start + "system" + self.hy_middle
        self.user = self.hy_start + "user" + self.hy_middle
        self.assistant = self.hy_start + "assistant" + self.hy_middle
        self.tool = self.hy_start + "tool" + self.hy_middle
        self.empty_think = self.think_begin + self.think_end


OPENSOURCE = Tokens(":opensource")

RETRY = "reasoning_toolcall_retry"  # jinja 42

TOOLS_HEAD = (  # jinja 84-86
    "# Tools\n"
    "\n"
    "You may call one or more functions to assist with the user query."
    "\n"
    "\n"
    "You are provided with function signatures within <tools></tools> XML tags:"
    "\n"
    "<tools>\n"
)


class Hy4(ChatFormat):
    """Renders conversations for Hy4. `add_generation_prompt` left out is false, as in the original.

    tools: definitions, in OpenAI's wrapper or bare; `strict` and `defer_loading` are not printed, and tools with a
    true `defer_loading` only where a tool response refers to them. reasoning_effort: "high" or "no_think".
    preserved_thinking: whether to show reasoning from before the last user message; left out, it is shown if there
    are tools. fallback_strategy: "reasoning_toolcall_retry" sets the effort to "high" and turns the generation
    prompt off. raw_last_assistant: whether a last message of the assistant is a prefill, to be left open.
    token_suffix: what the control tokens end in (no variable of the template; checkpoints differ in it).
    """

    name = "hy4"
    model = "tencent/Hy4-preview"
    control_tokens = OPENSOURCE.all

    tools: JSON
    reasoning_effort: JSON
    preserved_thinking: JSON
    fallback_strategy: JSON
    raw_last_assistant: JSON
    tokens: Tokens

    def __init__(  # jinja 21-30, 46-48
        self,
        *,
        tools: JSON = None,
        reasoning_effort: JSON = "high",
        preserved_thinking: JSON = MISSING,
        fallback_strategy: JSON = None,
        raw_last_assistant: JSON = False,
        token_suffix: str = ":opensource",
    ) -> None:
        if not isinstance(token_suffix, str):
            raise TypeError(f"token_suffix must be a string, not {type(token_suffix).__name__}")
        tokens = OPENSOURCE if token_suffix == ":opensource" else Tokens(token_suffix)
        vars(self).update(
            tools=tools,
            reasoning_effort=reasoning_effort,
            preserved_thinking=preserved_thinking,
            fallback_strategy=fallback_strategy,
            raw_last_assistant=raw_last_assistant,
            tokens=tokens,
            control_tokens=tokens.all,
        )

    def write(  # jinja 42-45, 183-197, 206-209, 226, 230, 285, 289, 293-302
        self, out: Out, messages: JSON, add_generation_prompt: JSON, roles: Roles = None, start: int = 0
    ) -> None:
        effort = checked_effort(self.reasoning_effort)
        if self.fallback_strategy == RETRY:
            effort, add_generation_prompt = "high", False
        preserved = self.preserves_thinking()
        if roles is None:
            roles = roles_of(messages)
        if not start and (not roles or roles[0] != "system"):
            self.write_made_up_system(out, effort)
        # The original first merges each run of tool messages into one message. Here the first of a run writes it all:
        # which message is the first, the last, or after the last user message, comes to the same.
        last, last_user = len(roles) - 1, last_index(roles, "user")
        for i, message in enumerate(messages[start:] if start else messages, start):
            out.message = i
            role = roles[i]
            if role == "system":
                self.write_system(out, i, message, effort)
            elif role == "user":
                self.write_user(out, i, message)
            elif role == "assistant":
                shows_reasoning = effort != "no_think" and (preserved or i > last_user)
                self.write_assistant(out, i, message, shows_reasoning, i == last and self.raw_last_assistant)
            elif role == "tool":
                if i == 0 or roles[i - 1] != "tool":
                    self.write_tool_responses(out, messages, roles, i)
            else:
                self.write_other(out, i, message)
        out.message = None
        if add_generation_prompt and not (roles and roles[last] == "assistant"):
            self.write_generation_prompt(out, effort)

    def write_made_up_system(self, out: Out, effort: str) -> None:  # jinja 198-204
        t = self.tokens
        out.control(t.system)
        if self.tools:
            out.block(self.tools_block)
        out.control(t.reasoning_mode + "reasoning_effort:" + effort)
        out.control(t.hy_end)

    def write_system(self, out: Out, i: int, message: dict[str, JSON], effort: str) -> None:  # jinja 210-225
        t = self.tokens
        out.control(t.system)
        content = content_to_text(message.get("content", MISSING), "messages", i, "content")
        if i == 0:
            if self.tools:
                out.block(self.tools_block)
                if content:
                    out.control("\n\n")
            out.content(content)
            out.control(t.reasoning_mode + "reasoning_effort:" + effort)
        else:
            out.content(content)
        out.control(t.hy_end)

    @cached_property
    def tools_block(self) -> Block:
        """What the tools print, written once per object."""
        return recorded(self.write_tools)

    def write_tools(self, out: Out) -> None:  # jinja 83-107
        t = self.tokens
        out.control(TOOLS_HEAD)
        separator = ""
        for k, tool in enumerate(sequence(self.tools, "tools")):
            function = function_of(tool)
            if not field(function, "defer_loading"):
                if not isinstance(function, dict):
                    raise wrong(function, "an object", *path_of_function(tool, "tools", k))
                out.control(separator)
                out.content(tool_to_json(function, k))
                separator = "\n"
        out.control(
            "\n"
            "</tools>\n"
            "\n"
            f"For function call returns, you should first print {t.toolcalls_begin}\n"
            "For each function call, you should return object like:\n"
            f"{t.toolcall_begin}{{function-name}}"
            f"{t.argkey_begin}{{arg-key-1}}{t.argkey_end}"
            f"{t.argvalue_begin}{{arg-value-1}}{t.argvalue_end}"
            f"{t.argkey_begin}{{arg-key-2}}{t.argkey_end}"
            f"{t.argvalue_begin}{{arg-value-2}}{t.argvalue_end}"
            "..."
            f"{t.toolcall_end}\n"
            f"At the end of function call returns, you should print {t.toolcalls_end}"
        )

    def write_user(self, out: Out, i: int, message: dict[str, JSON]) -> None:  # jinja 227-229
        t = self.tokens
        content = message.get("content", MISSING)
        out.control(t.user)
        out.content(content if isinstance(content, str) else content_to_text(content, "messages", i, "content"))
        out.control(t.hy_end)

    def write_other(self, out: Out, i: int, message: JSON) -> None:  # jinja 290-292
        t = self.tokens
        out.control(t.hy_start)
        out.content(shown(field(message, "role"), "messages", i, "role"))
        out.control(t.hy_middle)
        out.content(content_to_text(field(message, "content"), "messages", i, "content"))
        out.control(t.hy_end)

    def write_assistant(  # jinja 231-246, 258-284
        self, out: Out, i: int, message: dict[str, JSON], shows_reasoning: bool, is_prefill: bool
    ) -> None:
        t = self.tokens
        content = message.get("content", MISSING)
        tool_calls = message.get("tool_calls")
        out.control(t.assistant)
        if tool_calls or not is_prefill:
            self.write_thinking(out, message, shows_reasoning)
        out.output(content if isinstance(content, str) else content_to_text(content, "messages", i, "content"))
        if tool_calls:
            self.write_tool_calls(out, i, tool_calls)
        if not is_prefill:
            out.output_control(t.hy_end)

    def write_thinking(self, out: Out, message: dict[str, JSON], shows_reasoning: bool) -> None:  # jinja 240-244
        t = self.tokens
        reasoning = reasoning_of(message)
        if shows_reasoning and reasoning:
            out.control(t.think_begin)
            out.output(reasoning)
            out.output_control(t.think_end)
        else:
            out.control(t.empty_think)

    def write_tool_calls(self, out: Out, i: int, tool_calls: JSON) -> None:  # jinja 259-273
        t = self.tokens
        output, output_control = out.output, out.output_control
        output_control(t.toolcalls_begin)
        argkey_begin, argvalue_end = t.argkey_begin, t.argvalue_end
        between = t.argkey_end + t.argvalue_begin
        for j, tool_call in enumerate(sequence(tool_calls, "messages", i, "tool_calls")):
            function = function_of(tool_call)
            if not isinstance(function, dict):
                raise wrong(function, "an object", *path_of_function(tool_call, "messages", i, "tool_calls", j))
            arguments = function.get("arguments", MISSING)
            if not isinstance(arguments, dict):
                path = path_of_function(tool_call, "messages", i, "tool_calls", j)
                raise wrong(arguments, "an object", *path, "arguments")
            output_control(t.toolcall_begin)
            name = function.get("name", MISSING)
            output(name if isinstance(name, str) else shown(name, "messages", i, "tool_calls", j))
            for key, value in arguments.items():
                if not isinstance(value, str):
                    value = to_json(value, "messages", i, "tool_calls", j)
                output_control(argkey_begin)
                output(key)
                output_control(between)
                output(value)
                output_control(argvalue_end)
            output_control(t.toolcall_end)
        output_control(t.toolcalls_end)

    def write_tool_responses(  # jinja 109-112, 136-181, 286-288
        self, out: Out, messages: list[JSON], roles: list[JSON], start: int
    ) -> None:
        t = self.tokens
        end = run_end(roles, start)
        order: Sequence[int] = range(start, end)
        if start > 0 and roles[start - 1] == "assistant":
            order = in_call_order(messages, order, tool_call_ids(messages[start - 1].get("tool_calls") or []))
        out.control(t.tool)
        for k in order:
            out.message = k
            content = messages[k].get("content", MISSING)
            if isinstance(content, str):
                out.control(t.toolresponse_begin)
                out.content(content)
                out.control(t.toolresponse_end)
            else:
                self.write_tool_response(out, k, content)
        out.message = end - 1
        out.control(t.hy_end)

    def write_tool_response(self, out: Out, i: int, content: JSON) -> None:  # jinja 113-133
        t = self.tokens
        first = content[0] if isinstance(content, (list, tuple)) and content else MISSING
        if field(first, "type") == "tool_reference":
            out.control(t.toolresponse_begin + "<tools>\n")
            for reference in content:
                self.write_referenced_tools(out, field(reference, "name"))
            out.control("</tools>" + t.toolresponse_end)
        elif field(first, "output") is not MISSING:
            for k, part in enumerate(content):
                out.control(t.toolresponse_begin)
                out.content(shown(field(part, "output"), "messages", i, "content", k, "output"))
                out.control(t.toolresponse_end)
        else:
            out.control(t.toolresponse_begin)
            out.content(content_to_text(content, "messages", i, "content"))
            out.control(t.toolresponse_end)

    def write_referenced_tools(self, out: Out, name: JSON) -> None:  # jinja 117-122
        for k, tool in enumerate(each(self.tools, "tools")):
            function = function_of(tool)
            if field(function, "name") == name:
                out.content(tool_to_json(function, k))  # an object: the system block has printed it or its like
                out.control("\n")

    def write_generation_prompt(self, out: Out, effort: str) -> None:  # jinja 303-309
        t = self.tokens
        out.control(t.assistant + t.think_begin)
        if effort == "no_think":
            out.control(t.think_end)

    def preserves_thinking(self) -> JSON:  # jinja 24-30
        """The option, or what it is where it was left out."""
        return bool(self.tools) if self.preserved_thinking is MISSING else self.preserved_thinking

    def first_rewritten(self, messages: list[JSON], roles: list[JSON], start: int) -> tuple[int, str]:
        """See the base class."""
        shows_none = self.reasoning_effort == "no_think" and self.fallback_strategy != RETRY
        was_prefill = self.raw_last_assistant and roles[start - 1] == "assistant"
        if "user" in roles[start:] and not shows_none and not self.preserves_thinking():
            for i in range(last_index(roles[:start], "user") + 1, start):
                shown_so_far = i < start - 1 or not was_prefill or messages[i].get("tool_calls")
                if roles[i] == "assistant" and reasoning_of(messages[i]) and shown_so_far:
                    return i, "reasoning before the last user message is dropped"
        if was_prefill:
            return start - 1, "the assistant's last message is closed, as it is no longer a prefill"
        return run_joined(roles, start)

    def as_sampled(self, messages: list[JSON], roles: list[JSON], i: int) -> Hy4:
        """See the base class. A prefill was not written by the model."""
        if self.raw_last_assistant:
            words = "raw_last_assistant leaves the turn open that the model finished, but must be left out for samples"
            raise InputError(words, "raw_last_assistant")
        return self


def checked_effort(effort: JSON) -> str:  # jinja 32-40
    if effort == "high" or effort == "no_think":
        return str(effort)
    if effort is not None and not isinstance(effort, str):
        raise wrong(effort, "a string", "reasoning_effort")
    raise TemplateError(f"reasoning_effort error : {effort}, should be no_think/high", "reasoning_effort")


def reasoning_of(message: dict[str, JSON]) -> str:  # jinja 233-238
    """The first of the two fields that holds a text which is not empty."""
    reasoning = message.get("reasoning")
    if isinstance(reasoning, str) and reasoning:
        return reasoning
    reasoning = message.get("reasoning_content")
    return reasoning if isinstance(reasoning, str) else ""


def function_of(tool: JSON) -> JSON:  # jinja 89, 118, 261
    """What a tool definition or a tool call holds under `function`, else itself."""
    return tool["function"] if isinstance(tool, dict) and "function" in tool else tool


def path_of_function(tool: JSON, *path: Part) -> tuple[Part, ...]:
    """The path of what `function_of` finds in the tool at a path."""
    return (*path, "function") if isinstance(tool, dict) and "function" in tool else path


def tool_to_json(tool: dict[str, JSON], k: int) -> str:  # jinja 50-61
    """tools[k] as JSON, but for its names, which are not escaped."""
    fields = []
    for key, value in tool.items():
        if key != "defer_loading" and key != "strict":
            fields.append(f'"{key}": {to_json(value, "tools", k)}')
    return "{" + ", ".join(fields) + "}"


def content_to_text(content: JSON, *path: Part) -> str:  # jinja 63-81
    """A content as text: strings as they are, the text of parts, nothing for null, Python's str() for the rest."""
    if isinstance(content, str):
        return content
    if isinstance(content, (list, tuple)):
        return "".join([part_to_text(part, *path, k) for k, part in enumerate(content)])
    return "" if content is None else shown(content, *path)


def part_to_text(part: JSON, *path: Part) -> str:  # jinja 68-74
    if isinstance(part, dict) and part.get("type") == "text":
        return shown(part.get("text", MISSING), *path, "text")
    return shown(part, *path)


def tool_call_ids(tool_calls: list[JSON]) -> list[JSON]:  # jinja 248-257
    """The ids of a turn's calls in their order; none at all where one has no id."""
    ids = [tool_call.get("id") or tool_call.get("tool_call_id") for tool_call in tool_calls]
    return ids if all(ids) else []


def in_call_order(messages: list[JSON], run: Sequence[int], ids: list[JSON]) -> Sequence[int]:  # jinja 158-177
    """The responses to each id, if each has exactly one and none is left over, else as they came; indexes of messages.

    Two calls of one id find the same response twice.
    """
    if len(ids) != len(run):
        return run
    response_ids = [messages[k].get("tool_call_id", messages[k].get("id", MISSING)) for k in run]
    if response_ids == ids and is_distinct_text(ids):
        return run
    found = positions(response_ids, ids)
    return [run[hits[0]] for hits in found] if all(len(hits) == 1 for hits in found) else run
