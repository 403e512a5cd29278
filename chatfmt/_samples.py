"""Training as sampled: for each turn of the assistant the prompt that it answered, and what the model wrote."""

from __future__ import annotations

from collections import namedtuple
from itertools import takewhile

from ._base import ChatFormat, Segment, _Tagging
from ._conversation import Conversation, Prompt
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
    dropped: the keys of the message whose text the template has no place for, so that the completion lacks it.
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


class _Turn(namedtuple("_Turn", ("sample", "first_rewritten", "reason"))):
    """A sample, and how its prompt changed the messages before it, up to and with the turn of the sample before."""

    __slots__ = ()
    if TYPE_CHECKING:
        sample: Sample
        first_rewritten: int
        reason: str


WITHOUT_THINK_BLOCK = "the finished turn stands without the think block that the generation prompt opens"


def samples(chat: ChatFormat, messages: JSON) -> Iterator[Sample]:
    """One sample for each message of the assistant, as inference saw it and wrote it; made one at a time.

    The prompt and the completion of the last turn are, joined, what `render` gives for the messages up to it, but for
    a newline after the end token, and but for templates whose finished turns lack the think block that the generation
    prompt opens: Domyn, and Solar where think_render_option hides them.
    Raises what `render` raises for the messages up to a turn, and InputError where an option says that the model
    cannot have written it: reasoning after a think block that Solar's reasoning_effort closes; Hy4's
    raw_last_assistant.
    """
    for turn in _turns(chat, messages):
        yield turn.sample


def training_texts(chat: ChatFormat, messages: JSON) -> list[TrainingText]:
    """All samples in as few texts as can hold them: a new one begins where a prompt changes what stood before it.

    Raises what `samples` raises.
    """
    texts: list[TrainingText] = []
    for turn in _turns(chat, messages):
        prompt, completion, message, _ = turn.sample
        if not texts:
            texts.append(TrainingText("", [], [], 0, ""))
        elif not prompt.startswith(texts[-1].text):
            why = (turn.first_rewritten, turn.reason) if turn.reason else (texts[-1].messages[-1], WITHOUT_THINK_BLOCK)
            texts.append(TrainingText("", [], [], *why))
        _, spans, turns, first_rewritten, reason = texts.pop()
        spans.append((len(prompt), len(prompt) + len(completion)))
        turns.append(message)
        texts.append(TrainingText(prompt + completion, spans, turns, first_rewritten, reason))
    return texts


def _turns(chat: ChatFormat, messages: JSON) -> Iterator[_Turn]:
    roles = roles_of(sequence(messages, "messages"))
    conversation, done = Conversation(chat), 0
    for i in [i for i, role in enumerate(roles) if role == "assistant"]:
        writer = chat.as_sampled(messages[i], i)
        segments = _written(writer, messages[: i + 1], roles[: i + 1])
        if i == 0 and chat.default_generation_prompt is None:  # no prompt, by `render`, but the assistant speaks first
            stood = Prompt("".join([segment.text for segment in segments if segment.message is None]), 0, 0, "")
            prompt = stood.text
        else:
            stood = conversation.extend(messages[done:i], add_generation_prompt=False)
            prompt = conversation.extend([], add_generation_prompt=True).text
        segments = [segment for segment in segments if segment.message is not None]
        completion = _completion(segments, prompt[len(stood.text) :])
        dropped = dropped_fields(messages[i], segments, fields_of(writer, messages, segments))
        yield _Turn(Sample(prompt, completion, i, dropped), stood.first_rewritten, stood.reason)
        conversation.extend([messages[i]], add_generation_prompt=False)
        done = i + 1


def _written(chat: ChatFormat, messages: list[JSON], roles: list[JSON]) -> list[Segment]:
    """The segments of the last message; if it is the first as well, with those of the beginning, which have none."""
    segments: list[Segment] = []
    chat.write_safely(_Tagging(segments), messages, False, roles, len(messages) - 1)
    return segments


def _completion(segments: list[Segment], generation_prompt: str) -> str:
    """What a turn adds to its generation prompt; to its opener, where it does not begin with that prompt."""
    text = "".join([segment.text for segment in segments])
    opener, closer = _control(segments), _control(segments[::-1])
    start = len(generation_prompt) if text.startswith(generation_prompt) else opener
    return text[start : len(text) - closer]


def _control(segments: list[Segment]) -> int:
    """How many characters of the template's stand before what the model writes."""
    return sum([len(segment.text) for segment in takewhile(lambda segment: segment.kind == "control", segments)])
