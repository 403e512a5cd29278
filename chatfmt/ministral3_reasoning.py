"""Ministral 3 Reasoning, after `golden/ministral3_reasoning/template.jinja`.

The model is mistralai/Ministral-3-14B-Reasoning-2512, in its first revision. The original prints no newline between
turns; here each stands on a line of its own:

    <s>[SYSTEM_PROMPT]Be brief.[/SYSTEM_PROMPT]
    [AVAILABLE_TOOLS][{"type": "function", "function": {"name": "weather"}}][/AVAILABLE_TOOLS]
    [INST]Weather in Oslo?[/INST]
    [THINK]I look it up.[/THINK][TOOL_CALLS]weather[ARGS]{"city": "Oslo"}</s>
    [TOOL_RESULTS]4 °C[/TOOL_RESULTS]

Without a system message there is a default one. Reasoning is a chunk of the content; reasoning fields are not read.
Ids are not written, and tool responses not reordered. There is no generation prompt.

Whose text: the model writes all of an assistant turn, `[THINK]`, `[TOOL_CALLS]` and the token at its end too. In a
system message the think tags are the template's. The begin token, the default system message and the tools belong to
no message.
"""

from __future__ import annotations

from functools import cached_property

from ._base import Block, ChatFormat, Out, recorded
from ._errors import ChatFormatError, InputError, TemplateError
from ._values import MISSING, field, place, roles_of, sequence, shown, size, to_json, wrong, wrong_call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._values import JSON, Roles

DEFAULT_SYSTEM_MESSAGE = (  # jinja 2
    "# HOW YOU SHOULD THINK AND ANSWER\n"
    "\n"
    "First draft your thinking process (inner monologue) until you arrive at a response. Format your response using "
    "Markdown, and use LaTeX for any mathematical equations. Write both your thoughts and the response in the same "
    "language as the input.\n"
    "\n"
    "Your thinking process must follow the template below:[THINK]Your thoughts or/and draft, like working through an "
    "exercise on scratch paper. Be as casual and as long as you want until you are confident to generate the response "
    "to the user.[/THINK]Here, provide a self-contained response."
)

CONTROL_TOKENS = (
    *("[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[INST]", "[/INST]", "[IMG]"),
    *("[THINK]", "[/THINK]", "[TOOL_CALLS]", "[ARGS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]"),
)


class Ministral3Reasoning(ChatFormat):
    """Renders conversations for Ministral 3 Reasoning. `add_generation_prompt` changes nothing, as in the original.

    tools: definitions, printed whole. bos_token, eos_token: what opens the prompt and ends a turn of the assistant.
    """

    name = "ministral3_reasoning"
    model = "mistralai/Ministral-3-14B-Reasoning-2512"
    default_generation_prompt = None
    control_tokens = ("<s>", "</s>", *CONTROL_TOKENS)

    tools: JSON
    bos_token: JSON
    eos_token: JSON

    def __init__(self, *, tools: JSON = None, bos_token: JSON = "<s>", eos_token: JSON = "</s>") -> None:
        vars(self).update(tools=tools, bos_token=bos_token, eos_token=eos_token)
        if bos_token != "<s>" or eos_token != "</s>":
            tokens = [token for token in (bos_token, eos_token) if isinstance(token, str) and token]
            vars(self).update(control_tokens=(*tokens, *CONTROL_TOKENS))

    def write(  # jinja 55-58, 83, 119, 123, 125-126
        self, out: Out, messages: JSON, add_generation_prompt: JSON, roles: Roles = None, start: int = 0
    ) -> None:
        if not start:
            self.write_beginning(out, messages)
        if roles is None:
            roles = roles_of(messages)
        first = max(start, 1 if roles[0] == "system" else 0)
        check_alternation(messages, roles, first)
        for i, message in enumerate(messages[first:], first):
            out.message = i
            role = roles[i]
            if role == "user":
                self.write_user(out, i, message)
            elif role == "assistant":
                self.write_assistant(out, i, message)
            elif role == "tool":
                self.write_tool_response(out, i, message)
            else:
                raise unsupported_role(message, i)
        out.message = None

    def write_beginning(self, out: Out, messages: JSON) -> None:  # jinja 5-9, 25-38, 41
        out.control(shown(self.bos_token, "bos_token"))
        if not sequence(messages, "messages"):
            raise InputError("messages is empty, but must hold at least one message", "messages")
        if field(messages[0], "role") == "system":
            self.write_system(out, messages[0])
        else:
            out.control("[SYSTEM_PROMPT]" + DEFAULT_SYSTEM_MESSAGE + "[/SYSTEM_PROMPT]")
        if self.tools is not None and size(self.tools, "tools") > 0:
            out.block(self.tools_block)

    def write_system(self, out: Out, message: dict[str, JSON]) -> None:  # jinja 10-24
        out.message = 0
        out.control("[SYSTEM_PROMPT]")
        content = message.get("content", MISSING)
        if isinstance(content, str):
            out.content(content)
        else:
            for k, block in enumerate(chunks_of(content, 0)):
                kind = field(block, "type")
                if kind == "text":
                    out.content(shown(block.get("text", MISSING), "messages", 0, "content", k, "text"))
                elif kind == "thinking":
                    thinking = block.get("thinking", MISSING)
                    if not isinstance(thinking, str):
                        raise wrong(thinking, "a string", "messages", 0, "content", k, "thinking")
                    out.control("[THINK]")
                    out.content(thinking)
                    out.control("[/THINK]")
                else:
                    words = "Only text and thinking chunks are supported in system message contents."
                    raise TemplateError(words, place_of_chunk(content, 0, k))
        out.control("[/SYSTEM_PROMPT]")
        out.message = None

    @cached_property
    def tools_block(self) -> Block:
        """What the tools print, written once per object."""
        return recorded(self.write_tools)

    def write_tools(self, out: Out) -> None:  # jinja 39-40
        out.control("[AVAILABLE_TOOLS]")
        out.content(to_json(self.tools, "tools"))
        out.control("[/AVAILABLE_TOOLS]")

    def write_user(self, out: Out, i: int, message: dict[str, JSON]) -> None:  # jinja 59-80
        content = message.get("content", MISSING)
        if isinstance(content, str):
            out.control("[INST]")
            out.content(content)
            out.control("[/INST]")
            return
        chunks = chunks_of(content, i)
        if len(chunks) == 0:
            words = "User message must have a string or a list of chunks in content"
            raise TemplateError(words, place("messages", i, "content"))
        out.control("[INST]")
        for k, block in sorted_by_type(chunks, i) if len(chunks) == 2 else enumerate(chunks):
            kind = field(block, "type")
            if kind == "text":
                out.content(shown(block.get("text", MISSING), "messages", i, "content", k, "text"))
            elif kind in ("image", "image_url"):
                out.control("[IMG]")
            else:
                words = "Only text, image and image_url chunks are supported in user message content."
                raise TemplateError(words, place_of_chunk(content, i, k))
        out.control("[/INST]")

    def write_assistant(self, out: Out, i: int, message: dict[str, JSON]) -> None:  # jinja 84-116
        content = message.get("content", MISSING)
        is_calling = has_tool_calls(message, i)  # the original asks for the content first, but both come to the same
        if not is_calling and (content is None or len(chunks_of(content, i)) == 0):
            words = "Assistant message must have a string or a list of chunks in content or a list of tool calls."
            raise TemplateError(words, place("messages", i, "content"))
        if isinstance(content, str):
            out.output(content)
        else:
            self.write_chunks(out, i, content)
        if is_calling:
            self.write_tool_calls(out, i, message["tool_calls"])
        eos_token = self.eos_token
        out.output_control(eos_token if isinstance(eos_token, str) else shown(eos_token, "eos_token"))

    def write_chunks(self, out: Out, i: int, content: JSON) -> None:  # jinja 90-100
        for k, block in enumerate(chunks_of(content, i)):
            kind = field(block, "type")
            if kind == "text":
                out.output(shown(block.get("text", MISSING), "messages", i, "content", k, "text"))
            elif kind == "thinking":
                thinking = block.get("thinking", MISSING)
                if not isinstance(thinking, str):
                    raise wrong(thinking, "a string", "messages", i, "content", k, "thinking")
                out.output_control("[THINK]")
                out.output(thinking)
                out.output_control("[/THINK]")
            else:
                words = "Only text and thinking chunks are supported in assistant message contents."
                raise TemplateError(words, place_of_chunk(content, i, k))

    def write_tool_calls(self, out: Out, i: int, tool_calls: JSON) -> None:  # jinja 103-113
        output, output_control = out.output, out.output_control
        for j, tool in enumerate(tool_calls):
            try:
                function = tool["function"]
                name, arguments = function["name"], function["arguments"]
            except (KeyError, TypeError):
                raise wrong_call(tool_calls, i, j, "name", "arguments") from None
            is_text = isinstance(arguments, str)
            if not is_text:
                arguments = to_json(arguments, "messages", i, "tool_calls", j)
            if not isinstance(name, str):
                raise wrong(name, "a string", "messages", i, "tool_calls", j, "function", "name")
            output_control("[TOOL_CALLS]")
            output(name if is_text else html_escaped(name))
            output_control("[ARGS]" if arguments else "[ARGS]{}")
            output(arguments)

    def write_tool_response(self, out: Out, i: int, message: dict[str, JSON]) -> None:  # jinja 120
        content = message.get("content", MISSING)
        out.control("[TOOL_RESULTS]")
        out.content(content if isinstance(content, str) else shown(content, "messages", i, "content"))
        out.control("[/TOOL_RESULTS]")

    def first_rewritten(self, messages: list[JSON], roles: list[JSON], start: int) -> tuple[int, str]:
        """See the base class. Nothing ever changes here."""
        return start, ""


def check_alternation(messages: JSON, roles: list[JSON], first: int) -> None:  # jinja 44-52
    """Raises where a message is out of turn, before any of them is written."""
    is_users_turn = True
    for i in range(first - 1, -1, -1):  # where a beginning was written before, it alternates: its last turn tells
        if roles[i] == "user" or (roles[i] == "assistant" and not has_tool_calls(messages[i], i)):
            is_users_turn = roles[i] == "assistant"
            break
    for i in range(first, len(roles)):
        role = roles[i]
        if role == "user" or (role == "assistant" and not has_tool_calls(messages[i], i)):
            if (role == "user") != is_users_turn:
                words = (
                    "After the optional system message, conversation roles must alternate user and assistant roles "
                    "except for tool calls and results."
                )
                raise TemplateError(words, place("messages", i, "role"))
            is_users_turn = not is_users_turn


def has_tool_calls(message: dict[str, JSON], i: int) -> bool:  # jinja 102
    tool_calls = message.get("tool_calls")
    if isinstance(tool_calls, list):
        return len(tool_calls) > 0
    return tool_calls is not None and size(tool_calls, "messages", i, "tool_calls") > 0


def chunks_of(content: JSON, i: int) -> JSON:
    """What a content that is no string is looped over: chunks, nothing if it is missing, keys of an object."""
    if isinstance(content, (list, dict, str, tuple)) or content is MISSING:
        return content
    raise wrong(content, "a string or a list of chunks", "messages", i, "content")


def place_of_chunk(content: JSON, i: int, k: int) -> str:
    """Where a type that is not supported stands: the content or the chunk themselves, if they are of another type."""
    if not isinstance(content, (list, tuple)):
        return place("messages", i, "content")
    chunk = place("messages", i, "content", k)
    return f"{chunk}.type" if isinstance(content[k], dict) else chunk


def sorted_by_type(content: JSON, i: int) -> list[tuple[int, JSON]]:  # jinja 64
    """The items of a content with their positions, in the order of their types.

    As Jinja does it, types are compared as lists of one: equal values of any type, two missing ones too, need no order.
    """

    def key(item: tuple[int, JSON]) -> list[JSON]:
        kind = field(item[1], "type")
        return [kind.lower() if isinstance(kind, str) else kind]

    try:
        return sorted(enumerate(content), key=key)
    except TypeError:
        kinds = [field(chunk, "type") for chunk in content]
        k = 1 if isinstance(kinds[0], str) else 0
        if not isinstance(content[k], dict):
            raise wrong(content[k], "an object", "messages", i, "content", k) from None
        raise wrong(kinds[k], "a string", "messages", i, "content", k, "type") from None


def unsupported_role(message: JSON, i: int) -> ChatFormatError:  # jinja 124
    """The error about a message of none of the three roles."""
    if not isinstance(message, dict):
        return wrong(message, "an object", "messages", i)
    role = message.get("role", MISSING)
    if not isinstance(role, str):
        return wrong(role, "a string", "messages", i, "role")
    words = f"Only user, assistant and tool roles are supported, got {role}."
    return TemplateError(words, place("messages", i, "role"))


HTML_ESCAPES = str.maketrans({"&": "&amp;", ">": "&gt;", "<": "&lt;", "'": "&#39;", '"': "&#34;"})


def html_escaped(name: str) -> str:  # jinja 108
    """What becomes of a string when Jinja adds arguments to it that are marked as safe HTML."""
    return name if name.isidentifier() else name.translate(HTML_ESCAPES)
