"""Training as sampled: for each turn of the assistant the prompt that it answered, and what the model wrote."""

from __future__ import annotations

from collections import namedtuple
from itertools import takewhile

from ._base import ChatFormat, Out, Segment, _Tagging
from ._fields import dropped_fields, fields_of
from ._mask import Spans
from ._values import roles_of, sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ._mask import Span
    from ._values import JSON


class Sample(namedtuple("Sample", ("prompt", "completion", "message", "dropped"))):
    """A turn as inference saw it.

    prompt: what `render` gives for the messages before the turn, with the generation prompt. completion: what the model
    wrote behind it, up to and including the token that ends its turn (Domyn has none). message: the turn's index.
    dropped: the keys of the message with words of the assistant's that the template has no place for, so that the
    completion lacks them.
    """

    __slots__ = ()
    if TYPE_CHECKING:
        prompt: str
        completion: str
        message: int
        dropped: tuple[str, ...]


class TrainingText(namedtuple("TrainingText", ("text", "spans", "messages", "first_rewritten", "reason")), Spans):
    """A text that holds some samples: the prompt of each begins with the prompt and the completion of the one before.

    spans: where the completions stand. messages: the index of each one's turn. first_rewritten: the index of the first
    message that stands otherwise here than in the text before this one, which is why they are two (0: with what comes
    before it). reason: why it does, in one sentence; "" for the first text.
    """

    __slots__ = ()
    if TYPE_CHECKING:
        text: str
        spans: list[Span]
        messages: list[int]
        first_rewritten: int
        reason: str


class _Turn(namedtuple("_Turn", ("added", "completion", "message", "dropped", "is_new", "first_rewritten", "reason"))):
    """A turn, and what comes before it: behind the completion of the turn before; if `is_new`, from the beginning."""

    __slots__ = ()
    if TYPE_CHECKING:
        added: str
        completion: str
        message: int
        dropped: tuple[str, ...]
        is_new: bool
        first_rewritten: int
        reason: str


WITHOUT_THINK_BLOCK = "the finished turn stands without the think block that the generation prompt opens"


def samples(chat: ChatFormat, messages: JSON) -> Iterator[Sample]:
    """One sample for each message of the assistant, as inference saw it and wrote it; made, and refused, one at a time.

    The prompt and the completion of the last turn are, joined, what `render` gives for the messages up to it, but for
    a newline after the end token, and but for templates whose finished turns lack the think block that the generation
    prompt opens: Domyn (unless the content holds it), and Solar where think_render_option hides them.
    Raises what `render` raises for the messages up to a turn, and InputError where the generation prompt says that the
    model cannot have written it: reasoning after a think block that Solar's reasoning_effort closes; a think block in
    Domyn's content that is not the one of the prompt; Hy4's raw_last_assistant.
    All prompts together grow with the square of the conversation; see `training_texts`.
    """
    text = ""
    for turn in _turns(chat, messages):
        prompt = turn.added if turn.is_new else text + turn.added
        yield Sample(prompt, turn.completion, turn.message, turn.dropped)
        text = prompt + turn.completion


def training_texts(chat: ChatFormat, messages: JSON) -> list[TrainingText]:
    """All samples in as few texts as can hold them: a new one begins where a prompt changes what stood before it.

    Raises what `samples` raises.
    """
    texts: list[TrainingText] = []
    pieces: list[str] = []
    end = 0
    for turn in _turns(chat, messages):
        if turn.is_new:
            texts = with_text(texts, pieces)
            texts.append(TrainingText("", [], [], turn.first_rewritten, turn.reason))
            pieces, end = [], 0
        start = end + len(turn.added)
        end = start + len(turn.completion)
        pieces += (turn.added, turn.completion)
        texts[-1].spans.append((start, end))
        texts[-1].messages.append(turn.message)
    return with_text(texts, pieces)


def with_text(texts: list[TrainingText], pieces: list[str]) -> list[TrainingText]:
    """The same, the last one with its text."""
    return [*texts[:-1], texts[-1]._replace(text="".join(pieces))] if texts else []


def _turns(chat: ChatFormat, messages: JSON) -> Iterator[_Turn]:
    roles = roles_of(sequence(messages, "messages"))
    done, stands, closer = 0, True, ""  # of the turn before: what is behind it, whether it stands as sampled, its end
    for i in [i for i, role in enumerate(roles) if role == "assistant"]:
        before, known = messages[:i], roles[:i]
        first, reason = chat.first_rewritten(before, known, done) if 0 < done < i else (done, "")
        if not stands and not reason:
            first, reason = done - 1, WITHOUT_THINK_BLOCK
        is_new = not done or bool(reason)
        added, generation_prompt = _prompt(chat, before, known, 0 if is_new else done)
        writer = chat.as_sampled(messages, roles, i)
        segments = _written(writer, messages[: i + 1], roles[: i + 1])
        if not i and chat.default_generation_prompt is None:  # no prompt, by `render`, but the assistant speaks first
            added = "".join([segment.text for segment in segments if segment.message is None])
        segments = [segment for segment in segments if segment.message is not None]
        text, opener, end = _parts(segments)
        begins = text[:end].startswith(generation_prompt)
        completion = text[len(generation_prompt) if begins else opener : end]
        dropped = dropped_fields(messages[i], segments, fields_of(writer, messages, segments))
        yield _Turn(added if is_new else closer + added, completion, i, dropped, is_new, first if done else 0, reason)
        done, stands, closer = i + 1, begins and writer is chat, text[end:]


def _prompt(chat: ChatFormat, messages: list[JSON], roles: list[JSON], start: int) -> tuple[str, str]:
    """The prompt of some messages from one of them on, and the generation prompt, which is how it ends."""
    if not messages and chat.default_generation_prompt is None:
        return "", ""
    texts = []
    for add_generation_prompt in (True, False):
        pieces: list[str] = []
        chat.write_safely(Out(pieces), messages, add_generation_prompt, roles, start)
        texts.append("".join(pieces))
    return texts[0], texts[0][len(texts[1]) :]


def _written(chat: ChatFormat, messages: list[JSON], roles: list[JSON]) -> list[Segment]:
    """The segments of the last message; if it is the first as well, with those of the beginning, which have none."""
    segments: list[Segment] = []
    chat.write_safely(_Tagging(segments), messages, False, roles, len(messages) - 1)
    return segments


def _parts(segments: list[Segment]) -> tuple[str, int, int]:
    """The text of a turn, and where what the model writes begins and ends in it."""
    text = "".join([segment.text for segment in segments])
    opener, closer = _control(segments), _control(segments[::-1])
    return text, opener, max(opener, len(text) - closer)


def _control(segments: list[Segment]) -> int:
    """How many characters of the template's stand before what the model writes."""
    return sum([len(segment.text) for segment in takewhile(lambda segment: segment.kind == "control", segments)])
