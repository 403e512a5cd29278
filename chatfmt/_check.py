"""What the originals print without complaint, and wrong: the findings about a conversation."""

from __future__ import annotations

from collections import Counter, deque, namedtuple

from . import hy4, solar_open2
from ._base import ChatFormat, checked_chat
from ._errors import ChatFormatError, TemplateError
from ._fields import fields_of, introductions
from ._pieces import injections
from ._values import MISSING, _found, field, last_index, place, roles_of, run_end, to_json
from .domyn_small import DomynSmall
from .hy4 import Hy4
from .ministral3_reasoning import Ministral3Reasoning, html_escaped
from .solar_open2 import SolarOpen2

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ._values import JSON, Part

    Message = dict[str, JSON]

ROLES = ("system", "user", "assistant", "tool")

SWITCHES = ("thinking on", "thinking off")

CODES = {
    "refused": "the original refuses the conversation, in these words",
    "fails": "the original fails on the conversation",
    "not-a-list": "messages or tools are an object or a text, and are printed all the same",
    "lost-message": "a message is not printed",
    "lost-content": "a content, or a part of one, is not printed",
    "lost-reasoning": "reasoning is not printed, where it should be",
    "lost-call": "a call stands where the template does not look for it",
    "lost-name": "the name of a message is not printed, and says more than the call that the message answers",
    "lost-result": "the result of a call is not printed",
    "lost-tool-field": "a field of a tool's definition is not printed",
    "python-text": "a value is printed as Python prints it, such as None",
    "double-encoded": "arguments that are JSON text are encoded as JSON once more",
    "wrong-arguments": "arguments are printed that are no object",
    "wrong-name": "the name of a call is no string",
    "html-escaped": "the name of a call is printed with HTML entities",
    "invalid-json": "what should be JSON is printed, and is none",
    "swapped-results": "results stand in another order than their calls",
    "repeated-result": "a result is printed more than once",
    "second-result": "a call has more than one result",
    "orphan-result": "a result answers no call",
    "unanswered-call": "a call has no result, though the conversation goes on",
    "empty-heading": "a heading is printed with nothing below it",
    "unknown-option": "an option has a value that the template does not know",
    "unknown-role": "a role is printed that the template does not know",
    "thinking-words": "words of a sentence are taken for a switch",
    "moved-system": "a system message is printed before messages that came before it",
    "moved-image": "an image is printed before a text that came before it",
    "repeated-tools": "the tools are printed more than once",
    "no-generation-prompt": "a generation prompt was asked for, and none is printed",
    "wrong-tool": "a tool's definition is printed in another shape than the model knows",
    "half-character": "a text holds a lone surrogate, so that the prompt has no UTF-8",
    "control-token": "a text of the caller's holds a control token",
}


class Finding(namedtuple("Finding", ("path", "code", "sentence", "severity"))):
    """Something about a conversation that its prompt shows wrong.

    path: where, such as `messages[3].content`, or the name of an option; "" for none. code: which kind, one of CODES.
    sentence: what was found and what is needed, for a person. severity: "error" if the prompt is wrong or there is
    none: something is lost, doubled, swapped or printed as Python; "warning" if it may be meant.
    """

    __slots__ = ()
    if TYPE_CHECKING:
        path: str
        code: str
        sentence: str
        severity: str


class _Report:
    """Collects findings."""

    def __init__(self) -> None:
        self.found: list[tuple[int, Finding]] = []  # each with the index of its message, or -1

    def error(self, code: str, words: str, *path: Part) -> None:
        self.add("error", code, words, *path)

    def warning(self, code: str, words: str, *path: Part) -> None:
        self.add("warning", code, words, *path)

    def add(self, severity: str, code: str, words: str, *path: Part) -> None:
        index = path[1] if path[0] == "messages" and len(path) > 1 else -1
        self.put(int(index), Finding(place(*path), code, f"{place(*path)} {words}", severity))

    def put(self, index: int, finding: Finding) -> None:
        self.found.append((index, finding))

    def python_text(self, value: JSON, *path: Part) -> None:
        """About a value that is printed whatever it is. A number reads as it was meant."""
        if is_python_text(value):
            printed = value if value is None or isinstance(value, bool) else "Python writes it"
            self.error("python-text", f"is {_found(value)}, and is printed as {printed}, but must be a string", *path)

    def json(self, value: JSON, *path: Part) -> None:
        """About a value that is printed as JSON."""
        if not is_json(value):
            self.error("invalid-json", "holds NaN or Infinity, which is no JSON, but must hold other numbers", *path)

    def in_order(self) -> list[Finding]:
        return [finding for _, finding in sorted(self.found, key=lambda item: item[0])]


def check(
    chat: ChatFormat,
    messages: JSON,
    *,
    add_generation_prompt: JSON = MISSING,
    special_tokens: Collection[str] = (),
    trust_assistant: bool = False,
) -> list[Finding]:
    """What the prompt of a conversation shows wrong, in the order of the conversation; nothing for a sound one.

    Takes what `pieces` takes, and raises nothing for JSON values: if the conversation has no prompt, that is the one
    finding. Options and tools come first. What a template means to leave out, such as reasoning from before the last
    user message in Solar and Hy4, is no finding.
    """
    introductions(checked_chat(chat))  # a TypeError for an object of another copy of this package
    try:
        tokens = injections(
            chat,
            messages,
            add_generation_prompt=add_generation_prompt,
            special_tokens=special_tokens,
            trust_assistant=trust_assistant,
        )
    except ChatFormatError as error:
        code = "refused" if isinstance(error, TemplateError) else "fails"
        return [Finding(error.path or "", code, str(error), "error")]
    report = _Report()
    check_characters(report, chat, messages, add_generation_prompt)
    if isinstance(messages, (list, tuple)):
        check_conversation(report, chat, messages, roles_of(messages), add_generation_prompt)
    else:
        words = f"is {_found(messages)}, and is printed as messages without role, but must be a list of messages"
        report.error("not-a-list", words, "messages")
        check_conversation(report, chat, [], [], add_generation_prompt)
    for token, index, path, *_ in tokens:
        words = f"{path} holds the control token {token}, which a tokenizer may take for the template's own"
        report.put(-1 if index is None else index, Finding(path, "control-token", words, "warning"))
    return report.in_order()


def check_characters(report: _Report, chat: ChatFormat, messages: JSON, add_generation_prompt: JSON) -> None:
    """About lone surrogates, which no tokenizer takes."""
    segments = chat.segments(messages, add_generation_prompt=add_generation_prompt)
    try:
        "".join([segment.text for segment in segments]).encode()
    except UnicodeEncodeError:
        for segment, (_, path) in zip(segments, fields_of(chat, messages, segments)):
            if any("\ud800" <= char <= "\udfff" for char in segment.text):
                where = path or ("bos_token" if segment.text == getattr(chat, "bos_token", None) else "eos_token")
                words = "holds half a character (a lone surrogate), which no tokenizer takes, but must hold it whole"
                index = segment.message if path.startswith("messages") and segment.message is not None else -1
                report.put(index, Finding(where, "half-character", f"{where} {words}", "error"))


def check_conversation(
    report: _Report, chat: ChatFormat, messages: Sequence[JSON], roles: list[JSON], add_generation_prompt: JSON
) -> None:
    if isinstance(chat, SolarOpen2):
        check_solar(report, chat, messages, roles)
    elif isinstance(chat, Hy4):
        check_hy4(report, chat, messages, roles)
    elif isinstance(chat, Ministral3Reasoning):
        check_ministral(report, chat, messages, roles)
    elif isinstance(chat, DomynSmall):
        check_domyn(report, chat, messages, roles)
    check_generation_prompt(report, chat, roles, add_generation_prompt)
    for i, message in enumerate(messages):
        if roles[i] in ROLES:
            check_unread(report, message, i)
    _Results(report, chat, messages, roles).check()


# --- What the templates share ----------------------------------------------------------------------------------------


def is_python_text(value: JSON) -> bool:
    """Whether what Python prints for a value is not what anybody would write for it."""
    return value is None or isinstance(value, (bool, list, dict, tuple))


def is_json(value: JSON) -> bool:
    """Whether a value that can be printed as JSON is JSON, too: without NaN and Infinity."""
    from json import JSONEncoder

    try:
        JSONEncoder(allow_nan=False).encode(value)
    except ValueError:
        return False
    except (TypeError, RecursionError):  # the template has printed it, so that is not what it prints
        return True
    return True


def quoted(value: JSON) -> str:
    """A value for a sentence."""
    return to_json(value[:80]) if isinstance(value, str) else _found(value)


def check_flag(report: _Report, value: JSON, name: str) -> None:
    """About an option that is true or false."""
    if isinstance(value, str) and value:
        report.warning(
            "unknown-option", f"is the string {quoted(value)}, and counts as true, but must be a boolean", name
        )


def check_generation_prompt(report: _Report, chat: ChatFormat, roles: list[JSON], add_generation_prompt: JSON) -> None:
    check_flag(report, add_generation_prompt, "add_generation_prompt")
    if add_generation_prompt and roles and roles[-1] == "assistant":
        closes = isinstance(chat, Ministral3Reasoning)
        if closes or (isinstance(chat, Hy4) and not chat.raw_last_assistant and chat.fallback_strategy != hy4.RETRY):
            words = "opens no turn behind a message of the assistant, which stands closed: the last must be another's"
            report.warning("no-generation-prompt", words, "add_generation_prompt")


def check_role(report: _Report, message: JSON, i: int) -> bool:
    """Whether a message is of a role that the template prints; all others vanish."""
    role = field(message, "role")
    if role in ROLES:
        return True
    if not isinstance(message, dict):
        report.error("lost-message", f"is {_found(message)}, and is not printed, but must be an object", "messages", i)
    else:
        words = f"is {quoted(role)}, so that the message is not printed, but must be one of {', '.join(ROLES)}"
        report.error("lost-message", words, "messages", i, "role")
    return False


def check_unread(report: _Report, message: Message, i: int) -> None:
    """About what clients put where no template looks."""
    role = message["role"]
    for key in ("refusal", "audio"):
        if message.get(key):
            words = "is not printed, but must be given as the content to be seen"
            report.error("lost-content", words, "messages", i, key)
    reasons = any(message.get(key) for key in ("reasoning", "reasoning_content", "thinking"))
    for key in ("reasoning_details", "thinking_blocks"):
        if message.get(key) and not reasons:
            report.error(
                "lost-reasoning", "is not printed, but must be given as reasoning to be seen", "messages", i, key
            )
    for key in ("function_call", "tool_calls"):
        if message.get(key) and (key == "function_call" or role != "assistant"):
            words = "is not printed, but must stand in tool_calls of an assistant's message"
            report.error("lost-call", words, "messages", i, key)
    if role != "tool" and message.get("name"):
        words = "is not printed, but must be part of the content to be seen"
        report.warning("lost-name", words, "messages", i, "name")


def check_reasoning(report: _Report, message: Message, i: int, printed: JSON, severity: str = "error") -> None:
    """About reasoning in other fields than the one that was printed."""
    for key in ("reasoning", "reasoning_content", "thinking"):
        value = message.get(key)
        if (value.strip() if isinstance(value, str) else value) and value != printed:
            kind = "" if isinstance(value, str) else f"is {_found(value)}, and "
            report.add(severity, "lost-reasoning", f"{kind}is not printed", "messages", i, key)
            return


# --- Solar Open2 -----------------------------------------------------------------------------------------------------


def check_solar(report: _Report, chat: SolarOpen2, messages: Sequence[JSON], roles: list[JSON]) -> None:
    check_solar_options(report, chat)
    for k, tool in enumerate(chat.tools or ()):
        check_beside_function(report, tool, k)
        report.json(tool["function"], "tools", k, "function")
        if not isinstance(tool["function"], dict):
            words = f"is {_found(tool['function'])}, and is printed, but must be an object"
            report.error("wrong-tool", words, "tools", k, "function")
    last_user = last_index(roles, "user")
    first = next((i for i, role in enumerate(roles) if role in ("user", "assistant", "tool")), len(roles))
    for i, message in enumerate(messages):
        if not check_role(report, message, i):
            continue
        if roles[i] == "system":
            report.python_text(message.get("content", ""), "messages", i, "content")
            if i > first:
                words = "is a system message behind other messages, and is printed before them, but must come first"
                report.warning("moved-system", words, "messages", i)
        elif roles[i] == "assistant":
            report.python_text(message.get("content") or "", "messages", i, "content")
            option = chat.think_render_option
            if option == "preserved" or (option == "interleaved" and i > last_user):
                check_reasoning(report, message, i, message.get(solar_open2.reasoning_key(message)))
            for j, call in enumerate(message.get("tool_calls") or ()):
                arguments = call["function"].get("arguments")
                report.json(arguments, "messages", i, "tool_calls", j, "function", "arguments")


def check_solar_options(report: _Report, chat: SolarOpen2) -> None:
    effort, option = chat.reasoning_effort, chat.think_render_option
    if effort not in (*solar_open2.THINKING_EFFORTS, "none"):
        words = f'is {quoted(effort)}, which switches thinking off, but must be "medium", "high" or "xhigh", or "none"'
        report.warning("unknown-option", words, "reasoning_effort")
    if option not in ("interleaved", "preserved"):
        words = f'is {quoted(option)}, which drops all think tags, but must be "interleaved" or "preserved"'
        report.error("unknown-option", words, "think_render_option")
    check_flag(report, chat.provider_system_prompt, "provider_system_prompt")
    response_format = chat.response_format
    if response_format:
        kind = field(response_format, "type")
        if kind == "json_schema":
            schema = response_format["json_schema"]["schema"]
            report.json(schema, "response_format", "json_schema", "schema")
        elif kind != "json_object":
            words = "prints a heading with nothing below it, but must be of type json_schema or json_object, or None"
            report.warning("empty-heading", words, "response_format")


def check_beside_function(report: _Report, tool: JSON, k: int) -> None:
    """About fields of a tool's wrapper, of which only `function` is printed."""
    if "function" in tool:
        for key, value in tool.items():
            if key not in ("type", "function") and value is not None:
                words = "is not printed, but must stand in function to be seen"
                report.warning("lost-tool-field", words, "tools", k, key)


# --- Hy4 -------------------------------------------------------------------------------------------------------------


def check_hy4(report: _Report, chat: Hy4, messages: Sequence[JSON], roles: list[JSON]) -> None:
    check_hy4_options(report, chat)
    check_hy4_tools(report, chat)
    retries = chat.fallback_strategy == hy4.RETRY
    thinks, preserved = retries or chat.reasoning_effort != "no_think", chat.preserves_thinking()
    last_user = last_index(roles, "user")
    for i, message in enumerate(messages):
        role = roles[i]
        if not isinstance(message, dict):
            words = f"is {_found(message)}, and an empty turn is printed for it, but must be an object"
            report.error("lost-message", words, "messages", i)
            continue
        if role == "tool":
            check_hy4_result(report, chat, message.get("content"), i)
            continue
        check_hy4_role(report, role, i)
        check_hy4_content(report, message.get("content"), i)
        if role == "assistant":
            if thinks and (preserved or i > last_user):
                is_prefill = i == len(roles) - 1 and chat.raw_last_assistant and not message.get("tool_calls")
                check_reasoning(report, message, i, None if is_prefill else hy4.reasoning_of(message))
            for j, call in enumerate(message.get("tool_calls") or ()):
                check_hy4_call(report, call, i, j)


def check_hy4_options(report: _Report, chat: Hy4) -> None:
    if chat.fallback_strategy not in (None, hy4.RETRY):
        words = f'is {quoted(chat.fallback_strategy)}, which does nothing, but must be "{hy4.RETRY}" or None'
        report.warning("unknown-option", words, "fallback_strategy")
    check_flag(report, chat.preserved_thinking, "preserved_thinking")
    check_flag(report, chat.raw_last_assistant, "raw_last_assistant")


def check_hy4_tools(report: _Report, chat: Hy4) -> None:
    functions = [hy4.function_of(tool) for tool in chat.tools or ()]
    if functions and all(field(function, "defer_loading") for function in functions):
        report.warning("empty-heading", "are all deferred, and an empty list of tools is printed", "tools")
    for k, function in enumerate(functions):
        check_beside_function(report, chat.tools[k], k)
        if field(function, "defer_loading"):  # not printed, but where a result refers to it
            continue
        path = hy4.path_of_function(chat.tools[k], "tools", k)
        printed = {key: value for key, value in function.items() if key not in ("strict", "defer_loading")}
        report.json(printed, *path)
        if any(to_json(key) != f'"{key}"' for key in printed):
            words = "has a name that is not escaped, so that the definition is no JSON, but must have none with quotes"
            report.error("invalid-json", words, *path)
        if function is chat.tools[k] and "type" in printed:
            words = "is printed with its type, but must stand under function, or have no type"
            report.warning("wrong-tool", words, *path)


def check_hy4_role(report: _Report, role: JSON, i: int) -> None:
    if role in ROLES:
        return
    if is_python_text(role):
        report.python_text(role, "messages", i, "role")
    else:
        words = f"is {quoted(role)}, and is printed, but must be one of {', '.join(ROLES)}"
        severity = "warning" if isinstance(role, str) else "error"
        report.add(severity, "unknown-role", words, "messages", i, "role")


def check_hy4_content(report: _Report, content: JSON, i: int) -> None:
    path = ("messages", i, "content")
    if not isinstance(content, (list, tuple)):
        report.python_text("" if content is None else content, *path)
        return
    for k, part in enumerate(content):
        if field(part, "type") == "text":
            report.python_text(part.get("text", ""), *path, k, "text")
        else:
            report.python_text(part, *path, k)


def check_hy4_result(report: _Report, chat: Hy4, content: JSON, i: int) -> None:
    first = content[0] if isinstance(content, (list, tuple)) and content else MISSING
    if field(first, "type") == "tool_reference":
        names = [field(hy4.function_of(tool), "name") for tool in chat.tools]
        for k, part in enumerate(content):
            if part is not None and (field(part, "type") != "tool_reference" or field(part, "name") not in names):
                words = "is not printed, but must be a tool_reference to one of the tools"
                report.error("lost-content", words, "messages", i, "content", k)
    elif field(first, "output") is not MISSING:
        for k, part in enumerate(content):
            output = field(part, "output")
            report.python_text(output, "messages", i, "content", k, "output")
            if part is not None and (output is MISSING or part.keys() - {"type", "output"}):
                words = "is not printed but for its output, and must hold nothing else"
                report.error("lost-content", words, "messages", i, "content", k)
    else:
        check_hy4_content(report, content, i)


def check_hy4_call(report: _Report, call: Message, i: int, j: int) -> None:
    path = hy4.path_of_function(call, "messages", i, "tool_calls", j)
    function = hy4.function_of(call)
    name = function.get("name", MISSING)
    if not isinstance(name, str):
        words = f"is {_found(name)}, and is printed as {str(name) or 'nothing'}, but must be a string"
        report.error("wrong-name", words, *path, "name")
    report.json(function["arguments"], *path, "arguments")


# --- Ministral 3 Reasoning -------------------------------------------------------------------------------------------


def check_ministral(report: _Report, chat: Ministral3Reasoning, messages: Sequence[JSON], roles: list[JSON]) -> None:
    report.python_text(chat.bos_token, "bos_token")
    if "assistant" in roles:
        report.python_text(chat.eos_token, "eos_token")
    check_whole_tools(report, chat.tools)
    for i, message in enumerate(messages):
        content = message.get("content", "")
        if roles[i] == "tool":
            report.python_text(content, "messages", i, "content")
        elif isinstance(content, (list, tuple)):
            for k, part in enumerate(content):
                if part["type"] == "text":
                    report.python_text(part.get("text", ""), "messages", i, "content", k, "text")
            kinds = [part["type"] for part in content]
            if kinds in (["text", "image"], ["text", "image_url"]):  # of a user: no other holds images
                words = "holds an image behind a text, which is printed before it, but must hold it first"
                report.warning("moved-image", words, "messages", i, "content")
        if roles[i] == "assistant":
            chunks = content if isinstance(content, (list, tuple)) else ()
            thoughts = [part["thinking"] for part in chunks if part["type"] == "thinking"]
            check_reasoning(report, message, i, "".join(thoughts))
            for j, call in enumerate(message.get("tool_calls") or ()):
                check_ministral_call(report, call["function"], i, j)


def check_ministral_call(report: _Report, function: Message, i: int, j: int) -> None:
    path = ("messages", i, "tool_calls", j, "function")
    name, arguments = function["name"], function["arguments"]
    if not isinstance(arguments, str):
        if html_escaped(name) != name:
            words = f"is {quoted(name)}, and is printed as {html_escaped(name)}, but must not hold any of & < > ' \""
            report.error("html-escaped", words, *path, "name")
        check_arguments(report, arguments, *path, "arguments")
    elif arguments and not is_object_text(arguments):
        words = "is printed as it is, and is no JSON object, but must be one"
        report.error("wrong-arguments", words, *path, "arguments")


def check_arguments(report: _Report, arguments: JSON, *path: Part) -> None:
    """About arguments that are printed as JSON."""
    report.json(arguments, *path)
    if not isinstance(arguments, dict):
        report.error("wrong-arguments", f"is {_found(arguments)}, and is printed, but must be an object", *path)


def is_object_text(text: str) -> bool:
    import json

    def refuse(word: str) -> None:
        raise ValueError

    try:
        return isinstance(json.loads(text, parse_constant=refuse), dict)
    except (ValueError, RecursionError):
        return False


def check_whole_tools(report: _Report, tools: JSON) -> None:
    """About tools that are printed whole, in Ministral and Domyn."""
    if not tools:
        return
    if not isinstance(tools, (list, tuple)):
        report.error("not-a-list", f"is {_found(tools)}, and is printed, but must be a list of definitions", "tools")
        return
    for k, tool in enumerate(tools):
        report.json(tool, "tools", k)
        if not isinstance(field(tool, "function"), dict):
            report.warning(
                "wrong-tool", "is printed without a wrapper, but must hold its definition under function", "tools", k
            )


# --- Domyn Small -----------------------------------------------------------------------------------------------------


def check_domyn(report: _Report, chat: DomynSmall, messages: Sequence[JSON], roles: list[JSON]) -> None:
    check_flag(report, chat.enable_thinking, "enable_thinking")
    check_whole_tools(report, chat.tools)
    for i, message in enumerate(messages):
        if not check_role(report, message, i):
            continue
        if roles[i] == "system":
            content = message.get("content", "")
            report.python_text(content, "messages", i, "content")
            if isinstance(content, str):
                check_thinking_words(report, content, i)
            if chat.tools and i > roles.index("system"):
                words = (
                    "is another system message, and the tools are printed with it once more, but must be the only one"
                )
                report.warning("repeated-tools", words, "messages", i)
        elif roles[i] == "assistant":
            check_reasoning(report, message, i, None, "warning")
            tool_calls = message.get("tool_calls")
            if tool_calls:
                check_content_beside_calls(report, message.get("content"), i)
            for j, call in enumerate(tool_calls or ()):
                check_domyn_call(report, call["function"], i, j)


def check_content_beside_calls(report: _Report, content: JSON, i: int) -> None:
    if content and not (isinstance(content, str) and not content.strip()):
        words = "is not printed, since there are tool calls beside it, but must stand in a message before that one"
        report.error("lost-content", words, "messages", i, "content")


def check_domyn_call(report: _Report, function: Message, i: int, j: int) -> None:
    path = ("messages", i, "tool_calls", j, "function")
    name, arguments = function["name"], function["arguments"]
    if not isinstance(name, str):
        report.error("wrong-name", f"is {_found(name)}, and is printed as JSON, but must be a string", *path, "name")
    if isinstance(arguments, str):
        words = "is a string, and is encoded as JSON once more, but must be an object (decode the JSON text first)"
        report.error("double-encoded", words, *path, "arguments")
    else:
        check_arguments(report, arguments, *path, "arguments")


def check_thinking_words(report: _Report, content: str, i: int) -> None:
    """About the words that switch thinking on or off, and are cut out, in the middle of a sentence."""
    for words, effect in zip(SWITCHES, ("switches thinking on, and is cut out", "is cut out")):
        at = content.find(words)
        while at >= 0 and not is_in_sentence(content, at, at + len(words)):
            at = content.find(words, at + len(words))
        if at >= 0:
            said = f'says "{words}" in the middle of a sentence, which {effect}, but must say that apart from it'
            report.error("thinking-words", said, "messages", i, "content")


def is_in_sentence(text: str, start: int, end: int) -> bool:
    """Whether other words, but no switch, stand beside text[start:end], with nothing but blanks between."""
    while start > 0 and text[start - 1] in " \t":
        start -= 1
    while end < len(text) and text[end] in " \t":
        end += 1
    before = start > 0 and not text.endswith(SWITCHES, 0, start) and is_of_word(text[start - 1])
    return before or (end < len(text) and not text.startswith(SWITCHES, end) and is_of_word(text[end]))


def is_of_word(char: str) -> bool:
    return char.isalnum() or char in "_-'’"


# --- Results ---------------------------------------------------------------------------------------------------------


class _Call(namedtuple("_Call", ("number", "i", "j", "id", "name"))):
    """A call: which one of the conversation, its message, its place in it; None for an id or a name that is none."""

    __slots__ = ()
    if TYPE_CHECKING:
        number: int
        i: int
        j: int
        id: JSON
        name: JSON


class _Results:
    """Holds the results of tools against the calls that they answer, in the order in which they are printed.

    No template prints ids: to the model the first result is that of the first call.
    """

    def __init__(self, report: _Report, chat: ChatFormat, messages: Sequence[JSON], roles: list[JSON]) -> None:
        self.report, self.chat, self.messages, self.roles = report, chat, messages, roles
        self.calls: list[_Call] = []
        self.by_id: dict[
            JSON, deque[_Call]
        ] = {}  # the calls of an id in the last turn that has it, all but those taken
        self.turn: list[_Call] = []  # the calls of the last turn that has some
        self.open: dict[
            str | None, deque[_Call]
        ] = {}  # of that turn by name, and all under None; those taken may be in
        self.open_without_id: deque[_Call] = deque()
        self.taken: set[int] = set()  # the numbers of calls that a result was found for
        self.answered: set[int] = set()  # the numbers of calls that have a result
        self.highest = -1  # of those

    def check(self) -> None:
        for i, role in enumerate(self.roles):
            if role == "assistant":
                self.read_calls(self.messages[i].get("tool_calls") or (), i)
            elif role == "tool" and (i == 0 or self.roles[i - 1] != "tool"):
                self.check_run(range(i, run_end(self.roles, i)))
        last_answered = {call.i: call.number for call in self.calls if call.number in self.answered}
        self.check_unanswered(last_answered, max(last_index(self.roles, "user"), last_index(self.roles, "assistant")))

    def read_calls(self, tool_calls: Sequence[Message], i: int) -> None:
        if tool_calls:
            self.turn, self.open, self.open_without_id = [], {None: deque()}, deque()
        for j, tool_call in enumerate(tool_calls):
            id = tool_call.get("id") or tool_call.get(
                "tool_call_id"
            )  # as Hy4 looks for it; for the others it is one too
            call = _Call(len(self.calls), i, j, usable(id), field(hy4.function_of(tool_call), "name"))
            self.calls.append(call)
            self.turn.append(call)
            self.open[None].append(call)
            if isinstance(call.name, str):
                self.open.setdefault(call.name, deque()).append(call)
            if call.id is None:
                self.open_without_id.append(call)
            else:
                if call.id not in self.by_id or self.by_id[call.id][0].i != i:
                    self.by_id[call.id] = deque()
                self.by_id[call.id].append(call)

    def result_id(self, k: int) -> JSON:
        message = self.messages[k]
        if isinstance(self.chat, Hy4):
            return usable(message.get("tool_call_id", message.get("id")))
        return usable(message.get("tool_call_id"))

    def printed_order(self, run: range) -> Sequence[int]:
        before = run.start - 1
        if before >= 0 and self.roles[before] == "assistant":
            tool_calls = self.messages[before].get("tool_calls") or []
            if isinstance(self.chat, SolarOpen2):
                return solar_open2.in_call_order(self.messages, run, tool_calls)  # type: ignore[arg-type]
            if isinstance(self.chat, Hy4):
                return hy4.in_call_order(self.messages, run, hy4.tool_call_ids(tool_calls))  # type: ignore[arg-type]
        return run

    def check_run(self, run: range) -> None:
        order = self.printed_order(run)
        counts = Counter(order)
        for k in run:
            if counts[k] > 1:
                words = f"is printed {counts[k]} times, since calls share its id: each call must have its own"
                self.report.error("repeated-result", words, "messages", k)
            elif not counts[k]:
                words = "is not printed, since calls share an id: each call must have its own"
                self.report.error("lost-result", words, "messages", k)
        if len(counts) < len(order):
            self.answered.update(call.number for call in self.turn)
        else:
            self.check_order(order)

    def check_order(self, order: Sequence[int]) -> None:
        """About results in the order in which they are printed."""
        answers = [self.call_of(k) for k in order]
        last = max([n for n, call in enumerate(answers) if call is not None], default=-1)
        for n, (k, call) in enumerate(zip(order, answers)):
            severity = "error" if n < last else "warning"  # whether a result behind it is taken for another call's
            name = self.messages[k].get("name")
            if name and (call is None or call.name != name):
                words = "is not printed, and is not the name of the call that it answers"
                self.report.warning("lost-name", words, "messages", k, "name")
            if call is None:
                words = "answers no call, but must hold the id of a call before it"
                self.report.add(severity, "orphan-result", words, "messages", k, "tool_call_id")
            elif call.number in self.answered:
                words = f"answers {self.place_of(call)}, which has a result already, but must be the only one"
                self.report.add(severity, "second-result", words, "messages", k, "tool_call_id")
            elif call.number < self.highest:
                words = f"answers {self.place_of(call)}, but is printed behind the result of a later call"
                self.report.error("swapped-results", words + ", and must be printed before it", "messages", k)
            if call is not None:
                self.answered.add(call.number)
                self.highest = max(self.highest, call.number)

    def call_of(self, k: int) -> _Call | None:
        """The call that a result answers, by its id; if that tells nothing, the first that is open and may be meant.

        Calls that share an id are answered one after another.
        """
        id = self.result_id(k)
        calls = self.by_id.get(id)
        if calls:
            call = calls.popleft() if len(calls) > 1 else calls[0]
        else:
            name = self.messages[k].get("name")
            is_named = isinstance(name, str) and name in self.open
            by_name = self.open.get(name if is_named else None, deque())
            found = None if id is None and is_named else self.first(self.open_without_id)
            if found is None and id is None:
                found = self.first(by_name)
            if found is None:
                return None
            call = found
        self.taken.add(call.number)
        return call

    def first(self, waiting: deque[_Call]) -> _Call | None:
        while waiting and waiting[0].number in self.taken:
            waiting.popleft()
        return waiting[0] if waiting else None

    def check_unanswered(self, last_answered: dict[int, int], goes_on: int) -> None:
        """About calls without a result. last_answered: by turn. goes_on: up to which message more follows."""
        for call in self.calls:
            if call.number not in self.answered and (call.i in last_answered or call.i < goes_on):
                shifts = call.number < last_answered.get(call.i, -1)
                words = "has no result, so that the next result is taken for its own" if shifts else "has no result"
                self.report.add(
                    "error" if shifts else "warning", "unanswered-call", words, "messages", call.i, "tool_calls", call.j
                )

    def place_of(self, call: _Call) -> str:
        return place("messages", call.i, "tool_calls", call.j)


def usable(id: JSON) -> JSON:
    """An id that can be looked up, else None."""
    return id if id and isinstance(id, (str, int, float)) else None
