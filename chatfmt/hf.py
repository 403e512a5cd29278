"""What `apply_chat_template` of Hugging Face transformers gives, without Jinja: as a function, or put into a tokenizer.

Around `render`, this does what transformers 5.24 does around a template: it drops keys whose value is null, copies
reasoning to `reasoning_content`, turns objects into dicts, cuts the prompt inside the last message, takes batches, and
hands the text to a tokenizer. It never imports transformers, except to describe a tool that is a function.

Where the template refuses an input, TemplateError is raised, with the same words; where transformers fails otherwise,
InputError. In a batch both say which conversation it was. Arguments that exclude each other are a ValueError; a name
that no template variable can have is a TypeError. An exception of the tokenizer or of the caller's own objects passes
through.

It differs from transformers where `render` differs from Jinja (values nested by the hundreds, loops over more than
100,000); in masks, which are all zeros there; and where names of a call's arguments are no strings, which it refuses.
"""

from __future__ import annotations

import sys
from collections import namedtuple
from collections.abc import Mapping
from functools import cached_property
from types import FunctionType, MethodType, SimpleNamespace

from ._base import ChatFormat
from ._errors import ChatFormatError, InputError, TemplateError
from ._mask import Mask, mask
from ._values import MISSING, place, too_deep, wrong

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, TypeVar, Union

    from ._values import JSON, Part

    Chat = Union[ChatFormat, Callable[..., ChatFormat]]
    Message = dict[str, JSON]
    T = TypeVar("T")
    R = TypeVar("R")

NO_NAMES = {"messages", "conversations", "chat_template"}  # what a template variable cannot be called
NO_VARIABLES = {"tools", "now", "token_suffix"}  # options that the templates do not read from variables
REASONING_KEYS = ("reasoning_content", "thinking", "reasoning")  # the first of them that is given counts
TAG = "CONTINUE_FINAL_MESSAGE_TAG"  # what transformers itself puts there: a message may hold it too
SCALARS = {str, int, float, bool, type(None)}

# The keys of messages that occur in the text of each template: transformers continues only a field that does.
KEYS = {
    "solar_open2": {"role", "content", "tool_calls", "tool_call_id", "id", "name", "reasoning", "reasoning_content"},
    "hy4": {"role", "content", "tool_calls", "tool_call_id", "id", "name", *REASONING_KEYS},
    "ministral3_reasoning": {"role", "content", "tool_calls", "id", "name", "thinking"},
    "domyn_small": {"role", "content", "tool_calls", "id", "name", "thinking"},
}
# The functions that each template calls: a variable of that name would hide it.
CALLED = {
    "solar_open2": {"namespace", "raise_exception", "range", "strftime_now"},
    "hy4": {"namespace", "raise_exception"},
    "ministral3_reasoning": {"namespace", "raise_exception"},
    "domyn_small": {"namespace"},
}


def apply_chat_template(
    chat: Chat, /, conversation: Any, tools: Any = None, documents: Any = None, *,
    add_generation_prompt: JSON = False, continue_final_message: bool | str = False,
    tokenize: bool = False, tokenizer: Any = None, sanitize_control_tokens: bool = False,
    padding: Any = False, truncation: Any = False, max_length: int | None = None, return_tensors: Any = None,
    return_dict: bool = True, return_assistant_tokens_mask: bool = False,
    tokenizer_kwargs: Mapping[str, Any] | None = None, **template_variables: Any,
) -> Any:  # fmt: skip
    """The prompt of a conversation, or the prompts of a batch, as transformers 5.24 gives them (see the module).

    chat: a class, or what `chatfmt.detect` returns, with its options among template_variables; those that the template
    does not read are ignored. Or an object: its tools and options hold, but for those given here.
    tokenizer: one of transformers. With a class, Ministral's bos_token and eos_token are those of this tokenizer. With
    tokenize it encodes the text; with return_assistant_tokens_mask, `assistant_masks` says which tokens to train on, as
    `chatfmt.mask` does, for which it must be a fast one.
    All else is as in transformers, with its defaults (so no generation prompt, with Solar either), except that tokenize
    is false, and that sanitize_control_tokens cannot be had here: see `chatfmt.pieces`.
    """
    if sanitize_control_tokens:
        raise ValueError("sanitize_control_tokens is for the tokenizer's own apply_chat_template: use chatfmt.pieces")
    if return_assistant_tokens_mask and not (tokenize and return_dict):
        raise ValueError("return_assistant_tokens_mask needs tokenize=True and return_dict=True")
    if tokenize and tokenizer is None:
        raise ValueError("tokenize=True needs a tokenizer")
    ways = _Ways(add_generation_prompt, continue_final_message, return_assistant_tokens_mask)
    masks, is_batched = prompts(chat, conversation, tools, documents, tokenizer, ways, template_variables)
    texts = [text for text, _ in masks] if is_batched else masks[0].text
    if not tokenize:
        return texts
    keywords = {"padding": padding, "truncation": truncation, "max_length": max_length}
    more = tokenizer_kwargs or {}
    out = tokenizer(texts, add_special_tokens=False, return_tensors=return_tensors, **keywords, **more)
    if return_assistant_tokens_mask:
        add_assistant_masks(out, masks, is_batched, return_tensors)
    return out if return_dict else out["input_ids"]


class _Ways(namedtuple("_Ways", ("add_generation_prompt", "continue_final_message", "is_masked"))):
    """In which way a prompt is to end, and whether a mask is wanted."""

    __slots__ = ()
    if TYPE_CHECKING:
        add_generation_prompt: JSON
        continue_final_message: bool | str
        is_masked: bool

    def check(self) -> None:
        """Raises ValueError where one excludes the other."""
        if self.continue_final_message and (self.add_generation_prompt or self.is_masked):
            other = "add_generation_prompt" if self.add_generation_prompt else "return_assistant_tokens_mask"
            raise ValueError(f"continue_final_message leaves the last message open, and does not go with {other}")

    def written(self, chat: ChatFormat, messages: list[Message]) -> Mask:
        """The prompt, and the spans to train on, none where no mask is wanted."""
        try:
            if self.is_masked:
                return mask(chat, messages, add_generation_prompt=self.add_generation_prompt)
            if self.continue_final_message:
                key = self.continue_final_message if isinstance(self.continue_final_message, str) else "content"
                return Mask(continued(chat, messages, key, self.add_generation_prompt), [])
            return Mask(chat.render(messages, add_generation_prompt=self.add_generation_prompt), [])
        except TypeError:  # for JSON, `render` raises none: but Python's objects can have keys that are no strings
            check_argument_names(messages)
            raise


def prompts(
    chat: Chat, conversation: Any, tools: Any, documents: Any, tokenizer: Any, ways: _Ways, variables: dict[str, Any]
) -> tuple[list[Mask], bool]:
    """The prompts of all conversations, and whether they are a batch."""
    conversations, is_batched = conversations_of(conversation)
    messages = each(conversations, is_batched, normalized)
    ways.check()
    tools = schemas(tools)
    check_documents(documents)
    made = chat_with(chat, tools, tokenizer, variables)
    return each(messages, is_batched, lambda messages: ways.written(made, messages)), is_batched


def each(conversations: Sequence[T], is_batched: bool, function: Callable[[T], R]) -> list[R]:
    """function(conversation) for each of them. In a batch, errors say which it was."""
    if not is_batched:
        return [function(conversations[0])]
    results = []
    for k, conversation in enumerate(conversations):
        try:
            results.append(function(conversation))
        except ChatFormatError as error:
            if error.path and not error.path.startswith("messages"):  # the tools or an option, the same for all
                raise
            where = place("conversation", k)
            words = str(error) if isinstance(error, TemplateError) else f"{where}: {error}"
            raise type(error)(words, f"{where}.{error.path}" if error.path else where) from None
    return results


# ---- what goes in -------------------------------------------------------------------------------------------------


def conversations_of(conversation: Any) -> tuple[Any, bool]:
    """The conversations, and whether they are a batch: a list of lists, or of objects that have `messages`."""
    if isinstance(conversation, (list, tuple)):
        if not conversation:
            raise InputError("messages is empty, but must hold at least one message", "messages")
        if isinstance(conversation[0], (list, tuple)) or hasattr(conversation[0], "messages"):
            return conversation, True
    return [conversation], False


def normalized(conversation: Any) -> list[Message]:
    """The messages of a conversation as a template gets them: new dicts, without nulls, with the reasoning copied."""
    conversation = getattr(conversation, "messages", conversation)
    is_list = isinstance(conversation, (list, tuple))
    try:
        if not is_list and (isinstance(conversation, Mapping) or is_object(conversation)):
            conversation = plain(conversation)
        messages = []
        for i, item in enumerate(items_of(conversation, "messages")):
            message = plain(item) if is_list or isinstance(item, dict) else None
            if not isinstance(message, dict):
                raise wrong(item, "an object", "messages", i)
            messages.append(with_reasoning({key: value for key, value in message.items() if value is not None}))
        return messages
    except RecursionError:
        raise too_deep("messages") from None


def with_reasoning(message: Message) -> Message:
    """Puts the reasoning, under whichever name it is, under the two that templates read."""
    for key in REASONING_KEYS:
        if key in message:
            reasoning = message[key]
            message.setdefault("thinking", reasoning)
            message["reasoning_content"] = reasoning
            break
    return message


def plain(value: Any) -> JSON:
    """The value as JSON, new wherever it holds others: what is neither JSON nor an object with fields is named only."""
    kind = type(value)
    if kind is dict:  # the comprehensions ask for the type themselves, since most values are scalars, and calls slow
        return {
            key if type(key) is str else plain(key): item if type(item) in SCALARS else plain(item)
            for key, item in value.items()
        }
    if kind is list:
        return [item if type(item) in SCALARS else plain(item) for item in value]
    if kind in SCALARS:
        return value
    if isinstance(value, Mapping):
        return plain(dict(value.items()))
    if isinstance(value, list):
        return plain(list(value))
    if isinstance(value, tuple):
        return tuple(plain(list(value)))
    if is_object(value):
        return plain(as_dict(value))
    return plain_scalar(value)


def as_dict(value: Any) -> Any:
    """The fields of an object."""
    if hasattr(type(value), "__dataclass_fields__"):
        import dataclasses

        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return value.model_dump()


def plain_scalar(value: Any) -> JSON:
    """What members of enumerations, numbers of numpy and the like stand for; of anything else, only the type."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic):
        return plain(value.item())
    return f"<{type(value).__name__}>"


def is_object(value: Any) -> bool:
    """Whether it is an object with fields: a dataclass's, or one of pydantic or an SDK."""
    return hasattr(type(value), "__dataclass_fields__") or callable(getattr(value, "model_dump", None))


def check_argument_names(messages: list[Message]) -> None:
    for i, message in enumerate(messages):
        tool_calls = message.get("tool_calls")
        for j, tool_call in enumerate(tool_calls if isinstance(tool_calls, (list, tuple)) else ()):
            path: tuple[Part, ...] = ("messages", i, "tool_calls", j)
            for key in ("function", "arguments"):
                if isinstance(tool_call, dict) and key in tool_call:
                    tool_call, path = tool_call[key], (*path, key)
            if isinstance(tool_call, dict) and not all(isinstance(name, str) for name in tool_call):
                words = f"{place(*path)} has a name that is no string, but must have strings for names"
                raise InputError(words, place(*path))


def items_of(value: Any, name: str) -> Iterator[Any]:
    try:
        return iter(value)
    except TypeError:
        raise wrong(value, "a list", name) from None


def schemas(tools: Any) -> list[JSON] | None:
    """The definitions of tools; those that are functions are described by transformers."""
    if tools is None:
        return None
    if isinstance(tools, (str, Mapping)) and tools:
        raise wrong(tools, "a list", "tools")
    found = []
    for k, tool in enumerate(items_of(tools, "tools")):
        if isinstance(tool, (FunctionType, MethodType)):
            tool = schema_of(tool, k)
        elif not isinstance(tool, dict):
            raise wrong(tool, "an object or a function", "tools", k)
        try:
            found.append(plain(tool))
        except RecursionError:
            raise too_deep("tools", k) from None
    return found


def schema_of(function: Callable[..., object], k: int) -> JSON:
    """What transformers makes of a function's types and docstring."""
    from importlib import import_module

    where = place("tools", k)
    try:
        get_json_schema = import_module("transformers.utils").get_json_schema
    except ImportError:
        words = f"{where} is a function, but must be an object, since transformers, which describes them, is not here"
        raise InputError(words, where) from None
    try:
        return get_json_schema(function)
    except Exception as error:  # of a kind of its own, or whatever a docstring leads to
        raise InputError(f"{where} is a function that cannot be described, but must be: {error}", where) from error


def check_documents(documents: Any) -> None:
    """No template here prints documents, but transformers looks at them."""
    if documents is not None:
        for k, document in enumerate(items_of(documents, "documents")):
            if not isinstance(document, dict):
                raise wrong(document, "an object", "documents", k)


def chat_with(chat: Chat, tools: list[JSON] | None, tokenizer: Any, variables: dict[str, Any]) -> ChatFormat:
    """The object that renders: of a class, or the one given, with the tools and variables given here."""
    made: Any = type(chat) if isinstance(chat, ChatFormat) else getattr(chat, "func", chat)  # a partial has a func
    defaults: dict[str, JSON] = made.__init__.__kwdefaults__
    for name in variables:
        if name in NO_NAMES or name in CALLED[made.name]:
            raise TypeError(f"{name} cannot be the name of a template variable")
    read = variables.keys() & defaults.keys() - NO_VARIABLES
    try:
        options = {name: plain(variables[name]) for name in read}
    except RecursionError:
        raise too_deep("template_variables") from None
    if tools is not None:
        options["tools"] = tools
    if isinstance(chat, ChatFormat):
        return with_options(chat, options) if options else chat
    if tokenizer is not None:
        tokens = tokenizer.special_tokens_map
        for name in {"bos_token", "eos_token"}.intersection(defaults):
            options.setdefault(name, tokens.get(name, MISSING))
    return chat(**options)


def with_options(chat: ChatFormat, options: dict[str, JSON]) -> ChatFormat:
    """Another object, to render with, with some other options; what was written of the old ones is left behind."""
    written = {name for name in vars(chat) if isinstance(getattr(type(chat), name, None), cached_property)}
    other = object.__new__(type(chat))
    vars(other).update({name: value for name, value in vars(chat).items() if name not in written}, **options)
    return other


# ---- what comes out -----------------------------------------------------------------------------------------------


def continued(chat: ChatFormat, messages: list[Message], key: str, add_generation_prompt: JSON) -> str:
    """The prompt up to the end of a text in the last message, where the model is to go on.

    As transformers does it: a mark behind the text, whose last place in the prompt is where to cut.
    """
    if not messages:
        raise InputError("messages is empty, but must hold a message to continue", "messages")
    last, where = messages[-1], ("messages", len(messages) - 1, key)
    text = last.get(key, MISSING)
    if text is MISSING:
        raise wrong(text, "given to be continued", *where)
    keys = [name for name in REASONING_KEYS if last.get(name) == text] if key in REASONING_KEYS else [key]
    if not KEYS[chat.name].intersection(keys):
        raise InputError(f"{place(*where)} cannot be continued: the template does not read it", place(*where))
    if isinstance(text, (list, tuple)):
        text = mark_last_text(text, *where)
    elif isinstance(text, str):
        last.update(dict.fromkeys(keys, text + TAG + " "))
    else:
        raise wrong(text, "a string or a list of parts", *where)
    prompt = chat.render(messages, add_generation_prompt=add_generation_prompt)
    if text.strip() not in prompt or TAG not in prompt:
        words = f"{place(*where)} cannot be continued: it does not stand in the prompt as it is"
        raise InputError(words, place(*where))
    end = prompt.rindex(TAG)
    is_kept = prompt.startswith(" ", end + len(TAG))
    return prompt[:end] if is_kept else prompt[:end].rstrip()  # the template cuts off white space: so did the text's


def mark_last_text(parts: Sequence[JSON], *path: Part) -> str:
    """Puts the mark behind the last text among the parts of a content; what it was before."""
    for k in range(len(parts) - 1, -1, -1):
        part = parts[k]
        if isinstance(part, dict) and "text" in part:
            text = part["text"]
            if not isinstance(text, str):
                raise wrong(text, "a string", *path, k, "text")
            part["text"] = text + TAG + " "
            return text
        if not isinstance(part, (dict, list, tuple, str)) or (not isinstance(part, dict) and "text" in part):
            raise wrong(part, "an object", *path, k)
    raise InputError(f"{place(*path)} holds no text, but must hold one to be continued", place(*path))


def add_assistant_masks(out: Any, masks: list[Mask], is_batched: bool, return_tensors: Any) -> None:
    """Puts `assistant_masks` into what a tokenizer made of the prompts, in the shape of its `input_ids`."""
    if not out.encodings:
        raise ValueError("return_assistant_tokens_mask needs a fast tokenizer, which tells where each token stands")
    is_overflowing = "overflow_to_sample_mapping" in out  # then a prompt can be several rows
    prompts = out["overflow_to_sample_mapping"] if is_overflowing else range(len(masks))
    rows = [masks[k].token_mask(encoding.offsets) for k, encoding in zip(prompts, out.encodings)]
    out["assistant_masks"] = rows if is_batched or return_tensors or is_overflowing else rows[0]
    if return_tensors:
        out.convert_to_tensors(tensor_type=return_tensors)


# ---- in a tokenizer -----------------------------------------------------------------------------------------------


def install(tokenizer: Any, template: Chat | None = None) -> bool:
    """Replaces `apply_chat_template` of this tokenizer, if its template is known; whether it did.

    template: a class or an object, for a template that you know to be that one; None is what `chatfmt.detect` says.
    Another tokenizer is left as it is, and so is one of a class that has an `apply_chat_template` of its own, or of a
    transformers whose method takes other arguments than that of 5.24.

    Calls then do and return what they did before (`tokenize` is true if you don't say), but masks of the assistant's
    tokens are right, and errors are those of this module, not jinja2's. A call with another `chat_template`, or with
    sanitize_control_tokens, goes to the old method, and so do all after the tokenizer is given another template.
    `del tokenizer.apply_chat_template` takes it back. It is pickled and deep-copied with the tokenizer, and not saved
    with it. copy.copy shares it, and the copy's goes on reading the first tokenizer: install it in the copy again.
    """
    if template is not None and not (callable(template) or isinstance(template, ChatFormat)):
        raise TypeError(f"template must be a class such as Hy4, or an object of one, not {type(template).__name__}")
    if not is_replaceable(tokenizer):
        return False
    try:
        text = tokenizer.get_chat_template()
    except ValueError:  # it has none, or several and no default
        return False
    if template is None:
        from ._detect import detect

        template = detect(SimpleNamespace(chat_template=text))  # so that no text is taken for a path
    if template is None:
        return False
    tokenizer.apply_chat_template = _Installed(tokenizer, template, text)
    return True


def is_replaceable(tokenizer: Any) -> bool:
    """Whether the method that would be replaced is the one that is known, or the one put there before."""
    method = getattr(type(tokenizer), "apply_chat_template", None)
    if getattr(method, "__module__", None) != "transformers.tokenization_utils_base":
        return False
    own = vars(tokenizer).get("apply_chat_template")
    if own is not None and not isinstance(own, _Installed):
        return False
    return arguments_of(method) == arguments_of(_Installed.__call__)


def arguments_of(function: Any) -> list[tuple[str, object, object]]:
    import inspect

    return [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]


class _Installed:
    """The method that `install` puts into a tokenizer; an object of a class of its own, so that it can be pickled."""

    def __init__(self, tokenizer: Any, chat: Chat, text: str) -> None:
        self.tokenizer = tokenizer
        self.chat = chat
        self.text = text  # of the template, the only one that this stands for

    def __call__(
        self, conversation: Any, tools: Any = None, documents: Any = None, chat_template: str | None = None,
        add_generation_prompt: JSON = False, continue_final_message: bool | str = False, tokenize: bool = True,
        sanitize_control_tokens: bool = False, padding: Any = False, truncation: Any = False,
        max_length: int | None = None, return_tensors: Any = None, return_dict: bool = True,
        return_assistant_tokens_mask: bool = False, tokenizer_kwargs: dict[str, Any] | None = None, **kwargs: Any,
    ) -> Any:  # fmt: skip
        """What the tokenizer's own `apply_chat_template` takes and returns; see `install`."""
        keywords = {
            "add_generation_prompt": add_generation_prompt,
            "continue_final_message": continue_final_message,
            "tokenize": tokenize,
            "padding": padding,
            "truncation": truncation,
            "max_length": max_length,
            "return_tensors": return_tensors,
            "return_dict": return_dict,
            "return_assistant_tokens_mask": return_assistant_tokens_mask,
            "tokenizer_kwargs": tokenizer_kwargs,
        }
        if sanitize_control_tokens or self.tokenizer.get_chat_template(chat_template, tools) != self.text:
            keywords["sanitize_control_tokens"] = sanitize_control_tokens
            original = type(self.tokenizer).apply_chat_template
            return original(self.tokenizer, conversation, tools, documents, chat_template, **keywords, **kwargs)
        kwargs.pop("tokenizer", None)  # as a variable, none of the templates reads it
        return apply_chat_template(
            self.chat, conversation, tools, documents, tokenizer=self.tokenizer, **keywords, **kwargs
        )
