"""What the four templates share: `render`, `segments`, and the sink that every character goes through."""

from __future__ import annotations

from collections import namedtuple

from ._values import MISSING, too_deep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import ClassVar

    from ._values import JSON, Roles

    Write = Callable[[str], None]

KINDS = ("control", "content", "output", "output_control")


class Segment(namedtuple("Segment", ("text", "kind", "message"))):
    """A piece of a prompt: its text, whose text that is, and the index of the message that it comes from.

    kind: "control" is the template's, not written by the model; "content" is the caller's; "output" is the
    assistant's, taken from a message (a call of Domyn with the JSON around it); "output_control" is the template's, and
    the model writes it too.
    message: None where the text comes from no single message.
    """

    __slots__ = ()
    if TYPE_CHECKING:
        text: str
        kind: str
        message: int | None


class Block(namedtuple("Block", ("text", "pieces"))):
    """A part of a prompt that was written before and belongs to no message: as one text, and as texts and kinds."""

    __slots__ = ()
    if TYPE_CHECKING:
        text: str
        pieces: list[tuple[str, str]]


class Out:
    """The sink: one verb for each kind of text, `block` for what was written before, and the message at work.

    In this one, for `render`, the verbs are one and the same bound `append`.
    """

    __slots__ = ("content", "control", "message", "output", "output_control")

    control: Write
    content: Write
    output: Write
    output_control: Write
    message: int | None

    def __init__(self, pieces: list[str]) -> None:
        self.control = self.content = self.output = self.output_control = pieces.append
        self.message = None

    def block(self, block: Block) -> None:
        self.control(block.text)


class _Tagging(Out):
    """A sink for `segments`: each verb adds its kind and the message. Empty texts leave no segment."""

    __slots__ = ("segments",)

    def __init__(self, segments: list[Segment]) -> None:
        self.segments = segments
        self.message = None
        self.control, self.content, self.output, self.output_control = map(self._verb, KINDS)

    def _verb(self, kind: str) -> Write:
        append, new = self.segments.append, tuple.__new__  # a quarter faster than Segment(…), which passes on to it

        def write(text: str) -> None:
            if text:
                append(new(Segment, (text, kind, self.message)))

        return write

    def block(self, block: Block) -> None:
        self.segments.extend(Segment(text, kind, None) for text, kind in block.pieces if text)


class _Recording(Out):
    """A sink for a Block."""

    __slots__ = ("pieces",)

    def __init__(self) -> None:
        self.pieces: list[tuple[str, str]] = []
        self.message = None
        self.control, self.content, self.output, self.output_control = map(self._verb, KINDS)

    def _verb(self, kind: str) -> Write:
        return lambda text: self.pieces.append((text, kind))


def recorded(write: Callable[[Out], None]) -> Block:
    """What `write` writes, to be written again by `out.block`."""
    out = _Recording()
    write(out)
    return Block("".join([text for text, _ in out.pieces]), out.pieces)


class ChatFormat:
    """A chat template with its options. Objects do not change, and may be shared by threads and pickled.

    `tools` and option values are read when a prompt is rendered, the tools only the first time: do not change
    them afterwards.
    """

    name: ClassVar[str]  # the key in chatfmt.TEMPLATES
    model: ClassVar[str]  # the public model whose template this is
    default_generation_prompt: ClassVar[bool | None] = False  # where it is left out; None: the template has none
    control_tokens: tuple[str, ...]  # what the template writes that a tokenizer may turn into one id

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} objects do not change: make a new one for another {name}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} objects do not change: {name} stays")

    def render(self, messages: JSON, *, add_generation_prompt: JSON = MISSING) -> str:
        """The prompt of a conversation, exactly as the original template prints it.

        messages: a list of messages, as JSON values; it is not changed. add_generation_prompt: whether to open the
        assistant's turn at the end; left out, it is what the template makes of it (see the class).
        Raises TemplateError where the original refuses the input, InputError where it fails otherwise.
        """
        pieces: list[str] = []
        self.write_safely(Out(pieces), messages, add_generation_prompt)
        return "".join(pieces)

    def segments(self, messages: JSON, *, add_generation_prompt: JSON = MISSING) -> list[Segment]:
        """The same prompt in pieces that say whose text they are; joined, they are the text of `render`.

        Takes and raises what `render` does.
        """
        segments: list[Segment] = []
        self.write_safely(_Tagging(segments), messages, add_generation_prompt)
        return segments

    def write_safely(
        self, out: Out, messages: JSON, add_generation_prompt: JSON, roles: Roles = None, start: int = 0
    ) -> None:
        """`write`, with the default of add_generation_prompt, and without RecursionError."""
        if add_generation_prompt is MISSING:
            add_generation_prompt = self.default_generation_prompt
        try:
            self.write(out, messages, add_generation_prompt, roles, start)
        except RecursionError:  # from ==, on values nested by the hundreds
            raise too_deep(*(("messages",) if out.message is None else ("messages", out.message))) from None

    def write(self, out: Out, messages: JSON, add_generation_prompt: JSON, roles: Roles = None, start: int = 0) -> None:
        """The template's main flow, which each template has for itself.

        roles: those of the messages, where they are known. start: the message to begin with, where the prompt up to
        it stands already: not inside a run of tool messages, and not behind a message that fails.
        """
        raise NotImplementedError

    def first_rewritten(self, messages: list[JSON], roles: list[JSON], start: int) -> tuple[int, str]:
        """What becomes of a prompt that stands when messages[start:] are appended.

        The first message from which on it has to be written again, and the reason, or `start` and "" where nothing
        before them changes. start: 1 or more.
        """
        raise NotImplementedError

    def as_sampled(self, messages: list[JSON], roles: list[JSON], i: int) -> ChatFormat:
        """The object that writes messages[i], an assistant's, as the model wrote it behind the messages before.

        Another one than this only where an option changes how the turns that stand are shown. Raises InputError where
        the generation prompt says that the model cannot have written such a message.
        """
        return self


def checked_chat(chat: ChatFormat) -> ChatFormat:
    """The same; TypeError for what cannot render, above all for a class in place of an object."""
    if isinstance(chat, type) or not hasattr(chat, "segments"):
        made = f"{chat.__name__}()" if isinstance(chat, type) else "SolarOpen2()"
        raise TypeError(f"chat must be an object that renders, such as {made}, not {type(chat).__name__}")
    return chat
