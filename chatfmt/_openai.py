"""OpenAI's messages and tools, as clients send them, in the shape that a template reads."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from ._base import ChatFormat
from ._errors import InputError
from ._values import MISSING, field, place, run_end, to_json, too_deep, too_many_digits, wrong
from .domyn_small import DomynSmall
from .hy4 import Hy4
from .ministral3_reasoning import Ministral3Reasoning, html_escaped
from .solar_open2 import SolarOpen2

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from json import JSONDecoder
    from typing import Any, NoReturn, Union

    from ._values import JSON, Part

    Message = dict[str, JSON]
    Format = Union[type[ChatFormat], ChatFormat]

ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
REASONING_KEYS = ("reasoning", "reasoning_content", "thinking")  # the first two in the order in which templates look
REASONING_BLOCKS = (("reasoning_details", "text"), ("thinking_blocks", "thinking"))
TEXT_PARTS = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}
IMAGE_PARTS = {"image": "image", "image_url": "image_url", "input_image": "image_url"}


def from_openai(format: Format, messages: object) -> list[Message]:
    """OpenAI's messages as new messages in the shape that a template reads, ready for `render`.

    format: a template's class, or an object of it. messages: a whole conversation, as a list of dicts, other mappings,
    dataclasses, or objects with `model_dump` (pydantic's, those of SDKs). It is not changed, and the result is JSON and
    shares no list and no dict with it. Only an iterator in place of a list is used up. Messages that are in this shape
    already give the same prompt.

    A key that is null counts as left out, and keys that no template reads are left out. What a template has no place
    for, but could be missed (reasoning for Domyn, names), stays, for `check` to report. Beyond that:
    - The role `developer` becomes `system`. A content that is null or missing becomes "", and parts of text are joined.
      Images stay in Ministral's user messages. The result of a tool may be any JSON value; if it is neither text nor
      parts, it becomes JSON text.
    - `arguments` become an object, where there are none an empty one. Of a key that comes twice the last counts, as for
      everyone who decodes JSON, so for the tool that was called too. (For Ministral they become JSON text where the
      call's name would be printed with HTML entities beside an object.)
    - The first of `reasoning`, `reasoning_content` and `thinking` that is not empty becomes `reasoning_content`, or
      else the texts of `reasoning_details` or `thinking_blocks`, as do thinking chunks; for Ministral it is a chunk.
    - `function_call` and the role `function` become a tool call and its result. A call without an id, or with that of
      another call of its turn, is given one made of indexes. A result without an id is given that of the first open
      call without one, or else of the first open call, of its `name` if it has one.
    - Results that follow one another are put in the order of their calls, since no template prints ids. (Solar prints
      those to the last turn first, whatever their order: `check` says so.) But for that, message i of the result is
      message i of the input.

    Raises InputError, with the path, for what cannot be expressed: arguments that are not JSON or no object, an unknown
    role, a part that the template has no place for. Raises TypeError for a format that is none of the four.
    """
    template = template_of(format)
    read = [read_message(template, message, i) for i, message in enumerate(list_of(messages, "messages"))]
    return in_call_order(with_ids(read))


def tools_from_openai(format: Format, tools: object) -> list[dict[str, JSON]] | None:
    """OpenAI's tools as new definitions in the shape that a template reads, ready for its option `tools`.

    For all four that is `{"type": "function", "function": {…}}`, as in the chat completions API: Solar and Hy4 print
    what is inside, Ministral and Domyn the whole. format: as for `from_openai`. tools: a list of definitions in that
    wrapper, bare as in the old `functions`, or flat as in the Responses API; dicts or objects, as for `from_openai`.
    Keys of the wrapper and of the function that are null are left out. None and an empty list are None.

    Raises InputError, with the path, for tools that are no functions or have no name.
    """
    template_of(format)
    if tools is None:
        return None
    return [read_tool(tool, k) for k, tool in enumerate(list_of(tools, "tools"))] or None


def template_of(format: Format) -> type[ChatFormat]:
    """Which of the four templates a class or an object is."""
    found = format if isinstance(format, type) else type(format)
    for template in (SolarOpen2, Hy4, Ministral3Reasoning, DomynSmall):
        if issubclass(found, template):
            return template
    raise TypeError(f"format must be the class of a template or an object of it, not {found.__name__}")


# --- Messages --------------------------------------------------------------------------------------------------------


def read_message(template: type[ChatFormat], value: Any, i: int) -> Message:
    given = object_of(value, "messages", i)
    role = given.get("role")
    if not isinstance(role, str) or role not in ROLES:
        raise unknown(role, ROLES, "messages", i, "role")
    message: Message = {"role": ROLES[role]}
    if message["role"] == "tool":
        key = "id" if template is Hy4 and given.get("tool_call_id") is None else "tool_call_id"
        message["tool_call_id"] = read_id(given.get(key), "messages", i, key)
    if message["role"] == "assistant":
        read_assistant(template, given, i, message)
    else:
        if given.get("tool_calls"):
            where = place("messages", i, "tool_calls")
            raise InputError(f"{where} is in a message of {role}, but must be in one of assistant", where)
        message["content"] = read_content(template, message["role"], given.get("content"), i)
    if given.get("name") is not None:
        put(message, "name", read_text(given["name"], "messages", i, "name"))
    return message


def put(message: Message, key: str, value: JSON) -> None:
    """Sets a key unless there is nothing to set."""
    if value:
        message[key] = value


def read_assistant(template: type[ChatFormat], given: Message, i: int, message: Message) -> None:
    content = given.get("content")
    parts = content_parts(template, "assistant", content, i)
    if given.get("refusal") is not None:
        parts.append(text_part(read_text(given["refusal"], "messages", i, "refusal")))
    reasoning = read_reasoning(given, i)
    if reasoning and reasoning != "".join([part.get("thinking", "") for part in parts]):
        parts.insert(0, {"type": "thinking", "thinking": reasoning})
    calls = read_calls(template, given, i)
    if not parts and not calls and given.get("audio") is not None:
        where = place("messages", i, "audio")
        raise InputError(f"{where} stands for the content, but no template has a place for audio: give its text", where)
    if template is Ministral3Reasoning:
        message["content"] = shaped(parts)
    else:
        message["content"] = shaped([part for part in parts if part["type"] == "text"])
        put(message, "reasoning_content", "".join([part.get("thinking", "") for part in parts]))
    put(message, "tool_calls", calls)


def read_reasoning(given: Message, i: int) -> str:
    """The first reasoning that is not empty, or "": a text, or else those of the blocks that some routers send."""
    for key in REASONING_KEYS:
        if given.get(key):
            return read_text(given[key], "messages", i, key)
    for key, name in REASONING_BLOCKS:
        blocks = [as_object(block) or {} for block in list_of(given.get(key) or [], "messages", i, key)]
        texts = [read_text(block[name], "messages", i, key) for block in blocks if block.get(name)]
        if texts:
            return "".join(texts)
    return ""


# --- Contents --------------------------------------------------------------------------------------------------------


def read_content(template: type[ChatFormat], role: str, content: Any, i: int) -> JSON:
    if isinstance(content, str):
        return exact(content)
    if role == "tool":
        return read_result(template, content, i)
    return shaped(content_parts(template, role, content, i))


def content_parts(template: type[ChatFormat], role: str, content: Any, i: int) -> list[Message]:
    """A content as text parts, and where they have a place thinking chunks and images."""
    if isinstance(content, str):
        return [text_part(exact(content))] if content else []
    if content is None:
        return []
    if not is_list(content):
        raise wrong(content, "a string or a list of parts", "messages", i, "content")
    path = ("messages", i, "content")
    return [read_part(template, role, part, *path, k) for k, part in enumerate(list_of(content, *path))]


def shaped(parts: list[Message]) -> JSON:
    """Parts as one text if they are all text, else as they are."""
    texts = [part["text"] for part in parts if part["type"] == "text"]
    return "".join(texts) if len(texts) == len(parts) else parts


def text_part(text: str) -> Message:
    return {"type": "text", "text": text}


def read_part(template: type[ChatFormat], role: str, value: Any, *path: Part) -> Message:
    if isinstance(value, str):
        return text_part(exact(value))
    given = object_of(value, *path)
    kind = given.get("type")
    allowed = ["text"]
    if role == "assistant" or (role == "system" and template is Ministral3Reasoning):
        allowed.append("thinking")
    if role == "user" and template is Ministral3Reasoning:
        allowed += IMAGE_PARTS
    if isinstance(kind, str):
        if kind in TEXT_PARTS:
            text = given.get(TEXT_PARTS[kind])
            return text_part("" if text is None else read_text(text, *path, TEXT_PARTS[kind]))
        if kind == "thinking" and kind in allowed:
            return {"type": "thinking", "thinking": read_thinking(given.get("thinking"), *path, "thinking")}
        if kind in allowed:
            return {**plain(given, *path), "type": IMAGE_PARTS[kind]}
    raise unknown(kind, allowed, *path, "type")


def read_thinking(value: Any, *path: Part) -> str:
    """What a thinking chunk holds: a text, or as in Mistral's API text parts."""
    if not is_list(value):
        return read_text(value, *path)
    parts = [object_of(part, *path, k) for k, part in enumerate(list_of(value, *path))]
    return "".join([read_text(part.get("text"), *path, k, "text") for k, part in enumerate(parts)])


def read_result(template: type[ChatFormat], content: Any, i: int) -> JSON:
    """The content of a tool message that is no text: as text, or where Hy4 reads them as parts of its own."""
    path = ("messages", i, "content")
    if content is None:
        return ""
    if is_list(content):
        items = list_of(content, *path)
        objects = [as_object(item) for item in items]
        if template is Hy4 and is_result_of_hy4(objects):
            return [read_part_of_hy4(part, *path, k) for k, part in enumerate(objects)]
        if not items or any(isinstance(item, str) or has_type(part) for item, part in zip(items, objects)):
            return shaped([read_part(template, "tool", item, *path, k) for k, item in enumerate(items)])
        content = items
    return to_json(plain(content, *path), *path)


def has_type(part: Message | None) -> bool:
    return part is not None and part.get("type") is not None


def is_result_of_hy4(parts: list[Message | None]) -> bool:
    """Whether parts are those that Hy4 alone reads: references to tools, or outputs and nothing else."""
    are_references = [field(part, "type") == "tool_reference" for part in parts]
    are_outputs = [part is not None and part.keys() - {"type"} == {"output"} for part in parts]
    return bool(parts) and (all(are_references) or all(are_outputs))


def read_part_of_hy4(part: Message | None, *path: Part) -> Message:
    found: Message = plain(part, *path)
    if "output" in found and not isinstance(found["output"], str):
        found["output"] = "" if found["output"] is None else to_json(found["output"], *path, "output")
    return found


# --- Tool calls and results ------------------------------------------------------------------------------------------


def read_calls(template: type[ChatFormat], given: Message, i: int) -> list[Message]:
    tool_calls, function_call = given.get("tool_calls"), given.get("function_call")
    calls = [] if tool_calls is None else list_of(tool_calls, "messages", i, "tool_calls")
    if function_call is None:
        return [read_call(template, call, "messages", i, "tool_calls", j) for j, call in enumerate(calls)]
    where = place("messages", i, "function_call")
    if calls:
        raise InputError(f"{where} stands beside tool_calls, but must be the only one of the two", where)
    function = read_function(template, function_call, "messages", i, "function_call")
    return [{"id": "", "type": "function", "function": function}]


def read_call(template: type[ChatFormat], value: Any, *path: Part) -> Message:
    given = object_of(value, *path)
    kind, function = given.get("type"), given.get("function")
    if kind is not None and kind != "function":
        raise unknown(kind, ["function"], *path, "type")
    key = "id" if given.get("id") else "tool_call_id"  # as Hy4 looks for it
    id = read_id(given.get(key), *path, key)
    if function is None:
        function = read_function(template, given, *path)
    else:
        function = read_function(template, function, *path, "function")
    return {"id": id, "type": "function", "function": function}


def read_function(template: type[ChatFormat], value: Any, *path: Part) -> Message:
    """What a call calls: a name and arguments."""
    given = object_of(value, *path)
    name = read_name(given.get("name"), *path, "name")
    arguments: JSON = read_arguments(given.get("arguments"), *path, "arguments")
    if template is Ministral3Reasoning and html_escaped(name) != name:  # which it is not beside arguments that are text
        arguments = to_json(arguments, *path, "arguments")
    return {"name": name, "arguments": arguments}


def read_arguments(value: Any, *path: Part) -> Message:
    if isinstance(value, str):
        value = decoded(value, *path) if value.strip() else None
        if isinstance(value, dict):
            return value
    if value is None:
        return {}
    given = as_object(value)
    if given is None:
        raise wrong(value, "an object or its JSON text", *path)
    found: Message = plain(given, *path)
    return found


def read_id(value: Any, *path: Part) -> str:
    """An id as text; "" for none."""
    if value is None or isinstance(value, str):
        return exact(value or "")
    if isinstance(value, int) and not isinstance(value, bool):
        return to_json(int(value), *path)
    raise wrong(value, "a string", *path)


def with_ids(messages: list[Message]) -> list[Message]:
    """Gives each call an id of its own, and each result that of the call that it answers; the messages are changed.

    An id that is missing, or that two calls of a turn share, is made of indexes, so that it stays as it is when the
    conversation grows. Results that share the id of several calls answer them one after another.
    """
    new_id = _NewIds(messages)
    open_calls = _OpenCalls()
    for i, message in enumerate(messages):
        if message["role"] == "user":
            open_calls.forget()
        elif message["role"] == "tool":
            given = message["tool_call_id"]
            answered = open_calls.of_id(given) if given else open_calls.of_name(message.get("name"))
            message["tool_call_id"] = answered or given or new_id(f"call_{i}")
            open_calls.close(message["tool_call_id"])
        else:
            ids: set[str] = set()
            for j, call in enumerate(message.get("tool_calls", ())):
                given = call["id"]
                if not given or given in ids:
                    call["id"] = new_id(f"call_{i}_{j}")
                ids.add(call["id"])
                open_calls.add(call["id"], given, call["function"]["name"])
    return messages


class _NewIds:
    """Makes ids that no message has."""

    def __init__(self, messages: list[Message]) -> None:
        self.messages = messages
        self.given: set[str] | None = None

    def __call__(self, id: str) -> str:
        if self.given is None:
            calls = [call for message in self.messages for call in message.get("tool_calls", ())]
            self.given = {call["id"] for call in calls} | {m.get("tool_call_id", "") for m in self.messages}
        while id in self.given:
            id += "_"
        return id


class _OpenCalls:
    """The ids of the calls that have no result yet, in order: all, by the id that was given ("" for none), by name."""

    def __init__(self) -> None:
        self.known: set[str] = set()  # all ids that were given, to calls with a result too
        self.count = 0
        self.forget()

    def forget(self) -> None:
        self.open: dict[str, int] = {}  # by id, how many calls there were when it was added
        self.queues: dict[tuple[str, ...], deque[tuple[str, int]]] = {}  # calls that have a result may be in

    def add(self, id: str, given: str, name: str) -> None:
        self.known.add(given)
        self.count += 1
        self.open[id] = self.count
        for key in ((), ("id", given), ("name", name), ("id", given, name)):
            self.queues.setdefault(key, deque()).append((id, self.count))

    def close(self, id: str) -> None:
        self.open.pop(id, None)

    def first(self, *key: str) -> str | None:
        queue = self.queues.get(key, deque())
        while queue and self.open.get(queue[0][0]) != queue[0][1]:
            queue.popleft()
        return queue[0][0] if queue else None

    def of_id(self, given: str) -> str | None:
        """The first call to which this id was given; if it never was to any, the first that was given none."""
        return self.first("id", given if given in self.known else "")

    def of_name(self, name: str | None) -> str | None:
        """The call of a result without an id: the first without one, or if there is none the first of all."""
        if name is None:
            return self.first("id", "") or self.first()
        return self.first("id", "", name) or self.first("name", name)


def in_call_order(messages: list[Message]) -> list[Message]:
    """Puts each run of results in the order of the calls that they answer, and others last; the list is changed."""
    roles = [message["role"] for message in messages]
    calls: dict[str, int] = {}  # which call of the conversation the last one of an id is
    count = 0
    for start, role in enumerate(roles):
        for call in messages[start].get("tool_calls", ()):
            calls[call["id"]] = count
            count += 1
        if role == "tool" and roles[start - 1 : start] != ["tool"]:
            end = run_end(roles, start)
            if end == start + 1:
                continue
            answered = [calls.get(message["tool_call_id"], count) for message in messages[start:end]]
            order = sorted(range(end - start), key=answered.__getitem__)
            messages[start:end] = [messages[start + k] for k in order]
    return messages


# --- Tools -----------------------------------------------------------------------------------------------------------


def read_tool(value: Any, k: int) -> dict[str, JSON]:
    tool = without_nulls(object_of(value, "tools", k, skips_none=True))
    kind = tool.get("type", "function")
    if kind != "function":
        raise unknown(kind, ["function"], "tools", k, "type")
    path: tuple[Part, ...] = ("tools", k)
    if "function" in tool:
        path = (*path, "function")
        function = without_nulls(object_of(tool["function"], *path, skips_none=True))
    else:
        function = {key: held for key, held in tool.items() if key != "type"}
        tool = {}
    read_name(function.get("name"), *path, "name")
    if "type" not in tool:
        tool = {"type": "function", **tool}
    found: dict[str, JSON] = plain({**tool, "function": function}, "tools", k)
    return found


def without_nulls(fields: Message) -> Message:
    return {key: value for key, value in fields.items() if value is not None}


# --- Values ----------------------------------------------------------------------------------------------------------


def read_name(value: Any, *path: Part) -> str:
    if not isinstance(value, str):
        raise wrong(MISSING if value is None else value, "a string", *path)
    if not value:
        raise InputError(f"{place(*path)} is empty, but must be a name", place(*path))
    return exact(value)


def read_text(value: Any, *path: Part) -> str:
    if isinstance(value, str):
        return exact(value)
    raise wrong(value, "a string", *path)


def exact(text: str) -> str:
    """A string of a class of its own, such as an enumeration's, as the plain string that it is."""
    return text if type(text) is str else str.__str__(text)


def unknown(value: Any, known: Collection[str], *path: Part) -> InputError:
    """The error about a word that is none of those known."""
    needed = ("one of " if len(known) > 1 else "") + ", ".join([f'"{word}"' for word in known])
    if not isinstance(value, str):
        return wrong(MISSING if value is None else value, needed, *path)
    where = place(*path)
    return InputError(f"{where} is {to_json(exact(value[:80]))}, but must be {needed}", where)


def list_of(value: Any, *path: Part) -> list[Any]:
    if isinstance(value, list):
        return value
    if is_list(value):
        return list(value)
    raise wrong(value, "a list", *path)


def is_list(value: Any) -> bool:
    """Whether JSON would hold it as a list. pydantic has iterators where OpenAI's types say Iterable."""
    return isinstance(value, (Sequence, Iterator)) and not isinstance(value, (str, bytes, bytearray, memoryview))


def object_of(value: Any, *path: Part, skips_none: bool = False) -> Message:
    if isinstance(value, dict):
        return value
    found = as_object(value, skips_none)
    if found is None:
        raise wrong(value, "an object", *path)
    return found


def as_object(value: Any, skips_none: bool = False) -> Message | None:
    """The fields of what JSON would hold as an object; None for all else.

    skips_none: whether to leave out fields of models that are None, which mostly means that nobody set them.
    """
    if isinstance(value, dict):
        return value
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, type):
        return None
    if hasattr(value, "model_dump"):
        found = value.model_dump(mode="json", by_alias=True, exclude_none=skips_none, warnings=False)
        return found if isinstance(found, dict) else None
    if hasattr(value, "__dataclass_fields__"):
        from dataclasses import fields

        return {each.name: getattr(value, each.name) for each in fields(value)}
    return None


class _NotJson(Exception):
    """Says what was found."""


def plain(value: Any, *path: Part) -> JSON:
    """A copy made of dicts, lists, strings, numbers, booleans and None."""
    try:
        return _copy(value)
    except _NotJson as error:
        where = place(*path)
        raise InputError(f"{where} holds {error}, but must hold JSON values only", where) from None
    except RecursionError:
        raise too_deep(*path) from None


def _copy(value: Any) -> JSON:
    kind = type(value)
    if value is None or kind is str or kind is int or kind is bool:
        return value
    if isinstance(value, float):
        if value - value != 0:
            raise _NotJson(f"{float(value)}, which is no number in JSON")
        return float(value)
    if kind is list:
        return [_copy(item) for item in value]
    if isinstance(value, str):
        return exact(value)
    if isinstance(value, int):
        return int(value)
    fields = as_object(value)
    if fields is not None:
        return {_key(key): _copy(item) for key, item in fields.items()}
    if is_list(value):
        return [_copy(item) for item in value]
    from enum import Enum

    if isinstance(value, Enum):
        return _copy(value.value)
    raise _NotJson(f"a value of type {kind.__name__}")


def _key(key: object) -> str:
    if isinstance(key, str):
        return exact(key)
    raise _NotJson(f"a key of type {type(key).__name__}")


def decoded(text: str, *path: Part) -> JSON:
    """What a JSON text says."""
    from json import JSONDecodeError

    try:
        return _decoder().decode(text)
    except RecursionError:
        raise too_deep(*path) from None
    except _NotJson as error:
        reason = str(error)
    except JSONDecodeError as error:
        reason = f"{error.msg} at character {error.pos}"
    except ValueError:
        raise too_many_digits(*path) from None
    where = place(*path)
    raise InputError(f"{where} is not JSON ({reason}), but must be a JSON object", where)


@cache
def _decoder() -> JSONDecoder:
    from json import JSONDecoder

    return JSONDecoder(parse_constant=_no_number, parse_float=_finite)


def _no_number(word: str) -> NoReturn:
    raise _NotJson(f"{word} is no number")


def _finite(digits: str) -> float:
    number = float(digits)
    if number - number != 0:
        raise _NotJson(f"{digits[:20]} is too large a number")
    return number
