"""Training as sampled: for each turn of the assistant the prompt that it answered, and what the model wrote."""

from __future__ import annotations

from collections import namedtuple
from itertools import takewhile

from ._base import ChatFormat, Segment, _Tagging, checked_chat
from ._fields import dropped_fields, fields_of
from ._mask import Spans
from ._pieces import pieces_of
from ._values import roles_of, sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from ._mask import Span
    from ._pieces import Piece
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


class TrainingText(
    namedtuple("TrainingText", ("text", "spans", "messages", "dropped", "first_rewritten", "reason", "segments")), Spans
):
    """A text that holds some samples: the prompt of each begins with the prompt and the completion of the one before.

    spans: where the completions stand. messages: the index of each one's turn. dropped: for each, as in Sample.
    first_rewritten: the index of the first message that stands otherwise here than in the text before this one, which
    is why they are two (0: with what comes before it). reason: why it does, in one sentence; "" for the first text.
    segments: the text in pieces that say whose they are, as `ChatFormat.segments` gives them.
    """

    __slots__ = ()
    if TYPE_CHECKING:
        text: str
        spans: list[Span]
        messages: list[int]
        dropped: list[tuple[str, ...]]
        first_rewritten: int
        reason: str
        segments: list[Segment]

    def pieces(self, tokens: Collection[str], *, trust_assistant: bool = False) -> list[Piece]:
        """The text in pieces such that no control token that came from a message reaches the tokenizer whole.

        tokens: `chat.control_tokens`, and what else the tokenizer knows. All else is as in the function `pieces`.
        """
        return pieces_of(self.segments, tokens, trust_assistant)


class _Turn(namedtuple("_Turn", ("added", "completion", "message", "dropped", "is_new", "first_rewritten", "reason"))):
    """A turn, and what comes before it: behind the completion of the turn before; if `is_new`, from the beginning."""

    __slots__ = ()
    if TYPE_CHECKING:
        added: list[Segment]
        completion: list[Segment]
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
        prompt = _joined(turn.added) if turn.is_new else text + _joined(turn.added)
        completion = _joined(turn.completion)
        yield Sample(prompt, completion, turn.message, turn.dropped)
        text = prompt + completion


def training_texts(chat: ChatFormat, messages: JSON) -> list[TrainingText]:
    """All samples in as few texts as can hold them: a new one begins where a prompt changes what stood before it.

    Takes time in proportion to the texts. Raises what `samples` raises.
    """
    texts: list[TrainingText] = []
    end = 0
    for turn in _turns(chat, messages):
        if turn.is_new:
            texts.append(TrainingText("", [], [], [], turn.first_rewritten, turn.reason, []))
            end = 0
        start = end + len(_joined(turn.added))
        end = start + len(_joined(turn.completion))
        text = texts[-1]
        text.segments.extend(turn.added + turn.completion)
        text.spans.append((start, end))
        text.messages.append(turn.message)
        text.dropped.append(turn.dropped)
    return [text._replace(text=_joined(text.segments)) for text in texts]


def _turns(chat: ChatFormat, messages: JSON) -> Iterator[_Turn]:
    roles = roles_of(sequence(messages, "messages"))
    checked_chat(chat)
    done, stands = 0, True  # of the turn before: what is behind it, and whether it stands as it was sampled
    closer: list[Segment] = []  # its end, which the model does not write
    for i in [i for i, role in enumerate(roles) if role == "assistant"]:
        before, known = messages[:i], roles[:i]
        first, reason = chat.first_rewritten(before, known, done) if 0 < done < i else (done, "")
        if not stands and not reason:
            first, reason = done - 1, WITHOUT_THINK_BLOCK
        is_new = not done or bool(reason)
        added, generation_prompt = _prompt(chat, before, known, 0 if is_new else done)
        writer = chat.as_sampled(messages, roles, i)
        turn = _written(writer, messages[: i + 1], roles[: i + 1], i, False)
        if not i and chat.default_generation_prompt is None:  # no prompt, by `render`, but the assistant speaks first
            added = [segment for segment in turn if segment.message is None]
        turn = [segment for segment in turn if segment.message is not None]
        text, opener = _joined(turn), _control(turn)
        end = max(opener, len(text) - _control(turn[::-1]))
        begins = text[:end].startswith(generation_prompt)
        start = len(generation_prompt) if begins else opener
        dropped = dropped_fields(messages[i], turn, fields_of(writer, messages, turn))
        added = added if is_new else closer + added
        yield _Turn(added, _cut(turn, start, end), i, dropped, is_new, first if done else 0, reason)
        done, stands, closer = i + 1, begins and writer is chat, _cut(turn, end, len(text))


def _prompt(chat: ChatFormat, messages: list[JSON], roles: list[JSON], start: int) -> tuple[list[Segment], str]:
    """The prompt of some messages from one of them on, and the generation prompt, which is how it ends."""
    if not messages and chat.default_generation_prompt is None:
        return [], ""
    prompt = _written(chat, messages, roles, start, True)
    if messages:  # behind them all, nothing else is written
        return prompt, _joined(_written(chat, messages, roles, len(messages), True))
    return prompt, _joined(prompt)[len(_joined(_written(chat, messages, roles, start, False))) :]


def _written(
    chat: ChatFormat, messages: list[JSON], roles: list[JSON], start: int, add_generation_prompt: bool
) -> list[Segment]:
    """The segments of the messages from one on; if that is the first, with those of the beginning, which have none."""
    segments: list[Segment] = []
    chat.write_safely(_Tagging(segments), messages, add_generation_prompt, roles, start)
    return segments


def _joined(segments: list[Segment]) -> str:
    return "".join([segment.text for segment in segments])


def _cut(segments: list[Segment], start: int, end: int) -> list[Segment]:
    """What of the segments stands from one character up to another."""
    found = []
    at = 0
    for segment in segments:
        text = segment.text[max(0, start - at) : max(0, end - at)]
        if text:
            found.append(segment._replace(text=text))
        at += len(segment.text)
    return found


def _control(segments: list[Segment]) -> int:
    """How many characters of the template's stand before what the model writes."""
    return len(_joined(list(takewhile(lambda segment: segment.kind == "control", segments))))
